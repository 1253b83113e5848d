//! Accounts, certificates and tokens are where pods look for them.

use serde_json::{Value, json};

use crate::harness::{AUTHORITY, Cluster};

const NAMESPACES: &str = "/api/v1/namespaces";
const MAP: &str = "/api/v1/namespaces/play/configmaps/kube-root-ca.crt";
const ACCOUNT: &str = "/api/v1/namespaces/play/serviceaccounts/default";
const ACCOUNTS: &str = "/api/v1/namespaces/play/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/play/secrets";

async fn namespace(cluster: &Cluster) {
    cluster.create(NAMESPACES, json!({"metadata": {"name": "play"}})).await;
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_certificates() {
    let cluster = Cluster::kept().await;
    namespace(&cluster).await;
    for namespace in ["default", "kube-system", "play"] {
        cluster
            .until(&format!("{NAMESPACES}/{namespace}/serviceaccounts/default"), |one| one.is_some())
            .await;
        let map = format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt");
        let map = cluster.until(&map, |one| one.is_some()).await.unwrap();
        assert_eq!(map["data"], json!({"ca.crt": AUTHORITY}));
    }
    let right = |map: Option<&Value>| map.is_some_and(|map| map["data"] == json!({"ca.crt": AUTHORITY}));
    cluster.patch(MAP, json!({"data": {"ca.crt": "another", "more": "x"}})).await;
    cluster.until(MAP, right).await;
    cluster.delete(MAP).await;
    cluster.until(MAP, right).await;
    let before = cluster.get(ACCOUNT).await.unwrap();
    cluster.delete(ACCOUNT).await;
    cluster
        .until(ACCOUNT, |one| one.is_some_and(|one| one["metadata"]["uid"] != before["metadata"]["uid"]))
        .await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_in_a_namespace_that_goes() {
    let cluster = Cluster::kept().await;
    namespace(&cluster).await;
    cluster.until(MAP, |one| one.is_some()).await;
    cluster.until(ACCOUNT, |one| one.is_some()).await;
    cluster.delete(&format!("{NAMESPACES}/play")).await;
    cluster
        .until(&format!("{NAMESPACES}/play"), |one| one.unwrap()["status"]["phase"] == "Terminating")
        .await;
    cluster.rest().await;
    cluster.delete(MAP).await;
    cluster.delete(ACCOUNT).await;
    let refused = cluster.writes_to("play");
    cluster.rest().await;
    assert_eq!(cluster.writes_to("play"), refused);
    assert_eq!((cluster.get(MAP).await, cluster.get(ACCOUNT).await), (None, None));
}

async fn token_secret(cluster: &Cluster, name: &str, account: &str) -> Value {
    let annotations = json!({"kubernetes.io/service-account.name": account});
    let secret = json!({
        "metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token",
    });
    cluster.create(SECRETS, secret).await
}

/// Who a Secret's token is, as the server reads it.
async fn bearer(cluster: &Cluster, secret: &Value) -> Value {
    let token = String::from_utf8(decoded(&secret["data"]["token"])).unwrap();
    let review = json!({"spec": {"token": token}});
    cluster.create("/apis/authentication.k8s.io/v1/tokenreviews", review).await["status"].clone()
}

fn decoded(part: &Value) -> Vec<u8> {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(part.clone()).unwrap();
    bytes.0
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_filled_and_go_with_their_account() {
    let cluster = Cluster::kept().await;
    namespace(&cluster).await;
    let robot = cluster
        .create(ACCOUNTS, json!({"metadata": {"name": "robot"}, "secrets": [{"name": "token"}]}))
        .await;
    token_secret(&cluster, "token", "robot").await;
    token_secret(&cluster, "lost", "nobody").await;
    let path = format!("{SECRETS}/token");
    let filled = |secret: Option<&Value>| secret.is_some_and(|secret| secret["data"]["token"].is_string());
    let secret = cluster.until(&path, filled).await.unwrap();
    assert_eq!(decoded(&secret["data"]["ca.crt"]), AUTHORITY.as_bytes());
    assert_eq!(decoded(&secret["data"]["namespace"]), b"play");
    assert_eq!(
        secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"],
        robot["metadata"]["uid"]
    );
    assert_eq!(bearer(&cluster, &secret).await["user"]["username"], "system:serviceaccount:play:robot");
    cluster.until(&format!("{SECRETS}/lost"), |secret| secret.is_none()).await;

    // A token that was taken out is replaced; the old one stays good, for it is bound to the same Secret.
    cluster.patch(&path, json!({"data": {"token": null, "ca.crt": "b2xk"}})).await;
    let again = cluster.until(&path, filled).await.unwrap();
    assert_eq!(decoded(&again["data"]["ca.crt"]), AUTHORITY.as_bytes());
    cluster.rest().await;

    // The Secret goes: its token is good no longer, and the account does not list it any more.
    cluster.delete(&path).await;
    let account = format!("{ACCOUNTS}/robot");
    let unlisted = |one: Option<&Value>| one.unwrap()["secrets"].as_array().is_none_or(Vec::is_empty);
    cluster.until(&account, unlisted).await;
    assert!(bearer(&cluster, &again).await["authenticated"].as_bool() != Some(true));

    // The account goes, and the Secrets for it.
    token_secret(&cluster, "second", "robot").await;
    cluster.until(&format!("{SECRETS}/second"), filled).await;
    cluster.delete(&account).await;
    cluster.until(&format!("{SECRETS}/second"), |secret| secret.is_none()).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_change_nothing_in_the_end() {
    let cluster = Cluster::kept().await;
    cluster.lose_answers(2);
    namespace(&cluster).await;
    cluster.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    for number in 0..4 {
        token_secret(&cluster, &format!("token-{number}"), "robot").await;
    }
    for number in 0..4 {
        let path = format!("{SECRETS}/token-{number}");
        cluster.until(&path, |secret| secret.unwrap()["data"]["token"].is_string()).await;
    }
    cluster.until(MAP, |one| one.is_some()).await;
    cluster.until(ACCOUNT, |one| one.is_some()).await;
    cluster.rest().await;
}
