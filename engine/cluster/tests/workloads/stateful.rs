//! StatefulSets on a server: names, order, revisions, and answers that get lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

fn stateful(replicas: i64, image: &str, extra: Value) -> Value {
    let mut set = deployment("web", replicas, image, extra);
    set["spec"]["serviceName"] = "web".into();
    set
}

fn path() -> String {
    format!("{STATEFUL_SETS}/web")
}

fn is_settled(set: &Value) -> bool {
    let (status, wanted) = (&set["status"], set["spec"]["replicas"].as_i64().unwrap());
    let count = |name: &str| status[name].as_i64().unwrap_or(0) == wanted;
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"]
            .into_iter()
            .all(count)
        && status["currentRevision"] == status["updateRevision"]
}

/// Names and images of all pods.
async fn layout(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list(PODS).await;
    pods.iter()
        .map(|pod| format!("{}={}", pod["metadata"]["name"].as_str().unwrap(), image_of(pod)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_set_is_made_scaled_updated_and_rolled_back() {
    let cluster = Cluster::new().await;
    cluster.create(STATEFUL_SETS, stateful(3, "v1", json!({}))).await;
    let first = cluster.until(&path(), is_settled).await;
    assert_eq!(layout(&cluster).await, ["web-0=v1", "web-1=v1", "web-2=v1"]);
    let pod = cluster.get(&format!("{PODS}/web-1")).await;
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], first["status"]["updateRevision"]);
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(pod["spec"]["hostname"], "web-1");

    cluster.patch(&path(), with_image("v2")).await;
    cluster.until(&path(), |set| is_settled(set) && set["metadata"]["generation"] == 2).await;
    assert_eq!(layout(&cluster).await, ["web-0=v2", "web-1=v2", "web-2=v2"]);
    assert_eq!(cluster.list(REVISIONS).await.len(), 2);
    // As `kubectl rollout undo` does: the patch of the revision, as it is.
    let revisions = cluster.list(REVISIONS).await;
    let old = revisions.iter().find(|one| one["revision"] == 1).unwrap();
    cluster
        .patch(&path(), json!({"spec": {"template": {"spec": old["data"]["spec"]["template"]["spec"]}}}))
        .await;
    let back = cluster.until(&path(), |set| is_settled(set) && set["metadata"]["generation"] == 3).await;
    assert_eq!(back["status"]["updateRevision"], first["status"]["updateRevision"]);
    let mut numbers: Vec<_> =
        cluster.list(REVISIONS).await.iter().map(|one| one["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);

    cluster.patch(&path(), json!({"spec": {"replicas": 1}})).await;
    cluster.until(&path(), is_settled).await;
    assert_eq!(layout(&cluster).await, ["web-0=v1"]);
    let events = cluster.events_about("web").await;
    let told = ("SuccessfulCreate".into(), "Create Pod web-0 in StatefulSet web successful".into());
    assert!(events.contains(&told), "{events:#?}");
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_comes_to_be_whatever_answers_are_lost_and_never_has_a_pod_twice() {
    for every in 2..6 {
        let mut cluster = Cluster::new().await;
        cluster.lose_answers(every);
        cluster.lag(Duration::from_millis(50 * every as u64));
        let template = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        cluster.create(STATEFUL_SETS, stateful(3, "v1", json!({"volumeClaimTemplates": [template]}))).await;
        cluster.until(&path(), is_settled).await;
        cluster.patch(&path(), with_image("v2")).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.leave().await;
        cluster.keep();
        cluster.until(&path(), |set| is_settled(set) && set["metadata"]["generation"] == 2).await;
        cluster.heal();
        cluster.rest().await;
        assert_eq!(
            layout(&cluster).await,
            ["web-0=v2", "web-1=v2", "web-2=v2"],
            "every {every}th answer lost"
        );
        assert_eq!(cluster.list("/api/v1/namespaces/default/persistentvolumeclaims").await.len(), 3);
        assert_eq!(cluster.list(REVISIONS).await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_with_the_right_names_are_adopted_with_their_revisions() {
    let mut cluster = Cluster::new().await;
    cluster.create(STATEFUL_SETS, stateful(2, "v1", json!({}))).await;
    let first = cluster.until(&path(), is_settled).await;
    // Deleted as an orphan-maker would: nothing refers to it any more.
    cluster.leave().await;
    cluster.delete(&path()).await;
    let orphan = json!({"metadata": {"ownerReferences": null}});
    for name in ["web-0", "web-1"] {
        cluster.patch(&format!("{PODS}/{name}"), orphan.clone()).await;
    }
    let revision = cluster.list(REVISIONS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.patch(&format!("{REVISIONS}/{revision}"), orphan.clone()).await;
    let mut stranger = pod("web", "v1");
    stranger["metadata"]["name"] = "other".into();
    cluster.create(PODS, stranger).await;
    let before = cluster.get(&format!("{PODS}/web-0")).await["metadata"]["uid"].clone();
    cluster.keep();
    cluster.create(STATEFUL_SETS, stateful(2, "v1", json!({}))).await;
    let second = cluster.until(&path(), is_settled).await;
    assert_eq!(second["status"]["updateRevision"], first["status"]["updateRevision"]);
    let adopted = cluster.get(&format!("{PODS}/web-0")).await;
    assert_eq!(adopted["metadata"]["uid"], before);
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["uid"], second["metadata"]["uid"]);
    let other = cluster.get(&format!("{PODS}/other")).await;
    assert!(other["metadata"]["ownerReferences"].is_null(), "its name is not of the set");
    cluster.rest().await;
}
