//! What can go wrong with a federation, drawn by chance.

use std::fmt;
use std::time::Duration;

use koinon_simulation::{Dice, Fault, Requests};

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum What {
    /// Connections to a member break and none is made
    Cut,
    /// A member does not answer, and connections stay open
    Hang,
    /// Every call to a member takes seconds
    Slow,
    /// Calls to a member fail, and answers are lost
    Flaky,
    /// The federation's controllers end and start again
    Restart,
}

/// One trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Restart,
    /// A member that had trouble has none any more.
    Heal(String),
    With(String, What, Vec<Fault>),
}

impl Trouble {
    /// The next trouble. As often as not, a member recovers instead.
    pub(super) fn draw(dice: &mut Dice, kinds: &[What], members: &[String]) -> Trouble {
        let member = members[dice.roll(members.len())].clone();
        if dice.one_in(2) || kinds.is_empty() {
            return Trouble::Heal(member);
        }
        let what = dice.pick(kinds);
        let refuse = |code| Fault::Refuse { what: Requests::Any, code, one_in: 6 };
        let faults = match what {
            What::Restart => return Trouble::Restart,
            What::Cut => vec![Fault::Cut],
            What::Hang => vec![Fault::Hang],
            What::Slow => vec![Fault::Delay(Duration::from_millis(500 + 250 * dice.roll(14) as u64))],
            What::Flaky => vec![refuse(503), refuse(409), Fault::Lose { one_in: 5 }],
        };
        Trouble::With(member, what, faults)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, does) = match self {
            Trouble::Restart => return f.write_str("the controllers restart"),
            Trouble::Heal(name) => (name, "is well"),
            Trouble::With(name, What::Cut, _) => (name, "is cut off"),
            Trouble::With(name, What::Hang, _) => (name, "does not answer"),
            Trouble::With(name, What::Slow, _) => (name, "is slow"),
            Trouble::With(name, ..) => (name, "fails now and then"),
        };
        write!(f, "{name} {does}")
    }
}

/// How long until the next: between nothing and twice the average.
pub(super) fn pause(dice: &mut Dice, average: Duration) -> Duration {
    average * u32::try_from(dice.roll(200)).unwrap_or(100) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_trouble_and_only_what_was_asked_for() {
        let members = ["a".to_owned(), "b".to_owned()];
        let draw = |kinds: &[What]| -> Vec<Trouble> {
            let mut dice = Dice::new(7);
            (0..40).map(|_| Trouble::draw(&mut dice, kinds, &members)).collect()
        };
        let all = [What::Cut, What::Slow, What::Restart];
        assert_eq!(draw(&all), draw(&all));
        assert!(draw(&all).contains(&Trouble::Restart));
        let only = draw(&[What::Hang]);
        let is_asked_for = |trouble: &Trouble| {
            matches!(trouble, Trouble::Heal(_)) || matches!(trouble, Trouble::With(_, What::Hang, _))
        };
        assert!(only.iter().all(is_asked_for), "{only:?}");
        assert!(draw(&[]).iter().all(|trouble| matches!(trouble, Trouble::Heal(_))));
    }
}
