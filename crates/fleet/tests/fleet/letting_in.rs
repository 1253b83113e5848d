//! What a federation gets in a cluster that lets it in: rights in some namespaces only, tokens that end, and what was
//! another federation's.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use koinon_api::membership::{KOINON_NAMESPACE, Phase};
use koinon_fleet::membership::{Joined, Terms, join, leave, list};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::harness::id;
use crate::joining::{Served, joined, secret};

async fn joined_on(
    federation: &Served,
    member: &Served,
    terms: Terms,
) -> (Result<Joined, String>, Vec<String>) {
    let mut said = Vec::new();
    let candidate = member.candidate().on(terms);
    let outcome = join(&federation.client, &id("a"), &candidate, |step| said.push(step.to_owned())).await;
    (outcome.map_err(|error| error.to_string()), said)
}

fn within(patterns: &str) -> Terms {
    Terms { scope: Some(patterns.parse().unwrap()), ..Terms::default() }
}

async fn token(federation: &Served) -> String {
    let secret = secret(federation, "member-a").await.unwrap();
    String::from_utf8(secret.data.unwrap()["token"].0.clone()).unwrap()
}

/// Logs in to a cluster as whoever has this token.
fn with_token(served: &Served, token: &str) -> Client {
    let mut config = Config::new(served.config.cluster_url.clone());
    config.root_cert = served.config.root_cert.clone();
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config).unwrap()
}

/// For how long a token lasts, as it says itself.
fn lasts(token: &str) -> i64 {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap()
}

async fn make_namespace(served: &Served, name: &str) {
    let api: Api<Namespace> = Api::all(served.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &namespace).await.unwrap();
}

/// The code with which the creation of a Deployment is answered, or of nothing if it is let through.
async fn deploys(client: &Client, namespace: &str) -> Option<u16> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&params, &serde_json::from_value(deployment).unwrap()).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_federation_writes_only_in_the_namespaces_that_it_was_given() {
    let (federation, a) = (Served::start().await, Served::start().await);
    for name in ["team-a", "team-b", "shop"] {
        make_namespace(&a, name).await;
    }
    let (outcome, said) = joined_on(&federation, &a, within("team-*")).await;
    assert_eq!(outcome, Ok(Joined::New));
    assert!(
        said.iter().any(|step| step.starts_with("the federation may write in team-a, team-b;")),
        "{said:?}"
    );
    let us = with_token(&a, &token(&federation).await);
    let may = async |namespaces: &[&str]| {
        let mut codes = Vec::new();
        for namespace in namespaces {
            codes.push(deploys(&us, namespace).await);
        }
        codes
    };
    assert_eq!(may(&["team-a", "team-b"]).await, [None, None]);
    assert_eq!(may(&["shop", "default", "kube-system"]).await, [Some(403); 3]);
    // Whole clusters are watched.
    let deployments: Api<Deployment> = Api::all(us.clone());
    deployments.list(&ListParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(us.clone());
    let more = serde_json::from_value(json!({"metadata": {"name": "team-own"}})).unwrap();
    let refused = namespaces.create(&PostParams::default(), &more).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));

    // One that comes later is not among them until it is said again, for which nothing else has to be.
    make_namespace(&a, "team-c").await;
    assert_eq!(may(&["team-c"]).await, [Some(403)]);
    let (outcome, _) = joined_on(&federation, &a, Terms::default()).await;
    assert_eq!(outcome, Ok(Joined::Already));
    assert_eq!(may(&["team-c", "shop"]).await, [None, Some(403)]);

    // Others, and all.
    assert_eq!(joined_on(&federation, &a, within("shop")).await.0, Ok(Joined::Already));
    assert_eq!(may(&["shop", "team-a"]).await, [None, Some(403)]);
    let roles: Api<Role> = Api::all(a.client.clone());
    let bindings: Api<RoleBinding> = Api::all(a.client.clone());
    let ours = ListParams::default().fields("metadata.name=koinon-member");
    let spaces = |all: Vec<Option<String>>| all.into_iter().flatten().collect::<Vec<_>>();
    let found = roles.list(&ours).await.unwrap().items;
    assert_eq!(spaces(found.iter().map(ResourceExt::namespace).collect()), [KOINON_NAMESPACE, "shop"]);
    let found = bindings.list(&ours).await.unwrap().items;
    assert_eq!(spaces(found.iter().map(ResourceExt::namespace).collect()), [KOINON_NAMESPACE, "shop"]);
    assert_eq!(joined_on(&federation, &a, within("*")).await.0, Ok(Joined::Already));
    assert_eq!(may(&["shop", "team-a", "default"]).await, [None; 3]);
}

#[tokio::test]
async fn a_token_lasts_a_month_and_can_be_renewed_with_itself_alone() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    let kept = token(&federation).await;
    assert_eq!(lasts(&kept), 30 * 24 * 3600);
    let us = with_token(&a, &kept);
    let accounts: Api<ServiceAccount> = Api::namespaced(us.clone(), KOINON_NAMESPACE);
    let request = TokenRequest::default();
    accounts.create_token_request("koinon-member", &PostParams::default(), &request).await.unwrap();
    let others: Api<ServiceAccount> = Api::namespaced(us, "kube-system");
    for (api, name) in [(&accounts, "default"), (&others, "koinon-member")] {
        let refused = api.create_token_request(name, &PostParams::default(), &request).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "{name}");
    }
}

#[tokio::test]
async fn tokens_for_years_are_exchanged_when_a_cluster_joins_again() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    // As they were made once.
    let accounts: Api<ServiceAccount> = Api::namespaced(a.client.clone(), KOINON_NAMESPACE);
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 315_360_000}})).unwrap();
    let made = accounts.create_token_request("koinon-member", &PostParams::default(), &request).await;
    let old = made.unwrap().status.unwrap().token.unwrap();
    let secrets: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let mut kept = secret(&federation, "member-a").await.unwrap();
    kept.data.as_mut().unwrap().insert("token".into(), k8s_openapi::ByteString(old.clone().into_bytes()));
    secrets.replace("member-a", &PostParams::default(), &kept).await.unwrap();
    let endless: Api<Secret> = Api::namespaced(a.client.clone(), KOINON_NAMESPACE);
    let lasting = serde_json::from_value(json!({"metadata": {"name": "koinon-member-token"}})).unwrap();
    endless.create(&PostParams::default(), &lasting).await.unwrap();

    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::New));
    let new = token(&federation).await;
    assert!(new != old && lasts(&new) == 30 * 24 * 3600);
    assert!(endless.get_opt("koinon-member-token").await.unwrap().is_none());
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::Already));
}

/// A server that makes no token for longer than an hour, as those of some clouds.
async fn cap(request: Request, next: Next) -> Response {
    if !request.uri().path().ends_with("/token") {
        return next.run(request).await;
    }
    let (mut head, body) = request.into_parts();
    let mut asked: Value = serde_json::from_slice(&to_bytes(body, usize::MAX).await.unwrap()).unwrap();
    asked["spec"]["expirationSeconds"] = 3600.into();
    head.headers.remove("content-length");
    next.run(Request::from_parts(head, Body::from(asked.to_string()))).await
}

#[tokio::test]
async fn that_a_clusters_tokens_end_early_is_told() {
    let (federation, a) = (Served::start().await, Served::with(|router| router.layer(from_fn(cap))).await);
    let (outcome, said) = joined_on(&federation, &a, Terms::default()).await;
    assert_eq!(outcome, Ok(Joined::New));
    assert_eq!(lasts(&token(&federation).await), 3600);
    assert!(said.iter().any(|step| step.starts_with("this cluster's tokens last 60m at most")), "{said:?}");
}

#[tokio::test]
async fn a_cluster_of_a_lost_federation_is_taken_over() {
    let (lost, federation, a) = (Served::start().await, Served::start().await, Served::start().await);
    assert_eq!(joined(&lost, "old-name", &a).await, Ok(Joined::New));
    let theirs = secret(&lost, "member-old-name").await.unwrap();
    let theirs = String::from_utf8(theirs.data.unwrap()["token"].0.clone()).unwrap();
    let before = with_token(&a, &theirs);
    assert_eq!(deploys(&before, "default").await, None);

    let uid = Api::<Namespace>::all(lost.client.clone()).get("kube-system").await.unwrap().uid().unwrap();
    let refused = joined(&federation, "a", &a).await.unwrap_err();
    assert_eq!(
        refused,
        format!(
            "this cluster is in another federation: unjoin it there first, or, if that federation is no more, join \
             with --take-over; it is the member old-name of the federation whose kube-system has the UID {uid}"
        )
    );
    assert_eq!(deploys(&before, "default").await, None, "nothing was taken");
    let (outcome, said) = joined_on(&federation, &a, Terms { take_over: true, ..Terms::default() }).await;
    assert_eq!(outcome, Ok(Joined::New));
    let told = said.iter().find(|step| step.starts_with("taking over")).unwrap();
    assert!(
        told.contains(&format!("the member old-name of the federation whose kube-system has the UID {uid}"))
    );
    let rows = list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap();
    assert_eq!((rows[0].name.as_str(), rows[0].phase), ("a", Phase::Reachable), "{rows:?}");
    assert_eq!(deploys(&before, "default").await, Some(401), "what the other had does not serve any more");
    // Said of a cluster that is ours, or nobody's, it means nothing.
    let again = joined_on(&federation, &a, Terms { take_over: true, ..Terms::default() }).await;
    assert_eq!(again.0, Ok(Joined::Already));
    leave(&federation.client, "a").await.unwrap();
}
