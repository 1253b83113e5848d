//! What is wrong with the rules of a schema themselves.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::estimate::Declared;
use super::limits::{self, Estimated};
use super::program::Rule;
use super::schema::Schema;
use super::{SELF, rules, text};
use crate::field::{Error, Path};

/// What was found out about the rules of a schema.
#[derive(Debug, Default)]
pub struct Judged {
    pub errors: Vec<Error>,
    pub costs: Vec<Estimated>,
}

/// Complaints about rules that do not compile or may cost too much, in a structural schema that is valid otherwise.
/// `path` is where the schema is in its definition.
pub fn check(schema: &Json, path: &Path) -> Judged {
    let parsed = Arc::new(Schema::parse(schema));
    let mut judged = Judged::default();
    let place = Place { resource: true, uncorrelatable: None, occurs: Some(1) };
    walk(schema, &parsed, path, place, &mut judged);
    judged
}

#[derive(Clone)]
struct Place {
    resource: bool,
    /// How often it can occur in an object, where lists and maps around it say how much they hold at most.
    occurs: Option<u64>,
    /// The list whose items cannot be found in the old object.
    uncorrelatable: Option<Path>,
}

/// Schemas below come first, as on the real server.
fn walk(written: &Json, schema: &Arc<Schema>, path: &Path, place: Place, judged: &mut Judged) {
    let occurs = place.occurs.and_then(|occurs| Some(occurs.saturating_mul(holds(written)?)));
    let below = |schema: &Schema, uncorrelatable: &Option<Path>| Place {
        resource: schema.embedded,
        uncorrelatable: uncorrelatable.clone(),
        occurs,
    };
    if let (Some(values), Some(written)) = (&schema.additional, written.get("additionalProperties")) {
        let place = below(values, &place.uncorrelatable);
        walk(written, values, &path.child("additionalProperties"), place, judged);
    }
    for (name, field) in schema.properties.iter().flatten() {
        if let Some(written) = written.get("properties").and_then(|properties| properties.get(name)) {
            let place = below(field, &place.uncorrelatable);
            walk(written, field, &path.child("properties").key(name), place, judged);
        }
    }
    if let (Some(items), Some(inner)) = (&schema.items, written.get("items")) {
        let by_key = text(written, "x-kubernetes-list-type") == "map";
        let uncorrelatable = match by_key {
            true => place.uncorrelatable.clone(),
            false => place.uncorrelatable.clone().or_else(|| Some(path.clone())),
        };
        walk(inner, items, &path.child("items"), below(items, &uncorrelatable), judged);
    }
    own_rules(written, schema, path, &place, judged);
}

/// How many values a schema can have inside for one of its own; unknown where it does not say.
fn holds(written: &Json) -> Option<u64> {
    let most = |key: &str| Some(written.get(key)?.as_i64()?.max(0) as u64);
    match text(written, "type") {
        "object" if written.get("additionalProperties").is_some() => most("maxProperties"),
        "array" => most("maxItems"),
        _ => Some(1),
    }
}

fn own_rules(written: &Json, schema: &Arc<Schema>, path: &Path, place: &Place, judged: &mut Judged) {
    let rules = rules(written);
    if rules.is_empty() {
        return;
    }
    let path = path.child("x-kubernetes-validations");
    let declared = schema.declared(place.resource, SELF);
    let (Some(of), Some(sizes)) = (declared, Declared::parse(written, place.resource)) else {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        judged.errors.push(Error::internal(&path, why));
        return;
    };
    for (index, written) in rules.iter().enumerate() {
        let path = path.index(index);
        let rule = Rule::estimate(written, &of, schema, &sizes);
        let occurs = place.occurs.unwrap_or_else(|| sizes.most_in_a_request());
        let cost = rule.most.rule.saturating_mul(occurs);
        judged.charge(path.child("rule"), "estimated rule cost", cost);
        let errors = &mut judged.errors;
        let mut uses_old = false;
        match &rule.program {
            Some(Err(why)) => errors.push(shown(&path.child("rule"), written, why)),
            Some(Ok(program)) => uses_old = program.uses_old,
            None => {}
        }
        match &rule.message {
            Some(Err(why)) => errors.push(shown(&path.child("messageExpression"), written, why)),
            Some(Ok(_)) => {
                let what = "estimated messageExpression cost";
                judged.charge(path.child("messageExpression"), what, rule.most.message);
            }
            None => {}
        }
        let errors = &mut judged.errors;
        match &place.uncorrelatable {
            Some(list) if uses_old => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                errors.push(Error::invalid(&path.child("rule"), text(written, "rule"), why));
            }
            _ => {}
        }
        if let Some(given) = written.get("optionalOldSelf").filter(|given| !uses_old && given.is_boolean()) {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(Error::invalid(&path.child("optionalOldSelf"), given.clone(), why));
        }
    }
}

impl Judged {
    fn charge(&mut self, path: Path, what: &str, cost: u64) {
        self.errors.extend(limits::of_one(&path, what, cost));
        self.costs.push(Estimated { path, cost });
    }
}

/// A fault that shows the whole rule, with the fields of a Go struct in their order.
fn shown(path: &Path, rule: &Json, why: &str) -> Error {
    let empty = Map::new();
    let rule = rule.as_object().unwrap_or(&empty);
    let text =
        |key: &str| rule.get(key).filter(|value| value.is_string()).cloned().unwrap_or_else(|| "".into());
    let pointer = |key: &str| rule.get(key).unwrap_or(&Json::Null);
    let value = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        pointer("reason"),
        text("fieldPath"),
        pointer("optionalOldSelf"),
    );
    // Go writes JSON that is safe inside HTML.
    let value = value.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let mut error = Error::invalid(path, Json::Null, format!("{value}: {why}"));
    error.value = None;
    error
}
