//! Federated Deployments under stock kubectl: every rollout command, beside a single cluster that is told the same.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::Value;

use super::{Scenario, kubectl};
use crate::kubectl::Said;
use crate::league::Space;
use crate::objects::{deployment_is, is_complete};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const WEB: &str = "deployment/web";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("every_rollout_command_is_as_in_one_cluster", commands),
        kubectl("every_rollout_command_of_another_kubectl_too", commands_of_another),
        kubectl("who_creates_what_nothing_carries_is_warned", warned),
    ]
}

/// Kinds that no role carries are stored, and the user hears that nothing will run; what is carried is no reason for a word.
async fn warned(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "warned").await?;
    let told = async |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        space.room.kubectl_said(&words).await
    };
    // A stock server takes a policy in a moment after it was made.
    until("a policy that was just made counts", async || {
        let said = told("create job once --image=example.com/once:1 --dry-run=server").await?;
        ensure!(said.code == Some(0), "{}", said.err);
        Ok(if said.err.contains("carries a Job") { Look::Found(()) } else { Look::NotYet(said.err) })
    })
    .await?;
    let dead = [
        ("create job once --image=example.com/once:1", "Job"),
        ("create cronjob often --image=example.com/often:1 --schedule=@daily", "CronJob"),
    ];
    for (words, kind) in dead {
        let said = told(words).await?;
        ensure!(said.code == Some(0), "{words}: {}", said.err);
        let warning = format!("no role of Koinon carries a {kind} to members");
        ensure!(said.err.contains("Warning: ") && said.err.contains(&warning), "{words}: {}", said.err);
    }
    let said = told("create deployment web --image=example.com/web:1").await?;
    ensure!(said.code == Some(0) && said.err.is_empty(), "{}", said.err);
    Ok(())
}

/// A Deployment over the federation, and its twin in one cluster.
struct Twins {
    space: Space,
    alone: Room,
}

async fn commands(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let alone = Room::open(league.members["a"].cluster.clone(), "commands-alone").await?;
    told(Twins { space: Space::open(league.clone(), "commands").await?, alone }).await
}

/// The same with the kubectl that users of this machine have, where that is another.
async fn commands_of_another(world: Arc<World>) -> anyhow::Result<()> {
    let Some(another) = world.another_kubectl() else {
        let alone = "there is only one kubectl here: put one of another release on PATH";
        ensure!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{alone}");
        eprintln!("{alone}; only the first was tried");
        return Ok(());
    };
    eprintln!("the other kubectl is {}", another.display());
    let league = world.league().await?;
    let _peace = league.shared().await;
    let alone = Room::open(league.members["a"].cluster.clone(), "another-alone").await?.under(&another);
    let Space { league, room } = Space::open(league.clone(), "another").await?;
    told(Twins { space: Space { league, room: room.under(&another) }, alone }).await
}

async fn told(twins: Twins) -> anyhow::Result<()> {
    twins.same("create deployment web --image=example.com/web:1 --replicas=6").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;
    twins.same("annotate deployment/web kubernetes.io/change-cause=first").await?;
    twins.settled().await?;
    twins.same("set image deployment/web web=example.com/web:2").await?;
    twins.same("annotate deployment/web kubernetes.io/change-cause=second --overwrite").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;
    twins.same("rollout history deployment/web").await?;
    twins.same("rollout history deployment/web --revision=1").await?;
    twins.same("rollout history deployment/web --revision=2").await?;
    twins.same("rollout history deployment/web --revision=7").await?;

    // Paused, templates rest and counts move.
    twins.same("rollout pause deployment/web").await?;
    twins.same("rollout pause deployment/web").await?;
    // Only what runs in the end is a revision.
    twins.same("set image deployment/web web=example.com/web:thought").await?;
    twins.same("set image deployment/web web=example.com/web:3").await?;
    twins.same("rollout undo deployment/web").await?;
    twins.same("scale deployment/web --replicas=9").await?;
    twins.space.until_layout(WEB, "a=3 b=3 c=3").await?;
    twins
        .until_both("they are paused with nine", |found| {
            let status = &found["status"];
            status["availableReplicas"] == 9
                && status["observedGeneration"] == found["metadata"]["generation"]
                && reason(found) == "DeploymentPaused"
        })
        .await?;
    twins.same("rollout status deployment/web --watch=false").await?;
    twins.same("get deployment web").await?;
    twins.same("rollout history deployment/web").await?;
    twins.space.until_images(WEB, "a=web:2 b=web:2 c=web:2").await?;
    twins.same("rollout resume deployment/web").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;
    twins.same("rollout resume deployment/web").await?;
    twins.space.until_images(WEB, "a=web:3 b=web:3 c=web:3").await?;

    // Back by one, to a revision, to one that is not there, and to what it is.
    twins.same("rollout undo deployment/web").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;
    twins.same("rollout history deployment/web").await?;
    twins.same("rollout undo deployment/web --to-revision=1").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;
    twins.same("rollout history deployment/web").await?;
    twins.same("rollout undo deployment/web --to-revision=99").await?;
    twins.same("rollout undo deployment/web --to-revision=5").await?;
    twins.space.until_images(WEB, "a=web:1 b=web:1 c=web:1").await?;
    twins.same("rollout restart deployment/web").await?;
    twins.rolled_out("deployment \"web\" successfully rolled out").await?;

    // What is shown afterwards.
    twins.settled().await?;
    twins.same("get deployment web").await?;
    twins.same("get deployment web -o jsonpath={.status.replicas}/{.status.updatedReplicas}/{.status.readyReplicas}").await?;
    twins
        .same("get replicaset --sort-by=.metadata.annotations.deployment\\.kubernetes\\.io/revision")
        .await?;
    twins.described().await?;
    let shadow = "jsonpath={.metadata.annotations.koinon\\.dev/shadow}";
    let marked = twins.space.kubectl(&["get", WEB, "-o", shadow]).await?;
    ensure!(marked.is_empty(), "undo brought the mark of a shadow along: {marked}");
    twins.alone.leave().await?;
    twins.space.leave().await
}

impl Twins {
    /// Tells both the same: they answer the same, and end the same.
    async fn same(&self, command: &str) -> anyhow::Result<()> {
        let arguments: Vec<&str> = command.split(' ').collect();
        let there = self.space.kubectl_said(&arguments).await?;
        let here = self.alone.kubectl_said(&arguments).await?;
        let same = there.code == here.code && plain(&there) == plain(&here);
        ensure!(
            same,
            "kubectl {command}\n-- federation ends with {:?}:\n{}-- one cluster ends with {:?}:\n{}",
            there.code,
            plain(&there),
            here.code,
            plain(&here)
        );
        Ok(())
    }

    /// Waits with kubectl until both have rolled out; the last line says so.
    async fn rolled_out(&self, last: &str) -> anyhow::Result<()> {
        for said in [self.status(&self.space.room).await?, self.status(&self.alone).await?] {
            ensure!(said.code == Some(0), "{}{}", said.out, said.err);
            ensure!(said.out.trim_end().lines().last() == Some(last), "{}", said.out);
        }
        self.settled().await
    }

    async fn status(&self, room: &Room) -> anyhow::Result<Said> {
        room.kubectl_said(&["rollout", "status", WEB, "--timeout=150s"]).await
    }

    /// Waits until both are complete and say so.
    async fn settled(&self) -> anyhow::Result<()> {
        for room in [&self.space.room, &self.alone] {
            deployment_is(room, "web", "is complete", is_complete).await?;
        }
        self.until_both("they say that they are complete", |found| reason(found) == "NewReplicaSetAvailable")
            .await
    }

    async fn until_both(&self, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        for room in [&self.space.room, &self.alone] {
            let holds = |found: &k8s_openapi::api::apps::v1::Deployment| {
                serde_json::to_value(found).is_ok_and(|found| holds(&found))
            };
            deployment_is(room, "web", what, holds).await?;
        }
        Ok(())
    }

    /// `kubectl describe` says the same of both, and of the federation more.
    async fn described(&self) -> anyhow::Result<()> {
        let there = self.space.kubectl(&["describe", WEB]).await?;
        let here = self.alone.kubectl(&["describe", WEB]).await?;
        for field in
            ["Replicas:", "StrategyType:", "RollingUpdateStrategy:", "  Available ", "  Progressing "]
        {
            let line = |text: &str| {
                let found = text.lines().find(|line| line.starts_with(field)).unwrap_or_default();
                found.split_whitespace().collect::<Vec<_>>().join(" ")
            };
            ensure!(line(&there) == line(&here), "{field}\n{there}\n{here}");
        }
        ensure!(there.contains("cluster c is being updated") && there.contains("RolledOut"), "{there}");
        Ok(())
    }
}

fn reason(found: &Value) -> &str {
    let conditions = found["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.find(|one| one["type"] == "Progressing").and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

/// What was printed, without what differs between any two clusters: names with hashes, ages, and how wide columns are.
fn plain(said: &Said) -> String {
    let word = |word: &str| match word {
        hashed if hashed.starts_with("web-") => "web-HASH".to_owned(),
        label if label.contains("pod-template-hash=") => "pod-template-hash=HASH".to_owned(),
        age if is_age(age) => "AGE".to_owned(),
        other => other.to_owned(),
    };
    let text = format!("{}{}", said.out, said.err);
    let lines = text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
    lines.map(|line| line + "\n").collect()
}

fn is_age(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm']);
    digits.len() < word.len()
        && !digits.is_empty()
        && digits.chars().all(|one| one.is_ascii_digit() || one == 'm')
}
