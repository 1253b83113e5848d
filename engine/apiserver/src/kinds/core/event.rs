//! Events as the core group has them: hardly anything is asked of old ones, more of those with a time.

use serde_json::Value;

use super::Strategy;
use crate::field::{Error, Path};
use crate::kinds::walk::{At, Faults, get, text};
use crate::names;

pub(super) const EVENT: Strategy = Strategy {
    validate: validate_event,
    validate_update: |new, _| validate_event(new),
    name: names::path_segment,
    create_on_update: true,
    ..Strategy::PLAIN
};

fn validate_event(event: &Value) -> Faults {
    let namespace = text(&event["metadata"], "namespace");
    let involved = At::top(event, "involvedObject").child("namespace");
    let new_style = !get(event, &["eventTime"]).is_null();
    let elsewhere = if new_style {
        involved.str().is_empty() && !["default", "kube-system"].contains(&namespace)
    } else if involved.str().is_empty() {
        !["", "default"].contains(&namespace)
    } else {
        namespace != involved.str()
    };
    let mut faults = Faults::new();
    if elsewhere {
        faults.push(Error::invalid(&involved.path, involved.str(), "does not match event.namespace"));
    }
    if new_style {
        faults.extend(validate_new_style(event));
    }
    let wrong = names::dns1123_subdomain(namespace);
    faults.extend(wrong.into_iter().map(|why| Error::invalid(&Path::new("namespace"), namespace, why)));
    faults
}

fn validate_new_style(event: &Value) -> Faults {
    let mut faults = Faults::new();
    let reporter = At::top(event, "reportingComponent");
    if reporter.str().is_empty() {
        faults.push(reporter.required(""));
    }
    faults.extend(reporter.obey(names::qualified_name));
    for name in ["reportingInstance", "action", "reason"] {
        let field = At::top(event, name);
        if field.str().is_empty() {
            faults.push(field.required(""));
        }
        if field.str().len() > 128 {
            faults.push(Error::invalid(&field.path, "", "can have at most 128 characters"));
        }
    }
    if text(event, "message").len() > 1024 {
        faults.push(Error::invalid(&Path::new("message"), "", "can have at most 1024 characters"));
    }
    faults
}
