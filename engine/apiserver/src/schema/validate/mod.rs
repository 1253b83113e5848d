//! Value validation of custom resources, with the errors of the real server.
//!
//! The order of checks and the choice among failed alternatives decide which errors a user sees, so
//! both follow the real server: each check counts what matched, and of several failed alternatives the
//! one that matched most speaks.

pub(crate) mod formats;
mod lists;
mod numbers;
pub(crate) mod pattern;
mod resources;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{ListKind, NodeId, Rules, Schema, Set, Shape};
use crate::crd::structural;
use crate::field::{self, Fault, Path};

pub use resources::ValidateMeta;

/// What is wrong with a new custom resource. `meta` checks the metadata of embedded resources.
pub fn validate(schema: &Schema, object: &Value, meta: ValidateMeta) -> Vec<field::Error> {
    let mut errors = validate_values(schema, &Path::root(), object, None);
    errors.extend(resources::validate(schema, object, meta));
    errors.extend(lists::validate(schema, object));
    errors
}

/// What is wrong with an update: what was wrong before and did not change is tolerated.
pub fn validate_update(
    schema: &Schema,
    object: &Value,
    old: &Value,
    meta: ValidateMeta,
) -> Vec<field::Error> {
    let mut errors = validate_values(schema, &Path::root(), object, Some(old));
    errors.extend(resources::validate(schema, object, meta));
    if lists::validate(schema, old).is_empty() {
        errors.extend(lists::validate(schema, object));
    }
    errors
}

/// Checks one value, such as `status` alone; `path` is where it is in the object.
pub fn validate_values(
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
) -> Vec<field::Error> {
    let validator = Validator { set: schema.set(), base: path };
    let outcome = validator.tolerant(At::Node(schema.id()), "", value, old);
    outcome.errors.into_iter().map(|finding| finding.error).collect()
}

/// Errors after which CEL rules are not evaluated, and what is said then.
pub fn blocks_rules(errors: &[field::Error]) -> Option<field::Error> {
    let blocking = [Fault::NotSupported, Fault::Required, Fault::TooLong, Fault::TooMany, Fault::TypeInvalid];
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let blocked = errors.iter().any(|error| blocking.contains(&error.fault));
    blocked.then(|| field::Error::invalid(&Path::root(), Value::Null, why))
}

/// A schema: of the object, or nested in `allOf`, `anyOf`, `oneOf` or `not`.
#[derive(Clone, Copy)]
enum At<'a> {
    Node(NodeId),
    Nested(&'a Value),
}

/// An error, and the sentence that tells it from others.
struct Finding {
    message: String,
    error: field::Error,
}

#[derive(Default)]
struct Outcome {
    errors: Vec<Finding>,
    matched: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        if !self.errors.iter().any(|known| known.message == finding.message) {
            self.errors.push(finding);
        }
    }

    fn merge(&mut self, other: Outcome) {
        other.errors.into_iter().for_each(|finding| self.add(finding));
        self.matched += other.matched;
    }
}

struct Validator<'a> {
    set: &'a Set,
    base: &'a Path,
}

impl<'a> Validator<'a> {
    /// Checks a value that had an old one: errors of an unchanged value do not count.
    fn tolerant(&self, at: At<'_>, path: &str, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = self.check(at, path, value, old);
        if !outcome.is_valid() && old == Some(value) {
            outcome.errors.clear();
        }
        outcome
    }

    fn check(&self, at: At<'_>, path: &str, value: &Value, old: Option<&Value>) -> Outcome {
        let rules = self.rules(at);
        let types = self.types(at);
        let format = rules.format.as_deref().unwrap_or_default();
        let mut outcome = Outcome::default();
        if value.is_null() {
            let nullable = types.is_empty() || self.nullable(at);
            match nullable {
                true => outcome.matched += 1,
                false => outcome.add(self.wrong_type(path, &types.join(","), "null")),
            }
            outcome.merge(self.among_values(path, value, &rules));
            return outcome;
        }
        if !types.is_empty() || !format.is_empty() {
            outcome.merge(self.has_type(path, value, types, format));
            outcome.matched += 1;
        }
        outcome.merge(self.alternatives(path, value, old, &rules));
        outcome.matched += 1;
        match value {
            Value::String(text) => {
                outcome.merge(self.string(path, text, &rules));
                outcome.matched += 1;
                if formats::is_known(format) && !formats::has_format(format, text) {
                    outcome.add(self.wrong_type(path, format, text));
                }
                outcome.matched += usize::from(formats::is_known(format));
            }
            Value::Number(number) => {
                outcome.merge(self.number(path, number, types, &rules));
                outcome.matched += 1;
            }
            Value::Array(items) => {
                outcome.merge(self.list(at, path, items, old, &rules));
                outcome.matched += 1;
            }
            _ => {}
        }
        outcome.merge(self.among_values(path, value, &rules));
        outcome.matched += 1;
        if let Value::Object(map) = value {
            outcome.merge(self.object(at, path, map, old, &rules));
            outcome.matched += 1;
        }
        outcome.matched += 1;
        outcome
    }

    fn rules<'r>(&'r self, at: At<'r>) -> Cow<'r, Rules> {
        match at {
            At::Node(id) => match &self.set.node(id).rules {
                Some(rules) => Cow::Borrowed(rules),
                None => Cow::Owned(Rules::default()),
            },
            At::Nested(schema) => Cow::Owned(structural::rules(schema)),
        }
    }

    fn types(&self, at: At<'_>) -> &'static [&'static str] {
        match at {
            At::Node(id) => match &self.set.node(id).shape {
                Shape::Any => &[],
                Shape::Object(_) => &["object"],
                Shape::List(_) => &["array"],
                Shape::String => &["string"],
                Shape::Integer => &["integer"],
                Shape::Number => &["number"],
                Shape::Boolean => &["boolean"],
                Shape::IntOrString => &["integer", "string"],
            },
            At::Nested(schema) => match schema.get("type").and_then(Value::as_str) {
                Some("object") => &["object"],
                Some("array") => &["array"],
                Some("string") => &["string"],
                Some("integer") => &["integer"],
                Some("number") => &["number"],
                Some("boolean") => &["boolean"],
                _ => &[],
            },
        }
    }

    fn nullable(&self, at: At<'_>) -> bool {
        match at {
            At::Node(id) => self.set.node(id).nullable,
            At::Nested(schema) => schema.get("nullable").and_then(Value::as_bool).unwrap_or_default(),
        }
    }

    fn has_type(&self, path: &str, value: &Value, types: &[&str], format: &str) -> Outcome {
        let (kind, value_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let numeric = |name: &str| types.contains(&name);
        let whole_float =
            kind == "number" && numeric("integer") && value.as_f64().is_some_and(numbers::is_json_integer);
        let fits = types.contains(&kind) || whole_float || (kind == "integer" && numeric("number"));
        let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        let mut outcome = Outcome::default();
        if !text_or_list && !format.is_empty() && !fits && value_format != format {
            outcome.add(self.wrong_type(path, format, value_format));
        } else if text_or_list && !format.is_empty() && !numeric("number") && !numeric("integer") {
            // A format decides for itself what text it takes; lists slip through in the real server, too.
            outcome.matched = 1;
        } else if !fits {
            outcome.add(self.wrong_type(path, &types.join(","), kind));
        } else {
            outcome.matched = 1;
        }
        outcome
    }

    fn alternatives(&self, path: &str, value: &Value, old: Option<&Value>, rules: &Rules) -> Outcome {
        let mut outcome = Outcome::default();
        if !rules.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut success = None;
            for schema in &rules.any_of {
                let tried = self.check(At::Nested(schema), path, value, old);
                if tried.is_valid() {
                    success = Some(tried);
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.matched > best.matched) {
                    best = Some(tried);
                }
            }
            match success {
                Some(success) => outcome.merge(success),
                None => {
                    outcome
                        .add(self.composite(format!("{path:?} must validate at least one schema (anyOf)")));
                    outcome.merge(best.unwrap_or_default());
                }
            }
        }
        if !rules.one_of.is_empty() {
            outcome.merge(self.exactly_one(path, value, old, &rules.one_of));
        }
        if !rules.all_of.is_empty() {
            let mut valid = 0;
            for schema in &rules.all_of {
                let tried = self.check(At::Nested(schema), path, value, old);
                valid += usize::from(tried.is_valid());
                outcome.merge(tried);
            }
            if valid < rules.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.composite(format!("{path:?} must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(schema) = &rules.not
            && self.check(At::Nested(schema), path, value, old).is_valid()
        {
            outcome.add(self.composite(format!("{path:?} must not validate the schema (not)")));
        }
        outcome.matched += 1;
        outcome
    }

    fn exactly_one(&self, path: &str, value: &Value, old: Option<&Value>, schemas: &[Value]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut best: Option<Outcome> = None;
        let mut success = None;
        let mut valid = 0;
        for schema in schemas {
            let tried = self.check(At::Nested(schema), path, value, old);
            if tried.is_valid() {
                valid += 1;
                best = None;
                success.get_or_insert(tried);
            } else if valid == 0 && best.as_ref().is_none_or(|best| tried.matched > best.matched) {
                best = Some(tried);
            }
        }
        if let (1, Some(success)) = (valid, success) {
            outcome.merge(success);
            return outcome;
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            many => format!("Found {many} valid alternatives"),
        };
        outcome
            .add(self.composite(format!("{path:?} must validate one and only one schema (oneOf). {found}")));
        outcome.merge(best.unwrap_or_default());
        outcome
    }

    fn string(&self, path: &str, text: &str, rules: &Rules) -> Outcome {
        let mut outcome = Outcome::default();
        let length = || text.chars().count() as u64;
        if let Some(most) = rules.max_length.filter(|most| length() > *most) {
            let message = format!("{path} in body should be at most {most} chars long");
            let error = field::Error::too_long(&self.place(path), most as usize);
            outcome.add(Finding { message, error });
        } else if let Some(least) = rules.min_length.filter(|least| length() < *least) {
            let message = format!("{path} in body should be at least {least} chars long");
            outcome.add(self.invalid(path, text, message));
        } else if let Some(pattern) = &rules.pattern
            && !pattern::compiled(pattern).is_some_and(|regex| regex.is_match(text))
        {
            outcome.add(self.invalid(path, text, format!("{path} in body should match '{pattern}'")));
        }
        outcome
    }

    fn list(&self, at: At<'_>, path: &str, items: &[Value], old: Option<&Value>, rules: &Rules) -> Outcome {
        let mut outcome = Outcome::default();
        let (inner, keys) = match at {
            At::Node(id) => match &self.set.node(id).shape {
                Shape::List(list) => (Some(At::Node(list.items)), map_keys(&list.kind)),
                _ => (None, None),
            },
            At::Nested(schema) => (schema.get("items").map(At::Nested), None),
        };
        if let Some(inner) = inner {
            for (index, item) in items.iter().enumerate() {
                let old = keys.and_then(|keys| correlated(keys, item, old));
                outcome.merge(self.tolerant(inner, &format!("{path}[{index}]"), item, old));
            }
        }
        let count = items.len() as u64;
        if let Some(least) = rules.min_items.filter(|least| count < *least) {
            let message = format!("{path} in body should have at least {least} items");
            outcome.add(self.invalid(path, count, message));
        }
        if let Some(most) = rules.max_items.filter(|most| count > *most) {
            let message = format!("{path} in body should have at most {most} items");
            let error = field::Error::too_many(&self.place(path), items.len(), most as usize);
            outcome.add(Finding { message, error });
        }
        if rules.unique_items && items.iter().enumerate().any(|(at, item)| items[..at].contains(item)) {
            outcome.add(self.invalid(path, "", format!("{path} in body shouldn't contain duplicates")));
        }
        outcome.matched += 1;
        outcome
    }

    fn object(
        &self,
        at: At<'_>,
        path: &str,
        map: &Map<String, Value>,
        old: Option<&Value>,
        rules: &Rules,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let count = map.len() as u64;
        if let Some(least) = rules.min_properties.filter(|least| count < *least) {
            let message = format!("{path} in body should have at least {least} properties");
            outcome.add(self.invalid(path, count, message));
        }
        if let Some(most) = rules.max_properties.filter(|most| count > *most) {
            let message = format!("{path} in body should have at most {most} properties");
            let error = field::Error::too_many(&self.place(path), map.len(), most as usize);
            outcome.add(Finding { message, error });
        }
        for (key, value) in map {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            // Both versions of an object are shown in the same one, so its type cannot be told to be old.
            let is_type = path.is_empty() && (key == "kind" || key == "apiVersion");
            let old = old.and_then(|old| old.get(key)).filter(|_| !is_type);
            if let Some(inner) = self.property(at, key) {
                outcome.merge(self.tolerant(inner, &below, value, old));
            }
        }
        for name in self.required(at) {
            if !map.contains_key(&*name) {
                let name = format!("{path}.{name}");
                let error = field::Error::required(&self.place(&name), "");
                outcome.add(Finding { message: format!("{name} in body is required"), error });
            }
        }
        outcome
    }

    fn property<'r>(&self, at: At<'r>, key: &str) -> Option<At<'r>> {
        match at {
            At::Node(id) => match &self.set.node(id).shape {
                Shape::Object(object) => {
                    object.field(key).map(|field| field.node).or(object.additional).map(At::Node)
                }
                _ => None,
            },
            At::Nested(schema) => {
                let properties = schema.get("properties").and_then(|properties| properties.get(key));
                let additional = schema.get("additionalProperties").filter(|schema| schema.is_object());
                properties.or(additional).map(At::Nested)
            }
        }
    }

    fn required(&self, at: At<'_>) -> Vec<Box<str>> {
        match at {
            At::Node(id) => match &self.set.node(id).shape {
                Shape::Object(object) => object.required.to_vec(),
                _ => Vec::new(),
            },
            At::Nested(schema) => {
                let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
                names.filter_map(|name| name.as_str().map(Into::into)).collect()
            }
        }
    }

    fn among_values(&self, path: &str, value: &Value, rules: &Rules) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(values) = &rules.values else { return outcome };
        let same = |allowed: &Value| match (allowed.as_f64(), value.as_f64()) {
            (Some(allowed), Some(value)) => allowed == value,
            // Null is never among the values, not even where it is listed.
            _ => !value.is_null() && allowed == value,
        };
        if !values.iter().any(same) {
            let shown: Vec<String> = values
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            let names: Vec<&str> = shown.iter().map(String::as_str).collect();
            let error = field::Error::not_supported(&self.place(path), value.clone(), &names);
            let message = format!("{path} in body should be one of [{}]", shown.join(" "));
            outcome.add(Finding { message, error });
        }
        outcome
    }

    fn wrong_type(&self, path: &str, wanted: &str, found: &str) -> Finding {
        let message = format!("{path} in body must be of type {wanted}: {found:?}");
        let error = field::Error::type_invalid(&self.place(path), found, message.clone());
        Finding { message, error }
    }

    fn invalid(&self, path: &str, value: impl Into<Value>, message: String) -> Finding {
        let error = field::Error::invalid(&self.place(path), value, message.clone());
        Finding { message, error }
    }

    /// An error of several schemas together, which the real server does not give a place.
    fn composite(&self, message: String) -> Finding {
        let error = field::Error::invalid(self.base, "", message.clone());
        Finding { message, error }
    }

    fn place(&self, path: &str) -> Path {
        match path.strip_prefix('.').unwrap_or(path) {
            "" => self.base.clone(),
            below => self.base.child(below),
        }
    }
}

fn map_keys(kind: &ListKind) -> Option<&[Box<str>]> {
    match kind {
        ListKind::Map(keys) => Some(keys),
        ListKind::Atomic | ListKind::Set => None,
    }
}

/// The old item with the same keys.
fn correlated<'o>(keys: &[Box<str>], item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
    let same = |old: &&Value| keys.iter().all(|key| old.get(&**key) == item.get(&**key));
    old?.as_array()?.iter().find(same)
}

#[cfg(test)]
mod tests;
