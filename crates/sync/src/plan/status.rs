//! What goes up: the status of a copy, or one key of it.

use json_patch::Patch;
use serde_json::{Map, Value, json};

use super::copy::guarded;
use super::object::{Object, same};
use super::{Observed, Rules};

/// Why a status cannot go up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There is nothing below a status that is no object.
    CopyHasNoSubtree,
    OriginalHasNoSubtree,
}

/// How a copy stands to its original, as far as generations go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reflects {
    /// The copy is what the original's generation says.
    Current,
    Older,
}

/// What is wrong with the original's status, if anything.
pub(super) fn update(
    rules: &Rules,
    original: &Object,
    copy: &Object,
    reported: &Value,
    reflects: Reflects,
) -> Result<Option<Patch>, Unfit> {
    let present = original.status.as_ref();
    let wanted = match &rules.subtree {
        None => Some(translated(rules, original, copy, reported.clone(), present, reflects)),
        Some(key) => {
            let reported = reported.as_object().ok_or(Unfit::CopyHasNoSubtree)?;
            let mut whole = match present {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(status)) => status.clone(),
                Some(_) => return Err(Unfit::OriginalHasNoSubtree),
            };
            match reported.get(key) {
                Some(part) => {
                    let present = whole.get(key).cloned();
                    let part = translated(rules, original, copy, part.clone(), present.as_ref(), reflects);
                    whole.insert(key.clone(), part);
                }
                None => drop(whole.remove(key)),
            }
            Some(Value::Object(whole))
        }
    };
    let is = wrapped(present);
    let should = wrapped(wanted.as_ref());
    // No status and an empty one say the same.
    if same(&is, &should) || (empty(present) && empty(wanted.as_ref())) {
        return Ok(None);
    }
    Ok(Some(guarded(json_patch::diff(&is, &should), original)))
}

fn wrapped(status: Option<&Value>) -> Value {
    status.map_or_else(|| json!({}), |status| json!({ "status": status }))
}

fn empty(status: Option<&Value>) -> bool {
    match status {
        None | Some(Value::Null) => true,
        Some(Value::Object(status)) => status.is_empty(),
        Some(_) => false,
    }
}

/// With `translate`, a generation that was observed downstream in the original's terms.
///
/// kubectl compares both `observedGeneration` of the status and those of its conditions with the original's
/// generation. One that is current downstream is current upstream if the copy is; of an older one only that much
/// is known, so what the original said before stays if it is older too.
fn translated(
    rules: &Rules,
    original: &Object,
    copy: &Object,
    mut status: Value,
    present: Option<&Value>,
    reflects: Reflects,
) -> Value {
    if rules.observed == Observed::Verbatim {
        return status;
    }
    let translate = |observed: i64, before: Option<i64>| {
        if reflects == Reflects::Current && observed == copy.generation {
            return original.generation;
        }
        before.filter(|before| *before < original.generation).unwrap_or(0)
    };
    let observed = |of: &Value| of.get("observedGeneration").and_then(Value::as_i64);
    if let Some(value) = observed(&status) {
        status["observedGeneration"] = translate(value, present.and_then(observed)).into();
    }
    let known = present.and_then(|present| present.get("conditions")?.as_array());
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(value) = observed(condition) else { continue };
        let before = known.into_iter().flatten().find(|known| known.get("type") == condition.get("type"));
        condition["observedGeneration"] = translate(value, before.and_then(observed)).into();
    }
    status
}
