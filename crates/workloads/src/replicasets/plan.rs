//! What is to be done about one federated ReplicaSet, from what is seen of it and of the members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{manifest, status};
use crate::content;
use crate::intent::{Intent, intent};
use crate::members::SetRecord;
use crate::metrics::Counts;
use crate::placing::{self, Placed, Surge, Wait, Wanted, place};
use crate::rollout::{Counting, Reach};
use crate::story::{self, Told};
use crate::writing::{Count, Has, Why};

/// One member, as seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) reach: Reach,
    pub(super) record: Option<Arc<SetRecord>>,
    pub(super) waiting: Vec<Wait>,
    /// How its object, apart from the count, compares with what we say.
    pub(super) has: Has,
    /// It took its object from us, or what was there before.
    pub(super) took: bool,
    /// The count that it last took from us.
    pub(super) told: Option<i64>,
    pub(super) refused: Option<Refused>,
    /// A count that is on its way to it.
    pub(super) on_its_way: Option<Option<i64>>,
}

/// What a member refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) times: u32,
    pub(super) message: String,
    /// When it may be asked again.
    pub(super) pause: Option<Duration>,
}

/// How things are done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) surge: Surge,
    pub(super) patience: Duration,
}

/// What every member should have, before it is known who has what.
pub(super) struct Wish {
    pub(super) manifest: Value,
    pub(super) content: u64,
}

impl Wish {
    pub(super) fn of(set: &ReplicaSet) -> Wish {
        let manifest = manifest::manifest(set);
        Wish { content: content::of_manifest(&manifest), manifest }
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) writes: BTreeMap<String, Write>,
    /// How many there should be in all.
    replicas: i64,
    pub(super) status: ReplicaSetStatus,
    pub(super) placement: Placement,
    pub(super) told: Vec<Told>,
    pub(super) look_again: Option<Duration>,
}

impl Plan {
    /// The replicas by state, for whoever measures.
    pub(super) fn counts(&self) -> Counts {
        let count = |count: Option<i32>| i64::from(count.unwrap_or(0));
        let clusters = || self.placement.clusters.values();
        Counts {
            wanted: self.replicas,
            placed: clusters().map(|one| one.desired).sum(),
            ready: count(self.status.ready_replicas),
            available: count(self.status.available_replicas),
            stuck: clusters().map(|one| one.unschedulable).sum(),
        }
    }
}

/// One member's object is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) count: Count,
    pub(super) why: Why,
}

/// `decided` is what was decided a moment ago, and is not yet written down.
pub(super) fn plan(
    now: Timestamp,
    rules: Rules,
    set: &ReplicaSet,
    members: &BTreeMap<String, Seen>,
    decided: Option<&Placement>,
) -> Plan {
    let said = set.annotations().get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
    let before = decided.or(said.as_ref());
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, i64::from);
    let intent = intent(set.annotations(), workloads::REPLICA_SET_PREFERENCES, replicas, before);
    let key = format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
    let wanted = Wanted {
        key: &key,
        generation: set.metadata.generation.unwrap_or(0),
        replicas: intent.replicas,
        preferences: &intent.preferences,
        counting: intent.counting,
        surge: rules.surge,
        cap: None,
        patience: rules.patience,
    };
    let seen = members.iter().map(|(name, seen)| (name.clone(), seen.member())).collect();
    let placed = place(now, &wanted, &seen, before);
    let writes = writes(&intent, &placed, members, before);
    let mut placement = status::placement(&wanted, &placed, members, before);
    intent.keep_offline(&mut placement, before);
    let status = status::status(now, set, &intent, &placed, members, before);
    let in_all = match intent.counting {
        Counting::Federation => replicas,
        Counting::Member => placed.clusters.values().map(|spot| spot.share.replicas).sum(),
    };
    let told =
        if intent.fault.is_none() { story::tell(said.as_ref(), &placement, in_all) } else { Vec::new() };
    let pauses = members.values().filter_map(|seen| seen.refused.as_ref()?.pause);
    let look_again = placed.look_again.into_iter().chain(pauses).min();
    Plan { writes, replicas, status, placement, told, look_again }
}

impl Seen {
    fn member(&self) -> placing::Member {
        let mut local = self.record.as_deref().map(SetRecord::local);
        // Nobody knows whether it has arrived: the larger count bounds the surge, and nothing there is relied on.
        if let (Some(Some(count)), Some(local)) = (self.on_its_way, &mut local) {
            local.spec_replicas = local.spec_replicas.max(count);
        }
        let on_its_way = self.on_its_way.is_some() && self.reach == Reach::Online;
        placing::Member {
            reach: if on_its_way { Reach::Unsure } else { self.reach },
            local,
            waiting: self.waiting.clone(),
            refusals: self.refused.as_ref().map_or(0, |refused| refused.times),
            room: None,
            replaces: None,
        }
    }
}

/// The members whose object is another than it should be.
fn writes(
    intent: &Intent,
    placed: &Placed,
    members: &BTreeMap<String, Seen>,
    before: Option<&Placement>,
) -> BTreeMap<String, Write> {
    let write = |name: &String, now: i64| {
        let seen = members.get(name)?;
        let refused = seen.refused.as_ref().is_some_and(|refused| refused.pause.is_some());
        if seen.reach != Reach::Online || seen.on_its_way.is_some() || refused {
            return None;
        }
        let Some(record) = &seen.record else {
            let why = Why::missing(before.and_then(|before| before.clusters.get(name)), seen.took);
            return (now > 0).then_some(Write { count: Count::Of(now), why });
        };
        let counts = intent.counting == Counting::Federation;
        let miscounts = counts && record.spec_replicas != now;
        let told = seen.told.is_some_and(|told| told != record.spec_replicas);
        let why = match seen.has {
            Has::Drifted => Why::Drifted,
            Has::Other => Why::Changed,
            Has::This if miscounts && told => Why::Drifted,
            Has::This if miscounts => Why::Changed,
            Has::This => return None,
        };
        Some(Write { count: if counts { Count::Of(now) } else { Count::AsItIs }, why })
    };
    placed.clusters.iter().filter_map(|(name, spot)| Some((name.clone(), write(name, spot.now)?))).collect()
}
