//! Updates of a Deployment over clusters: one after another, paused, undone, stopped by a failure, and never interrupted by who
//! comes or goes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, SETS, World, placement};

/// What kubectl rollout status asks of a Deployment to call it rolled out.
pub(crate) fn rolled_out(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    status["observedGeneration"].as_i64() >= deployment["metadata"]["generation"].as_i64()
        && count("updatedReplicas") >= spec["replicas"].as_i64().unwrap()
        && count("replicas") <= count("updatedReplicas")
        && count("availableReplicas") >= count("updatedReplicas")
}

pub(crate) fn progressing(deployment: &Value) -> &Value {
    let conditions = deployment["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == "Progressing").unwrap()
}

pub(crate) async fn until_rolled_out(world: &World) -> Value {
    world.until(DEPLOY, "it is rolled out", rolled_out).await
}

/// The image of each member's Deployment.
pub(crate) async fn images(world: &World) -> String {
    let mut images = Vec::new();
    for (name, site) in &world.members {
        if let Some(found) = site.get(DEPLOY).await {
            let image =
                found["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            images.push(format!("{name}={image}"));
        }
    }
    images.join(" ")
}

pub(crate) async fn until_images(world: &World, wanted: &str) {
    for _ in 0..6000 {
        if images(world).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let deployment = world.federation.get(DEPLOY).await;
    panic!("it is {} and not {wanted}: {deployment:#?}", images(world).await);
}

/// The revisions, as `revision image replicas/available`.
pub(crate) async fn shadows(world: &World) -> Vec<String> {
    let list = world.federation.get(SETS).await.unwrap();
    let mut shadows: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| {
            assert_eq!(set["metadata"]["annotations"]["koinon.dev/shadow"], "true");
            assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "Deployment");
            format!(
                "{} {} {}/{}",
                set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap(),
                set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap(),
                set["status"]["availableReplicas"].as_i64().unwrap_or(0),
                set["spec"]["replicas"],
            )
        })
        .collect();
    shadows.sort();
    shadows
}

pub(crate) async fn world(members: &[&str], deploy: Deploy<'_>) -> World {
    let members: Vec<(&str, u32)> = members.iter().map(|name| (*name, 110)).collect();
    let world = World::new(&members).await;
    world.create_deployment(deploy).await;
    until_rolled_out(&world).await;
    world
}

pub(crate) async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "web", "image": image}]);
    world.federation.patch(DEPLOY, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
}

/// What kubectl rollout undo does.
pub(crate) async fn undo(world: &World, revision: &str) {
    let deployment = world.federation.get(DEPLOY).await.unwrap();
    let list = world.federation.get(SETS).await.unwrap();
    let of = |set: &&Value| set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision;
    let set = list["items"].as_array().unwrap().iter().find(of).unwrap();
    let mut template = set["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    let mut annotations = set["metadata"]["annotations"].clone();
    annotations["deployment.kubernetes.io/revision"] =
        deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]);
    world.federation.send("PATCH", DEPLOY, "application/json-patch+json", patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_cluster_after_another_in_the_order_that_is_said() {
    let deploy =
        Deploy { replicas: 12, annotations: json!({"koinon.dev/cluster-order": "c,a"}), ..Deploy::default() };
    let world = world(&["a", "b", "c"], deploy).await;
    assert_eq!(shadows(&world).await, ["1 web:1 12/12"]);
    let before = world.writes().len();
    let mut seen = vec![images(&world).await];
    set_image(&world, "web:2").await;
    loop {
        let now = images(&world).await;
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        // A quarter of twelve may be missing, and a quarter of each share be there twice.
        let available = world.available(DEPLOY).await;
        assert!(available >= 9, "{available} of 12 are available");
        let deployment = world.federation.get(DEPLOY).await.unwrap();
        if rolled_out(&deployment) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let steps = [
        "a=web:1 b=web:1 c=web:1",
        "a=web:1 b=web:1 c=web:2",
        "a=web:2 b=web:1 c=web:2",
        "a=web:2 b=web:2 c=web:2",
    ];
    assert_eq!(seen, steps);
    world.rest().await;
    assert_eq!(shadows(&world).await, ["1 web:1 0/0", "2 web:2 12/12"]);
    let deployment = world.federation.get(DEPLOY).await.unwrap();
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(deployment["metadata"]["annotations"]["koinon.dev/rollout"], Value::Null);
    assert_eq!(progressing(&deployment)["reason"], "NewReplicaSetAvailable");
    let to_members: Vec<_> = world
        .writes()
        .split_off(before)
        .into_iter()
        .filter(|write| !write.starts_with("federation"))
        .collect();
    assert_eq!(to_members.len(), 3, "one write for each cluster: {to_members:#?}");
    world.until_event("Updating: cluster c is being updated").await;
    world.until_event("RolledOut: every cluster is up to date").await;
}

#[tokio::test(start_paused = true)]
async fn a_new_template_half_way_begins_where_the_last_one_was() {
    let world = world(&["a", "b", "c"], Deploy { replicas: 12, ..Deploy::default() }).await;
    set_image(&world, "web:2").await;
    until_images(&world, "a=web:2 b=web:1 c=web:1").await;
    set_image(&world, "web:3").await;
    until_images(&world, "a=web:3 b=web:1 c=web:1").await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(images(&world).await, "a=web:3 b=web:3 c=web:3");
    assert_eq!(shadows(&world).await, ["1 web:1 0/0", "2 web:2 0/0", "3 web:3 12/12"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_everything_and_undo_begins_with_it() {
    let annotations = json!({"kubernetes.io/change-cause": "first", "koinon.dev/cluster-order": "b"});
    let world =
        world(&["a", "b", "c"], Deploy { replicas: 6, deadline: 60, annotations, ..Deploy::default() }).await;
    let broken = json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": "broken"}},
        "spec": {"template": {
            "metadata": {"annotations": {"sim.koinon.dev/ready": "never"}},
            "spec": {"containers": [{"name": "web", "image": "web:broken"}]},
        }},
    });
    world.federation.patch(DEPLOY, broken).await;
    let failed = |one: &Value| {
        one["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["reason"] == "ProgressDeadlineExceeded"))
    };
    let deployment = world.until(DEPLOY, "it has failed", failed).await;
    assert_eq!(progressing(&deployment)["status"], "False");
    let message = progressing(&deployment)["message"].as_str().unwrap();
    assert!(message.starts_with("b makes no progress: "), "{message}");
    assert_eq!(placement(&deployment)["clusters"]["b"]["state"], "Stalled");
    world.rest().await;
    assert_eq!(images(&world).await, "a=web:1 b=web:broken c=web:1");
    world.until_event("RolloutStopped: no other cluster is updated: b makes no progress").await;
    assert!(world.available(DEPLOY).await >= 5);

    // Preferences and order of the present stay, the cause of the change comes back.
    let annotations = json!({"koinon.dev/cluster-order": "c,b,a"});
    world.federation.patch(DEPLOY, json!({"metadata": {"annotations": annotations}})).await;
    world.rest().await;
    undo(&world, "1").await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(images(&world).await, "a=web:1 b=web:1 c=web:1");
    assert_eq!(shadows(&world).await, ["2 web:broken 0/0", "3 web:1 6/6"]);
    let deployment = world.federation.get(DEPLOY).await.unwrap();
    let annotations = &deployment["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/change-cause"], "first");
    assert_eq!(annotations["koinon.dev/cluster-order"], "c,b,a");
    assert_eq!(annotations["koinon.dev/shadow"], Value::Null);
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn paused_templates_rest_and_counts_move() {
    let world = world(&["a", "b"], Deploy { replicas: 8, ..Deploy::default() }).await;
    world.federation.patch(DEPLOY, json!({"spec": {"paused": true}})).await;
    set_image(&world, "web:2").await;
    world.federation.patch(DEPLOY, json!({"spec": {"replicas": 10}})).await;
    world.until_layout(DEPLOY, "a=5 b=5").await;
    world.rest().await;
    assert_eq!(images(&world).await, "a=web:1 b=web:1");
    let deployment = world.federation.get(DEPLOY).await.unwrap();
    assert_eq!(progressing(&deployment)["reason"], "DeploymentPaused");
    world.federation.patch(DEPLOY, json!({"spec": {"paused": false}})).await;
    until_rolled_out(&world).await;
    assert_eq!(images(&world).await, "a=web:2 b=web:2");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn who_is_lost_half_way_is_left_out_and_takes_its_turn_later() {
    let world = world(&["a", "b", "c"], Deploy { replicas: 9, ..Deploy::default() }).await;
    set_image(&world, "web:2").await;
    until_images(&world, "a=web:2 b=web:1 c=web:1").await;
    world.members["a"].wire.cut();
    until_images(&world, "a=web:2 b=web:2 c=web:2").await;
    let deployment = until_rolled_out(&world).await;
    assert_eq!(placement(&deployment)["clusters"]["a"]["state"], "Offline");
    set_image(&world, "web:3").await;
    until_images(&world, "a=web:2 b=web:3 c=web:3").await;
    world.members["a"].wire.heal();
    until_images(&world, "a=web:3 b=web:3 c=web:3").await;
    until_rolled_out(&world).await;
    world.until_layout(DEPLOY, "a=3 b=3 c=3").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_and_all_at_once() {
    let mut deploy = Deploy { replicas: 6, ..Deploy::default() };
    deploy.strategy = json!({"type": "Recreate"});
    let recreated = world(&["a", "b", "c"], deploy).await;
    set_image(&recreated, "web:2").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(images(&recreated).await, "a=web:2 b=web:2 c=web:2");
    until_rolled_out(&recreated).await;
    drop(recreated);
    let annotations = json!({"koinon.dev/max-concurrent-clusters": "all"});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}});
    let deploy = Deploy { replicas: 12, annotations, strategy, ..Deploy::default() };
    let world = world(&["a", "b", "c"], deploy).await;
    set_image(&world, "web:2").await;
    loop {
        let (available, asked) = (world.available(DEPLOY).await, world.pods(DEPLOY).await);
        assert!(available >= 10, "{available} of 12 are available");
        assert!(asked <= 12, "{asked} of 12 are there");
        if rolled_out(&world.federation.get(DEPLOY).await.unwrap()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn shadows_are_mirrors() {
    let world = world(&["a", "b"], Deploy { replicas: 4, history: 1, ..Deploy::default() }).await;
    for image in ["web:2", "web:3", "web:4"] {
        set_image(&world, image).await;
        until_rolled_out(&world).await;
    }
    world.rest().await;
    assert_eq!(shadows(&world).await, ["3 web:3 0/0", "4 web:4 4/4"], "one old revision is kept");
    let list = world.federation.get(SETS).await.unwrap();
    let name = |image: &str| {
        let of = |set: &&Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == image;
        let set = list["items"].as_array().unwrap().iter().find(of).unwrap();
        format!("{SETS}/{}", set["metadata"]["name"].as_str().unwrap())
    };
    let (old, new) = (name("web:3"), name("web:4"));
    world.federation.delete(&old, "Background").await;
    world.federation.patch(&new, json!({"spec": {"replicas": 99}})).await;
    let containers = json!([{"name": "web", "image": "evil:1"}]);
    world.federation.patch(&new, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    world.rest().await;
    assert_eq!(shadows(&world).await, ["3 web:3 0/0", "4 web:4 4/4"], "made again and put right");
    assert_eq!(images(&world).await, "a=web:4 b=web:4");
    let ask = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}});
    world.federation.patch(DEPLOY, ask).await;
    until_images(&world, "a=web:3 b=web:3").await;
    world.until_event("DeploymentRollback: rolled back to revision 3").await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(shadows(&world).await, ["4 web:4 0/0", "5 web:3 4/4"]);
    world.federation.delete(DEPLOY, "Background").await;
    let none = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
    world.until(SETS, "the shadows are gone", none).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
}

/// All that a shadow says is put back, whoever wrote it, and whether or not the role was there to see it.
#[tokio::test(start_paused = true)]
async fn what_is_written_on_shadows_is_put_back() {
    let mut world = world(&["a", "b"], Deploy { replicas: 4, ..Deploy::default() }).await;
    for image in ["web:2", "web:3"] {
        let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": image}}});
        world.federation.patch(DEPLOY, cause).await;
        set_image(&world, image).await;
        until_rolled_out(&world).await;
    }
    world.rest().await;
    let said = ["1 web:1 0/0", "2 web:2 0/0", "3 web:3 4/4"];
    assert_eq!(shadows(&world).await, said);
    let list = world.federation.get(SETS).await.unwrap();
    let sets = list["items"].as_array().unwrap();
    let metadata = |sets: &[Value]| -> Vec<Value> {
        let of = |set: &Value| json!([set["metadata"]["labels"], set["metadata"]["annotations"]]);
        sets.iter().map(of).collect()
    };
    for running in [true, false] {
        if !running {
            world.kill().await;
        }
        for set in sets {
            let meddled = json!({"metadata": {
                "annotations": {
                    "deployment.kubernetes.io/revision": "77", "kubernetes.io/change-cause": "mine",
                    "koinon.dev/shadow": null,
                },
                "labels": {"pod-template-hash": "another", "mine": "too"},
            }});
            let path = format!("{SETS}/{}", set["metadata"]["name"].as_str().unwrap());
            world.federation.patch(&path, meddled).await;
        }
        if !running {
            world.start().await;
        }
        world.rest().await;
        assert_eq!(shadows(&world).await, said, "running: {running}");
        let list = world.federation.get(SETS).await.unwrap();
        let mut now = metadata(list["items"].as_array().unwrap());
        // Labels of others stay with others.
        for one in &mut now {
            assert_eq!(one[0].as_object_mut().unwrap().remove("mine"), Some(json!("too")));
        }
        assert_eq!(now, metadata(sets), "running: {running}");
        let web = world.federation.get(DEPLOY).await.unwrap();
        assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    }
    assert_eq!(images(&world).await, "a=web:3 b=web:3");
}

#[tokio::test(start_paused = true)]
async fn a_full_cluster_does_not_hold_up_an_update() {
    let preferences = json!({"federation.kubernetes.io/deployment-preferences": r#"{"rebalance":true}"#});
    let world = World::new(&[("a", 110), ("b", 4), ("c", 110)]).await;
    world.create_deployment(Deploy { replicas: 18, annotations: preferences, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=7 b=4/6 c=7").await;
    until_rolled_out(&world).await;
    set_image(&world, "web:2").await;
    until_images(&world, "a=web:2 b=web:2 c=web:2").await;
    until_rolled_out(&world).await;
    world.until_layout(DEPLOY, "a=7 b=4/6 c=7").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn bad_annotations_are_explained_and_the_defaults_hold() {
    let annotations = json!({"koinon.dev/cluster-order": "a,,b", "koinon.dev/max-concurrent-clusters": "0"});
    let world = world(&["a", "b"], Deploy { replicas: 4, annotations, ..Deploy::default() }).await;
    let event = world.until_event("RolloutMalformed: ").await;
    assert!(event.contains("empty name") && event.contains("write a whole number from 1, or all"), "{event}");
    let order = json!({"koinon.dev/cluster-order": "mars,a", "koinon.dev/max-concurrent-clusters": null});
    world.federation.patch(DEPLOY, json!({"metadata": {"annotations": order}})).await;
    world.until_event("UnknownCluster: koinon.dev/cluster-order names mars").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn who_refuses_the_template_stops_the_update() {
    let world = world(&["a", "b", "c"], Deploy { replicas: 6, ..Deploy::default() }).await;
    world.members["a"].wire.refuse(|method, path| {
        (method == http::Method::PATCH && path.contains("deployments")).then_some(422)
    });
    set_image(&world, "web:2").await;
    let failed = |one: &Value| progressing(one)["reason"] == "ProgressDeadlineExceeded";
    let deployment = world.until(DEPLOY, "it has failed", failed).await;
    let message = progressing(&deployment)["message"].as_str().unwrap();
    assert!(message.contains("a makes no progress: refused: a simulated fault"), "{message}");
    assert_eq!(images(&world).await, "a=web:1 b=web:1 c=web:1");
    world.members["a"].wire.accept();
    until_rolled_out(&world).await;
    assert_eq!(images(&world).await, "a=web:2 b=web:2 c=web:2");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn members_go_on_without_us_and_are_put_right_later() {
    let mut world = world(&["a", "b"], Deploy { replicas: 4, ..Deploy::default() }).await;
    set_image(&world, "web:2").await;
    until_images(&world, "a=web:2 b=web:1").await;
    world.kill().await;
    let by_hand = json!([{"name": "web", "image": "hot:fix"}]);
    let change = json!({"spec": {"replicas": 3, "template": {"spec": {"containers": by_hand}}}});
    world.members["b"].patch(DEPLOY, change).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let there = world.members["b"].get(DEPLOY).await.unwrap();
    assert_eq!(there["status"]["updatedReplicas"], 3, "it is a whole Deployment");
    world.members["b"].delete(DEPLOY, "Orphan").await;
    world.start().await;
    until_rolled_out(&world).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    world.rest().await;
    assert_eq!(images(&world).await, "a=web:2 b=web:2");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_too_long_for_a_history_still_runs() {
    let world = World::new(&[("a", 110)]).await;
    let name = "w".repeat(250);
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    });
    world.federation.create("/apis/apps/v1/namespaces/default/deployments", body).await;
    let path = format!("/apis/apps/v1/namespaces/default/deployments/{name}");
    let looked_at = |one: &Value| one["status"]["observedGeneration"] == one["metadata"]["generation"];
    world.until(&path, "it is looked at", looked_at).await;
    // The member's own controller cannot make a ReplicaSet of that name either.
    world.until_layout(&path, "a=0/1").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let writes = world.writes().len();
    assert!(writes < 60, "{writes} writes in ten minutes");
}
