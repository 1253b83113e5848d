//! Workloads that members run already when the federated one is created: what runs counts as running, and nothing of it is lost
//! on the way to where the replicas belong.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, SETS, WEB, World, placement, set};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REBALANCE: &str = r#"{"rebalance":true}"#;

fn three() -> [(&'static str, u32); 3] {
    [("a", 110), ("b", 110), ("c", 110)]
}

/// The Deployment `web` as its own cluster's users made it.
fn legacy(replicas: i64, image: &str) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

/// A federation whose members are all known: before that nothing is said of how many more there may be.
async fn world() -> World {
    let world = World::new(&three()).await;
    world.federation.create(SETS, set("first", 3, Some(REBALANCE))).await;
    world.until_layout(&format!("{SETS}/first"), "a=1 b=1 c=1").await;
    world
}

/// Looks at every moment until members are so: never fewer than `least` available, never more than `most` asked for.
async fn sampled_until(world: &World, path: &str, wanted: &str, least: i64, most: i64) {
    for _ in 0..60_000 {
        let (available, asked) = (world.available(path).await, world.asked(path).await);
        let layout = world.layout(path).await;
        assert!(available >= least, "{available} are available: {layout}");
        assert!(asked <= most, "{asked} are asked for: {layout}");
        if layout == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is {} and not {wanted}", world.layout(path).await);
}

#[tokio::test(start_paused = true)]
async fn a_running_deployment_is_taken_over_without_a_loss() {
    let world = world().await;
    world.members["a"].create(DEPLOYMENTS, legacy(30, "web:1")).await;
    world.until_layout(DEPLOY, "a=30").await;
    let annotations = json!({"federation.kubernetes.io/deployment-preferences": REBALANCE});
    world.create_deployment(Deploy { replicas: 30, annotations, ..Deploy::default() }).await;
    sampled_until(&world, DEPLOY, "a=10 b=10 c=10", 30, 38).await;
    world.rest().await;
    assert_eq!(world.layout(DEPLOY).await, "a=10 b=10 c=10");
}

#[tokio::test(start_paused = true)]
async fn what_runs_stays_where_it_is_unless_it_may_move() {
    let world = world().await;
    world.members["a"].create(DEPLOYMENTS, legacy(30, "web:1")).await;
    world.members["a"].create(SETS, set("web", 12, None)).await;
    world.until_layout(DEPLOY, "a=30").await;
    world.until_layout(WEB, "a=12").await;
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app=web";
    let names = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].clone()).collect()
    };
    let before = names(&world.members["a"].get(pods).await.unwrap());
    world.create_deployment(Deploy { replicas: 30, ..Deploy::default() }).await;
    world.create_set(12, None).await;
    world.until(DEPLOY, "all are counted", |one| one["status"]["availableReplicas"] == 30).await;
    world.until(WEB, "all are counted", |one| one["status"]["availableReplicas"] == 12).await;
    world.rest().await;
    assert_eq!((world.layout(DEPLOY).await.as_str(), world.layout(WEB).await.as_str()), ("a=30", "a=12"));
    assert_eq!(names(&world.members["a"].get(pods).await.unwrap()), before, "no pod was replaced");
    world.until_event("TakenOver: cluster a had this Deployment already").await;
}

#[tokio::test(start_paused = true)]
async fn a_running_replica_set_is_taken_over_without_a_loss() {
    let world = world().await;
    world.members["a"].create(SETS, set("web", 30, None)).await;
    world.until_layout(WEB, "a=30").await;
    world.create_set(30, Some(REBALANCE)).await;
    sampled_until(&world, WEB, "a=10 b=10 c=10", 30, 38).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn another_template_replaces_pods_within_the_users_budget() {
    let world = world().await;
    world.members["b"].create(DEPLOYMENTS, legacy(30, "web:0")).await;
    world.until_layout(DEPLOY, "b=30").await;
    let annotations = json!({"federation.kubernetes.io/deployment-preferences": REBALANCE});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 4}});
    world.create_deployment(Deploy { replicas: 30, annotations, strategy, ..Deploy::default() }).await;
    sampled_until(&world, DEPLOY, "a=10 b=10 c=10", 28, 38).await;
    world.rest().await;
    for site in world.members.values() {
        let there = site.get(DEPLOY).await.unwrap();
        assert_eq!(there["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
    }
    let told = world.until_event("Overwritten: cluster b had another Deployment of this name").await;
    assert!(told.contains("spec.template.spec.containers[0].image"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn one_that_joins_brings_what_it_runs() {
    let mut world = World::bare(&three()).await;
    world.start().await;
    world.join(&["a", "b"]).await;
    let annotations = json!({"federation.kubernetes.io/deployment-preferences": REBALANCE});
    world.create_deployment(Deploy { replicas: 12, annotations, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=6 b=6").await;
    world.members["c"].create(DEPLOYMENTS, legacy(12, "web:1")).await;
    world.until_layout(DEPLOY, "a=6 b=6 c=12").await;
    world.join(&["a", "b", "c"]).await;
    sampled_until(&world, DEPLOY, "a=4 b=4 c=4", 12, 24).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_taken_over_is_left_and_told_of() {
    let world = world().await;
    world.members["a"].create(DEPLOYMENTS, legacy(5, "web:0")).await;
    world.members["b"].create(DEPLOYMENTS, legacy(2, "web:1")).await;
    world.members["a"].create(SETS, set("web", 5, None)).await;
    world.until_layout(DEPLOY, "a=5 b=2").await;
    let there = |world: &World| {
        let site = world.members["a"].client();
        async move {
            let request = http::Request::get(DEPLOY).body(Vec::new()).unwrap();
            site.request::<Value>(request).await.unwrap()["spec"].clone()
        }
    };
    let before = there(&world).await;
    // One that differs is left alone, one that does not is taken over.
    let annotations = json!({"koinon.dev/take-over": "if-same"});
    world.create_deployment(Deploy { replicas: 8, annotations, ..Deploy::default() }).await;
    let mut never = set("web", 6, None);
    never["metadata"]["annotations"]["koinon.dev/take-over"] = "never".into();
    world.federation.create(SETS, never).await;
    let done = |count: i64| move |one: &Value| one["status"]["availableReplicas"] == count;
    let web = world.until(DEPLOY, "the others have all", done(8)).await;
    world.until(WEB, "the others have all", done(6)).await;
    world.rest().await;
    assert_eq!(world.layout(DEPLOY).await, "a=5 b=4 c=4");
    assert_eq!(world.layout(WEB).await, "a=5 b=3 c=3");
    assert_eq!(there(&world).await, before);
    let a = &placement(&web)["clusters"]["a"];
    assert_eq!((&a["state"], &a["desired"]), (&json!("Foreign"), &json!(0)));
    let why = a["why"].as_str().unwrap();
    assert!(why.contains("runs there with 5 replicas, 5 of them available"), "{why}");
    assert!(why.contains("would change spec.template.spec.containers[0].image"), "{why}");
    world.until_event("NotTakenOver: cluster a: another Deployment of this name runs there").await;
    world.until_event("NotTakenOver: cluster a: another ReplicaSet of this name runs there").await;
    let to_a = world.writes().into_iter().filter(|write| write.starts_with("a ") && write.ends_with("/web"));
    assert_eq!(to_a.collect::<Vec<_>>(), Vec::<String>::new());
    // The user says otherwise.
    let always = json!({"metadata": {"annotations": {"koinon.dev/take-over": "always"}}});
    world.federation.patch(DEPLOY, always).await;
    let taken = |one: &Value| placement(one)["clusters"]["a"]["state"] == "Ready";
    world.until(DEPLOY, "it is taken over", taken).await;
    world.until_asked(DEPLOY, 8).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_asked_is_not_empty() {
    let world = World::new(&three()).await;
    world.members["a"].create(DEPLOYMENTS, legacy(30, "web:1")).await;
    world.until_layout(DEPLOY, "a=30").await;
    // Its watches go on, and reads of this name fail without an answer.
    world.members["a"].wire.refuse(|method, path| {
        (*method == http::Method::GET && path.ends_with("deployments/web")).then_some(503)
    });
    let annotations = json!({"federation.kubernetes.io/deployment-preferences": REBALANCE});
    world.create_deployment(Deploy { replicas: 30, annotations, ..Deploy::default() }).await;
    for _ in 0..600 {
        assert!(world.available(DEPLOY).await >= 30);
        assert_eq!(world.members["a"].get(DEPLOY).await.unwrap()["spec"]["replicas"], 30);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.members["a"].wire.accept();
    sampled_until(&world, DEPLOY, "a=10 b=10 c=10", 30, 60).await;
    world.rest().await;
}
