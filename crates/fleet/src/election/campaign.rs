//! Contends for one Lease: asks, writes, and says who leads.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use koinon_control::Clock;
use koinon_control::words::clean;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::lease::{Contender, Event, LeaseAction, Seen, Timing};

/// Who leads, as one contender sees it.
#[derive(Clone, Debug, Default)]
pub struct Leadership {
    /// There while this contender leads.
    pub fence: Option<Fence>,
    /// The identity of the holder, as far as is known.
    pub holder: Option<String>,
    /// Why nothing is known, if the lease cannot be read or written.
    pub error: Option<String>,
}

/// The right to write as the leader. It ends by itself, before anybody else can have it.
#[derive(Clone, Debug)]
pub struct Fence {
    until: watch::Receiver<Instant>,
}

impl Fence {
    /// Whether writing is still right. To be asked right before every write.
    pub fn holds(&self) -> bool {
        Instant::now() < self.until()
    }

    /// Until when writing is right, unless that is prolonged. A write that begins now ends before then.
    pub fn until(&self) -> Instant {
        *self.until.borrow()
    }

    /// Done when writing is right, also again after it was not for a moment.
    pub async fn held(&self) {
        let mut until = self.until.clone();
        while Instant::now() >= *until.borrow_and_update() {
            if until.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Does something for as long as writing is right; `None` says that it was cut off.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let ends = async {
            let mut until = self.until.clone();
            loop {
                let end = *until.borrow_and_update();
                if Instant::now() >= end {
                    return;
                }
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(end) => {}
                    changed = until.changed() => if changed.is_err() { return },
                }
            }
        };
        tokio::select! {
            biased;
            () = ends => None,
            done = work => Some(done),
        }
    }
}

/// How often a lease is given back that changes meanwhile; if even that fails, it runs out.
const GIVING_BACK: usize = 3;

/// A campaign for one lease.
pub struct Campaign {
    api: Api<Lease>,
    name: String,
    me: String,
    timing: Timing,
    clock: Clock,
    start: Instant,
    told: watch::Sender<Leadership>,
}

impl Campaign {
    /// Contends under the identity `me` for the lease `name` among those of `api`.
    pub fn new(api: Api<Lease>, name: &str, me: &str, timing: Timing, clock: Clock) -> Campaign {
        let told = watch::Sender::new(Leadership::default());
        Campaign { api, name: name.into(), me: me.into(), timing, clock, start: Instant::now(), told }
    }

    /// Who leads, whenever that changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.told.subscribe()
    }

    /// Contends until `end`, then gives the lease back so that the next leader need not wait for it.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let mut contender = Contender::new(&self.me, self.timing);
        // Kept so that what others put on it stays.
        let mut known: Option<Lease> = None;
        self.contend(&mut contender, &mut known, end).await;
        if let Some(over) = contender.release() {
            self.give_back(over, known).await;
        }
    }

    async fn contend(
        &self,
        contender: &mut Contender,
        known: &mut Option<Lease>,
        end: impl Future<Output = ()>,
    ) {
        let until = watch::Sender::new(self.start);
        let mut end = std::pin::pin!(end);
        let mut event = Event::Tick;
        // What went wrong with the lease stays so until it goes well, also while nothing is tried.
        let mut trouble: Option<String> = None;
        loop {
            let action = contender.step(self.start.elapsed(), event);
            until.send_replace(self.start + contender.leads_until().unwrap_or_default());
            self.tell(contender, &until, trouble.clone());
            let rests = matches!(action, LeaseAction::Rest(_));
            let (done, ended) = {
                let mut act = std::pin::pin!(self.act(action, contender, known));
                tokio::select! {
                    biased;
                    done = &mut act => (done, false),
                    () = &mut end => {
                        self.stop(&until);
                        if rests {
                            return;
                        }
                        // What is on its way may still make the lease ours, and then it is to be given back.
                        (act.await, true)
                    }
                }
            };
            event = match done {
                Ok(event) => {
                    trouble = trouble.filter(|_| rests);
                    event
                }
                Err(failed) => {
                    tracing::debug!(lease = self.name, why = failed.why, "the lease was not read or written");
                    trouble = Some(failed.why);
                    Event::Failed
                }
            };
            if ended {
                // Whose the lease is now; nothing more is done about it.
                contender.step(self.start.elapsed(), event);
                return;
            }
        }
    }

    /// Whoever holds a fence stops at once.
    fn stop(&self, until: &watch::Sender<Instant>) {
        until.send_replace(self.start);
        self.told.send_replace(Leadership::default());
    }

    async fn act(
        &self,
        action: LeaseAction,
        contender: &Contender,
        known: &mut Option<Lease>,
    ) -> Result<Event, Failed> {
        let asked = self.start.elapsed();
        let params = PostParams::default();
        let (written, conflicts): (_, &[u16]) = match action {
            LeaseAction::Rest(pause) => {
                tokio::time::sleep(pause).await;
                return Ok(Event::Tick);
            }
            LeaseAction::Look => {
                *known = self.ask(self.api.get_opt(&self.name)).await?;
                return Ok(Event::Saw(known.as_ref().map(seen)));
            }
            LeaseAction::Create => {
                let lease = self.lease(None, true);
                (self.ask(self.api.create(&params, &lease)).await, &[409])
            }
            LeaseAction::Take { over } | LeaseAction::Renew { over } => {
                let mut lease = self.lease(known.as_ref(), !contender.leads(asked));
                lease.metadata.resource_version = Some(over);
                // 404: it was deleted in between; the next look leads to a new one.
                (self.ask(self.api.replace(&self.name, &params, &lease)).await, &[404, 409])
            }
        };
        match written {
            Ok(lease) => {
                let seen = seen(&lease);
                *known = Some(lease);
                Ok(Event::Wrote { asked, seen })
            }
            Err(Failed { code: Some(code), .. }) if conflicts.contains(&code) => Ok(Event::Conflict),
            Err(failed) => Err(failed),
        }
    }

    /// No call may outlast the time in which its answer is of use.
    async fn ask<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
        let deadline = (self.timing.renew_deadline / 2).max(Duration::from_millis(100));
        match timeout(deadline, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => {
                Err(Failed { code: Some(status.code), why: status.message.clone() })
            }
            Ok(Err(error)) => Err(Failed { code: None, why: crate::member::cause(&error) }),
            Err(_) => {
                Err(Failed { code: None, why: format!("no answer within {} s", deadline.as_secs_f32()) })
            }
        }
    }

    fn tell(&self, contender: &Contender, until: &watch::Sender<Instant>, error: Option<String>) {
        let leads = contender.leads(self.start.elapsed());
        let holder = contender.holder().map(str::to_owned);
        self.told.send_if_modified(|before| {
            let same = before.fence.is_some() == leads && before.holder == holder && before.error == error;
            if before.fence.is_some() != leads {
                self.log(leads, error.as_deref());
            }
            if !same {
                let fence =
                    leads.then(|| before.fence.clone().unwrap_or_else(|| Fence { until: until.subscribe() }));
                *before = Leadership { fence, holder, error };
            }
            !same
        });
    }

    fn log(&self, leads: bool, error: Option<&str>) {
        let lease = self.name.as_str();
        if leads {
            tracing::info!(lease, reason = "LeadWon", "the lease is ours: this one leads");
        } else {
            let why = error.unwrap_or("another took the lease");
            tracing::warn!(lease, reason = "LeadLost", "this one leads no more: {why}");
        }
    }

    /// The lease as it is when it is ours, from now on or still.
    fn lease(&self, before: Option<&Lease>, is_new: bool) -> Lease {
        let now = MicroTime(self.clock.now());
        let mut lease = before.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        lease.metadata.managed_fields = None;
        let spec = lease.spec.get_or_insert_default();
        if is_new {
            let others = before.is_some();
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + i32::from(others));
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.me.clone());
        spec.renew_time = Some(now);
        spec.lease_duration_seconds = Some(self.timing.written_seconds());
        lease
    }

    /// How often it changed hands stays on it, so that no two terms ever have the same number.
    async fn give_back(&self, over: String, known: Option<Lease>) {
        let (mut over, mut known) = (over, known);
        for _ in 0..GIVING_BACK {
            let mut released = known.unwrap_or_default();
            let transitions = released.spec.and_then(|spec| spec.lease_transitions);
            released.metadata.name = Some(self.name.clone());
            released.metadata.resource_version = Some(over);
            released.metadata.managed_fields = None;
            released.spec = Some(LeaseSpec {
                holder_identity: None,
                lease_duration_seconds: Some(1),
                lease_transitions: transitions,
                ..LeaseSpec::default()
            });
            let given = self.ask(self.api.replace(&self.name, &PostParams::default(), &released)).await;
            let Err(failed) = given else {
                tracing::info!(lease = self.name, reason = "LeadGivenBack", "the lease was given back");
                return;
            };
            tracing::debug!(lease = self.name, why = failed.why, "the lease was not given back");
            if failed.code != Some(409) {
                return;
            }
            // A renewal that nobody answered in time may have arrived all the same: it is ours in another version.
            match self.ask(self.api.get_opt(&self.name)).await {
                Ok(Some(lease)) if seen(&lease).holder.as_ref() == Some(&self.me) => {
                    over = lease.resource_version().unwrap_or_default();
                    known = Some(lease);
                }
                _ => return,
            }
        }
    }
}

struct Failed {
    code: Option<u16>,
    why: String,
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Seen {
        version: lease.resource_version().unwrap_or_default(),
        // It is told to people, and nobody's own name changes by this.
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()).map(|holder| clean(&holder, 512)),
        duration: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
    }
}

/// Runs a role whenever this process leads, from the start each time, until `end`. What it does is cut off
/// before another process can lead.
pub async fn while_leading<F>(campaign: Campaign, end: impl Future<Output = ()>, role: impl Fn(Fence) -> F)
where
    F: Future<Output = ()>,
{
    let mut leadership = campaign.leadership();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let lead = async {
        loop {
            // Who else leads does not matter here: only that this one does or does not.
            let Ok(leads) = leadership.wait_for(|now| now.fence.is_some()).await.map(|now| now.fence.clone())
            else {
                return;
            };
            let Some(fence) = leads else { continue };
            let serve = async {
                loop {
                    fence.held().await;
                    // A role that is done is not needed again before it was cut off.
                    if fence.guard(role(fence.clone())).await.is_some() {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let mut lost = leadership.clone();
            tokio::select! {
                biased;
                () = serve => {}
                _ = lost.wait_for(|now| now.fence.is_none()) => {}
            }
        }
    };
    let campaign = campaign.run(async move { drop(stopped.await) });
    let mut campaign = std::pin::pin!(campaign);
    tokio::select! {
        biased;
        () = &mut campaign => return,
        () = lead => {}
        () = end => {}
    }
    drop(stop);
    campaign.await;
}

/// What names a contender: its cluster and its process.
pub fn identity(cluster: &str, instance: &str) -> String {
    format!("{cluster}_{instance}")
}

/// The cluster of a contender, from its identity.
pub fn cluster_of(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(cluster, _)| cluster)
}
