//! Conditions of the form that most newer kinds share.

use serde_json::Value;

use super::look::{Faults, each_wrong, has, int, list, one_of, text};
use crate::field::{Error, Path};
use crate::names;

const LONGEST_REASON: usize = 1024;
const LONGEST_MESSAGE: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// What is wrong with the conditions of a status.
pub(super) fn validate(status: &Value, path: &Path) -> Faults {
    let conditions = list(status, "conditions");
    let mut faults = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "type");
        if conditions[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            faults.push(Error::duplicate(&path.child("type"), kind));
        }
        faults.extend(each_wrong(&path.child("type"), kind, names::qualified_name(kind)));
        faults.extend(one_of(
            text(condition, "status"),
            &path.child("status"),
            &["False", "True", "Unknown"],
        ));
        if let Some(generation) = int(condition, "observedGeneration").filter(|number| *number < 0) {
            let why = "must be greater than or equal to zero";
            faults.push(Error::invalid(&path.child("observedGeneration"), generation, why));
        }
        if !has(condition, "lastTransitionTime") {
            faults.push(Error::required(&path.child("lastTransitionTime"), ""));
        }
        let reason = text(condition, "reason");
        let at = path.child("reason");
        if reason.is_empty() {
            faults.push(Error::required(&at, ""));
        } else {
            if !is_reason(reason) {
                faults.push(Error::invalid(&at, reason, REASON));
            }
            if reason.len() > LONGEST_REASON {
                faults.push(Error::too_long(&at, LONGEST_REASON));
            }
        }
        if text(condition, "message").len() > LONGEST_MESSAGE {
            faults.push(Error::too_long(&path.child("message"), LONGEST_MESSAGE));
        }
    }
    faults
}

fn is_reason(reason: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    bytes[0].is_ascii_alphabetic()
        && bytes.last().is_some_and(|last| word(*last))
        && bytes.iter().all(|byte| word(*byte) || b",:".contains(byte))
}
