//! What is to be done about one federated ReplicaSet, from what is seen of it and of the members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use koinon_api::failover::Waits;
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{manifest, status};
use crate::content;
use crate::events::{self, Told};
use crate::intent::{Intent, intent};
use crate::members::{SetRecord, waits_for};
use crate::metrics::Counts;
use crate::placing::{self, Placed, Surge, Wait, Wanted, place};
use crate::rollout::{Counting, Reach};
use crate::takeover::{self, Counts as Runs, Found, Policy};
use crate::writing::{Count, Has, Why};

/// One member, as seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) reach: Reach,
    pub(super) record: Option<Arc<SetRecord>>,
    /// What somebody else made there, and becomes ours.
    pub(super) foreign: Option<Arc<Found<SetRecord>>>,
    /// An object of somebody else that is not taken over.
    pub(super) withheld: Option<Arc<Found<SetRecord>>>,
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
    /// Whether its watches have told nothing of it since the role began.
    pub(super) unheard: bool,
    /// Why its pods do not run, where that was looked at.
    pub(super) startup: Option<String>,
    /// For how long its replicas wait for it, if it is offline and they do.
    pub(super) waits: Option<Waits>,
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
    /// What each cluster says that cannot create its pods.
    pub(super) uncreated: BTreeMap<String, String>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) count: Count,
    pub(super) why: Why,
}

/// `decided` is what was decided a moment ago, and is not yet written down.
pub(super) fn plan(
    now: Timestamp,
    rules: Rules,
    set: &ReplicaSet,
    mut members: BTreeMap<String, Seen>,
    decided: Option<&Placement>,
) -> Plan {
    let withheld: Vec<(String, Seen)> = members.extract_if(.., |_, seen| seen.withheld.is_some()).collect();
    let members = &members;
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
    let policy = Policy::of(set.annotations());
    placement.clusters.extend(withheld.into_iter().filter_map(|(name, seen)| {
        let found = seen.withheld?;
        let runs = Runs { replicas: found.record.replicas, available: found.record.available };
        Some((name, takeover::withheld("ReplicaSet", runs, &found.differs, policy)))
    }));
    let status = status::status(now, set, &intent, &placed, members, before);
    let in_all = match intent.counting {
        Counting::Federation => replicas,
        Counting::Member => placed.clusters.values().map(|spot| spot.share.replicas).sum(),
    };
    let mut told =
        if intent.fault.is_none() { events::tell(said.as_ref(), &placement, in_all) } else { Vec::new() };
    told.extend(events::not_taken_over(said.as_ref(), &placement));
    let pauses = members.values().filter_map(|seen| seen.refused.as_ref()?.pause);
    let waits = members.values().filter_map(|seen| waits_for(seen.waits));
    let look_again = placed.look_again.into_iter().chain(pauses).chain(waits).min();
    let failing = |(name, seen): (&String, &Seen)| {
        let failing = seen.record.as_ref()?.failing.as_ref()?;
        Some((name.clone(), failing.message.to_string()))
    };
    let uncreated = members.iter().filter_map(failing).collect();
    Plan { writes, replicas, status, placement, told, uncreated, look_again }
}

impl Seen {
    /// Whether nothing was heard of it since the role began.
    pub(super) fn is_unheard(&self) -> bool {
        self.unheard && self.record.is_none() && self.reach == Reach::Unsure
    }

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
            waited_for: self.waits.is_some(),
            unheard: self.is_unheard(),
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
        let count = if counts { Count::Of(now) } else { Count::AsItIs };
        if let Some(foreign) = &seen.foreign {
            return Some(Write { count, why: foreign.take_over() });
        }
        let miscounts = counts && record.spec_replicas != now;
        let told = seen.told.is_some_and(|told| told != record.spec_replicas);
        let why = match seen.has {
            Has::Drifted => Why::Drifted,
            Has::Other => Why::Changed,
            Has::This if miscounts && told => Why::Drifted,
            Has::This if miscounts => Why::Changed,
            Has::This => return None,
        };
        Some(Write { count, why })
    };
    placed.clusters.iter().filter_map(|(name, spot)| Some((name.clone(), write(name, spot.now)?))).collect()
}
