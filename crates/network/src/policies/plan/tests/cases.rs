//! The rules one by one: what the ledger says, what is there, and what follows.

use std::collections::BTreeSet;

use super::world::{hash, id};
use crate::policies::accept::Accept;
use crate::policies::content::{Marked, Sighting};
use crate::policies::key::PolicyKey;
use crate::policies::ledger::{Entry, Place, State};
use crate::policies::plan::{Act, Case, Ground, Knows, News, Object, Other, Why, plan, rejoin};
use crate::policies::version::Version;

/// `REV ORIGIN SAYS`, where `-` says that it was removed.
fn version(text: &str) -> Version {
    let parts: Vec<&str> = text.split(' ').collect();
    let content = (parts[2] != "-").then(|| hash(parts[2].parse().unwrap()));
    let rev = parts[0].parse().unwrap();
    Version { rev, base: rev - 1, origin: id(parts[1]), content }
}

/// `applied 1 a 1`, `removing 2 a -`, `removed 2 a -`, `settled 2 a -`, `kept 2 a -`, or nothing.
fn entry(text: &str) -> Option<Entry> {
    let (word, rest) = text.split_once(' ')?;
    let state = match word {
        "applied" => State::Applied { local: None, place: Place::of("n", "d") },
        "removing" => State::Removing { uid: "u".into(), local: hash(1) },
        "removed" => State::Removed,
        "settled" => State::Settled,
        "kept" => State::Kept { local: hash(1) },
        other => panic!("{other}"),
    };
    Some(Entry { version: version(rest), state })
}

/// `1` is federated, `1*` is not, `1@2 a 1` is a copy of a revision, `1!` is going, `?` is unknown.
fn sighting(text: &str) -> Option<Sighting> {
    if text.is_empty() || text == "?" {
        return None;
    }
    let (says, stamp) = text.split_once('@').map_or((text, None), |(says, stamp)| (says, Some(stamp)));
    let number = says.trim_end_matches(['*', '!']).parse().unwrap();
    Some(Sighting {
        uid: "u".into(),
        resource_version: "7".into(),
        hash: hash(number),
        marked: Marked { federated: !says.contains('*'), contradicts: false },
        stamp: stamp.map(version),
        going: says.contains('!'),
        tier: (number == 9).then(|| "gold".into()),
    })
}

struct Given<'a> {
    mine: &'a str,
    object: &'a str,
    /// Of the other member.
    theirs: &'a str,
    their_object: &'a str,
    other: &'a str,
    ground: Ground,
    floor: u64,
    their_floor: u64,
    accept: Accept,
    tiers: Option<BTreeSet<String>>,
    known: bool,
    returning: bool,
    waited: bool,
}

fn here() -> Ground {
    Ground::Here(Place::of("n", "d"))
}

fn given<'a>(mine: &'a str, object: &'a str, theirs: &'a str, their_object: &'a str) -> Given<'a> {
    Given {
        mine,
        object,
        theirs,
        their_object,
        other: "b",
        ground: here(),
        floor: 0,
        their_floor: 0,
        accept: Accept::All,
        tiers: Some(BTreeSet::new()),
        known: true,
        returning: false,
        waited: false,
    }
}

impl Given<'_> {
    fn with<T>(&self, of: impl FnOnce(&Case<'_>) -> T) -> T {
        let (key, me, other) = (PolicyKey::namespaced("prod", "web"), id("m"), id(self.other));
        let (mine, theirs) = (entry(self.mine), entry(self.theirs));
        let (object, their_object) = (sighting(self.object), sighting(self.their_object));
        of(&Case {
            key: &key,
            me: &me,
            mine: mine.as_ref(),
            refused: None,
            floor: self.floor,
            object: match &object {
                Some(object) => Object::Here(object),
                None if self.object == "?" => Object::Unknown,
                None => Object::Absent,
            },
            ground: self.ground,
            accept: &self.accept,
            tiers: self.tiers.as_ref(),
            others: vec![Other {
                member: &other,
                ledger: match self.known {
                    _ if self.returning => Knows::Returning,
                    true => Knows::Known(theirs.as_ref()),
                    false => Knows::Unknown,
                },
                floor: self.their_floor,
                object: their_object.as_ref(),
                refused: None,
            }],
            waited: self.waited,
        })
    }

    #[track_caller]
    fn check(&self, expected: &str) {
        assert_eq!(self.with(|case| words(&plan(case).act)), expected);
    }
}

fn words(act: &Act) -> String {
    let says = |version: &Version| {
        let content = version.content.map_or_else(
            || "-".to_owned(),
            |content| (0..=99).find(|says| hash(*says) == content).unwrap().to_string(),
        );
        format!("{} {} {content}", version.rev, version.origin)
    };
    let state = |entry: &Entry| match entry.state {
        State::Applied { .. } => "applied",
        State::Removing { .. } => "removing",
        State::Removed => "removed",
        State::Settled => "settled",
        State::Kept { .. } => "kept",
    };
    match act {
        Act::Rest(why) => format!("rest {why:?}"),
        Act::AssignRevision(change, entry) => format!("{change:?} {}", says(&entry.version)),
        Act::Note(entry) => format!("note {} {}", state(entry), says(&entry.version)),
        Act::Forget(why) => format!("forget {why:?}"),
        Act::Write(write) => {
            format!("{} {}", if write.over.is_some() { "replace" } else { "create" }, says(&write.version))
        }
        Act::Erase { entry, .. } => format!("erase {}", says(&entry.version)),
        Act::Refuse(refusal) => format!("refuse {}", refusal.why),
        Act::Discard { .. } => "discard".into(),
    }
}

#[test]
fn what_the_ledger_and_the_object_say_together() {
    for (mine, object, theirs, their_object, expected) in [
        // Never replicated, or nothing at all.
        ("", "", "", "", "rest Nowhere"),
        ("", "", "applied 1 b 1", "1", "create 1 b 1"),
        ("", "", "applied 1 b 1", "2", "rest NoSource"),
        // Created by a user, over whatever is known.
        ("", "1", "", "", "Created 1 m 1"),
        ("", "2", "applied 4 b 1", "1", "Created 5 m 2"),
        ("", "2", "removed 4 b -", "", "Created 5 m 2"),
        ("removed 4 b -", "2", "removed 4 b -", "", "Created 5 m 2"),
        // By hand the same as everybody's, or a copy that nobody wrote down.
        ("", "1", "applied 4 b 1", "1", "note applied 4 b 1"),
        ("", "1@4 b 1", "applied 4 b 1", "1", "note applied 4 b 1"),
        ("", "1@4 b 1", "applied 5 b 2", "2", "replace 5 b 2"),
        ("", "1@4 b 1", "removed 5 b -", "", "erase 5 b -"),
        ("applied 3 b 2", "1@4 b 1", "applied 4 b 1", "1", "note applied 4 b 1"),
        // In step, edited, removed, left.
        ("applied 1 b 1", "1", "applied 1 b 1", "1", "rest InStep"),
        ("applied 1 b 1", "2", "applied 1 b 1", "1", "Edited 2 m 2"),
        ("applied 1 b 1", "", "applied 1 b 1", "1", "Removed 2 m -"),
        ("applied 1 b 1", "1*", "applied 1 b 1", "1", "Left 2 m -"),
        // An outdated copy that goes says nothing about what came after it.
        ("applied 1 b 1", "", "applied 2 b 2", "2", "forget Outdated"),
        ("applied 1 b 1", "1*", "applied 2 b 2", "2", "forget Outdated"),
        ("applied 1 b 1", "", "removed 2 b -", "", "note removed 2 b -"),
        ("applied 1 b 1", "1*", "removed 2 b -", "", "note removed 2 b -"),
        ("applied 1 m 1", "", "applied 1 b 2", "2", "Removed 2 m -"),
        ("applied 1 b 1", "1!", "applied 1 b 1", "1", "rest Going"),
        ("applied 1 b 1", "?", "applied 1 b 1", "1", "rest Unseen"),
        // Towards the winner.
        ("applied 1 b 1", "1", "applied 2 b 2", "2", "replace 2 b 2"),
        ("applied 1 b 1", "1", "removed 2 b -", "", "erase 2 b -"),
        ("applied 2 m 1", "1", "removed 2 b -", "", "rest InStep"),
        ("applied 2 m 1", "1", "applied 2 b 2", "2", "replace 2 b 2"),
        ("removed 2 m -", "", "applied 2 b 2", "2", "create 2 b 2"),
        ("removed 2 m -", "", "applied 1 b 2", "2", "rest Acknowledging"),
        // Somebody's own.
        ("", "1*", "applied 1 b 1", "1", "rest Foreign"),
        ("", "1*", "removed 1 b -", "", "note removed 1 b -"),
        // The end.
        ("removing 2 b -", "1", "removed 2 b -", "", "erase 2 b -"),
        ("removing 2 b -", "2", "removed 2 b -", "", "Created 3 m 2"),
        ("removing 2 b -", "", "removed 2 b -", "", "note removed 2 b -"),
        ("removing 2 b -", "1*", "removed 2 b -", "", "note removed 2 b -"),
        ("removed 2 b -", "", "removed 2 b -", "", "note settled 2 b -"),
        ("removed 2 b -", "", "settled 2 b -", "", "note settled 2 b -"),
        ("removed 2 b -", "", "removing 2 b -", "1", "rest Acknowledging"),
        ("removed 2 b -", "", "", "", "rest Acknowledging"),
        ("settled 2 b -", "", "removed 2 b -", "", "rest Acknowledging"),
        ("settled 2 b -", "", "settled 2 b -", "", "forget Done"),
        ("settled 2 b -", "", "", "", "forget Done"),
        ("", "", "settled 2 b -", "", "rest Done"),
        ("", "", "removed 2 b -", "", "note removed 2 b -"),
        ("kept 2 b -", "1", "removed 2 b -", "", "rest InStep"),
        ("kept 2 b -", "2", "", "", "Edited 3 m 2"),
        ("kept 2 b -", "", "", "", "note settled 2 b -"),
    ] {
        let act = given(mine, object, theirs, their_object).with(|case| words(&plan(case).act));
        assert_eq!(
            act, expected,
            "mine {mine:?}, here {object:?}, theirs {theirs:?}, there {their_object:?}"
        );
    }
}

#[test]
fn a_namespace_that_goes_takes_its_policies_and_no_user_did_that() {
    let absent = || given("applied 1 b 1", "", "applied 1 b 1", "1");
    Given { ground: Ground::Missing, ..absent() }.check("forget GroundGone");
    Given { ground: Ground::Here(Place::of("another", "d")), ..absent() }.check("forget GroundGone");
    Given { ground: Ground::Here(Place::of("n", "another")), ..absent() }.check("forget GroundGone");
    Given { ground: Ground::Unknown, ..absent() }.check("rest Unseen");
    Given { ground: Ground::Missing, ..given("", "", "applied 1 b 1", "1") }.check("rest NoNamespace");
}

#[test]
fn nothing_is_numbered_before_others_were_heard_or_waited_for() {
    Given { known: false, ..given("applied 1 m 1", "2", "", "") }.check("rest OthersUnknown");
    Given { known: false, waited: true, ..given("applied 1 m 1", "2", "", "") }.check("Edited 2 m 2");
    // Nothing is forgotten while somebody is unknown, however long that takes.
    Given { known: false, waited: true, ..given("settled 2 m -", "", "", "") }.check("rest Acknowledging");
    Given { known: false, waited: true, ..given("removed 2 m -", "", "", "") }.check("rest Acknowledging");
}

#[test]
fn what_was_forgotten_is_not_numbered_again() {
    Given { floor: 7, ..given("", "1", "", "") }.check("Created 8 m 1");
    // An old copy that a user annotated again is a new policy.
    Given { floor: 7, ..given("", "1@4 b 1", "settled 7 b -", "") }.check("Created 8 m 1");
}

#[test]
fn a_member_takes_only_from_whom_it_trusts() {
    // Of the two others, the trusted one says so itself, or the other one says so of it.
    let wary = |other, mine, object, theirs, their_object| Given {
        accept: Accept::parse(Some("a")),
        other,
        ..given(mine, object, theirs, their_object)
    };
    for other in ["a", "b"] {
        wary(other, "", "", "applied 1 b 1", "1").check("rest Declined");
        wary(other, "applied 1 a 1", "1", "applied 2 b 2", "2").check("rest Declined");
        wary(other, "applied 1 a 1", "1", "removed 2 b -", "").check("note kept 2 b -");
    }
    for (mine, object, theirs, their_object, proved) in [
        ("", "", "applied 1 a 1", "1", "create 1 a 1"),
        ("applied 1 a 1", "1", "removed 2 a -", "", "erase 2 a -"),
        ("kept 2 b -", "1", "applied 3 a 2", "2", "replace 3 a 2"),
        // Its own comes back from whom it trusts, if it has no word of its own on it.
        ("", "", "applied 1 m 1", "1", "create 1 m 1"),
    ] {
        wary("a", mine, object, theirs, their_object).check(proved);
        // What stands stays: nothing is taken, and nothing is written down as refused.
        wary("b", mine, object, theirs, their_object).check("rest Unproved");
    }
    wary("a", "applied 1 m 1", "1", "applied 9 m 2", "2").check("rest Unproved");
    // Who trusts everybody does not ask.
    given("", "", "applied 1 a 1", "1").check("create 1 a 1");
}

#[test]
fn a_revision_that_no_ledger_has_is_a_claim_of_whoever_wrote_it() {
    for (mine, object, theirs, there, expected) in [
        ("", "1@1 b 1", "", "", "Created 1 m 1"),
        ("", "1@99 a 1", "", "", "Created 1 m 1"),
        ("", "1@99 m 1", "applied 4 b 2", "2", "Created 5 m 1"),
        ("", "1@5 a 1", "applied 4 b 2", "2", "Created 5 m 1"),
        ("applied 4 b 2", "1@99 m 1", "applied 4 b 2", "2", "Edited 5 m 1"),
        ("applied 4 b 2", "1@99 a 1", "removed 4 b -", "", "Edited 5 m 1"),
        // A ledger has it, or something greater, or the same under its own name.
        ("applied 4 b 2", "1@5 b 1", "applied 5 b 1", "1", "note applied 5 b 1"),
        ("applied 4 b 2", "1@5 a 1", "applied 6 b 3", "3", "replace 6 b 3"),
        ("applied 4 b 2", "1@5 a 1", "removed 6 b -", "", "erase 6 b -"),
        ("", "1@99 a 1", "applied 4 b 1", "1", "note applied 4 b 1"),
    ] {
        let case = given(mine, object, theirs, there);
        case.check(expected);
        let told = case.with(|case| plan(case).news);
        let claims = expected.starts_with("Created") || expected.starts_with("Edited");
        let is_told = matches!(told.as_slice(), [News::Unproved { .. }]);
        assert_eq!(is_told, claims, "{mine:?} {object:?}: {told:?}");
        // Whoever is not known may have it, however long that takes.
        let unknown = Given { known: false, waited: true, ..given(mine, object, "", "") };
        unknown.check("rest Unproved");
        Given { returning: true, waited: true, ..given(mine, object, "", "") }.check("rest Unproved");
    }
    // What is written down as it is says enough: the claim beside it is nobody's concern.
    given("applied 5 m 1", "1@99 a 1", "applied 5 m 1", "1").check("rest InStep");
    given("applied 5 m 1", "", "applied 5 m 1", "1").check("Removed 6 m -");
}

#[test]
fn what_was_not_proved_is_not_written_down_where_the_winner_is_declined() {
    let wary = Given { accept: Accept::parse(Some("a")), ..given("", "1@2 a 1", "applied 3 b 2", "2") };
    wary.check("rest Declined");
}

#[test]
fn a_missing_tier_is_refused_and_waited_for() {
    given("", "", "applied 1 b 9", "9")
        .check("refuse Tier gold does not exist in cluster m: create it there");
    Given { tiers: Some(["gold".to_owned()].into()), ..given("", "", "applied 1 b 9", "9") }
        .check("create 1 b 9");
    // Tiers that are not known are no reason not to try.
    Given { tiers: None, ..given("", "", "applied 1 b 9", "9") }.check("create 1 b 9");
}

#[test]
fn a_change_that_was_not_known_to_the_winner_is_told() {
    let lost = given("applied 2 m 1", "1", "applied 2 b 2", "2");
    let news = lost.with(|case| plan(case).news);
    assert_eq!(news, [News::Conflict { lost: version("2 m 1"), won: version("2 b 2") }]);
    let known = given("applied 1 m 1", "1", "applied 2 b 2", "2");
    assert_eq!(known.with(|case| plan(case).news), []);
    let blocked = given("", "1*", "applied 1 b 1", "1");
    assert_eq!(blocked.with(|case| plan(case).news), [News::Blocked { by: version("1 b 1") }]);
    let outlived = given("applied 1 b 1", "", "applied 2 b 2", "2");
    assert_eq!(outlived.with(|case| plan(case).news), [News::Outlived { by: version("2 b 2") }]);
    let told = given("applied 1 m 1", "1", "", "2*");
    assert_eq!(told.with(|case| plan(case).news), [News::BlockedIn(id("b"))]);
}

#[test]
fn a_user_knew_what_was_in_front_of_them() {
    let base = |mine, object, theirs, there| {
        given(mine, object, theirs, there).with(|case| match plan(case).act {
            Act::AssignRevision(_, entry) => (entry.version.rev, entry.version.base),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(
        base("applied 1 b 1", "3", "applied 2 b 2", "2"),
        (3, 1),
        "an edit wins, but its author knew less"
    );
    assert_eq!(base("", "3", "applied 2 b 2", "2"), (3, 0));
    assert_eq!(base("removed 4 b -", "3", "removed 4 b -", ""), (5, 4));
}

#[test]
fn what_a_member_brings_along() {
    for (mine, object, theirs, expected) in [
        ("applied 1 b 1", "1", "", "discard"),
        ("", "1@1 b 1", "", "discard"),
        ("applied 1 b 1", "1", "applied 1 b 1", "rest InStep"),
        ("applied 1 b 1", "1", "removed 2 b -", "rest InStep"),
        ("applied 1 m 1", "1", "", "rest InStep"),
        ("", "1", "", "rest InStep"),
        ("", "1*", "", "rest Nowhere"),
        ("removed 2 m -", "", "applied 1 b 1", "forget Done"),
        ("applied 1 b 1", "", "applied 1 b 1", "forget Done"),
        ("kept 1 b -", "1", "", "forget Done"),
        ("removing 2 b -", "1@1 b 1", "", "forget Done"),
        // What the others still say goes on.
        ("removing 2 b -", "1@1 b 1", "removed 2 b -", "rest InStep"),
        ("kept 2 b -", "1", "removed 2 b -", "rest InStep"),
        // A copy that was changed meanwhile is less than anything that lives; where nothing does it is its users' own.
        ("applied 1 b 1", "2@1 b 1", "applied 1 b 1", "note applied 0 m 2"),
        ("", "2@1 b 1", "applied 3 b 3", "note applied 0 m 2"),
        ("applied 1 b 1", "2@1 b 1", "", "rest InStep"),
        ("applied 1 b 1", "2@1 b 1", "removed 2 b -", "rest InStep"),
        // What was made anew is brought along.
        ("applied 1 b 1", "2", "applied 1 b 1", "rest InStep"),
    ] {
        let case = Given { their_floor: 1, ..given(mine, object, theirs, "") };
        assert_eq!(case.with(|case| words(&rejoin(case))), expected, "{mine:?} {object:?} {theirs:?}");
    }
    // Nobody has it, and nobody ever forgot that something was removed.
    let kept = given("applied 1 b 1", "1", "", "");
    assert_eq!(kept.with(|case| words(&rejoin(case))), "rest InStep");
    for (mine, object) in [("applied 1 b 1", "1"), ("applied 1 b 1", "2@1 b 1")] {
        let unknown = Given { known: false, waited: true, ..given(mine, object, "", "") };
        assert_eq!(unknown.with(|case| words(&rejoin(case))), "rest OthersUnknown");
        // Who returns too is not waited for, or two would wait for each other.
        let both = Given { returning: true, ..given(mine, object, "", "") };
        assert_eq!(both.with(|case| words(&rejoin(case))), "rest InStep");
    }
}

#[test]
fn what_was_changed_in_a_cluster_that_was_no_member_is_overruled() {
    let overruled = Entry {
        version: Version::overruled(&id("m"), hash(2)),
        state: State::Applied { local: None, place: Place::default() },
    };
    let case = given("", "2@1 b 1", "applied 1 b 1", "1");
    let plan = case.with(|case| plan(&Case { mine: Some(&overruled), ..case.clone() }));
    assert_eq!(words(&plan.act), "replace 1 b 1");
    assert_eq!(plan.news, [News::Overruled { by: version("1 b 1") }]);
    // It is deleted before that: no user removed it from the federation.
    let gone = given("", "", "applied 1 b 1", "1");
    let act = gone.with(|case| super::super::plan(&Case { mine: Some(&overruled), ..case.clone() }).act);
    assert_eq!(words(&act), "forget GroundGone");
}

#[test]
fn a_removal_that_lost_is_forgotten_where_nothing_comes_over_it() {
    // Made a plain policy here while somebody else changed it: theirs wins, and cannot come.
    given("removed 2 m -", "1*", "applied 2 b 2", "2").check("forget Done");
    given("", "1*", "applied 2 b 2", "2").check("rest Foreign");
    let declining = Given { accept: Accept::None, ..given("removed 2 m -", "", "applied 2 b 2", "2") };
    declining.check("forget Done");
    let homeless = Given { ground: Ground::Missing, ..given("settled 2 m -", "", "applied 2 b 2", "2") };
    homeless.check("forget Done");
}

#[test]
fn a_ledger_far_ahead_of_all_others_was_written_by_no_leader() {
    let forged = format!("applied {} b 7", crate::policies::version::HIGHEST);
    let forged_removal = format!("removed {} b -", crate::policies::version::HIGHEST);
    // Elsewhere it neither goes over anything nor keeps anybody from the next revision.
    given("applied 3 m 1", "1", &forged, "7").check("rest InStep");
    given("applied 3 m 1", "1", &forged_removal, "").check("rest InStep");
    given("applied 3 m 1", "2", &forged, "7").check("Edited 4 m 2");
    given("", "", &forged, "7").check("rest Nowhere");
    // Where another is not known, who may have the same, nothing is decided.
    let mut two = given("applied 3 m 1", "2", &forged, "7");
    two.waited = false;
    let unknown = Other { member: &id("c"), ledger: Knows::Unknown, floor: 0, object: None, refused: None };
    let act = two.with(|case| {
        let mut case = case.clone();
        case.others.push(unknown.clone());
        words(&plan(&case).act)
    });
    assert_eq!(act, "rest OthersUnknown");
    // In the ledger itself, what is there counts from the next revision on.
    let forged = format!("applied {} m 7", crate::policies::version::HIGHEST);
    given(&forged, "7", "applied 3 b 1", "1").check("Created 4 m 7");
    // A member that was alone for long may be ahead.
    given("applied 3 m 1", "1", "applied 2000 b 2", "2").check("replace 2000 b 2");
}

#[test]
fn nothing_comes_after_the_highest_revision() {
    let highest = format!("applied {} b 1", crate::policies::version::HIGHEST);
    let case = given(&highest, "2", &highest, "1");
    assert_eq!(case.with(|case| plan(case).act), Act::Rest(Why::Exhausted));
    assert_eq!(case.with(|case| plan(case).news), [News::Exhausted]);
    let before = format!("applied {} b 1", crate::policies::version::HIGHEST - 1);
    given(&before, "2", &before, "1").with(|case| assert!(matches!(plan(case).act, Act::AssignRevision(..))));
}
