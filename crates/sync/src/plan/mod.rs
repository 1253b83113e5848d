//! What to do about one object, decided from what both sides have and nothing else.
//!
//! The owner of the spec is *upstream* and has the original; the other side is *downstream* and has the copy.
//! Spec, labels, annotations and the end of it go down, status goes up. Everything here is a plain value: no client,
//! no clock, no cache.

mod copy;
mod ledger;
mod object;
mod status;
#[cfg(test)]
mod tests;

use json_patch::Patch;
use serde_json::{Value, json};

pub use ledger::Ledger;
pub use object::{Object, Seen, same};
pub use status::Unfit;

use crate::names;
use status::Reflects;

/// The side that owns metadata, spec and lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Cloud,
    Robot,
}

/// Which objects are a robot's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Everything,
    /// Those that carry its name.
    OwnLabel,
}

/// What becomes of `observedGeneration` on its way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    Verbatim,
    Translate,
}

/// How the objects of one CRD are kept in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub source: Source,
    pub filter: Filter,
    /// The only key below `status` that travels.
    pub subtree: Option<String>,
    pub observed: Observed,
    pub robot: String,
    /// Whether the copy's status is a subresource.
    pub downstream_status: bool,
}

impl Rules {
    /// Whether an object carries this robot's name.
    pub fn is_labelled(&self, object: &Object) -> bool {
        object.labels.get(names::ROBOT) == Some(&self.robot)
    }

    fn is_for_us(&self, original: &Object) -> bool {
        self.filter == Filter::Everything || self.is_labelled(original)
    }

    /// Whether a copy without an original is ours to remove.
    fn may_remove(&self, copy: &Object) -> bool {
        self.owns_all_copies() || self.is_labelled(copy)
    }

    /// Whether everything downstream is a copy, or only what carries the robot's name.
    pub fn owns_all_copies(&self) -> bool {
        self.source == Source::Cloud && self.filter == Filter::Everything
    }
}

/// What is known beyond the two objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The copy is what its server makes of the present original, even if it looks different.
    pub settled: bool,
    /// This very copy had a status before.
    pub reported: bool,
}

/// What to do downstream.
#[derive(Clone, Debug, PartialEq)]
pub enum Down {
    Nothing(Idle),
    /// The copy, without its name.
    Create(Value),
    Update {
        uid: String,
        patch: Patch,
    },
    Delete {
        uid: String,
        why: Gone,
    },
}

/// What to do upstream.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    Nothing(Idle),
    Status { uid: String, patch: Patch },
}

/// Why a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    OriginalAbsent,
    OriginalTerminating,
    /// The original is there, but it is not this robot's.
    NotOurs,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// One side was not listed completely.
    Unknown,
    Agreed,
    /// Neither side has it.
    Absent,
    /// Its deletion goes on downstream; a new copy has to wait for it.
    CopyTerminating,
    OriginalTerminating,
    /// A local object that is none of our business.
    Foreign,
    /// A local object has the name that a copy needs.
    NameTaken,
    /// The copy was made from an earlier object of this name.
    OtherOriginal,
    /// Nothing was reported by this copy yet.
    NoStatus,
    Unfit(Unfit),
}

/// What to do on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub down: Down,
    pub up: Up,
}

/// Decides about one object.
pub fn plan(rules: &Rules, upstream: Seen<'_>, downstream: Seen<'_>, known: Known) -> Plan {
    Plan { down: down(rules, upstream, downstream, known), up: up(rules, upstream, downstream, known) }
}

/// Decides what to do downstream.
pub fn down(rules: &Rules, upstream: Seen<'_>, downstream: Seen<'_>, known: Known) -> Down {
    let (original, copy) = match (upstream, downstream) {
        (Seen::Unknown, _) | (_, Seen::Unknown) => return Down::Nothing(Idle::Unknown),
        (Seen::Absent, Seen::Absent) => return Down::Nothing(Idle::Absent),
        (Seen::Absent, Seen::Known(copy)) => return remove(rules, copy, Gone::OriginalAbsent),
        (Seen::Known(original), Seen::Known(copy)) => (original, Some(copy)),
        (Seen::Known(original), Seen::Absent) => (original, None),
    };
    let gone = if original.terminating {
        Some(Gone::OriginalTerminating)
    } else if !rules.is_for_us(original) {
        Some(Gone::NotOurs)
    } else {
        None
    };
    match (gone, copy) {
        (Some(why), Some(copy)) => remove(rules, copy, why),
        (Some(Gone::OriginalTerminating), None) => Down::Nothing(Idle::OriginalTerminating),
        (Some(_), None) => Down::Nothing(Idle::Foreign),
        (None, None) => Down::Create(copy::create(rules, original)),
        (None, Some(copy)) if copy.terminating => Down::Nothing(Idle::CopyTerminating),
        (None, Some(copy)) if is_taken(rules, copy) => Down::Nothing(Idle::NameTaken),
        (None, Some(_)) if known.settled => Down::Nothing(Idle::Agreed),
        (None, Some(copy)) => match copy::update(rules, original, copy) {
            Some(patch) => Down::Update { uid: copy.uid.clone(), patch },
            None => Down::Nothing(Idle::Agreed),
        },
    }
}

/// With a filter, only what carries the robot's name or our ledger is a copy: the rest was made beside it.
fn is_taken(rules: &Rules, copy: &Object) -> bool {
    rules.filter == Filter::OwnLabel && !rules.is_labelled(copy) && Ledger::of(copy).is_none()
}

fn remove(rules: &Rules, copy: &Object, why: Gone) -> Down {
    if !rules.may_remove(copy) {
        return Down::Nothing(Idle::Foreign);
    }
    if copy.terminating {
        return Down::Nothing(Idle::CopyTerminating);
    }
    Down::Delete { uid: copy.uid.clone(), why }
}

/// Decides what to do upstream.
pub fn up(rules: &Rules, upstream: Seen<'_>, downstream: Seen<'_>, known: Known) -> Up {
    let (original, copy) = match (upstream, downstream) {
        (Seen::Unknown, _) | (_, Seen::Unknown) => return Up::Nothing(Idle::Unknown),
        (Seen::Known(original), Seen::Known(copy)) => (original, copy),
        _ => return Up::Nothing(Idle::Absent),
    };
    if !rules.is_for_us(original) || is_taken(rules, copy) {
        return Up::Nothing(Idle::Foreign);
    }
    // A copy that was made from an earlier object tells nothing of this one, least of all while it is dying.
    if Ledger::of(copy).is_none_or(|ledger| ledger.uid != original.uid) {
        return Up::Nothing(Idle::OtherOriginal);
    }
    let cleared = json!({});
    let reported = match &copy.status {
        Some(Value::Null) | None if known.reported => &cleared,
        Some(Value::Null) | None => return Up::Nothing(Idle::NoStatus),
        Some(status) => status,
    };
    let current = known.settled || copy::has_spec_of(original, copy);
    let reflects = if current { Reflects::Current } else { Reflects::Older };
    match status::update(rules, original, copy, reported, reflects) {
        Ok(Some(patch)) => Up::Status { uid: original.uid.clone(), patch },
        Ok(None) => Up::Nothing(Idle::Agreed),
        Err(unfit) => Up::Nothing(Idle::Unfit(unfit)),
    }
}
