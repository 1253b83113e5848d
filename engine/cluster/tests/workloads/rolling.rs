//! Rollouts, step by step.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn a_rolling_update_stays_within_its_bounds_and_ends_quietly() {
    let cluster = Cluster::new().await;
    let strategy = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    cluster.create(DEPLOYMENTS, deployment("web", 6, "v1", json!({"strategy": strategy}))).await;
    let first = cluster.until_rolled_out("web").await;
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    cluster.patch(&format!("{DEPLOYMENTS}/web"), with_image("v2")).await;
    let (mut most, mut least) = (0, usize::MAX);
    loop {
        let pods = cluster.active_pods().await;
        most = most.max(pods.len());
        least = least.min(pods.iter().filter(|pod| readiness(pod)["status"] == "True").count());
        if is_rolled_out(&cluster.get(&format!("{DEPLOYMENTS}/web")).await) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    assert!(most <= 8 && least >= 5, "{least}..{most}");
    assert!(most > 6, "the surge is used: {most}");
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 0), ("v2".into(), 6)]);
    let done = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(done["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let name = cluster.set_of("v2").await["metadata"]["name"].as_str().unwrap().to_owned();
    let progressing = condition(&done, "Progressing");
    assert_eq!(progressing["message"], format!("ReplicaSet \"{name}\" has successfully progressed."));
    assert_eq!(condition(&done, "Available")["reason"], "MinimumReplicasAvailable");
    assert_eq!(done["status"]["terminatingReplicas"], 0);
    let events = cluster.events_about("web").await;
    let old = cluster.set_of("v1").await["metadata"]["name"].as_str().unwrap().to_owned();
    let told = |message: String| events.contains(&("ScalingReplicaSet".into(), message));
    assert!(told(format!("Scaled up replica set {old} from 0 to 6")), "{events:#?}");
    assert!(told(format!("Scaled up replica set {name} from 0 to 2")), "{events:#?}");
    assert!(told(format!("Scaled down replica set {old} from 6 to 5")), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_times_out_by_itself_and_undoing_it_helps() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, deployment("web", 4, "good", json!({"progressDeadlineSeconds": 60}))).await;
    cluster.until_rolled_out("web").await;
    cluster.mind(|pod| if image_of(pod) == "bad" { Mood::Unready } else { Mood::Ready });
    cluster.patch(&path, with_image("bad")).await;
    let start = cluster.clock.now();
    let stuck = |deployment: &Value| condition(deployment, "Progressing")["status"] == "False";
    let deployment = cluster.until(&path, stuck).await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!((60..70).contains(&waited), "{waited}");
    let name = cluster.set_of("bad").await["metadata"]["name"].as_str().unwrap().to_owned();
    let progressing = condition(&deployment, "Progressing");
    assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
    assert_eq!(progressing["message"], format!("ReplicaSet \"{name}\" has timed out progressing."));
    assert_eq!(condition(&deployment, "Available")["status"], "True");
    cluster.rest().await;
    // As `kubectl rollout undo` does it: the old template again.
    cluster.patch(&path, with_image("good")).await;
    let undone = cluster.until_rolled_out("web").await;
    assert_eq!(undone["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let good = cluster.set_of("good").await;
    assert_eq!(good["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("bad".into(), 0), ("good".into(), 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, deployment("web", 2, "v1", json!({}))).await;
    cluster.until_rolled_out("web").await;
    cluster.patch(&path, json!({"spec": {"paused": true}})).await;
    let paused = |deployment: &Value| condition(deployment, "Progressing")["reason"] == "DeploymentPaused";
    let deployment = cluster.until(&path, paused).await;
    assert_eq!(condition(&deployment, "Progressing")["message"], "Deployment is paused");
    assert_eq!(condition(&deployment, "Progressing")["status"], "Unknown");
    cluster.patch(&path, with_image("v2")).await;
    cluster.patch(&path, json!({"spec": {"replicas": 5}})).await;
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 5)]);
    cluster.patch(&path, json!({"spec": {"paused": false}})).await;
    cluster.until_rolled_out("web").await;
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 0), ("v2".into(), 5)]);
}

#[tokio::test(start_paused = true)]
async fn scaling_amid_a_rollout_is_shared_out() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let strategy = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    cluster.create(DEPLOYMENTS, deployment("web", 10, "v1", json!({"strategy": strategy}))).await;
    cluster.until_rolled_out("web").await;
    cluster.mind(|pod| if image_of(pod) == "v2" { Mood::Unready } else { Mood::Ready });
    cluster.patch(&path, with_image("v2")).await;
    let stuck = |deployment: &Value| deployment["status"]["updatedReplicas"] == 5;
    cluster.until(&path, stuck).await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 8), ("v2".into(), 5)]);
    cluster.patch(&path, json!({"spec": {"replicas": 15}})).await;
    cluster.until(&path, |deployment| deployment["status"]["replicas"] == 18).await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 11), ("v2".into(), 7)]);
    let annotations = cluster.set_of("v1").await["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "15");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "18");
    cluster.mind(|_| Mood::Ready);
    cluster.until_rolled_out("web").await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn recreating_makes_new_pods_when_the_last_old_one_is_gone() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let strategy = json!({"type": "Recreate"});
    cluster.create(DEPLOYMENTS, deployment("web", 3, "v1", json!({"strategy": strategy}))).await;
    cluster.until_rolled_out("web").await;
    cluster.mind(|pod| if is_active(pod) { Mood::Ready } else { Mood::Ignore });
    cluster.patch(&path, with_image("v2")).await;
    cluster.until(&path, |deployment| deployment["status"]["terminatingReplicas"] == 3).await;
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 0)]);
    assert_eq!(cluster.list(PODS).await.len(), 3);
    cluster.mind(|_| Mood::Ready);
    cluster.until_rolled_out("web").await;
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v1".into(), 0), ("v2".into(), 3)]);
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_to_its_limit_and_a_restart_is_a_rollout() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, deployment("web", 1, "v1", json!({"revisionHistoryLimit": 2}))).await;
    cluster.until_rolled_out("web").await;
    for image in ["v2", "v3", "v4", "v5"] {
        cluster.patch(&path, with_image(image)).await;
        cluster.until_rolled_out("web").await;
        cluster.rest().await;
    }
    let sizes = cluster.sizes().await;
    assert_eq!(sizes, [("v3".into(), 0), ("v4".into(), 0), ("v5".into(), 1)]);
    let restart = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
    cluster.patch(&path, json!({"spec": {"template": restart}})).await;
    let deployment = cluster.until_rolled_out("web").await;
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "6");
    cluster.rest().await;
    assert_eq!(cluster.sizes().await, [("v4".into(), 0), ("v5".into(), 0), ("v5".into(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn pods_count_once_they_were_ready_for_long_enough() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, deployment("web", 2, "v1", json!({"minReadySeconds": 30}))).await;
    let start = cluster.clock.now();
    cluster.until(&path, |deployment| deployment["status"]["readyReplicas"] == 2).await;
    assert_eq!(cluster.get(&path).await["status"]["availableReplicas"], Value::Null);
    cluster.until_rolled_out("web").await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!((29..33).contains(&waited), "{waited}");
    // The new number of seconds reaches the set without a rollout.
    cluster.patch(&path, json!({"spec": {"minReadySeconds": 0}})).await;
    cluster.rest().await;
    assert_eq!(cluster.set_of("v1").await["spec"]["minReadySeconds"], Value::Null);
    assert_eq!(cluster.list(SETS).await.len(), 1);
}
