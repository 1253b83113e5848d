//! Who may read a role's metrics: programs of the same machine or pod, and from elsewhere those whose token the API server
//! knows (TokenReview) and whose roles allow `get` on `/metrics` (SubjectAccessReview), as controllers of Kubernetes have it.
//!
//! The API server that is asked is the one that the role works for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use koinon_control::call::within_deadline;
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

const PATH: &str = "/metrics";
/// So long what the API server said of a token counts.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// So many tokens are remembered, and so many asked about at a time: strangers must not make us a burden on the API server.
const REMEMBERED: usize = 64;
const ASKED_AT_ONCE: usize = 4;

/// Decides about readers.
pub(crate) struct Readers {
    client: Client,
    known: Mutex<HashMap<String, (Instant, Verdict)>>,
    asking: Semaphore,
}

/// What the API server says of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    May,
    MayNot,
    Unknown,
}

/// Why somebody may not read.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) StatusCode, pub(crate) String);

impl Readers {
    pub(crate) fn new(client: Client) -> Readers {
        Readers { client, known: Mutex::default(), asking: Semaphore::new(ASKED_AT_ONCE) }
    }

    /// Whether a request from this address with this token may read.
    pub(crate) async fn admit(&self, from: Option<IpAddr>, token: Option<&str>) -> Result<(), Refused> {
        if from.is_some_and(|from| from.to_canonical().is_loopback()) {
            return Ok(());
        }
        let Some(token) = token else {
            let what = "metrics are for readers with a token of an account that may get /metrics";
            return Err(Refused(StatusCode::UNAUTHORIZED, what.into()));
        };
        match self.verdict(token).await? {
            Verdict::May => Ok(()),
            Verdict::MayNot => {
                let what =
                    "this account may not get /metrics: bind it to the ClusterRole koinon-metrics-reader";
                Err(Refused(StatusCode::FORBIDDEN, what.into()))
            }
            Verdict::Unknown => {
                Err(Refused(StatusCode::UNAUTHORIZED, "the API server does not know this token".into()))
            }
        }
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, Refused> {
        if let Some(known) = self.known(token) {
            return Ok(known);
        }
        let _turn = self.asking.acquire().await;
        // Another request with the same token may have been faster.
        if let Some(known) = self.known(token) {
            return Ok(known);
        }
        let verdict = self.ask(token).await.map_err(|error| {
            let what = format!(
                "the API server cannot be asked who reads: {error}; `koinon install rbac` prints the rights that this needs"
            );
            Refused(StatusCode::SERVICE_UNAVAILABLE, what)
        })?;
        let mut all = self.known.lock();
        if all.len() >= REMEMBERED {
            all.retain(|_, (since, _)| since.elapsed() < REMEMBERED_FOR);
        }
        if all.len() < REMEMBERED {
            all.insert(token.to_owned(), (Instant::now(), verdict));
        }
        Ok(verdict)
    }

    fn known(&self, token: &str) -> Option<Verdict> {
        let all = self.known.lock();
        all.get(token).filter(|(since, _)| since.elapsed() < REMEMBERED_FOR).map(|(_, verdict)| *verdict)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, koinon_control::call::Error> {
        let params = PostParams::default();
        let spec = TokenReviewSpec { token: token.into(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = within_deadline(Api::all(self.client.clone()).create(&params, &review)).await?;
        let status = reviewed.status.unwrap_or_default();
        let (Some(true), Some(user)) = (status.authenticated, status.user) else {
            return Ok(Verdict::Unknown);
        };
        let review = SubjectAccessReview { spec: may_read(user), ..SubjectAccessReview::default() };
        let reviewed = within_deadline(Api::all(self.client.clone()).create(&params, &review)).await?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Verdict::May } else { Verdict::MayNot })
    }
}

fn may_read(user: UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(PATH.into()),
            verb: Some("get".into()),
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use koinon_api::rights::Account;
    use koinon_apiserver::auth::User;
    use koinon_apiserver::auth::identity::{service_account_groups, service_account_user};
    use koinon_apiserver::auth::pki::Authority;
    use koinon_apiserver::serve::{Options, Server};
    use koinon_context::Context;
    use koinon_fleet::membership::apply;
    use serde_json::json;

    use super::*;
    use crate::install::metrics_rbac;

    async fn code(readers: &Readers, from: &str, token: Option<&str>) -> u16 {
        match readers.admit(Some(from.parse().unwrap()), token).await {
            Ok(()) => 200,
            Err(Refused(code, _)) => code.as_u16(),
        }
    }

    #[tokio::test]
    async fn from_elsewhere_a_token_with_the_right_is_needed() {
        let context = Context::real();
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let admin = User::new("admin", &["system:masters"]);
        let admin = Client::new(server.trusted_router(admin), "default");
        let role = Account { namespace: "default", name: "koinon-network" };
        let [prometheus, other] = ["prometheus", "other"].map(|name| Account { namespace: "default", name });
        for object in
            [role.object(), prometheus.object(), other.object()].into_iter().chain(metrics_rbac(role))
        {
            apply(&admin, &object).await.unwrap();
        }
        apply(&admin, &prometheus.bind("reads", None, "koinon-metrics-reader")).await.unwrap();
        let token = async |account: Account<'_>| {
            let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
                Api::default_namespaced(admin.clone());
            let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
            let made = accounts.create_token_request(account.name, &PostParams::default(), &request).await;
            made.unwrap().status.unwrap().token.unwrap()
        };
        let (good, bad) = (token(prometheus).await, token(other).await);

        let name = service_account_user(role.namespace, role.name);
        let groups = service_account_groups(role.namespace);
        let user = User { name, groups, ..User::default() }.authenticated();
        let readers = Readers::new(Client::new(server.trusted_router(user), "default"));
        assert_eq!(code(&readers, "127.0.0.1", None).await, 200);
        assert_eq!(code(&readers, "::ffff:127.0.0.1", None).await, 200);
        assert_eq!(code(&readers, "10.1.2.3", None).await, 401);
        for _ in 0..2 {
            assert_eq!(code(&readers, "10.1.2.3", Some("made.up.token")).await, 401);
            assert_eq!(code(&readers, "10.1.2.3", Some(&bad)).await, 403);
            assert_eq!(code(&readers, "10.1.2.3", Some(&good)).await, 200);
        }
        // Without the rights to ask, nobody from elsewhere reads.
        let nobody = User::new("nobody", &["system:authenticated"]);
        let readers = Readers::new(Client::new(server.trusted_router(nobody), "default"));
        assert_eq!(code(&readers, "10.1.2.3", Some(&good)).await, 503);
        server.close().await;
    }
}
