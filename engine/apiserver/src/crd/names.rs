//! Which names a definition gets, and when it is served.

use serde_json::{Value, json};

use super::{list, text};
use crate::context::Context;

/// Decides over the names of a definition among all others (`others` may hold it, too) and writes the
/// outcome into its status. Returns whether anything changed.
pub fn accept_names(crd: &mut Value, others: &[Value], context: &Context) -> bool {
    let wanted = crd["spec"]["names"].clone();
    let accepted = crd["status"]["acceptedNames"].clone();
    if wanted == accepted {
        return false;
    }
    let taken = Taken::of(crd, others);
    let mut names = accepted.clone();
    let mut conflict: Option<(&str, String)> = None;
    for (key, reason, in_use) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        match objection(&wanted, &accepted, key, in_use) {
            Some(message) => conflict = Some((reason, message)),
            None => copy(&wanted, &mut names, key),
        }
    }
    copy(&wanted, &mut names, "categories");
    let was_established = is_true(crd, "Established");
    let had_condition =
        list(&crd["status"], "conditions").iter().any(|one| text(one, "type") == "Established");
    crd["status"]["acceptedNames"] = names;
    match conflict {
        None => {
            set_condition(crd, "NamesAccepted", "True", "NoConflicts", "no conflicts found", context);
            if !was_established {
                let message = "the initial names have been accepted";
                set_condition(crd, "Established", "False", "Installing", message, context);
            }
        }
        Some((reason, message)) => {
            set_condition(crd, "NamesAccepted", "False", reason, &message, context);
            if !had_condition {
                let message = "not all names are accepted";
                set_condition(crd, "Established", "False", "NotAccepted", message, context);
            }
        }
    }
    true
}

/// Whether a definition has all names that it wants, and is served.
pub(crate) fn is_settled(crd: &Value) -> bool {
    crd["spec"]["names"] == crd["status"]["acceptedNames"] && is_true(crd, "Established")
}

/// Marks a definition whose names are accepted as served. Returns whether that is news.
pub fn establish(crd: &mut Value, context: &Context) -> bool {
    if !is_true(crd, "NamesAccepted") || is_true(crd, "Established") {
        return false;
    }
    let message = "the initial names have been accepted";
    set_condition(crd, "Established", "True", "InitialNamesAccepted", message, context);
    true
}

/// Whether a condition is true.
pub(super) fn is_true(crd: &Value, kind: &str) -> bool {
    let conditions = list(&crd["status"], "conditions");
    conditions.iter().any(|one| text(one, "type") == kind && text(one, "status") == "True")
}

/// The names that the definitions of a group have got.
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn of(crd: &Value, others: &[Value]) -> Taken {
        let group = text(&crd["spec"], "group");
        let mut taken = Taken { resources: Vec::new(), kinds: Vec::new() };
        for other in others.iter().filter(|other| text(&other["spec"], "group") == group) {
            let names = &other["status"]["acceptedNames"];
            let short = list(names, "shortNames").iter().filter_map(Value::as_str);
            let resources = [text(names, "plural"), text(names, "singular")].into_iter().chain(short);
            taken.resources.extend(resources.map(str::to_owned));
            taken.kinds.extend([text(names, "kind"), text(names, "listKind")].map(str::to_owned));
        }
        taken
    }
}

/// What speaks against a name, or against some of the short names.
fn objection(wanted: &Value, accepted: &Value, key: &str, in_use: &[String]) -> Option<String> {
    if wanted.get(key) == accepted.get(key) {
        return None;
    }
    let used = |name: &str| in_use.iter().any(|other| other == name);
    if key != "shortNames" {
        let name = text(wanted, key);
        return used(name).then(|| format!("{name:?} is already in use"));
    }
    let ours = list(accepted, key);
    let names = list(wanted, key).iter().filter(|name| !ours.contains(name)).filter_map(Value::as_str);
    let messages: Vec<String> =
        names.filter(|name| used(name)).map(|name| format!("{name:?} is already in use")).collect();
    match messages.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn copy(from: &Value, to: &mut Value, key: &str) {
    match from.get(key) {
        Some(value) => to[key] = value.clone(),
        None => {
            to.as_object_mut().map(|map| map.remove(key));
        }
    }
}

fn set_condition(crd: &mut Value, kind: &str, status: &str, reason: &str, message: &str, context: &Context) {
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": context.now_seconds(),
    });
    let mut conditions = list(&crd["status"], "conditions").to_vec();
    match conditions.iter_mut().find(|one| text(one, "type") == kind) {
        Some(existing) => {
            if text(existing, "status") == status && !existing["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = existing["lastTransitionTime"].clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
    crd["status"]["conditions"] = conditions.into();
}
