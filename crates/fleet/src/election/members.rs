//! One campaign for each member: supervisors contend, and the lock is in the member itself.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use koinon_api::membership::{ClusterId, Federation, NETWORK_NAMESPACE};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::campaign::{Campaign, Fence, Leadership, cluster_of, identity};
use super::lease::Timing;
use crate::fleet::{Fleet, Member};
use crate::index::{Index, Knowledge, Record};
use crate::membership::formation::{Formation, Part, Rosters};
use crate::membership::status::Lead;
use crate::task::Task;
use crate::watch::Selection;

/// That a cluster takes part: it has a Federation of its own, with these members.
#[derive(Debug, PartialEq)]
struct TakesPart(BTreeSet<String>);

impl Record for TakesPart {
    type Object = Federation;

    fn fold(federation: &Federation) -> Option<TakesPart> {
        let named = || federation.spec.members.iter().map(|member| member.cluster_id.value.clone()).collect();
        federation.metadata.deletion_timestamp.is_none().then(|| TakesPart(named()))
    }
}

/// The elections of all members, from one process.
pub struct Elections {
    fleet: Arc<Fleet>,
    instance: String,
    timing: Timing,
    taking_part: Arc<Index<TakesPart>>,
    running: RwLock<BTreeMap<ClusterId, Running>>,
    /// Elections that are over and give their leases back. One in a member that does not answer takes its time.
    ending: Mutex<BTreeMap<ClusterId, Ending>>,
    changed: watch::Sender<u64>,
}

struct Running {
    member: Arc<Member>,
    /// Which cluster this process speaks for.
    me: ClusterId,
    leadership: watch::Receiver<Leadership>,
    end: oneshot::Sender<()>,
    task: Task,
}

struct Ending {
    over: Arc<AtomicBool>,
    task: Task,
}

impl Elections {
    /// Elections in which this process is known by its cluster and `instance`.
    pub fn new(fleet: Arc<Fleet>, instance: &str, timing: Timing) -> Arc<Elections> {
        Arc::new(Elections {
            fleet,
            instance: instance.to_owned(),
            timing,
            taking_part: Index::new(),
            running: RwLock::default(),
            ending: Mutex::default(),
            changed: watch::Sender::new(0),
        })
    }

    /// The right to write to a member, while this process leads it.
    pub fn fence(&self, member: &str) -> Option<Fence> {
        let member = self.fleet.get(member)?;
        self.fence_of(&member).filter(Fence::holds)
    }

    /// Whether this process leads a member, even if it may not write for a moment.
    pub fn leads_member(&self, member: &Member) -> bool {
        self.fence_of(member).is_some()
    }

    /// The same while it may not be written for a moment. The election of another cluster that had the name before, and
    /// that is about to end, gives no right here.
    pub fn fence_of(&self, member: &Member) -> Option<Fence> {
        let running = self.running.read();
        let running = running.get(member.name()).filter(|running| std::ptr::eq(&*running.member, member))?;
        running.leadership.borrow().fence.clone()
    }

    /// Whether a member certainly takes part no more: it has no Federation of its own, and nobody leads it.
    pub fn has_left(&self, member: &Member) -> bool {
        self.opted_out(member)
            && !self.running.read().contains_key(member.name())
            && !self.is_ending(member.name().as_str())
    }

    /// Who leads the members, as far as is known here.
    pub fn leads(&self) -> BTreeMap<ClusterId, Lead> {
        let running = self.running.read();
        let leads = running.iter().map(|(id, running)| {
            let leadership = running.leadership.borrow();
            let leader = leadership.holder.as_deref().map(|holder| cluster_of(holder).to_owned());
            let error = leadership.error.clone().filter(|_| leader.is_none());
            (id.clone(), Lead { is_me: leadership.fence.is_some(), leader, error })
        });
        leads.collect()
    }

    /// Whom the members name as members, where they have a Federation of their own.
    pub fn rosters(&self) -> Rosters {
        let members = self.fleet.members();
        let named = members.iter().flat_map(|member| {
            let federations = self.taking_part.of_member(member.name().as_str());
            federations.into_iter().map(|(_, record)| (member.name().clone(), record.0.clone()))
        });
        named.collect()
    }

    /// Marked as changed whenever the leader of a member is another.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Contends for as long as it is polled. To give the leases back, call [`Elections::end`] afterwards; who
    /// is just dropped keeps them until they run out.
    pub async fn run(self: &Arc<Self>, mut formed: watch::Receiver<Option<Arc<Formation>>>) -> Infallible {
        let hear = self.changed.clone();
        self.taking_part.on_change(move |_| hear.send_modify(|count| *count += 1));
        let follow = self.fleet.follow(self.taking_part.clone(), Selection::default(), |member| {
            member.namespaced(NETWORK_NAMESPACE)
        });
        let contend = async {
            let (mut members, mut heard) = (self.fleet.changes(), self.changes());
            loop {
                members.borrow_and_update();
                heard.borrow_and_update();
                let part = formed.borrow_and_update().as_ref().map(|formation| formation.part.clone());
                if let Some(part) = part {
                    self.arrange(&part);
                }
                tokio::select! {
                    biased;
                    _ = members.changed() => {}
                    _ = heard.changed() => {}
                    _ = formed.changed() => {}
                }
            }
        };
        tokio::select! {
            biased;
            never = follow => never,
            never = contend => never,
        }
    }

    /// Gives every lease back.
    pub async fn end(&self) {
        let running = std::mem::take(&mut *self.running.write());
        for (id, running) in running {
            self.let_go(id, running);
        }
        let ending = std::mem::take(&mut *self.ending.lock());
        // Side by side: an unreachable one takes its time.
        futures::future::join_all(ending.into_values().map(|ending| ending.task.done())).await;
    }

    /// Ends an election beside all others.
    fn let_go(&self, id: ClusterId, running: Running) {
        let (over, changed) = (Arc::new(AtomicBool::new(false)), self.changed.clone());
        let told = over.clone();
        let task = Task::spawn(async move {
            running.end().await;
            told.store(true, Ordering::Release);
            // Whoever waits for it may begin.
            changed.send_modify(|count| *count += 1);
        });
        self.ending.lock().insert(id, Ending { over, task });
    }

    /// Whether an election under this name still gives its lease back. A new one would take the lease for its own, as it
    /// is held in the same name, and lead on after it was given back.
    fn is_ending(&self, member: &str) -> bool {
        let mut ending = self.ending.lock();
        ending.retain(|_, ending| !ending.over.load(Ordering::Acquire));
        ending.contains_key(member)
    }

    /// Contends where it should be contended, and only there.
    fn arrange(self: &Arc<Self>, part: &Part) {
        let members = self.fleet.members();
        let me = match part {
            Part::Supervisor(me) => Some(me),
            Part::Alone(_) | Part::Child(_) | Part::Federation => None,
        };
        let left: Vec<(ClusterId, Running)> = {
            let mut running = self.running.write();
            let left = running.extract_if(.., |_, running| {
                let is_member = members.iter().any(|member| Arc::ptr_eq(member, &running.member));
                !is_member || me != Some(&running.me) || self.opted_out(&running.member)
            });
            left.collect()
        };
        for (id, running) in left {
            self.let_go(id, running);
        }
        let Some(me) = me else { return };
        for member in members {
            let known = self.running.read().contains_key(member.name());
            if !known && self.takes_part(&member) && !self.is_ending(member.name().as_str()) {
                let running = self.start(me.clone(), member.clone());
                self.running.write().insert(member.name().clone(), running);
            }
        }
    }

    /// Whether the member certainly has a Federation. What was read of another cluster under its name says nothing.
    fn takes_part(&self, member: &Member) -> bool {
        self.taking_part.is_of(member) && !self.taking_part.of_member(member.name().as_str()).is_empty()
    }

    /// Whether the member certainly has none any more. Not to know is no reason to let go.
    fn opted_out(&self, member: &Member) -> bool {
        self.taking_part.is_of(member)
            && self.taking_part.knowledge(member.name().as_str()) == Knowledge::Complete
            && !self.takes_part(member)
    }

    fn start(self: &Arc<Self>, me: ClusterId, member: Arc<Member>) -> Running {
        let api = member.client().reserved::<Lease>(NETWORK_NAMESPACE);
        let holder = identity(me.as_str(), &self.instance);
        let clock = self.fleet.clock().clone();
        let campaign = Campaign::new(api, member.name().as_str(), &holder, self.timing, clock);
        let leadership = campaign.leadership();
        let (end, ended) = oneshot::channel();
        let mut heard = leadership.clone();
        let changed = self.changed.clone();
        let task = Task::spawn(async move {
            let campaign = campaign.run(async { drop(ended.await) });
            let tell = async {
                while heard.changed().await.is_ok() {
                    changed.send_modify(|count| *count += 1);
                }
            };
            // The campaign's sender goes with it, which ends the telling.
            tokio::join!(campaign, tell);
        });
        Running { member, me, leadership, end, task }
    }
}

impl Running {
    /// Gives the lease back, if it is ours.
    async fn end(self) {
        drop(self.end);
        if let Err(error) = self.task.done().await {
            tracing::error!(%error, member = %self.member.name(), "an election ended badly");
        }
    }
}
