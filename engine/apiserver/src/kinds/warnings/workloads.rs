//! Kinds that make pods from a template.

use serde_json::Value;

use super::super::walk::{At, get, text};
use super::{annotation, at, pods, storage};
use crate::field::Path;
use crate::names;

/// Deployments and ReplicaSets.
pub(super) fn replicated(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings.extend(name_of_pods(new));
    }
    if generation_changed(new, old) {
        warnings.extend(pods::template(&At::top(new, "spec").child("template")));
    }
    warnings
}

pub(super) fn replication_controller(new: &Value, old: Option<&Value>) -> Vec<String> {
    match old {
        None => replicated(new, None),
        // The real server looks at what was there before.
        Some(old) if generation_changed(new, Some(old)) => {
            pods::template(&At::top(old, "spec").child("template"))
        }
        Some(_) => Vec::new(),
    }
}

pub(super) fn daemon_set(new: &Value, old: Option<&Value>) -> Vec<String> {
    const GENERATION: &str = "deprecated.daemonset.template.generation";
    if old.is_some_and(|old| annotation(old, GENERATION) == annotation(new, GENERATION)) {
        return Vec::new();
    }
    pods::template(&At::top(new, "spec").child("template"))
}

pub(super) fn stateful_set(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = At::top(new, "spec");
    let mut warnings = Vec::new();
    if generation_changed(new, old) {
        warnings.extend(pods::template(&spec.child("template")));
    }
    for claim in spec.child("volumeClaimTemplates").items() {
        // The real server names these places without `spec`, and then with a capital.
        let path = if old.is_none() { claim.path.clone() } else { claim.path.child("Spec") };
        warnings.extend(storage::claim_spec(&At { value: claim.child("spec").value, path }));
    }
    if spec.int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
    warnings
}

pub(super) fn pod_template(new: &Value, old: Option<&Value>) -> Vec<String> {
    if generation_changed(new, old) { pods::template(&At::top(new, "template")) } else { Vec::new() }
}

pub(super) fn job(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings.extend(name_of_pods(new));
    }
    if generation_changed(new, old) {
        warnings.extend(job_spec(&At::top(new, "spec")));
    }
    warnings
}

pub(super) fn cron_job(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = At::top(new, "spec");
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings.extend(name_of_pods(new));
    }
    if generation_changed(new, old) {
        warnings.extend(job_spec(&spec.child("jobTemplate").child("spec")));
    }
    if old.is_some() && spec.text("schedule").contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
}

fn job_spec(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let over = |name: &str, most: i64| spec.int(name).is_some_and(|value| value > most);
    if spec.text("completionMode") == "Indexed" && over("completions", 100_000) && over("parallelism", 10_000)
    {
        warnings.push(at(
            &spec.path,
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
        ));
    }
    warnings.extend(pods::template(&spec.child("template")));
    warnings
}

/// What a name must look like to be part of the names of pods.
fn name_of_pods(object: &Value) -> Option<String> {
    let wrong = names::dns1123_label(text(&object["metadata"], "name"));
    let advice = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    let place = Path::new("metadata").child("name");
    (!wrong.is_empty()).then(|| at(&place, format_args!("{advice}: [{}]", wrong.join(" "))))
}

/// New objects count as changed.
fn generation_changed(new: &Value, old: Option<&Value>) -> bool {
    let generation = |object: &Value| get(object, &["metadata", "generation"]).as_i64().unwrap_or_default();
    old.is_none_or(|old| generation(old) != generation(new))
}
