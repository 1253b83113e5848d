//! Federations that form themselves from claims, Secrets and Federation objects, and elect leaders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use koinon_api::membership::{
    Claimed, ClusterClaim, Federation, FederationSpec, MemberCluster, NETWORK_NAMESPACE, Phase, crds,
};
use koinon_fleet::election::{Elections, Timing};
use koinon_fleet::membership;
use koinon_fleet::membership::controller::{Controller, Kind};
use koinon_fleet::{Fleet, Metrics, Options};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::harness::{Cluster, Mode, id};

const LONG: Duration = Duration::from_secs(900);

/// A supervisor or child beside one cluster.
struct Process {
    stop: oneshot::Sender<Leave>,
    task: JoinHandle<()>,
    elections: Arc<Elections>,
    fleet: Arc<Fleet>,
}

enum Leave {
    Well,
    ByCrash,
}

impl Process {
    /// Runs beside `me`; the members are reached over these wires.
    fn start(me: &Cluster, name: &str, members: &BTreeMap<String, Cluster>) -> Process {
        let options = Options { claims: Some(NETWORK_NAMESPACE.into()), ..Options::default() };
        let fleet = Fleet::new(options, Metrics::default(), me.clock.clone());
        let links = members.iter().map(|(name, cluster)| (id(name), cluster.link())).collect();
        let controller = Controller::new(me.client.clone(), NETWORK_NAMESPACE, Kind::Cluster, fleet.clone());
        let controller = Arc::new(controller.direct(links));
        let elections = Elections::new(fleet.clone(), &format!("{name}-1"), Timing::default());
        let (stop, stopped) = oneshot::channel();
        let (work, lead) = (controller, elections.clone());
        let task = tokio::spawn(async move {
            let mut changes = lead.changes();
            let leave = tokio::select! {
                biased;
                () = work.run() => Leave::ByCrash,
                never = lead.run(work.formed()) => match never {},
                () = async {
                    loop {
                        work.set_leads(lead.leads());
                        let _ = changes.changed().await;
                    }
                } => Leave::ByCrash,
                leave = stopped => leave.unwrap_or(Leave::ByCrash),
            };
            if matches!(leave, Leave::Well) {
                lead.end().await;
            }
        });
        Process { stop, task, elections, fleet }
    }

    async fn leave(self, how: Leave) {
        drop(self.stop.send(how));
        self.task.await.unwrap();
        // What ran for it goes with its last owner.
        drop(self.elections);
    }
}

async fn create<K>(client: &Client, namespace: &str, object: &K)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), object).await.unwrap();
}

/// Makes a cluster ready to take part: definitions, namespace and claims.
async fn prepare(cluster: &Cluster, name: &str, supervisor: bool) {
    for crd in crds() {
        let crd: DynamicObject = serde_json::from_value(crd).unwrap();
        let resource = kube::core::ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&());
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
        api.create(&PostParams::default(), &crd).await.unwrap();
    }
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let metadata = ObjectMeta { name: Some(NETWORK_NAMESPACE.into()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
    let claims: Api<ClusterClaim> = Api::namespaced(cluster.client.clone(), NETWORK_NAMESPACE);
    let served = Instant::now();
    while claims.list(&Default::default()).await.is_err() {
        assert!(served.elapsed() < LONG, "the definitions are not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    claim(cluster, "id.k8s.io", name).await;
    if supervisor {
        claim(cluster, "supervisor.antreaplus.tanzu-vmware.com", "true").await;
    }
}

async fn claim(cluster: &Cluster, name: &str, value: &str) {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    create(&cluster.client, NETWORK_NAMESPACE, &ClusterClaim { metadata, name: None, value: value.into() })
        .await;
}

async fn federate(cluster: &Cluster, members: &[&str]) {
    let members = members
        .iter()
        .map(|name| MemberCluster {
            cluster_id: Claimed { name: None, value: (*name).into() },
            server: format!("https://{name}"),
            secret: "login".into(),
        })
        .collect();
    let metadata = ObjectMeta { name: Some("league".into()), ..ObjectMeta::default() };
    let spec = FederationSpec { cluster_set: None, members };
    create(&cluster.client, NETWORK_NAMESPACE, &Federation { metadata, spec, status: None }).await;
}

async fn secret(cluster: &Cluster) {
    let labels = Some([("koinon.dev/member-secret".to_owned(), "true".to_owned())].into());
    let metadata = ObjectMeta { name: Some("login".into()), labels, ..ObjectMeta::default() };
    let string_data = Some([("token".to_owned(), "t".to_owned())].into());
    create(&cluster.client, NETWORK_NAMESPACE, &Secret { metadata, string_data, ..Secret::default() }).await;
}

async fn league(cluster: &Cluster) -> Federation {
    let api: Api<Federation> = Api::namespaced(cluster.client.clone(), NETWORK_NAMESPACE);
    api.get("league").await.unwrap()
}

/// `a=Reachable(leader) …` as the Federation of a cluster says it.
async fn said(cluster: &Cluster) -> String {
    let status = league(cluster).await.status.unwrap_or_default();
    let each = status.member_status.iter().map(|one| {
        format!("{}={}({})", one.cluster_id, one.status.as_str(), one.leader.as_deref().unwrap_or("-"))
    });
    each.collect::<Vec<_>>().join(" ")
}

async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < LONG, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

async fn holder(cluster: &Cluster, name: &str) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), NETWORK_NAMESPACE);
    api.get_opt(name).await.unwrap()?.spec?.holder_identity
}

/// Two supervisors and a child, all federated.
async fn three() -> BTreeMap<String, Cluster> {
    let mut clusters = BTreeMap::new();
    for (seed, name, supervisor) in [(1, "a", true), (2, "b", true), (3, "c", false)] {
        let cluster = Cluster::new(seed).await;
        prepare(&cluster, name, supervisor).await;
        secret(&cluster).await;
        federate(&cluster, if supervisor { &["a", "b", "c"] } else { &[] }).await;
        clusters.insert(name.to_owned(), cluster);
    }
    clusters
}

#[tokio::test(start_paused = true)]
async fn supervisors_lead_every_member_and_the_survivor_takes_over() {
    let clusters = three().await;
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads all", || async {
        said(&clusters["a"]).await == "a=Reachable(a) b=Reachable(a) c=Reachable(a)"
    })
    .await;
    let b = Process::start(&clusters["b"], "b", &clusters);
    let c = Process::start(&clusters["c"], "c", &clusters);
    until("b knows who leads", || async {
        said(&clusters["b"]).await == "a=Reachable(a) b=Reachable(a) c=Reachable(a)"
    })
    .await;
    assert_eq!(holder(&clusters["c"], "c").await.as_deref(), Some("a_a-1"));
    assert!(a.elections.fence("c").is_some() && b.elections.fence("c").is_none());
    assert!(c.fleet.members().is_empty(), "a child calls nobody");
    assert_eq!(league(&clusters["c"]).await.status.unwrap().cluster_id.as_deref(), Some("c"));

    // Who ends well is followed at once; who crashes, when its leases have run out.
    a.leave(Leave::Well).await;
    assert_eq!(holder(&clusters["c"], "c").await, None);
    let terms = || async {
        let api: Api<Lease> = Api::namespaced(clusters["c"].client.clone(), NETWORK_NAMESPACE);
        api.get("c").await.unwrap().spec.unwrap().lease_transitions
    };
    assert_eq!(terms().await, Some(0));
    let led = || async { holder(&clusters["c"], "c").await.is_some_and(|holder| holder == "b_b-1") };
    let after = until("b leads c", led).await;
    assert!(after <= Duration::from_secs(6), "{after:?}");
    assert_eq!(terms().await, Some(1), "each term has a number of its own, also after a release");
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a is back", || async { a.fleet.members().len() == 3 }).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    b.leave(Leave::ByCrash).await;
    let led = || async { holder(&clusters["c"], "c").await.is_some_and(|holder| holder == "a_a-1") };
    let after = until("a leads c", led).await;
    assert!((20..=37).contains(&after.as_secs()), "{after:?}");
    a.leave(Leave::Well).await;
    c.leave(Leave::Well).await;
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_is_asked_for_its_members_too() {
    let clusters = three().await;
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads all", || async {
        said(&clusters["a"]).await == "a=Reachable(a) b=Reachable(a) c=Reachable(a)"
    })
    .await;
    a.leave(Leave::ByCrash).await;
    let rows =
        membership::list(&clusters["a"].client, koinon_apiserver::context::wall_clock()).await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.leader.as_deref())).collect();
    assert_eq!(shown, [("a", Some("a")), ("b", Some("a")), ("c", Some("a"))]);
    assert_eq!(
        (rows[0].phase, rows[0].error.clone()),
        (Phase::Reachable, None),
        "it needs no login for itself"
    );
}

#[tokio::test(start_paused = true)]
async fn who_loses_sight_of_a_member_stops_leading_it_in_time() {
    let clusters = three().await;
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads c", || async { a.elections.fence("c").is_some() }).await;
    let fence = a.elections.fence("c").unwrap();
    clusters["c"].wire.set(Mode::Silent);
    let cut = Instant::now();
    assert_eq!(fence.guard(std::future::pending::<()>()).await, None);
    assert!(cut.elapsed() <= Duration::from_secs(20), "{:?}", cut.elapsed());
    assert!(a.elections.fence("c").is_none());
    assert!(a.elections.fence("b").is_some(), "the others are not touched");
    clusters["c"].wire.set(Mode::Up);
    until("a leads c again", || async { a.elections.fence("c").is_some() }).await;
    a.leave(Leave::ByCrash).await;
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_without_a_restart() {
    let mut clusters = three().await;
    let d = Cluster::new(4).await;
    prepare(&d, "d", false).await;
    federate(&d, &[]).await;
    clusters.insert("d".into(), d);
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads c", || async { a.elections.fence("c").is_some() }).await;
    let api: Api<Federation> = Api::namespaced(clusters["a"].client.clone(), NETWORK_NAMESPACE);
    let mut grown = league(&clusters["a"]).await;
    grown.spec.members.push(MemberCluster {
        cluster_id: Claimed { name: None, value: "d".into() },
        server: "https://d".into(),
        secret: "login".into(),
    });
    api.replace("league", &PostParams::default(), &grown).await.unwrap();
    until("a leads d", || async { a.elections.fence("d").is_some() }).await;

    // A cluster that leaves takes its own Federation away first: from then on it is not led.
    let own: Api<Federation> = Api::namespaced(clusters["d"].client.clone(), NETWORK_NAMESPACE);
    own.delete("league", &Default::default()).await.unwrap();
    until("a lets go of d", || async {
        a.elections.fence("d").is_none() && holder(&clusters["d"], "d").await.is_none()
    })
    .await;
    let mut shrunk = league(&clusters["a"]).await;
    shrunk.spec.members.retain(|member| member.cluster_id.value != "d");
    api.replace("league", &PostParams::default(), &shrunk).await.unwrap();
    until("d is forgotten", || async { !said(&clusters["a"]).await.contains("d=") }).await;

    // Who no longer claims to be a supervisor leads nobody.
    let claims: Api<ClusterClaim> = Api::namespaced(clusters["a"].client.clone(), NETWORK_NAMESPACE);
    let denial = Patch::Merge(serde_json::json!({"value": "false"}));
    claims.patch("supervisor.antreaplus.tanzu-vmware.com", &PatchParams::default(), &denial).await.unwrap();
    until("a leads nobody", || async {
        holder(&clusters["c"], "c").await.is_none() && a.elections.leads().is_empty()
    })
    .await;
    a.leave(Leave::Well).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_that_leaves_holds_up_no_other_election() {
    let mut clusters = three().await;
    let d = Cluster::new(4).await;
    prepare(&d, "d", false).await;
    federate(&d, &[]).await;
    clusters.insert("d".into(), d);
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads c", || async { a.elections.fence("c").is_some() }).await;
    clusters["c"].wire.set(Mode::Silent);
    let api: Api<Federation> = Api::namespaced(clusters["a"].client.clone(), NETWORK_NAMESPACE);
    let mut other = league(&clusters["a"]).await;
    for member in other.spec.members.iter_mut().filter(|member| member.cluster_id.value == "c") {
        member.cluster_id.value = "d".into();
    }
    api.replace("league", &PostParams::default(), &other).await.unwrap();
    let after = until("a leads d", || async { a.elections.fence("d").is_some() }).await;
    assert!(after <= Duration::from_secs(4), "{after:?}");
    assert!(a.elections.fence("c").is_none());

    // Giving back what cannot be given back has its end, and leaves nothing behind of who left.
    let fleet = a.fleet.clone();
    a.leave(Leave::Well).await;
    assert_eq!(holder(&clusters["d"], "d").await, None);
    let mut registry = Registry::default();
    fleet.metrics().register(&mut registry);
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
    assert!(shown.contains("member=\"d\"") && !shown.contains("calls_total{member=\"c\""), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn the_wrong_cluster_under_a_name_is_told_and_not_led() {
    let clusters = three().await;
    // The address of c leads to a cluster that claims to be b.
    clusters["c"].wire.turn_to(&clusters["b"]);
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("it is told", || async { said(&clusters["a"]).await.contains("c=Unreachable") }).await;
    let status = league(&clusters["a"]).await.status.unwrap();
    let wrong = status.member_status.iter().find(|one| one.cluster_id == "c").unwrap();
    assert_eq!(
        wrong.error.as_deref(),
        Some("the cluster at its address claims to be b: correct the member's server, or its clusterID")
    );
    assert!(a.elections.fence("c").is_none());
    assert_eq!(holder(&clusters["b"], "c").await, None);
    a.leave(Leave::Well).await;
}

/// As when a cluster was rebuilt and joined again between two looks.
#[tokio::test(start_paused = true)]
async fn another_cluster_under_the_same_name_is_led_in_its_own_right() {
    let clusters = three().await;
    let (a, c) = (&clusters["a"], &clusters["c"]);
    let rebuilt = Cluster::new(33).await;
    prepare(&rebuilt, "c", false).await;
    federate(&rebuilt, &[]).await;
    let secrets: Api<Secret> = Api::namespaced(a.client.clone(), NETWORK_NAMESPACE);
    let known_as = |uid: String| {
        Patch::Merge(serde_json::json!({"metadata": {"annotations": {"koinon.dev/cluster-uid": uid}}}))
    };
    let login: Secret = serde_json::from_value(
        serde_json::json!({"metadata": {"name": "login-c", "labels": {"koinon.dev/member-secret": "true"}}, "stringData": {"token": "t"}}),
    )
    .unwrap();
    create(&a.client, NETWORK_NAMESPACE, &login).await;
    secrets.patch("login-c", &PatchParams::default(), &known_as(c.uid().await)).await.unwrap();
    let api: Api<Federation> = Api::namespaced(a.client.clone(), NETWORK_NAMESPACE);
    let mut league = league(a).await;
    league.spec.members[2].secret = "login-c".into();
    api.replace("league", &PostParams::default(), &league).await.unwrap();
    let process = Process::start(a, "a", &clusters);
    until("a leads c", || async { process.elections.fence("c").is_some() }).await;
    let old = process.elections.fence("c").unwrap();

    c.wire.turn_to(&rebuilt);
    secrets.patch("login-c", &PatchParams::default(), &known_as(rebuilt.uid().await)).await.unwrap();
    until("the rebuilt cluster is led", || async {
        holder(&rebuilt, "c").await.is_some() && process.elections.fence("c").is_some()
    })
    .await;
    assert!(!old.holds(), "the right to the old cluster is none to the new");
    let status = self::league(a).await.status.unwrap();
    let told = status.member_status.iter().find(|one| one.cluster_id == "c").unwrap();
    assert_eq!(told.uid, Some(rebuilt.uid().await));
    process.leave(Leave::Well).await;
    assert_eq!(holder(&rebuilt, "c").await, None);
}

#[tokio::test(start_paused = true)]
async fn at_rest_only_leases_are_written() {
    let clusters = three().await;
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads all", || async {
        said(&clusters["a"]).await == "a=Reachable(a) b=Reachable(a) c=Reachable(a)"
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let version = || async { league(&clusters["a"]).await.metadata.resource_version };
    let (before, written) = (version().await, clusters["c"].wire.writes().len());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(version().await, before);
    let writes = clusters["c"].wire.writes().split_off(written);
    assert!(writes.iter().all(|write| write.contains("/leases/")), "{writes:#?}");
    assert!((55..=61).contains(&writes.len()), "{}", writes.len());
    a.leave(Leave::Well).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_federation_is_told_that_it_does_not_count() {
    let clusters = three().await;
    let a = Process::start(&clusters["a"], "a", &clusters);
    until("a leads c", || async { a.elections.fence("c").is_some() }).await;
    let metadata = ObjectMeta { name: Some("another".into()), ..ObjectMeta::default() };
    tokio::time::sleep(Duration::from_secs(2)).await;
    create(&clusters["a"].client, NETWORK_NAMESPACE, &Federation { metadata, ..Federation::default() }).await;
    let api: Api<Federation> = Api::namespaced(clusters["a"].client.clone(), NETWORK_NAMESPACE);
    let told = || async {
        let status = api.get("another").await.unwrap().status.unwrap_or_default();
        status.ignored.as_deref() == Some("a cluster is in one federation, and league is older")
    };
    until("it is told", told).await;
    assert_eq!(a.fleet.members().len(), 3);
    a.leave(Leave::Well).await;
}
