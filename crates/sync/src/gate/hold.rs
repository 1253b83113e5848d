//! Whether copies may go, decided from numbers and from who asks for it.

/// What is known of where the originals were, compared with what was known before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The same cluster and the same CRD as before, or the first ever.
    Same,
    /// Another cluster answers, or its CRD was made anew.
    Other(String),
    /// The CRD there is gone or going, and its objects with it.
    Vanished(String),
    /// It could not be found out.
    Unknown(String),
}

/// Everything that the decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Copies that are to go.
    pub(crate) pending: usize,
    /// Copies that went just before.
    pub(crate) recent: usize,
    /// Copies that there are, those to go included.
    pub(crate) copies: usize,
    /// Of a hundred copies, this many may go at once.
    pub(crate) percent: u8,
    /// So many were confirmed by a human.
    pub(crate) confirmed: Option<usize>,
    /// They are held as a mass already.
    pub(crate) held: bool,
    pub(crate) origin: Origin,
}

/// What becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Go,
    /// So many may go, because a human said so.
    Confirmed(usize),
    /// Until the doubt is gone.
    Hold(String),
    /// Until a human says so, or nothing is left to hold.
    HoldMass(String),
}

/// Fewer than this are never a mass.
const FEW: usize = 10;

pub(crate) fn decide(facts: &Facts) -> Verdict {
    let doubt = match &facts.origin {
        // Not even a human can confirm what nobody can look at.
        Origin::Unknown(why) => return Verdict::Hold(why.clone()),
        Origin::Other(why) | Origin::Vanished(why) => Verdict::Hold(why.clone()),
        Origin::Same => match mass(facts) {
            Some(why) => Verdict::HoldMass(why),
            None => return Verdict::Go,
        },
    };
    match facts.confirmed {
        Some(confirmed) if confirmed > 0 => Verdict::Confirmed(confirmed.min(facts.pending)),
        _ => doubt,
    }
}

fn mass(facts: &Facts) -> Option<String> {
    let before = facts.copies + facts.recent;
    let allowed = FEW.max(before * usize::from(facts.percent) / 100);
    let going = facts.pending + facts.recent;
    (facts.held || going > allowed)
        .then(|| format!("{} of {before} copies are to go at once, more than {allowed}", facts.pending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pending: usize, recent: usize, copies: usize) -> Facts {
        Facts { pending, recent, copies, percent: 50, confirmed: None, held: false, origin: Origin::Same }
    }

    #[test]
    fn a_few_go_and_a_mass_is_held() {
        for (pending, recent, copies, go) in [
            (1, 0, 1, true),
            (10, 0, 10, true),
            (11, 0, 11, false),
            (11, 0, 21, false),
            (11, 0, 22, true),
            (50, 0, 100, true),
            (51, 0, 100, false),
            // In a trickle it is no less.
            (5, 6, 14, false),
            (5, 5, 5, true),
        ] {
            let verdict = decide(&facts(pending, recent, copies));
            assert_eq!(verdict == Verdict::Go, go, "{pending} {recent} {copies}: {verdict:?}");
        }
    }

    #[test]
    fn what_is_held_stays_held_until_it_is_confirmed() {
        let held = Facts { held: true, ..facts(3, 0, 100) };
        assert_eq!(
            decide(&held),
            Verdict::HoldMass("3 of 100 copies are to go at once, more than 50".into())
        );
        assert_eq!(decide(&Facts { confirmed: Some(2), ..held.clone() }), Verdict::Confirmed(2));
        assert_eq!(decide(&Facts { confirmed: Some(9), ..held.clone() }), Verdict::Confirmed(3));
        assert!(matches!(decide(&Facts { confirmed: Some(0), ..held }), Verdict::HoldMass(_)));
    }

    #[test]
    fn on_doubt_not_even_one_goes() {
        for origin in [Origin::Other("o".into()), Origin::Vanished("v".into())] {
            let doubtful = Facts { origin, ..facts(1, 0, 100) };
            assert!(matches!(decide(&doubtful), Verdict::Hold(_)));
            assert_eq!(decide(&Facts { confirmed: Some(1), ..doubtful }), Verdict::Confirmed(1));
        }
        let blind = Facts { origin: Origin::Unknown("?".into()), confirmed: Some(9), ..facts(1, 0, 100) };
        assert!(matches!(decide(&blind), Verdict::Hold(_)));
    }
}
