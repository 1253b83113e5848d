//! Every deletion of a copy passes here: counted, held when there is doubt, and let go together.

pub(crate) mod hold;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use koinon_control::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::side::Name;
use hold::{Facts, Origin, Verdict};

/// Deletions are decided together when no more came for this long: a client that deletes many does it one by one.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);
/// However many more come, the first is not kept waiting longer than this.
const SETTLE_AT_MOST: Duration = Duration::from_secs(5);
/// So long a deletion counts as recent.
const RECENT: Duration = Duration::from_secs(10);

/// The gate of one CRD's copies.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<Name, String>,
    released: BTreeSet<Name>,
    recent: VecDeque<Instant>,
    held: Option<Held>,
}

/// Why some are held.
struct Held {
    why: String,
    /// They were too many, and stay so even when some of them need not go after all.
    mass: bool,
}

/// Whether a copy may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Granted,
    Later,
}

impl Gate {
    /// Asks for the end of a copy. Later means that its key comes back once it may go.
    pub(crate) fn ask(&self, key: &Name, uid: &str) -> Pass {
        let mut state = self.state.lock();
        if state.released.contains(key) && state.pending.get(key).is_some_and(|asked| asked == uid) {
            return Pass::Granted;
        }
        let before = state.pending.insert(key.clone(), uid.to_owned());
        if before.as_deref() != Some(uid) {
            state.released.remove(key);
            drop(state);
            self.changed.notify_one();
        }
        Pass::Later
    }

    /// The copy is on its way out.
    pub(crate) fn went(&self, key: &Key) {
        let mut state = self.state.lock();
        if state.pending.remove(key).is_some() {
            state.released.remove(key);
            state.recent.push_back(Instant::now());
        }
    }

    /// It need not go after all.
    pub(crate) fn withdraw(&self, key: &Key) {
        let mut state = self.state.lock();
        if state.pending.remove(key).is_some() {
            state.released.remove(key);
            if state.pending.is_empty() {
                state.held = None;
            }
            drop(state);
            self.changed.notify_one();
        }
    }

    /// How many are held, and why.
    pub(crate) fn held(&self) -> Option<(usize, String)> {
        let state = self.state.lock();
        state.held.as_ref().map(|held| (state.pending.len() - state.released.len(), held.why.clone()))
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Has the next decision made now.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Waits until there is something to decide, and for as long as more comes with it.
    pub(crate) async fn due(&self) {
        loop {
            if self.waiting() > 0 {
                self.settled().await;
                if self.waiting() > 0 {
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    async fn settled(&self) {
        let latest = Instant::now() + SETTLE_AT_MOST;
        loop {
            let before = self.waiting();
            tokio::time::sleep(SETTLE).await;
            if self.waiting() <= before || Instant::now() >= latest {
                return;
            }
        }
    }

    /// Waits until something about it changes.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.pending.len() - state.released.len()
    }

    /// The numbers to decide from.
    pub(crate) fn facts(
        &self,
        copies: usize,
        percent: u8,
        confirmed: Option<usize>,
        origin: Origin,
    ) -> Facts {
        let mut state = self.state.lock();
        while state.recent.front().is_some_and(|at| at.elapsed() > RECENT) {
            state.recent.pop_front();
        }
        Facts {
            pending: state.pending.len() - state.released.len(),
            // Released but not gone yet is as good as gone.
            recent: state.recent.len() + state.released.len(),
            copies: copies.saturating_sub(state.released.len()),
            percent,
            confirmed,
            held: state.held.as_ref().is_some_and(|held| held.mass),
            origin,
        }
    }

    /// Does what was decided; gives back the keys that may go.
    pub(crate) fn settle(&self, verdict: &Verdict) -> Vec<Name> {
        let mut state = self.state.lock();
        let limit = match verdict {
            Verdict::Hold(why) | Verdict::HoldMass(why) => {
                // A doubt that comes on top does not make them fewer.
                let was_mass = state.held.as_ref().is_some_and(|held| held.mass);
                let mass = was_mass || matches!(verdict, Verdict::HoldMass(_));
                state.held = Some(Held { why: why.clone(), mass });
                return Vec::new();
            }
            Verdict::Go => usize::MAX,
            Verdict::Confirmed(count) => *count,
        };
        let waiting = state.pending.keys().filter(|key| !state.released.contains(*key));
        let going: Vec<Name> = waiting.take(limit).cloned().collect();
        state.released.extend(going.iter().cloned());
        if state.released.len() == state.pending.len() {
            state.held = None;
        }
        going
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Name {
        Key::new("", format!("{number:02}")).into()
    }

    fn ask(gate: &Gate, numbers: std::ops::Range<usize>) {
        for number in numbers {
            assert_eq!(gate.ask(&key(number), "u"), Pass::Later);
        }
    }

    fn decide(gate: &Gate, copies: usize, confirmed: Option<usize>) -> usize {
        let verdict = hold::decide(&gate.facts(copies, 50, confirmed, Origin::Same));
        gate.settle(&verdict).len()
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_is_decided_together() {
        let gate = Gate::default();
        ask(&gate, 0..3);
        gate.due().await;
        // A link that is away for a while holds them, but does not make them a mass.
        let blind = hold::decide(&gate.facts(20, 50, None, Origin::Unknown("?".into())));
        assert_eq!(gate.settle(&blind).len(), 0);
        assert_eq!(gate.held(), Some((3, "?".into())));
        assert_eq!(decide(&gate, 20, None), 3);
        assert_eq!(gate.held(), None);
        assert_eq!(gate.ask(&key(0), "u"), Pass::Granted);
        assert_eq!(gate.ask(&key(1), "another"), Pass::Later, "that is another copy");
        gate.went(&key(0));
        assert_eq!(gate.ask(&key(0), "u"), Pass::Later, "a pass is good for one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_deletes_one_by_one_is_waited_for() {
        let gate = Gate::default();
        let (due, ()) = tokio::join!(
            async {
                gate.due().await;
                gate.waiting()
            },
            async {
                for number in 0..14 {
                    ask(&gate, number..number + 1);
                    tokio::time::sleep(SETTLE / 2).await;
                }
            }
        );
        assert_eq!(due, 14);

        let began = Instant::now();
        let endless = async {
            for number in 14.. {
                ask(&gate, number..number + 1);
                tokio::time::sleep(SETTLE / 2).await;
            }
        };
        tokio::select! {
            () = gate.due() => {}
            () = endless => {}
        }
        assert_eq!(began.elapsed(), SETTLE_AT_MOST, "but not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mass_is_held_until_it_is_confirmed_or_withdrawn() {
        let gate = Gate::default();
        ask(&gate, 0..12);
        assert_eq!(decide(&gate, 12, None), 0);
        assert_eq!(gate.held().unwrap().0, 12);
        assert_eq!(decide(&gate, 12, Some(4)), 4);
        assert_eq!(gate.held().unwrap().0, 8);
        for number in 0..12 {
            gate.withdraw(&key(number));
        }
        assert_eq!(gate.held(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_counted_for_a_while() {
        let gate = Gate::default();
        for number in 0..10 {
            ask(&gate, number..number + 1);
            assert_eq!(decide(&gate, 12 - number, None), 1);
            gate.went(&key(number));
        }
        ask(&gate, 10..11);
        assert_eq!(decide(&gate, 2, None), 0);
        gate.withdraw(&key(10));
        tokio::time::sleep(RECENT + Duration::from_secs(1)).await;
        ask(&gate, 11..12);
        assert_eq!(decide(&gate, 1, None), 1);
    }
}
