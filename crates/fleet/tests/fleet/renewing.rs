//! Tokens that members are logged in to with, which end and are renewed before, under paused time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_api::membership::{Federation, KOINON_NAMESPACE, Phase, crds};
use koinon_fleet::membership::apply;
use koinon_fleet::membership::controller::{Controller, Kind};
use koinon_fleet::{Fleet, Metrics, Options};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::harness::{Cluster, id};

/// The shortest that a server makes.
const LASTS: Duration = Duration::from_secs(600);
const LONG: Duration = Duration::from_secs(3600);

/// A federation with one member, which is logged in to with what its Secret says.
struct Setting {
    federation: Cluster,
    member: Cluster,
    /// What the member's API server answered to the federation.
    answers: Arc<Mutex<Vec<u16>>>,
    start: Instant,
}

impl Setting {
    async fn new() -> Setting {
        let (federation, member) = (Cluster::new(1).await, Cluster::new(2).await);
        let start = Instant::now();
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KOINON_NAMESPACE}});
        for cluster in [&federation, &member] {
            apply(&cluster.client, &space).await.unwrap();
        }
        for definition in crds() {
            apply(&federation.client, &definition).await.unwrap();
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "koinon-member", "namespace": KOINON_NAMESPACE}});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "koinon-member"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "koinon-member", "namespace": KOINON_NAMESPACE}]});
        apply(&member.client, &account).await.unwrap();
        apply(&member.client, &binding).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(member.client.clone(), KOINON_NAMESPACE);
        let spec = TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let made = accounts.create_token_request("koinon-member", &Default::default(), &request).await;
        let token = made.unwrap().status.unwrap().token.unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "member-a", "namespace": KOINON_NAMESPACE,
                "labels": {"koinon.dev/member-secret": "true"}},
            "stringData": {"token": token, "server": "https://a"}});
        apply(&federation.client, &secret).await.unwrap();
        let members = json!({"apiVersion": "federation.antreaplus.tanzu.vmware.com/v1alpha1",
            "kind": "Federation", "metadata": {"name": "federation", "namespace": KOINON_NAMESPACE},
            "spec": {"members": [{"clusterID": {"value": "a"}, "server": "https://a", "secret": "member-a"}]}});
        while apply(&federation.client, &members).await.is_err() {
            assert!(start.elapsed() < LONG, "the definitions are not served");
            sleep(Duration::from_millis(20)).await;
        }
        Setting { federation, member, answers: Arc::default(), start }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.federation.client.clone(), KOINON_NAMESPACE)
    }

    async fn token(&self) -> String {
        let secret = self.secrets().get("member-a").await.unwrap();
        String::from_utf8(secret.data.unwrap()["token"].0.clone()).unwrap()
    }

    /// Runs the role beside the federation.
    fn run(&self) -> JoinHandle<()> {
        let (secrets, door, answers) = (self.secrets(), self.member.door.clone(), self.answers.clone());
        let link = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (secrets, door, answers) = (secrets.clone(), door.clone(), answers.clone());
            async move {
                let secret = secrets.get("member-a").await.map_err(std::io::Error::other)?;
                let token = String::from_utf8(secret.data.unwrap_or_default()["token"].0.clone()).unwrap();
                let login = format!("Bearer {token}").parse().unwrap();
                request.headers_mut().insert(http::header::AUTHORIZATION, login);
                let answer: Response<Body> = door.oneshot(request).await.map_err(std::io::Error::other)?;
                answers.lock().push(answer.status().as_u16());
                Ok::<_, std::io::Error>(answer)
            }
        });
        let link = Client::new(link, "default");
        let clock = self.federation.clock.clone();
        let fleet = Fleet::new(Options::default(), Metrics::default(), clock);
        let client = self.federation.client.clone();
        let controller = Controller::new(client, KOINON_NAMESPACE, Kind::Federation, fleet);
        let controller = controller.direct([(id("a"), link)].into());
        tokio::spawn(async move { controller.run().await })
    }

    async fn said(&self) -> Option<(Phase, String)> {
        let api: Api<Federation> = Api::namespaced(self.federation.client.clone(), KOINON_NAMESPACE);
        let status = api.get("federation").await.unwrap().status.unwrap_or_default();
        let one = status.member_status.into_iter().next()?;
        Some((one.status, one.error.unwrap_or_default()))
    }

    async fn until<F: Future<Output = bool>>(&self, what: &str, holds: impl Fn() -> F) {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < LONG, "not so: {what}; {:?}", self.said().await);
            sleep(Duration::from_millis(500)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_ends_and_serves_until_then() {
    let setting = Setting::new().await;
    let first = setting.token().await;
    let running = setting.run();
    setting.until("the token is renewed", || async { setting.token().await != first }).await;
    let after = setting.start.elapsed();
    assert!(after > LASTS / 2 && after < LASTS, "renewed after {after:?}");
    let second = setting.token().await;
    // Long after the first one ended.
    sleep(LASTS * 3).await;
    assert_eq!(setting.token().await, second, "the second lasts longer, and is renewed daily");
    assert_eq!(setting.said().await, Some((Phase::Reachable, String::new())));
    let answers = setting.answers.lock().clone();
    assert!(answers.len() > 20 && !answers.contains(&401), "{answers:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_role_that_was_away_for_too_long_says_what_to_do() {
    let setting = Setting::new().await;
    let first = setting.token().await;
    sleep(LASTS * 2).await;
    let running = setting.run();
    let told = async || match setting.said().await {
        Some((Phase::Unreachable, why)) => Some(why),
        _ => None,
    };
    setting.until("the member is unreachable", || async { told().await.is_some() }).await;
    let why = told().await.unwrap();
    assert!(
        why.starts_with("its token ended at 2027-") && why.ends_with("koinon join a again repairs it"),
        "{why}"
    );
    assert_eq!(setting.token().await, first, "nothing is written in its place");
    running.abort();
}
