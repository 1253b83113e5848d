//! Clusters that join and leave over real connections, with the rights that joining gives and no more.

use std::sync::Arc;

use axum::Router;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use koinon_api::membership::{Claimed, ClusterProfile, Federation, KOINON_NAMESPACE, MemberCluster, Phase};
use koinon_apiserver::auth::kubeconfig::{Entry, Login, render};
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::{Context, wall_clock};
use koinon_apiserver::serve::{Options, Server, listen};
use koinon_fleet::membership::controller::{Controller, Kind};
use koinon_fleet::membership::{Candidate, Joined, Left, Recruit, enlist, join, leave, list};
use koinon_fleet::{Fleet, Metrics};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use crate::harness::id;

/// A cluster that serves on a port of this machine.
pub(crate) struct Served {
    pub(crate) config: Config,
    pub(crate) kubeconfig: String,
    pub(crate) client: Client,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> Served {
        Served::with(|router| router).await
    }

    pub(crate) async fn with(change: impl FnOnce(Router) -> Router) -> Served {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let context = Context::real();
        let authority = Authority::in_memory(&context).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let url = format!("https://{address}");
        let entry = Entry {
            name: "cluster",
            server: &url,
            authority: authority.certificate(),
            login: Login::Certificate(authority.admin()),
            namespace: None,
        };
        let kubeconfig = render(&[entry], "cluster");
        let read = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        let tls = authority.server_config().unwrap();
        let task =
            tokio::spawn(listen::serve(listener, tls, change(server.router()), std::future::pending()));
        Served { client: Client::try_from(config.clone()).unwrap(), config, kubeconfig, task }
    }

    pub(crate) fn candidate(&self) -> Candidate {
        Candidate::new(self.config.clone()).unwrap()
    }

    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

pub(crate) async fn joined(federation: &Served, name: &str, member: &Served) -> Result<Joined, String> {
    join(&federation.client, &id(name), &member.candidate(), |_| {}).await.map_err(|error| error.to_string())
}

pub(crate) async fn secret(federation: &Served, name: &str) -> Option<Secret> {
    let api: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    api.get_opt(name).await.unwrap()
}

#[tokio::test]
async fn joining_twice_changes_nothing_and_leaving_takes_all_back() {
    let (federation, a, b) = (Served::start().await, Served::start().await, Served::start().await);
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::New));
    assert_eq!(joined(&federation, "b", &b).await, Ok(Joined::New));
    let before = secret(&federation, "member-a").await.unwrap();
    assert_eq!(before.labels().get("koinon.dev/member-secret").map(String::as_str), Some("true"));
    let server = before.data.as_ref().and_then(|data| data.get("server")).unwrap();
    assert_eq!(String::from_utf8_lossy(&server.0), a.config.cluster_url.to_string().trim_end_matches('/'));
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::Already));
    assert_eq!(secret(&federation, "member-a").await.unwrap().resource_version(), before.resource_version());

    let rows = list(&federation.client, wall_clock()).await.unwrap();
    let shown: Vec<_> =
        rows.iter().map(|row| (row.name.as_str(), row.phase, row.nodes, row.error.clone())).collect();
    assert_eq!(shown, [("a", Phase::Reachable, Some(0), None), ("b", Phase::Reachable, Some(0), None)]);
    assert!(rows[0].version.as_deref().is_some_and(|version| version.starts_with("v1.")), "{rows:?}");

    // The account may do what the role needs, and nothing else.
    let fleet = Fleet::new(koinon_fleet::Options::default(), Metrics::default(), Default::default());
    let controller = Arc::new(Controller::new(
        federation.client.clone(),
        KOINON_NAMESPACE,
        Kind::Federation,
        fleet.clone(),
    ));
    let running = tokio::spawn(async move { controller.run().await });
    let start = Instant::now();
    while fleet.members().len() < 2 || !fleet.members().iter().all(|member| member.is_reachable()) {
        assert!(start.elapsed() < Duration::from_secs(60), "the members are not reached");
        sleep(Duration::from_millis(50)).await;
    }
    let member = fleet.get("a").unwrap();
    let deployments = member.client().all::<Deployment>();
    member.client().call(deployments.list(&ListParams::default())).await.unwrap();
    let secrets = member.client().all::<Secret>();
    let error = member.client().call(secrets.list(&ListParams::default())).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Some(403), "MemberForbidden"));
    let api: Api<Federation> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    while api.get("federation").await.unwrap().status.unwrap_or_default().member_status.len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "the status is not written");
        sleep(Duration::from_millis(50)).await;
    }

    let profiles: Api<ClusterProfile> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let healthy = async || {
        let all = profiles.list(&ListParams::default()).await.unwrap().items;
        let good = |one: &ClusterProfile| {
            one.status.as_ref().is_some_and(|status| {
                status.conditions.iter().all(|condition| condition.status == "True")
                    && status.version.kubernetes.as_deref().is_some_and(|version| version.starts_with("v1."))
            })
        };
        all.into_iter().filter(good).map(|one| one.name_any()).collect::<Vec<_>>()
    };
    while healthy().await != ["a", "b"] {
        assert!(start.elapsed() < Duration::from_secs(60), "the profiles are not written");
        sleep(Duration::from_millis(50)).await;
    }

    let left = leave(&federation.client, "a").await.unwrap();
    assert_eq!(left, Left::Nothing);
    assert!(secret(&federation, "member-a").await.is_none());
    while fleet.get("a").is_some() {
        assert!(start.elapsed() < Duration::from_secs(60), "a is not let go");
        sleep(Duration::from_millis(50)).await;
    }
    while healthy().await != ["b"] {
        assert!(start.elapsed() < Duration::from_secs(60), "the profile stays");
        sleep(Duration::from_millis(50)).await;
    }
    let error = leave(&federation.client, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no member a; the members are b");
    running.abort();
    // And it may come again, under another name.
    assert_eq!(joined(&federation, "c", &a).await, Ok(Joined::New));
}

#[tokio::test]
async fn who_cannot_join_is_told_why_in_one_sentence() {
    let (federation, other) = (Served::start().await, Served::start().await);
    let (a, b) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    for (attempt, expected) in [
        (joined(&federation, "a", &b).await, "there is a member a already, and it is another cluster"),
        (joined(&federation, "b", &a).await, "this cluster is a member already, under the name a"),
        (joined(&federation, "f", &federation).await, "this is the federation's own API server"),
        (joined(&other, "a", &a).await, "this cluster is in another federation: unjoin it there first"),
    ] {
        let error = attempt.unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(list(&other.client, wall_clock()).await.unwrap(), Vec::new());

    let gone = b.candidate();
    b.stop().await;
    let error = join(&federation.client, &id("b"), &gone, |_| {}).await.unwrap_err().to_string();
    assert!(error.starts_with("the cluster at https://127.0.0.1:") && error.contains("refused"), "{error}");

    // A member that is away can be let go, and what stays behind in it is told.
    a.stop().await;
    let rows = list(&federation.client, wall_clock()).await.unwrap();
    assert_eq!((rows[0].phase, rows[0].version.clone()), (Phase::Unreachable, None));
    let left = leave(&federation.client, "a").await.unwrap();
    assert!(matches!(&left, Left::Account(why) if why.contains("refused")), "{left:?}");
    assert_eq!(list(&federation.client, wall_clock()).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn members_by_hand_are_recognised_and_not_replaced() {
    let (federation, a, b) = (Served::start().await, Served::start().await, Served::start().await);
    joined(&federation, "first", &b).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let creds = serde_json::json!({"metadata": {"name": "creds", "labels": {"koinon.dev/member-secret": "true"}}, "stringData": {"kubeconfig": a.kubeconfig}});
    secrets.create(&Default::default(), &serde_json::from_value(creds).unwrap()).await.unwrap();
    let api: Api<Federation> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let mut by_hand = api.get("federation").await.unwrap();
    let server = a.config.cluster_url.to_string();
    by_hand.spec.members.push(MemberCluster {
        cluster_id: Claimed { name: None, value: "a".into() },
        server: server.clone(),
        secret: "creds".into(),
    });
    api.replace("federation", &Default::default(), &by_hand).await.unwrap();
    let other = Served::start().await;
    let error = joined(&federation, "a", &other).await.unwrap_err();
    assert!(error.starts_with("there is a member a already, and it is another cluster"), "{error}");
    // The same cluster is let in properly.
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::New));
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::Already));

    // A role saw who it is: no second name for it.
    let mut by_hand = api.get("federation").await.unwrap();
    for member in &mut by_hand.spec.members {
        member.secret = "creds".into();
    }
    by_hand.spec.members.retain(|member| member.cluster_id.value == "a");
    let mut by_hand = api.replace("federation", &Default::default(), &by_hand).await.unwrap();
    let uid = kube::Api::<Namespace>::all(a.client.clone()).get("kube-system").await.unwrap().uid();
    let seen = serde_json::json!({"clusterID": "a", "status": "Reachable", "uid": uid, "isLeader": false});
    let status = by_hand.status.get_or_insert_default();
    status.member_status = vec![serde_json::from_value(seen).unwrap()];
    api.replace_status("federation", &Default::default(), &by_hand).await.unwrap();
    let error = joined(&federation, "second", &a).await.unwrap_err();
    assert_eq!(error, "this cluster is a member already, under the name a");
}

#[tokio::test]
async fn a_leave_that_was_cut_off_is_taken_up_again() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    let api: Api<Federation> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let mut struck = api.get("federation").await.unwrap();
    struck.spec.members.clear();
    api.replace("federation", &Default::default(), &struck).await.unwrap();
    assert_eq!(leave(&federation.client, "a").await.unwrap(), Left::Nothing);
    assert!(secret(&federation, "member-a").await.is_none());
    let bindings: Api<ClusterRoleBinding> = Api::all(a.client.clone());
    assert!(bindings.get_opt("koinon-member").await.unwrap().is_none());
    let error = leave(&federation.client, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no member a: there are none");
}

#[tokio::test]
async fn recruits_are_written_down_once_and_leave_when_they_are_none() {
    let (federation, a, b) = (Served::start().await, Served::start().await, Served::start().await);
    let recruit = |name: &str, served: &Served| Recruit {
        name: id(name),
        server: served.config.cluster_url.to_string(),
        login: serde_json::json!({"kubeconfig": served.kubeconfig}),
        client: served.client.clone(),
    };
    let recruits = [recruit("a", &a), recruit("b", &b)];
    enlist(&federation.client, &recruits).await.unwrap();
    let api: Api<Federation> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let first = api.get("federation").await.unwrap();
    enlist(&federation.client, &recruits).await.unwrap();
    assert_eq!(api.get("federation").await.unwrap(), first);
    let rows = list(&federation.client, wall_clock()).await.unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.phase == Phase::Reachable), "{rows:?}");
    let newcomer = Served::start().await;
    joined(&federation, "c", &newcomer).await.unwrap();
    enlist(&federation.client, &recruits[..1]).await.unwrap();
    let names: Vec<_> =
        list(&federation.client, wall_clock()).await.unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["a", "c"], "who joined by itself stays");
}

#[tokio::test]
async fn a_rotated_token_is_used_and_a_bad_one_is_told() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    let thresholds = koinon_fleet::health::Thresholds {
        probe_every: Duration::from_millis(100),
        offline_after: Duration::from_millis(300),
        online_after: Duration::from_millis(100),
    };
    let options = koinon_fleet::Options { thresholds, ..koinon_fleet::Options::default() };
    let fleet = Fleet::new(options, Metrics::default(), Default::default());
    let controller = Arc::new(Controller::new(
        federation.client.clone(),
        KOINON_NAMESPACE,
        Kind::Federation,
        fleet.clone(),
    ));
    let running = tokio::spawn(async move { controller.run().await });
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(60), "not so: {what}");
            sleep(Duration::from_millis(20)).await;
        }
    };
    let reachable = || fleet.get("a").is_some_and(|member| member.is_reachable());
    until("a is reached", &reachable).await;
    let member = fleet.get("a").unwrap();

    let api: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let good = secret(&federation, "member-a").await.unwrap();
    let mut bad = good.clone();
    bad.data.as_mut().unwrap().insert("token".into(), k8s_openapi::ByteString(b"nonsense".to_vec()));
    api.replace("member-a", &Default::default(), &bad).await.unwrap();
    until("the refusal is noticed", &|| !reachable()).await;
    let why = fleet.get("a").unwrap().state().why.unwrap();
    assert_eq!(why, "it refuses our credentials: put fresh ones into the member's Secret");

    let mut fresh = good;
    fresh.metadata.resource_version = None;
    api.replace("member-a", &Default::default(), &fresh).await.unwrap();
    until("a is back", &reachable).await;
    assert!(Arc::ptr_eq(&member, &fleet.get("a").unwrap()), "nothing was restarted");
    let accounts: Api<ServiceAccount> = Api::namespaced(a.client.clone(), KOINON_NAMESPACE);
    assert!(accounts.get_opt("koinon-member").await.unwrap().is_some());
    running.abort();
}
