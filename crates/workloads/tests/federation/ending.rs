//! How an update ends that cannot have all of its replicas: as in one cluster, by the Deployment's own deadline, and never as done.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, World, updated};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PREFERENCES: &str = "federation.kubernetes.io/deployment-preferences";
const DEADLINE: i64 = 300;

fn three() -> [(&'static str, u32); 3] {
    [("a", 110), ("b", 110), ("c", 110)]
}

fn progressing(found: &Value) -> (&str, &str, &str) {
    let conditions = found["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = conditions.iter().find(|one| one["type"] == "Progressing").unwrap_or(&Value::Null);
    let text = |name: &str| one[name].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

/// What `kubectl rollout status` does with it: none as long as it waits, else its exit code.
fn rollout_status(found: &Value) -> Option<u8> {
    if found["status"]["observedGeneration"] != found["metadata"]["generation"] {
        return None;
    }
    if progressing(found).1 == "ProgressDeadlineExceeded" {
        return Some(1);
    }
    let count = |name: &str| found["status"][name].as_i64().unwrap_or(0);
    let done = updated(found) >= found["spec"]["replicas"].as_i64().unwrap()
        && count("replicas") <= updated(found)
        && count("availableReplicas") >= updated(found);
    done.then_some(0)
}

/// A Deployment whose pods name a ServiceAccount that there may not be.
fn web(replicas: i64) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": DEADLINE, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "builder", "containers": [{"name": "web", "image": "web:1"}],
            }},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_create_fails_by_its_deadline_in_the_members_words() {
    // One cluster by itself, told the same.
    let alone = World::bare(&[("a", 110)]).await;
    alone.members["a"].create(DEPLOYMENTS, web(6)).await;
    let world = World::new(&three()).await;
    world.federation.create(DEPLOYMENTS, web(6)).await;
    let mut codes = (None, None);
    for second in 0..2 * DEADLINE {
        let there = world.federation.get(DEPLOY).await.unwrap();
        assert_ne!(progressing(&there).1, "NewReplicaSetAvailable", "after {second} s: {there:#}");
        let single = alone.members["a"].get(DEPLOY).await.unwrap();
        codes.0 = codes.0.or_else(|| Some((second, rollout_status(&there)?)));
        codes.1 = codes.1.or_else(|| Some((second, rollout_status(&single)?)));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (federated, single) = (codes.0.expect("it ends"), codes.1.expect("it ends"));
    assert_eq!((federated.1, single.1), (1, 1));
    assert!(federated.0 >= single.0 && federated.0 < single.0 + 90, "{federated:?} beside {single:?}");
    let there = world.federation.get(DEPLOY).await.unwrap();
    let (status, _, message) = progressing(&there);
    assert_eq!(status, "False");
    assert!(
        message.starts_with("6 of 6 replicas found no cluster: a: pods cannot be created: "),
        "{message}"
    );
    assert!(message.contains(r#"serviceaccount "builder" not found"#), "{message}");
    let told = world.until_event("FailedCreate: cluster c: pods cannot be created: ").await;
    assert!(told.contains(r#"serviceaccount "builder" not found"#), "{told}");
    world.until_event("RolloutStopped: 6 of 6 replicas found no cluster: ").await;
    let events = world.federation.events("web").await;
    assert!(!events.iter().any(|event| event.starts_with("RolledOut")), "{events:#?}");
    world.rest().await;

    for site in world.members.values() {
        let account = json!({"metadata": {"name": "builder"}});
        site.create("/api/v1/namespaces/default/serviceaccounts", account).await;
    }
    world.until(DEPLOY, "it ends well after all", |one| rollout_status(one) == Some(0)).await;
    world.until_event("RolledOut: ").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn more_than_the_users_own_maximum_allows_is_told_and_ends() {
    let world = World::new(&three()).await;
    let two = r#"{"clusters":{"*":{"weight":1,"maxReplicas":2}}}"#;
    let deploy = Deploy { replicas: 10, annotations: json!({PREFERENCES: two}), ..Deploy::default() };
    world.create_deployment(deploy).await;
    world.until_layout(DEPLOY, "a=2 b=2 c=2").await;
    let there = world.until(DEPLOY, "it ends", |one| rollout_status(one).is_some()).await;
    assert_eq!(rollout_status(&there), Some(1));
    let message = progressing(&there).2;
    assert!(message.starts_with("4 of 10 replicas have no cluster by the preferences (a: "), "{message}");
    assert!(message.contains("its maximum is 2"), "{message}");
    world.rest().await;
    // As many as fit.
    let scale = |replicas: i64| json!({"spec": {"replicas": replicas}});
    world.federation.patch(DEPLOY, scale(6)).await;
    world.until(DEPLOY, "it ends well", |one| rollout_status(one) == Some(0)).await;
    assert_eq!(progressing(&world.federation.get(DEPLOY).await.unwrap()).1, "NewReplicaSetAvailable");
    // It had ended, and is asked for more than it may have.
    world.federation.patch(DEPLOY, scale(7)).await;
    world.until(DEPLOY, "it ends", |one| rollout_status(one) == Some(1)).await;
    let three = r#"{"clusters":{"*":{"weight":1,"maxReplicas":3}}}"#;
    world.federation.patch(DEPLOY, json!({"metadata": {"annotations": {PREFERENCES: three}}})).await;
    world.until(DEPLOY, "it ends well", |one| rollout_status(one) == Some(0)).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_for_which_there_is_no_room_end_by_the_deadline_too() {
    let world = World::new(&[("a", 2), ("b", 2)]).await;
    world.create_deployment(Deploy { replicas: 6, deadline: DEADLINE, ..Deploy::default() }).await;
    let there = world.until(DEPLOY, "it ends", |one| rollout_status(one).is_some()).await;
    assert_eq!(rollout_status(&there), Some(1), "{there:#}");
    let message = progressing(&there).2;
    assert!(message.starts_with("2 of 6 replicas found no cluster: "), "{message}");
    assert!(message.contains("a: ") && message.contains("it has room for 2"), "{message}");
    world.rest().await;
    // What it said is known to whoever comes next.
    let before = world.writes().len();
    world.federation.patch(DEPLOY, json!({"spec": {"replicas": 4}})).await;
    world.until(DEPLOY, "it ends well", |one| rollout_status(one) == Some(0)).await;
    assert!(world.writes().len() > before);
    world.rest().await;
}
