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
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use koinon_fleet::ClusterId;

use super::accept::Accept;
use super::content::Sighting;
use super::key::PolicyKey;
use super::ledger::{Entry, Place, Refusal};
use super::version::{HIGHEST, Version};
pub use rejoin::rejoin;
use standing::{Standing, standing};

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
    /// As far as it was seen.
    pub object: Option<&'a Sighting>,
    /// What it could not take.
    pub refused: Option<&'a Refusal>,
}

/// What another member's ledger says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knows<'a> {
    /// It was never read, or does not count yet.
    Unknown,
    Known(Option<&'a Entry>),
}

impl<'a> Knows<'a> {
    pub fn entry(self) -> Option<&'a Entry> {
        match self {
            Knows::Unknown => None,
            Knows::Known(entry) => entry,
        }
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
    Judge(Deed, Entry),
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
pub enum Deed {
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
}

/// Decides about one policy.
pub fn plan(case: &Case<'_>) -> Plan {
    let act = match standing(case) {
        Standing::Unclear(why) => Act::Rest(why),
        Standing::Lost(why) => Act::Forget(why),
        Standing::Judged(..) if !case.may_judge() => Act::Rest(Why::OthersUnknown),
        Standing::Judged(deed, entry) => Act::Judge(deed, entry),
        Standing::Here(here) => follow::from_here(case, &here),
        Standing::Nothing { foreign } => follow::from_nothing(case, foreign),
    };
    let news = news(case, &act);
    Plan { act, news }
}

impl<'a> Case<'a> {
    /// The greatest revision that is known.
    pub fn winner(&self) -> Option<&'a Version> {
        let theirs = self.others.iter().filter_map(|other| other.ledger.entry());
        theirs.chain(self.mine).map(|entry| &entry.version).max()
    }

    fn may_judge(&self) -> bool {
        self.waited || self.others.iter().all(|other| other.ledger != Knows::Unknown)
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
    let over = match act {
        Act::Write(write) => Some(&write.version),
        Act::Erase { entry, .. } => Some(&entry.version),
        _ => None,
    };
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
