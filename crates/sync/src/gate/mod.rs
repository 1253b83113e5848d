//! Every deletion of a copy passes here: counted, held when there is doubt, and let go together.

pub(crate) mod hold;

use std::collections::{BTreeMap, VecDeque};
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
    /// Those of them that may go, and on whose word.
    released: BTreeMap<Name, Word>,
    recent: VecDeque<Instant>,
    held: Option<Held>,
}

/// On whose word a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Ours,
    /// A human confirmed it, so it does not count against those that follow.
    Human,
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
        if state.released.contains_key(key) && state.pending.get(key).is_some_and(|asked| asked == uid) {
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
            if state.released.remove(key) != Some(Word::Human) {
                state.recent.push_back(Instant::now());
            }
            state.let_go();
            drop(state);
            self.changed.notify_one();
        }
    }

    /// It need not go after all.
    pub(crate) fn withdraw(&self, key: &Key) {
        let mut state = self.state.lock();
        if state.pending.remove(key).is_some() {
            state.released.remove(key);
            state.let_go();
            drop(state);
            self.changed.notify_one();
        }
    }

    /// How many are held, and why.
    pub(crate) fn held(&self) -> Option<(usize, String)> {
        let state = self.state.lock();
        state.held.as_ref().map(|held| (state.waiting(), held.why.clone()))
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Has the next decision made now.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Waits until something happens, and for as long as more comes with it. Says whether there is something to
    /// decide: it may also be that nothing is left of what there was.
    pub(crate) async fn is_due(&self) -> bool {
        if self.waiting() == 0 {
            self.changed.notified().await;
        }
        if self.waiting() > 0 {
            self.settled().await;
        }
        self.waiting() > 0
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
        self.state.lock().waiting()
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
        let ours = state.released.values().filter(|word| **word == Word::Ours).count();
        Facts {
            pending: state.waiting(),
            // Released but not gone yet is as good as gone.
            recent: state.recent.len() + ours,
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
        let (limit, word) = match verdict {
            Verdict::Hold(why) | Verdict::HoldMass(why) => {
                // A doubt that comes on top does not make them fewer.
                let was_mass = state.held.as_ref().is_some_and(|held| held.mass);
                let mass = was_mass || matches!(verdict, Verdict::HoldMass(_));
                state.held = Some(Held { why: why.clone(), mass });
                return Vec::new();
            }
            Verdict::Go => (usize::MAX, Word::Ours),
            Verdict::Confirmed(count) => (*count, Word::Human),
        };
        let waiting = state.pending.keys().filter(|key| !state.released.contains_key(*key));
        let going: Vec<Name> = waiting.take(limit).cloned().collect();
        state.released.extend(going.iter().map(|key| (key.clone(), word)));
        state.let_go();
        going
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.pending.len() - self.released.len()
    }

    /// Nothing is held once nothing is left to hold.
    fn let_go(&mut self) {
        if self.waiting() == 0 {
            self.held = None;
        }
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
        assert!(gate.is_due().await);
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
                assert!(gate.is_due().await);
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
            biased;
            due = gate.is_due() => assert!(due),
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

    #[tokio::test(start_paused = true)]
    async fn what_was_confirmed_does_not_count_against_what_follows() {
        let gate = Gate::default();
        ask(&gate, 0..12);
        assert_eq!(decide(&gate, 30, None), 12, "that is no mass");
        (0..12).for_each(|number| gate.went(&key(number)));
        ask(&gate, 12..24);
        assert_eq!(decide(&gate, 18, None), 0);
        assert_eq!(decide(&gate, 18, Some(12)), 12);
        tokio::time::sleep(RECENT + Duration::from_secs(1)).await;
        // One that comes while the confirmed ones are still on their way, and one that comes afterwards.
        ask(&gate, 24..25);
        assert_eq!(decide(&gate, 18, None), 1);
        (12..24).for_each(|number| gate.went(&key(number)));
        ask(&gate, 25..26);
        assert_eq!(decide(&gate, 5, None), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_held_once_only_the_confirmed_ones_are_left() {
        let gate = Gate::default();
        ask(&gate, 0..12);
        assert_eq!(decide(&gate, 12, None), 0);
        assert_eq!(decide(&gate, 12, Some(4)), 4);
        (4..12).for_each(|number| gate.withdraw(&key(number)));
        assert_eq!(gate.held(), None);
        (0..4).for_each(|number| gate.went(&key(number)));
        ask(&gate, 4..5);
        assert_eq!(decide(&gate, 8, None), 1);
    }
}
