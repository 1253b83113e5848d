//! The status of a job: which of its states may follow which.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{Error, Path};
use crate::kinds::other::look::{
    Faults, IMMUTABLE, flag, has, int, list, not_negative, same, text, texts, unshown,
};

/// Whether a condition of that type is true.
pub(super) fn is_true(job: &Value, kind: &str) -> bool {
    has_condition(job, kind, "True")
}

fn has_condition(job: &Value, kind: &str, status: &str) -> bool {
    let conditions = list(&job["status"], "conditions").iter();
    conditions.into_iter().any(|one| text(one, "type") == kind && text(one, "status") == status)
}

fn is_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// What changed between two statuses: rules hold only for what a write touches.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

impl Change<'_> {
    fn field(&self, key: &str) -> bool {
        !same(&self.new["status"][key], &self.old["status"][key])
    }

    fn count(&self, key: &str) -> bool {
        let count = |job: &Value| int(&job["status"], key).unwrap_or_default();
        count(self.new) != count(self.old)
    }

    fn condition(&self, kind: &str) -> bool {
        is_true(self.new, kind) != is_true(self.old, kind)
    }

    fn finished(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }
}

/// What is wrong with a write of the status.
pub(super) fn validate(new: &Value, old: &Value) -> Faults {
    let change = Change { new, old };
    let mut faults = validate_numbers(&new["status"]);
    faults.extend(validate_conditions(&change));
    faults.extend(validate_finished(&change));
    faults.extend(validate_indexes(&change));
    faults.extend(validate_late(&change));
    faults.extend(validate_transition(&change));
    faults
}

fn validate_numbers(status: &Value) -> Faults {
    let path = Path::new("status");
    let mut faults = Vec::new();
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        faults.extend(not_negative(status, key, &path));
    }
    let uncounted = &status["uncountedTerminatedPods"];
    let mut seen = BTreeSet::new();
    for key in ["succeeded", "failed"] {
        for (index, uid) in texts(uncounted, key).into_iter().enumerate() {
            let at = path.child("uncountedTerminatedPods").child(key).index(index);
            if uid.is_empty() {
                faults.push(Error::invalid(&at, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                faults.push(Error::duplicate(&at, uid));
            }
        }
    }
    faults
}

fn validate_conditions(change: &Change<'_>) -> Faults {
    let job = change.new;
    let status = &job["status"];
    let path = Path::new("status");
    let conditions = path.child("conditions");
    let (complete, failed) = (is_true(job, "Complete"), is_true(job, "Failed"));
    let changed = |kind: &str| change.condition(kind);
    let mut faults = Vec::new();
    if (changed("Complete") || changed("Failed")) && complete && failed {
        faults.push(unshown(&conditions, "cannot set Complete=True and Failed=true conditions"));
    }
    if (changed("Complete") || changed("FailureTarget")) && complete && is_true(job, "FailureTarget") {
        faults.push(unshown(&conditions, "cannot set Complete=True and FailureTarget=true conditions"));
    }
    let at = path.child("completionTime");
    let done = status["completionTime"].as_str();
    if changed("Complete") || change.field("completionTime") {
        match done {
            Some(done) if !complete => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                faults.push(Error::invalid(&at, done, why));
            }
            None if complete => {
                faults.push(Error::required(&at, "completionTime is required for Complete jobs"));
            }
            _ => {}
        }
    }
    // Times of one form compare as text.
    let started = status["startTime"].as_str();
    if let (Some(done), Some(started)) = (done, started)
        && done.cmp(started) == Ordering::Less
        && (change.field("startTime") || change.field("completionTime"))
    {
        faults.push(Error::invalid(&at, done, "must be equal to or after `startTime`"));
    }
    if (changed("Failed") || change.field("failedIndexes")) && failed && !is_true(job, "FailureTarget") {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        faults.push(unshown(&conditions, why));
    }
    let met = is_true(job, "SuccessCriteriaMet");
    if (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        faults.push(unshown(&conditions, why));
    }
    faults
}

fn validate_finished(change: &Change<'_>) -> Faults {
    let job = change.new;
    let (spec, status) = (&job["spec"], &job["status"]);
    let path = Path::new("status");
    if !is_finished(job) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let active = int(status, "active").unwrap_or_default();
    if active > 0 && (change.finished() || change.count("active")) {
        faults.push(Error::invalid(&path.child("active"), active, "active>0 is invalid for finished job"));
    }
    let never_ran = flag(spec, "suspend") && int(spec, "completions") == Some(0);
    if !has(status, "startTime") && (change.finished() || change.field("startTime")) && !never_ran {
        faults.push(Error::required(&path.child("startTime"), "startTime is required for finished job"));
    }
    let uncounted = &status["uncountedTerminatedPods"];
    let any = ["succeeded", "failed"].iter().any(|key| !list(uncounted, key).is_empty());
    if any && (change.finished() || change.field("uncountedTerminatedPods")) {
        let at = path.child("uncountedTerminatedPods");
        faults.push(Error::invalid(&at, uncounted.clone(), "must be empty for finished job"));
    }
    faults
}

fn validate_indexes(change: &Change<'_>) -> Faults {
    let (spec, status) = (&change.new["spec"], &change.new["status"]);
    let path = Path::new("status");
    let completions = int(spec, "completions");
    let (completed, failed) = (text(status, "completedIndexes"), text(status, "failedIndexes"));
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let (completed_changed, failed_changed) =
        (change.field("completedIndexes"), change.field("failedIndexes"));
    let mut faults = Vec::new();
    let format = |path: &Path, indexes: &str, key: &str| {
        let why = count_indexes(indexes, completions?).err()?;
        Some(Error::invalid(path, indexes, format!("error parsing {key}: {why}")))
    };
    if completed_changed {
        faults.extend(format(&completed_path, completed, "completedIndexes"));
    }
    let per_index = has(spec, "backoffLimitPerIndex");
    if failed_changed && per_index && has(status, "failedIndexes") {
        faults.extend(format(&failed_path, failed, "failedIndexes"));
    }
    if completed_changed && !completed.is_empty() && text(spec, "completionMode") != super::job::INDEXED {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        faults.push(Error::invalid(&completed_path, completed, why));
    }
    if failed_changed && !per_index && has(status, "failedIndexes") {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        faults.push(Error::invalid(&failed_path, failed, why));
    }
    if (failed_changed || completed_changed)
        && has(status, "failedIndexes")
        && let Some(completions) = completions
        && let Some(index) = overlap(completed, failed, completions)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        faults.push(Error::invalid(&failed_path, failed, why));
    }
    faults
}

fn validate_late(change: &Change<'_>) -> Faults {
    let job = change.new;
    let status = &job["status"];
    let path = Path::new("status");
    let conditions = path.child("conditions");
    let mut faults = Vec::new();
    if let Some(number) = int(status, "terminating").filter(|number| *number > 0)
        && is_finished(job)
        && (change.finished() || change.field("terminating"))
    {
        let why = "terminating>0 is invalid for finished job";
        faults.push(Error::invalid(&path.child("terminating"), number, why));
    }
    if let Some(ready) = int(status, "ready")
        && ready > int(status, "active").unwrap_or_default()
        && (change.field("ready") || change.count("active"))
    {
        faults.push(Error::invalid(&path.child("ready"), ready, "cannot set more ready pods than active"));
    }
    let met = is_true(job, "SuccessCriteriaMet");
    if met && is_true(job, "Failed") {
        faults.push(unshown(&conditions, "cannot set SuccessCriteriaMet=True and Failed=true conditions"));
    }
    if met && is_true(job, "FailureTarget") {
        let why = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        faults.push(unshown(&conditions, why));
    }
    if has(&job["spec"], "successPolicy") && !met && is_true(job, "Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        faults.push(unshown(&conditions, why));
    }
    faults
}

fn validate_transition(change: &Change<'_>) -> Faults {
    let (new, old) = (change.new, change.old);
    let (spec, status, before) = (&new["spec"], &new["status"], &old["status"]);
    let path = Path::new("status");
    let conditions = path.child("conditions");
    let mut faults = Vec::new();
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is_true(old, kind) && !is_true(new, kind) {
            faults.push(unshown(&conditions, &format!("cannot disable the terminal {kind}=True condition")));
        }
    }
    let count = |status: &Value, key: &str| int(status, key).unwrap_or_default();
    // Indexed jobs can shrink with their parallelism.
    let elastic = text(spec, "completionMode") == super::job::INDEXED
        && int(spec, "completions") == int(spec, "parallelism");
    for (key, kept) in [("failed", true), ("succeeded", !elastic)] {
        if kept && count(status, key) < count(before, key) {
            let why = format!("cannot decrease the {key} counter");
            faults.push(Error::invalid(&path.child(key), count(status, key), why));
        }
    }
    if has(status, "completionTime") && has(before, "completionTime") && change.field("completionTime") {
        let at = path.child("completionTime");
        faults.push(Error::invalid(&at, status["completionTime"].clone(), IMMUTABLE));
    }
    let resuming = is_true(old, "Suspended") && has_condition(new, "Suspended", "False");
    if has(before, "startTime") && change.field("startTime") && !resuming && !flag(spec, "suspend") {
        let why = "field is immutable for unsuspended job once set";
        faults.push(Error::invalid(&path.child("startTime"), status["startTime"].clone(), why));
    }
    let met = |job: &Value| is_true(job, "SuccessCriteriaMet");
    if met(old) && !met(new) {
        faults.push(unshown(&conditions, "cannot disable the SuccessCriteriaMet=True condition"));
    }
    if is_true(old, "Complete") && !met(old) && met(new) {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        faults.push(unshown(&conditions, why));
    }
    faults
}

// === indexes: `0,2-4,7` ===

/// How many indexes the text names, all of them below `completions`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| {
        let index: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if index >= completions { Err(format!("too large index: {text:?}")) } else { Ok(index) }
    };
    match text.split('-').collect::<Vec<_>>()[..] {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

/// The first index that both texts name; parts that do not parse are reported elsewhere.
fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let other = intervals(other);
    intervals(one).into_iter().find_map(|(first, last)| {
        let hit = other.iter().find(|(start, end)| first <= *end && *start <= last)?;
        Some(first.max(hit.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        assert_eq!(count_indexes("5", 5), Err(r#"too large index: "5""#.to_owned()));
        assert_eq!(count_indexes("2,1", 5), Err("non-increasing order, previous: 2, current: 1".to_owned()));
        assert_eq!(overlap("0-3,5", "4,5", 9), Some(5));
        assert_eq!(overlap("0-3", "4,5", 9), None);
    }
}
