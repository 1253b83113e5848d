//! ControllerRevisions.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::kinds::walk::{At, Faults, IMMUTABLE, same};
use crate::kinds::{Strategy, meta};
use crate::names;

pub(super) const CONTROLLER_REVISION: Strategy = Strategy {
    validate: |revision| {
        let mut faults = meta::validate_builtin(revision);
        faults.extend(At::top(revision, "revision").non_negative());
        faults.extend(validate_data(revision));
        faults
    },
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
        faults.extend(At::top(new, "revision").non_negative());
        if !same(&new["data"], &old["data"]) {
            faults.push(Error::invalid(&Path::new("data"), new["data"].clone(), IMMUTABLE));
        }
        faults
    },
    ..Strategy::PLAIN
};

fn validate_data(revision: &Value) -> Faults {
    let data = At::top(revision, "data");
    match data.value {
        Value::Object(_) => Faults::new(),
        Value::Null => vec![data.required("data is mandatory")],
        _ => vec![data.required("data must be a valid JSON object")],
    }
}
