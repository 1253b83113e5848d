//! What to do about one policy in one member that is led. Plain values, no client, no clock.
//!
//! ```text
//! ledger + object ─► standing: what did users do here? ─┬─► judge: a new revision
//!                                                       └─► follow: towards the greatest revision of all
//! ```

mod follow;
mod gone;
mod rejoin;
pub mod roster;
#[cfg(test)]
mod tests;
mod user_change;

use std::borrow::Cow;
use std::collections::BTreeSet;

use koinon_fleet::ClusterId;

use super::accept::Accept;
use super::content::Sighting;
use super::key::PolicyKey;
use super::ledger::{Entry, Place, Refusal, State};
use super::version::{HIGHEST, Version};
pub use rejoin::rejoin;
use user_change::{Standing, standing};

/// Everything that counts for one policy in the member that is led.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    pub key: &'a PolicyKey,
    /// The member that is led.
    pub me: &'a ClusterId,
    /// What its ledger says.
    pub mine: Option<&'a Entry>,
    pub refused: Option<&'a Refusal>,
    /// No revision here may be as low as this.
    pub floor: u64,
    pub object: Object<'a>,
    pub ground: Ground,
    pub accept: &'a Accept,
    /// The tiers that are here, where that is known.
    pub tiers: Option<&'a BTreeSet<String>>,
    /// All other members that count.
    pub others: Vec<Other<'a>>,
    /// Whether those of whom nothing is known were waited for long enough.
    pub waited: bool,
}

/// The policy as it is in the member that is led.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Object<'a> {
    Unknown,
    Absent,
    Here(&'a Sighting),
}

/// What a policy would stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    Unknown,
    /// Its namespace is not there, or going.
    Missing,
    Here(Place),
}

/// The same policy in another member.
#[derive(Clone, Debug)]
pub struct Other<'a> {
    pub member: &'a ClusterId,
    pub ledger: Knows<'a>,
    /// The highest revision that it forgot on this page.
    pub floor: u64,
    /// As far as it was seen.
    pub object: Option<&'a Sighting>,
    /// What it could not take.
    pub refused: Option<&'a Refusal>,
}

/// What another member's ledger says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knows<'a> {
    /// It was never read.
    Unknown,
    /// The member left and returns: what its ledger says does not count yet.
    Returning,
    Known(Option<&'a Entry>),
}

impl<'a> Knows<'a> {
    pub fn entry(self) -> Option<&'a Entry> {
        match self {
            Knows::Unknown | Knows::Returning => None,
            Knows::Known(entry) => entry,
        }
    }

    fn counts(self) -> bool {
        matches!(self, Knows::Known(_))
    }
}

/// What to do, and what to tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub act: Act,
    pub news: Vec<News>,
}

/// What to do now; there is one thing at a time for each policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Nothing.
    Rest(Why),
    /// A user did something here: look past the watch, and if it is still so, write it down as a new revision.
    AssignRevision(UserChange, Entry),
    /// Write down how it is.
    Note(Entry),
    /// Look past the watch, and if it is still so, strike it from the ledger.
    Forget(Why),
    /// Make the policy say this, and write that down.
    Write(Write),
    /// Write down that it goes, delete it, and write down that it is gone.
    Erase { entry: Entry, uid: String, resource_version: String },
    /// Write down why it cannot be taken.
    Refuse(Refusal),
    /// It is left from before this member left: delete it.
    Discard { uid: String, resource_version: String },
}

/// A copy to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub version: Version,
    /// Who has the content.
    pub from: Vec<ClusterId>,
    /// What it goes over.
    pub over: Option<Over>,
    pub place: Place,
}

/// An object, and no successor of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    pub uid: String,
    pub resource_version: String,
}

/// What a user did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserChange {
    Created,
    Edited,
    Removed,
    /// The annotation went; the policy stays as a plain one.
    Left,
}

/// Why there is nothing to do, or why something is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is as it should be.
    InStep,
    /// Nobody federates a policy of this name.
    Nowhere,
    /// The namespace is not here.
    NoNamespace,
    /// A policy of somebody's own has this name here.
    Foreign,
    /// This member does not take it from there.
    Declined,
    /// It was refused, and nothing changed since.
    Refused,
    /// Objects or namespaces of this member are not known completely.
    Unseen,
    /// Others may know of a higher revision.
    OthersUnknown,
    /// No ledger that is known proves where it comes from.
    Unproved,
    /// Nobody who has the content can be asked.
    NoSource,
    /// The object is on its way out.
    Going,
    /// It was removed; not everybody has said so yet.
    Acknowledging,
    /// Everybody knows that it was removed.
    Done,
    /// The ground that it stood on is gone.
    GroundGone,
    /// A user removed it here while a newer revision was on its way: of that one nothing was said.
    Outdated,
    /// A user did something, and there is no higher revision.
    Exhausted,
}

/// Something that users should hear.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Somebody else's change was made without knowing of one that was made here, and wins.
    Conflict { lost: Version, won: Version },
    /// What was removed here was an outdated copy: this revision comes all the same.
    Outlived { by: Version },
    /// The policy of this name here is not federated, so that of the federation cannot come.
    Blocked { by: Version },
    /// The same, told where the federated policy was last changed.
    BlockedIn(ClusterId),
    /// A member cannot take what was last changed here.
    RefusedIn(ClusterId, String),
    /// Spellings of the annotation say different things.
    Contradicts,
    /// What was done here cannot be numbered.
    Exhausted,
    /// The policy says that it is a copy of a revision that no ledger has.
    Unproved { claimed: Version },
    /// It was changed here while the cluster was no member, and what the others have goes over it.
    Overruled { by: Version },
}

/// Whether a member takes a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Taken,
    Declined,
    /// It would take it from there, and the ledger of that member does not say that it comes from there.
    Unproved,
}

/// Nobody changes a policy so often while the others do not hear of it: a ledger that is further ahead of all others was not
/// written by a leader, and would use up the revisions.
const LEAP: u64 = 1 << 20;

/// Decides about one policy.
pub fn plan(case: &Case<'_>) -> Plan {
    let case = &*case.plausible();
    let act = match standing(case) {
        Standing::Unclear(why) => Act::Rest(why),
        Standing::Lost(why) => Act::Forget(why),
        Standing::Decided(..) if !case.may_assign_revision() => Act::Rest(Why::OthersUnknown),
        Standing::Decided(change, entry) => Act::AssignRevision(change, entry),
        Standing::Here(here) => follow::from_here(case, &here),
        Standing::Nothing { foreign } => follow::from_nothing(case, foreign),
    };
    let news = news(case, &act);
    Plan { act, news }
}

impl<'a> Case<'a> {
    /// The same without what no leader can have written.
    fn plausible(&self) -> Cow<'_, Case<'a>> {
        // Nothing is far ahead of anything.
        if self.known_rev() <= LEAP {
            return Cow::Borrowed(self);
        }
        let rev = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.version.rev);
        let is_leap = |entry: Option<&Entry>, most: u64| rev(entry) > most.saturating_add(LEAP);
        let theirs = |but: Option<&ClusterId>| {
            let others = self.others.iter().filter(move |other| Some(other.member) != but);
            others.map(|other| rev(other.ledger.entry()).max(other.floor)).max().unwrap_or(0)
        };
        let mut case = self.clone();
        for other in &mut case.others {
            let most = theirs(Some(other.member)).max(rev(self.mine)).max(self.floor);
            if is_leap(other.ledger.entry(), most) {
                // Whoever is not known may have the same.
                other.ledger = if self.knows_all() { Knows::Known(None) } else { Knows::Unknown };
            }
        }
        if self.knows_all() && is_leap(self.mine, theirs(None)) {
            case.mine = None;
        }
        Cow::Owned(case)
    }

    /// The greatest revision that is known.
    pub fn winner(&self) -> Option<&'a Version> {
        let theirs = self.others.iter().filter_map(|other| other.ledger.entry());
        theirs.chain(self.mine).map(|entry| &entry.version).max()
    }

    /// The revision that an object says it is an untouched copy of, if that can be: not what was forgotten here, nor what
    /// is not more than what is written down.
    fn claim<'s>(&self, sighting: &'s Sighting) -> Option<&'s Version> {
        let can_be = |claimed: &&Version| match self.mine.map(|mine| (&mine.state, &mine.version)) {
            None => claimed.rev > self.floor,
            Some((State::Applied { .. } | State::Kept { .. }, noted)) => *claimed > noted,
            Some((State::Removing { .. } | State::Removed | State::Settled, _)) => false,
        };
        sighting.copy_of().filter(can_be)
    }

    /// Whether another member's ledger has this very revision.
    fn has_proof(&self, version: &Version) -> bool {
        let mut theirs = self.others.iter().filter_map(|other| other.ledger.entry());
        theirs.any(|entry| entry.version == *version)
    }

    /// Whether the member takes a revision. Who trusts only some does not believe others what those have said.
    fn trusts(&self, version: &Version) -> Trust {
        let Accept::From(_) = self.accept else {
            let takes = self.accept.takes(self.me, &version.origin);
            return if takes { Trust::Taken } else { Trust::Declined };
        };
        if !self.accept.takes(self.me, &version.origin) {
            return Trust::Declined;
        }
        let mut theirs = self
            .others
            .iter()
            .filter(|other| other.ledger.entry().is_some_and(|entry| entry.version == *version));
        let proved = if version.origin == *self.me {
            // What was made here and is not in the ledger any more, because its ground went, comes back from members that
            // are trusted.
            match self.mine {
                Some(mine) => mine.version == *version,
                None => theirs.any(|other| self.accept.takes(self.me, other.member)),
            }
        } else {
            theirs.any(|other| *other.member == version.origin)
        };
        if proved { Trust::Taken } else { Trust::Unproved }
    }

    fn may_assign_revision(&self) -> bool {
        self.waited || self.knows_all()
    }

    /// Whether every other ledger is known and counts.
    fn knows_all(&self) -> bool {
        self.others.iter().all(|other| other.ledger.counts())
    }

    fn known_rev(&self) -> u64 {
        self.winner().map_or(0, |version| version.rev)
    }

    /// A revision that a user of this member makes now; none where somebody wrote down the highest that there can be.
    fn next(&self, content: Option<super::version::Hash>) -> Option<Version> {
        let base = self.mine.map_or(0, |mine| mine.version.rev);
        let rev = self.known_rev().max(self.floor).checked_add(1).filter(|rev| *rev <= HIGHEST)?;
        Some(Version { rev, base, origin: self.me.clone(), content })
    }
}

fn news(case: &Case<'_>, act: &Act) -> Vec<News> {
    let mut news = Vec::new();
    if let (Act::Forget(Why::Outdated), Some(by)) = (act, case.winner()) {
        news.push(News::Outlived { by: by.clone() });
    }
    if *act == Act::Rest(Why::Exhausted) {
        news.push(News::Exhausted);
    }
    let Object::Here(sighting) = case.object else { return news };
    if sighting.is_federated() && sighting.marked.contradicts {
        news.push(News::Contradicts);
    }
    let is_open = matches!(act, Act::AssignRevision(..) | Act::Rest(Why::Unproved));
    if let Some(claimed) = case.claim(sighting).filter(|claimed| is_open && !case.has_proof(claimed)) {
        news.push(News::Unproved { claimed: claimed.clone() });
    }
    let over = match act {
        Act::Write(write) => Some(&write.version),
        Act::Erase { entry, .. } => Some(&entry.version),
        _ => None,
    };
    if let (Some(by), Some(mine)) = (over, case.mine)
        && mine.version.is_overruled()
    {
        news.push(News::Overruled { by: by.clone() });
    }
    if let (Some(won), Some(mine)) = (over, case.mine)
        && mine.version.origin == *case.me
        && mine.version.is_live()
        && mine.version.was_unknown_to(won)
    {
        news.push(News::Conflict { lost: mine.version.clone(), won: won.clone() });
    }
    let winner = case.winner();
    if let (Act::Rest(Why::Foreign), Some(by)) = (act, winner) {
        news.push(News::Blocked { by: by.clone() });
    }
    // One cluster tells of troubles elsewhere, or each of them would: the one where the user changed it.
    let is_mine = |version: &&Version| version.is_live() && version.origin == *case.me;
    if *act == Act::Rest(Why::InStep)
        && let Some(winner) = winner.filter(is_mine)
    {
        for other in &case.others {
            let is_foreign = other.object.is_some_and(|object| !object.is_federated() && !object.going);
            if is_foreign && other.ledger.entry().is_none_or(|entry| !entry.version.is_live()) {
                news.push(News::BlockedIn(other.member.clone()));
            }
            if let Some(refusal) = other.refused.filter(|refusal| refusal.is_of(winner)) {
                news.push(News::RefusedIn(other.member.clone(), refusal.why.clone()));
            }
        }
    }
    news
}
