//! `node.k8s.io`: runtime classes.

use serde_json::Value;

use super::look::{Faults, each_wrong, has, immutable, list, text};
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

static RUNTIME_CLASS: Strategy = Strategy {
    validate,
    validate_update: |new, old| {
        [validate(new), immutable(&new["handler"], &old["handler"], &Path::new("handler"))].concat()
    },
    unconditional_update: false,
    create_on_update: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "RuntimeClass").then_some(&RUNTIME_CLASS)
}

fn validate(class: &Value) -> Faults {
    let path = Path::new("handler");
    let mut faults = match text(class, "handler") {
        "" => vec![Error::required(&path, "")],
        handler => each_wrong(&path, handler, names::dns1123_label(handler)),
    };
    if has(class, "scheduling") {
        let scheduling = &class["scheduling"];
        let path = Path::new("scheduling");
        faults.extend(super::labels(&scheduling["nodeSelector"], &path.child("nodeSelector")));
        let tolerations = list(scheduling, "tolerations");
        let identity =
            |one: &Value| ["key", "operator", "value", "effect"].map(|key| text(one, key).to_owned());
        for (index, _) in super::look::repeats(tolerations, identity) {
            let value = tolerations[index].clone();
            faults.push(Error::duplicate(&path.child("tolerations").index(index), value));
        }
    }
    faults
}
