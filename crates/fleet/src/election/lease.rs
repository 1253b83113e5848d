//! When to take, renew and give up a lease. No IO, no clock.
//!
//! The holder counts from before it asked, everybody else from after they saw the answer, and the holder stops
//! believing after `renew_deadline`, which is shorter than the `lease_duration` that the others wait. So two
//! never believe at once, however far their clocks are apart, as long as none runs faster than another by the
//! factor `lease_duration / renew_deadline`.

use std::time::Duration;

use crate::health::Moment;

/// How long a lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A lease that was not renewed for so long may be taken.
    pub lease_duration: Duration,
    /// Who could not renew for so long leads no more.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            lease_duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(20),
            retry_period: Duration::from_secs(5),
        }
    }
}

impl Timing {
    /// The duration as a Lease says it, which is what the others wait for: in whole seconds, and never less than it is.
    pub fn written_seconds(&self) -> i32 {
        let up = u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(self.lease_duration.as_secs().saturating_add(up)).unwrap_or(i32::MAX).max(1)
    }

    /// Says what is wrong with the times, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.lease_duration <= self.renew_deadline {
            return Err(
                "--lease-duration must be longer than --renew-deadline, or two could lead at once".into()
            );
        }
        if self.renew_deadline <= self.retry_period {
            return Err(
                "--renew-deadline must be longer than --retry-period, or no leader could stay one".into()
            );
        }
        if self.retry_period.is_zero() {
            return Err("--retry-period must be longer than nothing".into());
        }
        Ok(())
    }
}

/// A lease as the server showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Changes with every write.
    pub version: String,
    /// Nobody, if it was released.
    pub holder: Option<String>,
    /// How long it lasts, as its holder says.
    pub duration: Option<Duration>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is time to do something.
    Tick,
    /// The server was asked; `None` says that there is no lease.
    Saw(Option<Seen>),
    /// The server took our write, for which it was asked then.
    Wrote { asked: Moment, seen: Seen },
    /// Somebody else wrote first.
    Conflict,
    /// Nobody knows whether anything was written.
    Failed,
}

/// What to do next; what comes of it is the next event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    Look,
    Create,
    /// Become the holder, if it is still in this version.
    Take {
        over: String,
    },
    /// Stay the holder, if it is still in this version.
    Renew {
        over: String,
    },
    /// Nothing, until so much time has passed.
    Rest(Duration),
}

/// One contender for one lease.
#[derive(Clone, Debug)]
pub struct Contender {
    me: String,
    timing: Timing,
    part: Part,
}

#[derive(Clone, Debug)]
enum Part {
    Following { rival: Option<Rival> },
    Leading { version: String, renewed: Moment },
}

#[derive(Clone, Debug)]
struct Rival {
    seen: Seen,
    /// When this version was first seen, by our own clock.
    since: Moment,
}

impl Rival {
    /// How long it may still believe that it leads.
    fn left(&self, now: Moment, timing: Timing) -> Option<Duration> {
        let lasts = self.seen.duration.unwrap_or(timing.lease_duration);
        (self.since + lasts).checked_sub(now).filter(|left| !left.is_zero())
    }
}

impl Contender {
    pub fn new(me: impl Into<String>, timing: Timing) -> Contender {
        Contender { me: me.into(), timing, part: Part::Following { rival: None } }
    }

    /// Whether to act as the leader. It ends by itself when renewals fail.
    pub fn leads(&self, now: Moment) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// When leading ends unless it is renewed.
    pub fn leads_until(&self) -> Option<Moment> {
        match &self.part {
            Part::Leading { renewed, .. } => Some(*renewed + self.timing.renew_deadline),
            Part::Following { .. } => None,
        }
    }

    /// The holder, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        match &self.part {
            Part::Leading { .. } => Some(&self.me),
            Part::Following { rival } => rival.as_ref().and_then(|rival| rival.seen.holder.as_deref()),
        }
    }

    /// The version of the lease to release, if it is ours; from then on we follow.
    pub fn release(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.part, Part::Following { rival: None }) {
            Part::Leading { version, .. } => Some(version),
            Part::Following { .. } => None,
        }
    }

    /// Takes in what happened and says what to do.
    pub fn step(&mut self, now: Moment, event: Event) -> LeaseAction {
        if self.leads_until().is_some_and(|until| now >= until) {
            self.part = Part::Following { rival: None };
        }
        match event {
            Event::Tick => match &self.part {
                Part::Leading { version, .. } => LeaseAction::Renew { over: version.clone() },
                Part::Following { .. } => LeaseAction::Look,
            },
            Event::Saw(None) => self.saw_none(now),
            Event::Saw(Some(seen)) => self.saw(now, seen),
            Event::Wrote { asked, seen } => {
                self.part = Part::Leading { version: seen.version, renewed: asked };
                self.rest(now)
            }
            // A leader must know at once whether it still is; others have time.
            Event::Conflict if matches!(self.part, Part::Leading { .. }) => LeaseAction::Look,
            Event::Conflict | Event::Failed => self.rest(now),
        }
    }

    fn saw(&mut self, now: Moment, seen: Seen) -> LeaseAction {
        if seen.holder.as_deref() == Some(&self.me) {
            let over = seen.version.clone();
            if let Part::Leading { version, .. } = &mut self.part {
                *version = seen.version;
            }
            return LeaseAction::Renew { over };
        }
        if seen.holder.is_none() {
            self.part = Part::Following { rival: None };
            return LeaseAction::Take { over: seen.version };
        }
        let since = match &self.part {
            Part::Following { rival: Some(rival) } if rival.seen.version == seen.version => rival.since,
            _ => now,
        };
        let over = seen.version.clone();
        let rival = Rival { seen, since };
        let left = rival.left(now, self.timing);
        self.part = Part::Following { rival: Some(rival) };
        left.map_or(LeaseAction::Take { over }, |left| LeaseAction::Rest(left.min(self.timing.retry_period)))
    }

    /// Somebody deleted it. Whoever held it may not have noticed yet and still write, so its time is waited for all the same.
    fn saw_none(&mut self, now: Moment) -> LeaseAction {
        let rival = match &self.part {
            Part::Following { rival } => rival.as_ref(),
            Part::Leading { .. } => None,
        };
        if let Some(left) = rival.and_then(|rival| rival.left(now, self.timing)) {
            return LeaseAction::Rest(left.min(self.timing.retry_period));
        }
        self.part = Part::Following { rival: None };
        LeaseAction::Create
    }

    /// The next attempt comes in time for what is left.
    fn rest(&self, now: Moment) -> LeaseAction {
        let left = self.leads_until().map(|until| until.saturating_sub(now)).filter(|left| !left.is_zero());
        let period = self.timing.retry_period;
        LeaseAction::Rest(left.map_or(period, |left| left.min(period)))
    }
}

#[cfg(test)]
mod tests;
