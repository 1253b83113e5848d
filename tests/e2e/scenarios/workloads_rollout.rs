//! Updates of a federated Deployment: a failure stops them and names its cluster, a new one overtakes, the role may be gone
//! half-way, and shadows mirror it all.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::league::Space;
use crate::objects::{NEVER_READY, deployment, template};
use crate::wait::{Look, until};
use crate::world::World;

pub(super) const WEB: &str = "deployment/web";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_failure_stops_the_update_and_names_the_cluster", failure),
        kubectl("a_new_update_overtakes_and_the_order_is_kept", overtaken),
        kubectl("shadows_mirror_and_are_put_right", shadows),
        kubectl("members_go_on_without_the_role_and_are_put_right_later", without_us),
    ]
}

pub(super) fn web(replicas: i32, annotations: Value, spec: Value) -> Value {
    let mut web = deployment("web", replicas, spec);
    web["metadata"]["annotations"] = annotations;
    web
}

fn set_image(version: &str) -> [String; 4] {
    ["set".into(), "image".into(), WEB.into(), format!("main=example.com/web:{version}")]
}

pub(super) async fn set(space: &Space, version: &str) -> anyhow::Result<()> {
    let arguments = set_image(version);
    space.kubectl(&arguments.each_ref().map(String::as_str)).await.map(drop)
}

/// A change of the template to this version. Held, its pods never get ready: the update stays at its first cluster.
pub(super) fn version(version: &str, held: bool) -> Value {
    let mut template = template("web", version);
    template["metadata"]["annotations"] = json!({NEVER_READY.0: held.then_some(NEVER_READY.1)});
    json!({"template": template})
}

pub(super) async fn change(space: &Space, spec: Value) -> anyhow::Result<()> {
    let change = json!({"spec": spec}).to_string();
    space.kubectl(&["patch", WEB, "--type=merge", "-p", &change]).await.map(drop)
}

pub(super) async fn rolled_out(space: &Space) -> anyhow::Result<()> {
    let said = space.kubectl(&["rollout", "status", WEB, "--timeout=150s"]).await?;
    ensure!(said.contains("deployment \"web\" successfully rolled out"), "{said}");
    Ok(())
}

async fn failure(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "failure").await?;
    let annotations = json!({"koinon.dev/cluster-order": "b,c", "kubernetes.io/change-cause": "good"});
    space.apply(&web(6, annotations, json!({}))).await?;
    rolled_out(&space).await?;
    // Only what is bound to fail has so little time: what should succeed may take as long as the machine needs.
    let mut broken = version("broken", true);
    broken["progressDeadlineSeconds"] = 8.into();
    change(&space, broken).await?;
    let said = space.kubectl_said(&["rollout", "status", WEB, "--timeout=150s"]).await?;
    ensure!(said.code == Some(1), "{:?}: {}{}", said.code, said.out, said.err);
    ensure!(said.err.contains("error: deployment \"web\" exceeded its progress deadline"), "{}", said.err);
    ensure!(space.images(WEB).await? == "a=web:1 b=web:broken c=web:1", "only b was touched");
    let event =
        space.until_event("web", "RolloutStopped: no other cluster is updated: b makes no progress").await?;
    ensure!(event.contains("has timed out progressing"), "{event}");
    let described = space.kubectl(&["describe", WEB]).await?;
    ensure!(described.contains("ProgressDeadlineExceeded"), "{described}");
    // Undo begins with that cluster, and the change cause comes back.
    change(&space, json!({"progressDeadlineSeconds": 600})).await?;
    space.kubectl(&["rollout", "undo", WEB]).await?;
    rolled_out(&space).await?;
    ensure!(space.images(WEB).await? == "a=web:1 b=web:1 c=web:1", "all are back");
    let found = space.federated(WEB).await?;
    let annotations = &found["metadata"]["annotations"];
    ensure!(annotations["kubernetes.io/change-cause"] == "good", "{annotations}");
    ensure!(annotations["koinon.dev/cluster-order"] == "b,c", "{annotations}");
    ensure!(annotations["deployment.kubernetes.io/revision"] == "3", "{annotations}");
    space.leave().await
}

async fn overtaken(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "overtaken").await?;
    space.apply(&web(9, json!({"koinon.dev/cluster-order": "c"}), json!({}))).await?;
    rolled_out(&space).await?;
    change(&space, version("2", true)).await?;
    space.until_images(WEB, "a=web:1 b=web:1 c=web:2").await?;
    change(&space, version("3", true)).await?;
    space.until_images(WEB, "a=web:1 b=web:1 c=web:3").await?;
    change(&space, version("3", false)).await?;
    rolled_out(&space).await?;
    ensure!(space.images(WEB).await? == "a=web:3 b=web:3 c=web:3", "all have the last one");
    for cluster in ["c", "a", "b"] {
        space.until_event("web", &format!("Updating: cluster {cluster} is being updated")).await?;
    }
    // What is said badly is explained, and the default holds.
    space.kubectl(&["annotate", "--overwrite", WEB, "koinon.dev/max-concurrent-clusters=0"]).await?;
    space.until_event("web", "RolloutMalformed: ").await?;
    space
        .kubectl(&[
            "annotate",
            "--overwrite",
            WEB,
            "koinon.dev/max-concurrent-clusters-",
            "koinon.dev/cluster-order=mars",
        ])
        .await?;
    space.until_event("web", "UnknownCluster: koinon.dev/cluster-order names mars").await?;
    space.leave().await
}

async fn shadows(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "shadows").await?;
    space.apply(&web(6, json!({}), json!({"revisionHistoryLimit": 1}))).await?;
    for version in ["2", "3"] {
        rolled_out(&space).await?;
        set(&space, version).await?;
    }
    rolled_out(&space).await?;
    let mirrored = ["2 example.com/web:2 0 0", "3 example.com/web:3 6 6"];
    until_mirrored(&space, &mirrored).await?;
    // One is deleted, one is edited: both are as they were, and members notice nothing.
    let newest = |set: &&ReplicaSet| set.spec.as_ref().and_then(|spec| spec.replicas) == Some(6);
    let all = space.room.api::<ReplicaSet>().list(&Default::default()).await?.items;
    let (new, old) = (all.iter().find(newest), all.iter().find(|set| !newest(set)));
    let (Some(new), Some(old)) = (new, old) else { anyhow::bail!("two shadows") };
    space.kubectl(&["delete", "replicaset", &old.name_any()]).await?;
    space.kubectl(&["scale", "replicaset", &new.name_any(), "--replicas=40"]).await?;
    until("the deleted one is there again", async || {
        let found = space.room.api::<ReplicaSet>().get_opt(&old.name_any()).await?;
        let again = found.is_some_and(|found| found.metadata.uid != old.metadata.uid);
        Ok(if again { Look::Found(()) } else { Look::NotYet("it is not".into()) })
    })
    .await?;
    until_mirrored(&space, &mirrored).await?;
    ensure!(space.layout(WEB).await? == "a=2 b=2 c=2", "members are as they were");
    // A member that is edited by hand is put right.
    space.in_member("a", &["set", "image", WEB, "main=example.com/evil:1"]).await?;
    space.until_event("web", "Repaired: put right in cluster a").await?;
    space.until_images(WEB, "a=web:3 b=web:3 c=web:3").await?;
    // They go with their Deployment, and with nothing else; members keep theirs.
    space.kubectl(&["delete", WEB]).await?;
    until_mirrored(&space, &[]).await?;
    ensure!(space.images(WEB).await? == "a=web:3 b=web:3 c=web:3", "members keep theirs");
    space.leave().await
}

/// Waits until the shadows are these, as `revision image replicas available`.
async fn until_mirrored(space: &Space, wanted: &[&str]) -> anyhow::Result<()> {
    let sets = space.room.api::<ReplicaSet>();
    until(&format!("the shadows are {wanted:?}"), async || {
        let mut said = Vec::new();
        for set in sets.list(&Default::default()).await?.items {
            let set = serde_json::to_value(&set)?;
            let (metadata, spec) = (&set["metadata"], &set["spec"]);
            ensure!(metadata["annotations"]["koinon.dev/shadow"] == "true", "{metadata}");
            ensure!(metadata["ownerReferences"][0]["kind"] == "Deployment", "{metadata}");
            said.push(format!(
                "{} {} {} {}",
                metadata["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or_default(),
                spec["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default(),
                spec["replicas"],
                set["status"]["availableReplicas"].as_i64().unwrap_or(0),
            ));
        }
        said.sort();
        Ok(if said == wanted { Look::Found(()) } else { Look::NotYet(said.join(", ")) })
    })
    .await
}

async fn without_us(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "without-us").await?;
    space.apply(&web(6, json!({}), json!({}))).await?;
    rolled_out(&space).await?;
    change(&space, version("2", true)).await?;
    space.until_images(WEB, "a=web:2 b=web:1 c=web:1").await?;
    league.stop_role().await?;
    change(&space, version("2", false)).await?;
    // A member is a whole cluster, with a whole Deployment.
    for arguments in [
        &["set", "image", WEB, "main=example.com/web:hot"][..],
        &["scale", WEB, "--replicas=3"],
        &["rollout", "status", WEB, "--timeout=150s"],
    ] {
        space.in_member("b", arguments).await?;
    }
    space.until_images(WEB, "a=web:2 b=web:hot c=web:1").await?;
    league.start_role().await?;
    rolled_out(&space).await?;
    space.until_layout(WEB, "a=2 b=2 c=2").await?;
    ensure!(space.images(WEB).await? == "a=web:2 b=web:2 c=web:2", "it is put right");
    space.leave().await
}
