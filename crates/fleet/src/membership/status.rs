//! What a Federation says of its members. No IO.

use std::collections::BTreeMap;

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_api::membership::{ClusterId, Federation, FederationStatus, MemberStatus, Phase};

use super::formation::{Formation, Part};
use crate::fleet::State;

/// Who leads a member, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    pub is_me: bool,
    pub leader: Option<String>,
    /// Why nobody is known to lead it, if its lease cannot be read or written.
    pub error: Option<String>,
}

/// The status that the Federation should have. A member that this process has not made up its mind about yet keeps
/// what was said of it before, also where a first probe failed: a restart is no news.
pub fn status(
    federation: &Federation,
    formation: &Formation,
    states: &BTreeMap<ClusterId, State>,
    leads: &BTreeMap<ClusterId, Lead>,
) -> FederationStatus {
    let before = federation.status.clone().unwrap_or_default();
    let members = formation.members.iter().map(|(id, entry)| {
        let known = before.member_status.iter().find(|one| one.cluster_id == id.as_str());
        let lead = leads.get(id.as_str()).cloned().unwrap_or_default();
        let now = states.get(id.as_str());
        let known = known.filter(|known| is_still(known, now));
        let said = match (known, now) {
            (Some(known), None) => known.clone(),
            (Some(known), Some(now)) if now.phase == Phase::Joining && known.status != Phase::Joining => {
                known.clone()
            }
            (known, Some(now)) => member(id, known, now),
            (None, None) => joining(id),
        };
        // What is wrong with the member itself explains the rest.
        let unled = || lead.error.map(|why| format!("nobody leads it: {why}"));
        let error = said.error.clone().or_else(unled);
        let warnings = entry.warnings.clone();
        MemberStatus { is_leader: lead.is_me, leader: lead.leader, error, warnings, ..said }
    });
    let mut member_status: Vec<_> = members.collect();
    member_status.sort_by(|one, other| one.cluster_id.cmp(&other.cluster_id));
    let cluster_id = match &formation.part {
        Part::Child(id) | Part::Supervisor(id) => Some(id.to_string()),
        Part::Federation | Part::Alone(_) => before.cluster_id,
    };
    let reachable = member_status.iter().filter(|one| one.status == Phase::Reachable).count();
    FederationStatus {
        observed_generation: federation.metadata.generation,
        ignored: None,
        cluster_id,
        reachable: Some(format!("{reachable}/{}", member_status.len())),
        problems: formation.problems.clone(),
        member_status,
    }
}

/// Whether it is still the cluster that something was said of: another one under the same name has no past.
fn is_still(known: &MemberStatus, now: Option<&State>) -> bool {
    let now = now.and_then(|now| now.uid.as_ref());
    known.uid.as_ref().zip(now).is_none_or(|(known, now)| known == now)
}

/// Something about a member that a user wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub is_bad: bool,
    pub reason: &'static str,
    pub message: String,
}

/// What changed between two statuses, for events on the Federation.
pub fn news(before: Option<&FederationStatus>, after: &FederationStatus) -> Vec<News> {
    let phase_of = |id: &str| {
        let before = before?.member_status.iter().find(|one| one.cluster_id == id)?;
        Some(before.status)
    };
    let mut news = Vec::new();
    for member in &after.member_status {
        let id = &member.cluster_id;
        let (is_bad, reason, message) = match (phase_of(id).unwrap_or(Phase::Joining), member.status) {
            (before, now) if before == now => continue,
            (Phase::Joining, Phase::Reachable) => (false, "MemberJoined", format!("cluster {id} has joined")),
            (_, Phase::Reachable) => (false, "MemberReachable", format!("cluster {id} is reachable again")),
            (_, Phase::Unreachable) => {
                let why = member.error.as_deref().unwrap_or("it does not answer");
                (true, "MemberUnreachable", format!("cluster {id} is unreachable: {why}"))
            }
            (_, Phase::Joining) => continue,
        };
        news.push(News { is_bad, reason, message });
    }
    news
}

/// The status of a Federation that does not count.
pub fn ignored(federation: &Federation, why: &str) -> FederationStatus {
    FederationStatus {
        observed_generation: federation.metadata.generation,
        ignored: Some(why.to_owned()),
        ..FederationStatus::default()
    }
}

fn member(id: &ClusterId, known: Option<&MemberStatus>, now: &State) -> MemberStatus {
    // Since when it is so may be longer ago than this process knows.
    let same = known.filter(|known| known.status == now.phase);
    let since = same.and_then(|known| known.since.clone());
    // Told once for each time that it is lost: a status that follows every probe would be written without end.
    let told = same.and_then(|known| known.last_seen.clone());
    let seen = told.or_else(|| now.last_seen.map(seconds)).filter(|_| now.phase == Phase::Unreachable);
    MemberStatus {
        cluster_id: id.to_string(),
        status: now.phase,
        error: now.why.clone().filter(|_| now.phase != Phase::Reachable),
        is_leader: false,
        leader: None,
        since: since.or_else(|| Some(seconds(now.since))),
        last_seen: seen,
        uid: now.uid.clone().or_else(|| known.and_then(|known| known.uid.clone())),
        version: now.version.clone().or_else(|| known.and_then(|known| known.version.clone())),
        server: now.server.clone().or_else(|| known.and_then(|known| known.server.clone())),
        warnings: Vec::new(),
    }
}

fn joining(id: &ClusterId) -> MemberStatus {
    MemberStatus {
        cluster_id: id.to_string(),
        status: Phase::Joining,
        error: None,
        is_leader: false,
        leader: None,
        since: None,
        last_seen: None,
        uid: None,
        version: None,
        server: None,
        warnings: Vec::new(),
    }
}

/// An API server keeps whole seconds, so that more would look like a change every time.
pub(crate) fn seconds(time: Timestamp) -> Time {
    Time(time.round(Unit::Second).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::formation::{Entry, Way};

    fn setting() -> (Federation, Formation) {
        let id = |name| ClusterId::new(name).unwrap();
        let entry = || Entry { way: Way::Local, uid: None, warnings: Vec::new() };
        let formation = Formation {
            part: Part::Supervisor(id("a")),
            federation: None,
            members: [(id("a"), entry()), (id("b"), entry())].into(),
            ignored: Vec::new(),
            problems: Vec::new(),
        };
        (Federation::default(), formation)
    }

    fn state(phase: Phase, second: i64, why: Option<&str>) -> State {
        State {
            phase,
            since: Timestamp::from_millisecond(second * 1000 + 300).unwrap(),
            why: why.map(Into::into),
            version: Some("v1".into()),
            uid: Some("u".into()),
            claims: None,
            last_seen: None,
            server: None,
        }
    }

    fn render(status: &FederationStatus) -> String {
        let each = status.member_status.iter().map(|one| {
            let since = one.since.as_ref().map_or(0, |since| since.0.as_second());
            format!(
                "{} {} {since} {}",
                one.cluster_id,
                one.status.as_str(),
                one.error.as_deref().unwrap_or("-")
            )
        });
        each.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_restart_is_no_news() {
        let (mut federation, formation) = setting();
        let id = |name| ClusterId::new(name).unwrap();
        let mut states: BTreeMap<_, _> = [
            (id("a"), state(Phase::Reachable, 10, None)),
            (id("b"), state(Phase::Unreachable, 20, Some("gone"))),
        ]
        .into();
        let first = status(&federation, &formation, &states, &BTreeMap::new());
        assert_eq!(render(&first), "a Reachable 10 -, b Unreachable 20 gone");
        assert_eq!((first.cluster_id.as_deref(), first.reachable.as_deref()), (Some("a"), Some("1/2")));
        federation.status = Some(first.clone());
        // Nothing is known yet; then a first probe fails; then they are as they were.
        for (a, b) in [
            (state(Phase::Joining, 30, None), state(Phase::Joining, 30, None)),
            (state(Phase::Joining, 30, Some("no answer")), state(Phase::Joining, 30, Some("no answer"))),
            (state(Phase::Reachable, 31, None), state(Phase::Unreachable, 61, Some("gone"))),
        ] {
            states = [(id("a"), a), (id("b"), b)].into();
            assert_eq!(status(&federation, &formation, &states, &BTreeMap::new()), first);
        }
        assert_eq!(status(&federation, &formation, &BTreeMap::new(), &BTreeMap::new()), first);
    }

    #[test]
    fn when_a_member_was_last_seen_is_told_once_for_each_time_that_it_is_lost() {
        let (mut federation, formation) = setting();
        let mut after = |phase, seen: i64| {
            let last_seen = Some(Timestamp::from_second(seen).unwrap());
            let state = State { last_seen, ..state(phase, seen + 30, None) };
            let states = [(ClusterId::new("a").unwrap(), state)].into();
            let said = status(&federation, &formation, &states, &BTreeMap::new());
            federation.status = Some(said.clone());
            said.member_status[0].last_seen.as_ref().map(|seen| seen.0.as_second())
        };
        assert_eq!(after(Phase::Reachable, 10), None, "it is seen all the time");
        assert_eq!(after(Phase::Unreachable, 20), Some(20));
        // It answers now and then, but not for long enough.
        assert_eq!(after(Phase::Unreachable, 60), Some(20));
        assert_eq!(after(Phase::Reachable, 90), None);
        assert_eq!(after(Phase::Unreachable, 100), Some(100));
    }

    #[test]
    fn why_nobody_leads_a_member_is_told_until_somebody_does() {
        let (mut federation, formation) = setting();
        let id = || ClusterId::new("a").unwrap();
        let states = [(id(), state(Phase::Reachable, 10, None))].into();
        let lead = Lead { error: Some("leases are forbidden".into()), ..Lead::default() };
        let unled = status(&federation, &formation, &states, &[(id(), lead.clone())].into());
        assert_eq!(render(&unled), "a Reachable 10 nobody leads it: leases are forbidden, b Joining 0 -");
        federation.status = Some(unled);
        let gone = [(id(), state(Phase::Unreachable, 40, Some("no answer")))].into();
        let after = status(&federation, &formation, &gone, &[(id(), lead)].into());
        assert_eq!(render(&after), "a Unreachable 40 no answer, b Joining 0 -");
        let after = status(&federation, &formation, &states, &BTreeMap::new());
        assert_eq!(render(&after), "a Reachable 10 -, b Joining 0 -");
    }

    #[test]
    fn another_cluster_under_a_name_has_no_past() {
        let (mut federation, formation) = setting();
        let id = |name| ClusterId::new(name).unwrap();
        let before = [(id("a"), state(Phase::Reachable, 10, None))].into();
        federation.status = Some(status(&federation, &formation, &before, &BTreeMap::new()));
        let other = State { uid: Some("other".into()), ..state(Phase::Joining, 50, None) };
        let after = status(&federation, &formation, &[(id("a"), other)].into(), &BTreeMap::new());
        assert_eq!(render(&after), "a Joining 50 -, b Joining 0 -");
        assert_eq!(after.member_status[0].uid.as_deref(), Some("other"));
    }

    #[test]
    fn a_change_of_phase_has_its_own_time_and_blinking_says_nothing() {
        let (mut federation, formation) = setting();
        let id = |name| ClusterId::new(name).unwrap();
        let reachable = [(id("a"), state(Phase::Reachable, 10, None))].into();
        federation.status = Some(status(&federation, &formation, &reachable, &BTreeMap::new()));
        let blinking = [(id("a"), state(Phase::Reachable, 10, Some("no answer")))].into();
        let after = status(&federation, &formation, &blinking, &BTreeMap::new());
        assert_eq!(render(&after), "a Reachable 10 -, b Joining 0 -");
        let gone = [(id("a"), state(Phase::Unreachable, 40, Some("no answer")))].into();
        let lead = Lead { leader: Some("b".into()), ..Lead::default() };
        let after = status(&federation, &formation, &gone, &[(id("a"), lead)].into());
        assert_eq!(render(&after), "a Unreachable 40 no answer, b Joining 0 -");
        assert_eq!(after.member_status[0].leader.as_deref(), Some("b"));
        let told = |before: Option<&FederationStatus>, after: &FederationStatus| {
            news(before, after).into_iter().map(|one| one.message).collect::<Vec<_>>().join(", ")
        };
        let before = federation.status.as_ref();
        assert_eq!(told(None, before.unwrap()), "cluster a has joined");
        assert_eq!(told(before, &after), "cluster a is unreachable: no answer");
        assert_eq!(told(Some(&after), before.unwrap()), "cluster a is reachable again");
        assert_eq!(told(before, before.unwrap()), "");
    }
}
