//! Short words for long values.

use std::time::Duration;

use jiff::Timestamp;
use koinon_api::rollout::{ClusterOrder, MaxConcurrent};
use koinon_workloads::planner::{Limit, Parts, Reason, Share};
use koinon_workloads::rollout::{
    Amount, Counting, Desired, Local, Member, Plan, Reach, Shadow, Strategy, View, check, plan,
};

pub(crate) const DEADLINE: u64 = 600;

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
}

pub(crate) fn desired(template: &str, replicas: i64) -> Desired {
    Desired {
        name: "web".into(),
        generation: 7,
        template: template.into(),
        replicas,
        strategy: Strategy::RollingUpdate {
            max_unavailable: Amount::Percent(25),
            max_surge: Amount::Percent(25),
        },
        paused: false,
        progress_deadline: Some(Duration::from_secs(DEADLINE)),
        revision_history_limit: 10,
        order: ClusterOrder::default(),
        concurrent: MaxConcurrent::default(),
        counting: Counting::Federation,
    }
}

pub(crate) fn share(replicas: i64) -> Share {
    Share { replicas, overflow: 0, reason: Reason::Parts(Parts { share: replicas, ..Parts::default() }) }
}

/// A share that would be larger if the cluster had room.
pub(crate) fn bounded(replicas: i64, overflow: i64) -> Share {
    let parts = Parts { share: replicas, limit: Some(Limit::Capacity(replicas)), ..Parts::default() };
    Share { replicas, overflow, reason: Reason::Parts(parts) }
}

/// A Deployment that rests with so many replicas.
pub(crate) fn resting(template: &str, replicas: i64) -> Local {
    Local {
        template: Some(template.into()),
        generation: 3,
        observed_generation: 3,
        spec_replicas: replicas,
        replicas,
        updated: replicas,
        ready: replicas,
        available: replicas,
        ..Local::default()
    }
}

/// A Deployment in the middle of replacing its pods.
pub(crate) fn replacing(template: &str, replicas: i64, updated: i64) -> Local {
    Local { updated, ..resting(template, replicas) }
}

pub(crate) fn online(share: Share, local: Local) -> Member {
    Member { reach: Reach::Online, share: Some(share), local: Some(local), refused: None }
}

/// Members a, b, c and so on, and a shadow for each template.
pub(crate) fn view(shadows: &[&str], members: impl IntoIterator<Item = Member>) -> View {
    let names = ["a", "b", "c", "d", "e"].into_iter().map(str::to_owned);
    View {
        members: names.zip(members).collect(),
        shadows: shadows
            .iter()
            .zip(1..)
            .map(|(template, revision)| Shadow {
                name: format!("web-{template}"),
                template: (*template).into(),
                revision,
            })
            .collect(),
        ..View::default()
    }
}

/// All members rest with `each` replicas of the template.
pub(crate) fn all_on(template: &str, each: i64, members: usize) -> View {
    view(&[template], (0..members).map(|_| online(share(each), resting(template, each))))
}

/// Decides, and has the linter look at it.
#[track_caller]
pub(crate) fn decide(second: u64, desired: &Desired, view: &View) -> Plan {
    let plan = plan(at(second), desired, view);
    assert_eq!(check(desired, view, &plan), [], "{plan:#?}");
    plan
}

/// Who starts with this plan.
pub(crate) fn started(plan: &Plan) -> Vec<&str> {
    plan.started.iter().map(String::as_str).collect()
}

/// What the condition says, as `Reason: message`.
pub(crate) fn condition(plan: &Plan, kind: &str) -> String {
    let condition = plan.status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
    format!("{} {}: {}", condition.status, condition.reason, condition.message)
}

/// A member that has nothing yet.
pub(crate) fn newcomer(share: Share) -> Member {
    Member { reach: Reach::Online, share: Some(share), local: None, refused: None }
}
