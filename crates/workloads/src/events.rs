//! Events about moved replicas: what a user would ask about a change of places.

use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};
use koinon_control::events::Weight;

use crate::messages::several;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) weight: Weight,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What changed from one placement of so many replicas to the next.
pub(crate) fn tell(before: Option<&Placement>, after: &Placement, replicas: i64) -> Vec<Told> {
    let mut told = Vec::new();
    let mut say = |weight, reason, message| told.push(Told { weight, reason, message });
    let was = |name: &str| before.and_then(|before| before.clusters.get(name));
    for (name, now) in &after.clusters {
        let offline = |one: &ClusterPlacement| one.state == ClusterState::Offline;
        match was(name) {
            Some(last) if !offline(last) && offline(now) => {
                let what = if now.desired > 0 { "wait for it" } else { "go elsewhere" };
                let message = format!("cluster {name} is offline: its {} replicas {what}", last.desired);
                say(Weight::Warning, "ClusterOffline", message);
            }
            Some(last) if offline(last) && !offline(now) => {
                say(
                    Weight::Normal,
                    "ClusterBack",
                    format!("cluster {name} is back, with {} replicas", now.replicas),
                );
            }
            _ => {}
        }
    }
    let layout = layout(after);
    let changed =
        after.clusters.iter().any(|(name, now)| was(name).map_or(0, |last| last.desired) != now.desired)
            || before
                .is_some_and(|before| before.clusters.keys().any(|name| !after.clusters.contains_key(name)));
    let asked_for = before.is_none_or(|before| before.observed_generation != after.observed_generation);
    if changed && asked_for {
        say(Weight::Normal, "Placed", layout);
    } else if changed {
        let reasons: Vec<String> = after
            .clusters
            .iter()
            .filter(|(name, now)| {
                was(name).is_some_and(|last| last.desired > now.desired && now.overflow > 0)
            })
            .map(|(name, now)| format!("{name}: {}", now.why))
            .collect();
        let because =
            if reasons.is_empty() { String::new() } else { format!(" ({})", several(reasons, "; ")) };
        say(Weight::Normal, "Moved", format!("{layout}{because}"));
    }
    let placed = |placement: &Placement| placement.clusters.values().map(|one| one.desired).sum::<i64>();
    let missing = replicas - placed(after);
    let generation = |placement: &Placement| placement.observed_generation;
    let same = before
        .is_some_and(|before| placed(before) == placed(after) && generation(before) == generation(after));
    if missing > 0 && !same {
        say(
            Weight::Warning,
            "Unplaced",
            format!(
                "{missing} of {replicas} replicas found no cluster: {layout_or}",
                layout_or = limits(after)
            ),
        );
    }
    told
}

/// The clusters whose object is now left to somebody else, and was not by the last placement that users saw.
pub(crate) fn not_taken_over<'a>(
    before: Option<&'a Placement>,
    after: &'a Placement,
) -> impl Iterator<Item = Told> + 'a {
    let foreign = |one: &ClusterPlacement| one.state == ClusterState::Foreign;
    let was = move |name: &str| before.and_then(|before| before.clusters.get(name)).is_some_and(foreign);
    let now = after.clusters.iter().filter(move |(name, one)| foreign(one) && !was(name));
    now.map(|(name, one)| Told {
        weight: Weight::Warning,
        reason: "NotTakenOver",
        message: format!("cluster {name}: {}", one.why),
    })
}

/// `a=16 b=17 c=17`, without those that have and get nothing.
pub(crate) fn layout(placement: &Placement) -> String {
    let each = placement.clusters.iter().filter(|(_, one)| one.desired > 0 || one.replicas > 0);
    several(each.map(|(name, one)| format!("{name}={}", one.desired)), " ")
}

fn limits(placement: &Placement) -> String {
    let each: Vec<String> =
        placement.clusters.iter().map(|(name, one)| format!("{name}: {}", one.why)).collect();
    if each.is_empty() { "there is no cluster in the federation".to_owned() } else { several(each, "; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(generation: i64, clusters: &[(&str, i64, i64, ClusterState)]) -> Placement {
        let clusters = clusters.iter().map(|(name, desired, overflow, state)| {
            let one = ClusterPlacement {
                desired: *desired,
                overflow: *overflow,
                state: *state,
                why: format!("it has room for {desired}"),
                ..ClusterPlacement::default()
            };
            ((*name).to_owned(), one)
        });
        Placement { observed_generation: generation, clusters: clusters.collect() }
    }

    fn check(before: Option<&Placement>, after: &Placement, replicas: i64, expected: &[&str]) {
        let told: Vec<String> = tell(before, after, replicas)
            .into_iter()
            .map(|told| format!("{} {}", told.reason, told.message))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn every_change_is_told_once() {
        use ClusterState::{Offline, Ready};
        let first = placement(1, &[("a", 5, 0, Ready), ("b", 5, 0, Ready)]);
        check(None, &first, 10, &["Placed a=5 b=5"]);
        check(Some(&first), &first, 10, &[]);
        let full = placement(1, &[("a", 8, 0, Ready), ("b", 2, 3, Ready)]);
        check(Some(&first), &full, 10, &["Moved a=8 b=2 (b: it has room for 2)"]);
        let lost = placement(1, &[("a", 10, 0, Ready), ("b", 0, 0, Offline)]);
        check(
            Some(&first),
            &lost,
            10,
            &["ClusterOffline cluster b is offline: its 5 replicas go elsewhere", "Moved a=10"],
        );
        check(Some(&lost), &first, 10, &["ClusterBack cluster b is back, with 0 replicas", "Moved a=5 b=5"]);
        let short = placement(2, &[("a", 2, 0, Ready)]);
        check(
            Some(&placement(1, &[("a", 2, 0, Ready)])),
            &short,
            10,
            &["Unplaced 8 of 10 replicas found no cluster: a: it has room for 2"],
        );
        check(Some(&short), &short, 10, &[]);
    }
}
