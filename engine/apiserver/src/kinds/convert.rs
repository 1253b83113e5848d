//! Built-in kinds that are served in several versions: which one is stored, and how to get from one to
//! another.

mod autoscaler;
mod event;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// Turns an object of a built-in kind into another version of itself. Versions that this server does not
/// serve come back as they are.
pub fn convert(
    from_group: &str,
    from_version: &str,
    kind: &str,
    value: Value,
    to_group: &str,
    to_version: &str,
) -> Value {
    match (kind, from_group, from_version, to_group, to_version) {
        ("HorizontalPodAutoscaler", "autoscaling", "v1", "autoscaling", "v2") => autoscaler::to_second(value),
        ("HorizontalPodAutoscaler", "autoscaling", "v2", "autoscaling", "v1") => autoscaler::to_first(value),
        ("Event", "events.k8s.io", "v1", "", "v1") => event::to_core(value),
        ("Event", "", "v1", "events.k8s.io", "v1") => event::from_core(value),
        _ => value,
    }
}

/// The group and version that objects of a built-in kind are stored in, where that is not the one they
/// came in: both kinds of Event share the core group's storage.
pub fn storage(group: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    match (group, kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => Some(("autoscaling", "v2")),
        ("" | "events.k8s.io", "Event") => Some(("", "v1")),
        _ => None,
    }
}

/// A field whose zero value is not written.
fn omit_empty(value: &mut Value, key: &str) {
    use crate::kinds::other::look::empty;
    if empty(&value[key])
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove(key);
    }
}
