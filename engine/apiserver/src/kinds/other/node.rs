//! `node.k8s.io`: runtime classes.

use serde_json::Value;

use super::look::{Faults, each_wrong, has, immutable, list, shown, text};
use crate::field::{Error, Fault, Path};
use crate::kinds::Strategy;
use crate::kinds::pods::resources::validate_overhead;
use crate::kinds::walk::At;
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
    if has(class, "overhead") {
        let amounts = At::new(&class["overhead"]["podFixed"], Path::new("overhead"));
        faults.extend(validate_overhead(&amounts));
    }
    if has(class, "scheduling") {
        let scheduling = &class["scheduling"];
        let path = Path::new("scheduling");
        faults.extend(super::labels(&scheduling["nodeSelector"], &path.child("nodeSelector")));
        let tolerations = list(scheduling, "tolerations");
        let identity =
            |one: &Value| ["key", "operator", "value", "effect"].map(|key| text(one, key).to_owned());
        for (index, _) in super::look::repeats(tolerations, identity) {
            // The names and the order that Go gives the fields inside the server.
            let one = &tolerations[index];
            let value = format!(
                r#"{{"Key":{:?},"Operator":{:?},"Value":{:?},"Effect":{:?},"TolerationSeconds":{}}}"#,
                text(one, "key"),
                text(one, "operator"),
                text(one, "value"),
                text(one, "effect"),
                one["tolerationSeconds"],
            );
            let at = path.child("tolerations").index(index);
            faults.push(Error { fault: Fault::Duplicate, ..shown(&at, &value, "") });
        }
    }
    faults
}
