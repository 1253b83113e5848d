//! The participants: who takes part and whose ledger counts, worked out once for all led members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koinon_fleet::{ClusterId, Knowledge};
use parking_lot::Mutex;

use super::accept::Accept;
use super::caches::PolicyCaches;
use super::ledger::Roster;
use super::plan::roster;

/// What is known of all members at one moment.
#[derive(Default)]
pub(super) struct Participants {
    /// All members that take part in policies.
    pub(super) taking_part: BTreeSet<ClusterId>,
    /// Those of which that is not known yet: they are neither here nor gone.
    pub(super) unsure: BTreeSet<ClusterId>,
    /// What each known ledger says about members.
    pub(super) rosters: BTreeMap<ClusterId, Roster>,
    /// Those whose ledger is known and counts.
    pub(super) heard: BTreeSet<ClusterId>,
    /// Those whose ledger is known and does not count: they left, and are put right before it does again.
    pub(super) returning: BTreeSet<ClusterId>,
}

/// The last count of participants, for as long as nothing changed that it depends on.
#[derive(Default)]
pub(super) struct Counted {
    changes: AtomicU64,
    last: Mutex<Option<(Moment, Arc<Participants>)>>,
}

/// Of what that count depends on: how often we heard that it changed, and how often the fleet did.
type Moment = (u64, u64);

impl Counted {
    /// Something changed. Said before anybody is told of the change itself, or they would count as before.
    pub(super) fn outdate(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl PolicyCaches {
    pub(super) fn participants(&self) -> Arc<Participants> {
        let fleet = *self.fleet.changes().borrow();
        // Read before what is counted: what changes meanwhile outdates the result.
        let moment = (self.counted.changes.load(Ordering::Acquire), fleet);
        if let Some((counted_at, participants)) = &*self.counted.last.lock()
            && *counted_at == moment
        {
            return participants.clone();
        }
        let participants = Arc::new(self.count());
        *self.counted.last.lock() = Some((moment, participants.clone()));
        participants
    }

    fn count(&self) -> Participants {
        let rosters = self.rosters();
        let (mut taking_part, mut unsure) = (BTreeSet::new(), BTreeSet::new());
        for member in self.fleet.members() {
            let name = member.name().clone();
            match self.accept(name.as_str()) {
                None => drop(unsure.insert(name)),
                Some(Accept::None) => {}
                Some(Accept::All | Accept::From(_)) => drop(taking_part.insert(name)),
            }
        }
        let known = self.fleet.members().into_iter().map(|member| member.name().clone()).filter(|member| {
            !unsure.contains(member) && self.ledgers.knowledge(member.as_str()) != Knowledge::Unknown
        });
        let (heard, returning) = known.partition(|member| {
            roster::counts(member, self.federation(member.as_str()).as_deref(), &rosters)
        });
        Participants { taking_part, unsure, heard, returning, rosters }
    }
}
