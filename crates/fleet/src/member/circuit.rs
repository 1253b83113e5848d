//! Whether calls to a member are worth making: after some failures in a row they are not, until it answers a
//! probe.

use std::sync::Arc;

/// One failure may be chance; so many in a row are not.
const FAILURES: u32 = 3;

/// Decides which calls go out. It knows no time: the probe is its clock.
#[derive(Debug)]
pub(super) struct Circuit(State);

#[derive(Debug, Clone, PartialEq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        why: Arc<str>,
    },
    /// The probe was answered: one call at a time may try.
    HalfOpen {
        why: Arc<str>,
        trying: bool,
    },
}

/// What a call is to the circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pass {
    Ordinary,
    /// The one call that shows whether the member is back.
    Trial,
}

impl Circuit {
    pub(super) fn new() -> Circuit {
        Circuit(State::Closed { failures: 0 })
    }

    /// Lets a call through, or says why not.
    pub(super) fn admit(&mut self) -> Result<Pass, Arc<str>> {
        match &mut self.0 {
            State::Closed { .. } => Ok(Pass::Ordinary),
            State::Open { why } => Err(why.clone()),
            State::HalfOpen { why, trying: true } => Err(why.clone()),
            State::HalfOpen { trying, .. } => {
                *trying = true;
                Ok(Pass::Trial)
            }
        }
    }

    /// Whether an ordinary call would go through now.
    pub(super) fn admits(&self) -> bool {
        !matches!(self.0, State::Open { .. } | State::HalfOpen { trying: true, .. })
    }

    /// The member answered a call.
    pub(super) fn answered(&mut self, pass: Pass) {
        match (&self.0, pass) {
            (State::Closed { .. }, _) | (State::HalfOpen { .. }, Pass::Trial) => {
                self.0 = State::Closed { failures: 0 };
            }
            // A late answer to a call from before says nothing about now.
            (State::Open { .. } | State::HalfOpen { .. }, _) => {}
        }
    }

    /// A call got no answer.
    pub(super) fn failed(&mut self, pass: Pass, reason: &str) {
        match (&mut self.0, pass) {
            (State::Closed { failures }, _) => {
                *failures += 1;
                if *failures >= FAILURES {
                    self.0 = State::Open { why: reason.into() };
                }
            }
            (State::HalfOpen { .. }, Pass::Trial) => self.0 = State::Open { why: reason.into() },
            (State::Open { .. } | State::HalfOpen { .. }, _) => {}
        }
    }

    /// Nobody waited for the end of a call.
    pub(super) fn abandoned(&mut self, pass: Pass) {
        if let (State::HalfOpen { trying, .. }, Pass::Trial) = (&mut self.0, pass) {
            *trying = false;
        }
    }

    /// The member answered a probe.
    pub(super) fn probe_answered(&mut self) {
        match std::mem::replace(&mut self.0, State::Closed { failures: 0 }) {
            State::Open { why } => self.0 = State::HalfOpen { why, trying: false },
            // A trial is on its way: it decides.
            state @ State::HalfOpen { trying: true, .. } => self.0 = state,
            State::Closed { .. } | State::HalfOpen { trying: false, .. } => {}
        }
    }

    /// The member is known to be away.
    pub(super) fn open(&mut self, reason: &str) {
        self.0 = State::Open { why: reason.into() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Circuit {
        let mut circuit = Circuit::new();
        for _ in 0..FAILURES {
            let pass = circuit.admit().expect("closed");
            circuit.failed(pass, "no answer");
        }
        circuit
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let mut circuit = Circuit::new();
        for _ in 0..10 {
            circuit.failed(Pass::Ordinary, "no answer");
            circuit.failed(Pass::Ordinary, "no answer");
            circuit.answered(Pass::Ordinary);
        }
        assert!(circuit.admits());
        assert_eq!(&*away().admit().unwrap_err(), "no answer");
    }

    #[test]
    fn after_a_probe_one_call_tries_and_decides() {
        for (good, expected) in [(true, true), (false, false)] {
            let mut circuit = away();
            circuit.probe_answered();
            assert_eq!(circuit.admit(), Ok(Pass::Trial));
            assert!(circuit.admit().is_err(), "one at a time");
            // Calls from before the failure end now and change nothing.
            circuit.answered(Pass::Ordinary);
            circuit.failed(Pass::Ordinary, "late");
            assert!(!circuit.admits());
            if good {
                circuit.answered(Pass::Trial)
            } else {
                circuit.failed(Pass::Trial, "again")
            }
            assert_eq!(circuit.admits(), expected);
        }
    }

    #[test]
    fn a_trial_that_nobody_waits_for_leaves_room_for_the_next() {
        let mut circuit = away();
        circuit.probe_answered();
        let pass = circuit.admit().unwrap();
        circuit.abandoned(pass);
        assert_eq!(circuit.admit(), Ok(Pass::Trial));
    }

    #[test]
    fn two_probes_close_it_where_nobody_calls() {
        let mut circuit = away();
        circuit.probe_answered();
        circuit.probe_answered();
        assert_eq!(circuit.admit(), Ok(Pass::Ordinary));
    }
}
