//! What `koinon status` shows and `koinon plan` predicts of a live federation, and the rollback request of older clients.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::engine::Engine;
use crate::league::Space;
use crate::objects::{NEVER_READY, deployment, template};
use crate::wait::{Look, until};
use crate::world::World;

const WEB: &str = "deployment/web";

pub(super) fn all() -> Vec<Scenario> {
    vec![kubectl("what_is_predicted_happens_and_is_shown", predicted)]
}

async fn predicted(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "views").await?;
    let mut web = deployment("web", 9, json!({}));
    web["metadata"]["annotations"] = json!({"koinon.dev/cluster-order": "c"});
    space.apply(&web).await?;
    space.kubectl(&["rollout", "status", WEB, "--timeout=150s"]).await?;
    let ask = async |arguments: &[&str]| league.koinon(&[arguments, &["-n", "views"]].concat()).await;

    let screen = ask(&["status"]).await?;
    ensure!(screen.starts_with("MEMBERS\nNAME") && screen.matches("Reachable").count() == 3, "{screen}");
    ensure!(screen.contains("views       deployment/web   9/9     9         a=3 b=3 c=3   done"), "{screen}");
    let screen: Value = serde_json::from_str(&ask(&["status", "-o", "json"]).await?)?;
    ensure!(screen["workloads"][0]["clusters"]["a"]["available"] == 3, "{screen}");

    // The steps are told beforehand.
    let said = ask(&["plan", WEB, "--image", "example.com/web:2"]).await?;
    ensure!(said.contains("1      c          3\n2      a          3\n3      b          3\n"), "{said}");
    let told: Value =
        serde_json::from_str(&ask(&["plan", WEB, "--image", "example.com/web:2", "-o", "json"]).await?)?;
    ensure!(told["steps"][0]["clusters"] == json!(["c"]), "{told}");
    // Pods that never get ready hold it at its first step.
    let mut held = template("web", "2");
    held["metadata"]["annotations"] = json!({NEVER_READY.0: NEVER_READY.1});
    let change = json!({"spec": {"template": held}}).to_string();
    space.kubectl(&["patch", WEB, "--type=merge", "-p", &change]).await?;
    space.until_images(WEB, "a=web:1 b=web:1 c=web:2").await?;
    until("the status shows the step", async || {
        let said = ask(&["status", WEB]).await?;
        let shown = said.contains("rollout    step 1 of 3") && said.contains("waits for  c: ");
        Ok(if shown { Look::Found(()) } else { Look::NotYet(said) })
    })
    .await?;
    // What is begun goes first, whatever comes next.
    let said = ask(&["plan", WEB, "--image", "example.com/web:3"]).await?;
    ensure!(said.contains("1      c          3\n2      a          3\n3      b          3\n"), "{said}");
    let freed = json!({"spec": {"template": {"metadata": {"annotations": null}}}}).to_string();
    space.kubectl(&["patch", WEB, "--type=merge", "-p", &freed]).await?;
    space.kubectl(&["rollout", "status", WEB, "--timeout=150s"]).await?;

    // What would happen if, and then it does.
    let told: Value = serde_json::from_str(&ask(&["plan", WEB, "--replicas", "12", "-o", "json"]).await?)?;
    ensure!(told["replicas"] == json!({"a": 4, "b": 4, "c": 4}), "{told}");
    space.kubectl(&["scale", WEB, "--replicas=12"]).await?;
    space.until_layout(WEB, "a=4 b=4 c=4").await?;
    let said = ask(&["plan", WEB, "--lose", "b"]).await?;
    ensure!(said.contains("it is lost") && said.contains("All 12 replicas have a cluster."), "{said}");
    let wrong = league.koinon_output(&["plan", WEB, "-n", "views", "--lose", "mars"]).await?;
    ensure!(wrong.status.code() == Some(2), "{wrong:?}");
    let missing = league.koinon_output(&["status", "deployment/none", "-n", "views"]).await?;
    ensure!(missing.status.code() == Some(1), "{missing:?}");

    // The request of older clients; stock servers know only the annotation that it leaves.
    if world.engine() == Engine::Embedded {
        let wish = json!({"kind": "DeploymentRollback", "apiVersion": "apps/v1", "name": "web", "rollbackTo": {"revision": 1}});
        let file = space.room.cluster.kubeconfig.with_file_name("rollback.json");
        std::fs::write(&file, wish.to_string())?;
        let path = "/apis/apps/v1/namespaces/views/deployments/web/rollback";
        space.kubectl(&["create", "--raw", path, "-f", &file.to_string_lossy()]).await?;
    } else {
        space.kubectl(&["annotate", WEB, "deprecated.deployment.rollback.to=1"]).await?;
    }
    space.until_images(WEB, "a=web:1 b=web:1 c=web:1").await?;
    space.until_event("web", "DeploymentRollback: rolled back to revision 1").await?;
    space.kubectl(&["rollout", "status", WEB, "--timeout=150s"]).await?;
    space.leave().await
}
