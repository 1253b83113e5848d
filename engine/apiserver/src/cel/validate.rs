//! Holds objects against the rules of their schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::meter::Budget;
use super::program::Rule;
use super::room::with_room;
use super::schema::{ListType, Schema};
use super::value::Value;
use super::{SELF, rules};
use crate::field::{self, Fault, Path};

/// The compiled rules of one version of a CRD.
#[derive(Debug)]
pub struct Validator {
    root: Node,
    /// How deep the deepest expression is.
    depth: usize,
}

/// What rules found in an object.
#[derive(Debug, Default)]
pub struct Findings {
    pub errors: Vec<field::Error>,
    /// Failures that are tolerated, since what they are about did not change.
    pub warnings: Vec<String>,
    budget: Budget,
    /// Whether it was told that there is none left.
    stopped: bool,
}

impl Findings {
    fn stop(&mut self, path: &Path, kind: &str) {
        if !self.stopped {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.errors.push(field::Error::invalid(path, kind, why));
            self.stopped = true;
        }
    }
}

impl Validator {
    /// Compiles the rules of a version's `openAPIV3Schema`; `None` when it has none.
    pub fn compile(schema: &Json) -> Option<Validator> {
        if !has_rules(schema) {
            return None;
        }
        let parsed = Arc::new(Schema::parse(schema));
        let root = Node::build(schema, &parsed, true)?;
        let depth = root.depth();
        Some(Validator { root, depth })
    }

    /// What is wrong with an object, `old` being what it was before an update.
    pub fn validate(&self, new: &Json, old: Option<&Json>) -> Vec<field::Error> {
        self.find(new, old).errors
    }

    /// The same, with the failures that are only told as warnings.
    pub fn find(&self, new: &Json, old: Option<&Json>) -> Findings {
        with_room(self.depth, || self.find_here(new, old, Budget::default()))
    }

    fn find_here(&self, new: &Json, old: Option<&Json>, budget: Budget) -> Findings {
        let mut findings = Findings { budget, ..Findings::default() };
        let history = match old {
            Some(old) => {
                History { current: Some(Twin { new, old, schema: &self.root.schema }), parent: None }
            }
            None => History::default(),
        };
        self.root.validate(&Path::root(), new, old, history, &mut findings);
        findings
    }
}

fn has_rules(schema: &Json) -> bool {
    let below = |key: &str| schema.get(key).is_some_and(has_rules);
    let mut properties = schema.get("properties").and_then(Json::as_object).into_iter().flat_map(Map::values);
    !rules(schema).is_empty() || below("items") || below("additionalProperties") || properties.any(has_rules)
}

/// The rules at one place of a schema, and below it.
#[derive(Debug)]
struct Node {
    schema: Arc<Schema>,
    /// The schema as the rules of this place see it.
    visible: Arc<Schema>,
    rules: Vec<Rule>,
    items: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
}

impl Node {
    /// Nothing without rules is kept, and nothing that rules cannot see.
    fn build(written: &Json, schema: &Arc<Schema>, resource: bool) -> Option<Node> {
        if !schema.exposed() {
            return None;
        }
        let of = Some(rules(written)).filter(|rules| !rules.is_empty());
        let of = of.and_then(|_| schema.declared(resource, SELF));
        let compile = |of| rules(written).iter().map(|rule| Rule::compile(rule, &of, schema)).collect();
        let compiled: Vec<Rule> = of.map(compile).unwrap_or_default();
        let child = |written: &Json, schema: &Arc<Schema>| Node::build(written, schema, schema.embedded);
        let below = |key: &str, schema: &Option<Arc<Schema>>| {
            let written = written.get(key).filter(|written| written.is_object())?;
            child(written, schema.as_ref()?).map(Box::new)
        };
        let mut properties = BTreeMap::new();
        for (name, written) in written.get("properties").and_then(Json::as_object).into_iter().flatten() {
            let Some(schema) = schema.properties.as_ref().and_then(|all| all.get(name)) else { continue };
            if let Some(node) = child(written, schema) {
                properties.insert(name.clone(), node);
            }
        }
        let items = below("items", &schema.items);
        let additional = below("additionalProperties", &schema.additional);
        let empty = compiled.is_empty() && items.is_none() && additional.is_none() && properties.is_empty();
        (!empty).then(|| Node {
            schema: schema.clone(),
            visible: if resource { schema.with_metadata() } else { schema.clone() },
            rules: compiled,
            items,
            properties,
            additional,
        })
    }

    fn depth(&self) -> usize {
        let below = self.properties.values().chain(self.items.as_deref()).chain(self.additional.as_deref());
        let own = self.rules.iter().map(Rule::depth);
        own.chain(below.map(Node::depth)).max().unwrap_or_default()
    }

    fn validate<'a>(
        &'a self,
        path: &Path,
        new: &'a Json,
        old: Option<&'a Json>,
        history: History<'a>,
        findings: &mut Findings,
    ) {
        if new.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.run_rules(path, new, old, history, findings);
        match new {
            Json::Array(items) => self.validate_items(path, items, old, history, findings),
            Json::Object(fields) => self.validate_fields(path, fields, old, history, findings),
            _ => {}
        }
    }

    fn validate_items<'a>(
        &'a self,
        path: &Path,
        items: &'a [Json],
        old: Option<&'a Json>,
        history: History<'a>,
        findings: &mut Findings,
    ) {
        let Some(node) = &self.items else { return };
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(Json::as_array).and_then(|old| twin_item(&self.schema.list, item, old));
            node.validate(&path.index(index), item, old, history.index(item), findings);
        }
    }

    fn validate_fields<'a>(
        &'a self,
        path: &Path,
        fields: &'a Map<String, Json>,
        old: Option<&'a Json>,
        history: History<'a>,
        findings: &mut Findings,
    ) {
        for (name, value) in fields {
            let old = old.and_then(|old| old.get(name));
            if let Some(node) = &self.additional {
                node.validate(&path.key(name), value, old, history.key(name), findings);
            }
            if let Some(node) = self.properties.get(name) {
                node.validate(&path.child(name), value, old, history.key(name), findings);
            }
        }
    }

    fn run_rules<'a>(
        &'a self,
        path: &Path,
        new: &'a Json,
        old: Option<&'a Json>,
        history: History<'a>,
        findings: &mut Findings,
    ) {
        if self.rules.is_empty() || findings.stopped {
            return;
        }
        let kind = self.schema.kind.as_str();
        let value = Value::read(new, &self.visible);
        let before = old.map(|old| Value::read(old, &self.visible));
        for rule in &self.rules {
            if findings.budget.is_spent() {
                findings.stop(path, kind);
                return;
            }
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(why)) => {
                    let why = format!("rule compile error: {why}");
                    findings.errors.push(field::Error::invalid(path, kind, why));
                    continue;
                }
            };
            if program.uses_old && before.is_none() && !rule.written.optional_old {
                continue;
            }
            let seen = match rule.written.optional_old {
                true => Some(before.clone().map_or(Value::Optional(None), Value::some)),
                false => before.clone(),
            };
            let judged = program.run(&value, seen.as_ref(), &findings.budget);
            if findings.budget.is_spent() {
                findings.stop(path, kind);
                return;
            }
            match judged {
                Ok(Value::Bool(true)) => continue,
                Ok(_) => {}
                Err(error) => {
                    let (why, name) = (error.0, rule.name());
                    findings.stopped |= why.starts_with("operation cancelled");
                    let why = if why.starts_with("no such overload") {
                        format!(
                            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                        )
                    } else if why.starts_with("operation cancelled") {
                        format!(
                            "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                        )
                    } else {
                        format!("{why} evaluating rule: {name}")
                    };
                    findings.errors.push(field::Error::invalid(path, kind, why));
                    if findings.stopped {
                        return;
                    }
                    continue;
                }
            }
            // A message never sees an optional value, even where its rule does.
            let error =
                failure(rule, path, new, kind, rule.failure(&value, before.as_ref(), &findings.budget));
            match !program.uses_old && history.unchanged() {
                true => findings.warnings.push(error.to_string()),
                false => findings.errors.push(error),
            }
        }
    }
}

fn failure(rule: &Rule, path: &Path, new: &Json, kind: &str, detail: String) -> field::Error {
    let path = match rule.field.as_str() {
        "" => path.clone(),
        field => path.child(field),
    };
    // Objects and lists are too long to show.
    let value = (!matches!(kind, "object" | "array")).then(|| new.clone());
    let fault = match rule.written.reason.as_str() {
        "FieldValueForbidden" => Fault::Forbidden,
        "FieldValueRequired" => Fault::Required,
        "FieldValueDuplicate" => Fault::Duplicate,
        _ => Fault::Invalid,
    };
    let detail = if fault == Fault::Duplicate { String::new() } else { detail };
    field::Error { fault, path, value, detail }
}

/// The old item with the same keys; only lists that are maps have one.
fn twin_item<'a>(list: &ListType, item: &Json, old: &'a [Json]) -> Option<&'a Json> {
    let ListType::Map(keys) = list else { return None };
    item.as_object()?;
    old.iter().find(|old| old.is_object() && keys.iter().all(|key| old.get(key) == item.get(key)))
}

/// A value and what it was before.
#[derive(Clone, Copy)]
struct Twin<'a> {
    new: &'a Json,
    old: &'a Json,
    schema: &'a Schema,
}

/// Where a value comes from, to tell whether it changed.
#[derive(Clone, Copy, Default)]
struct History<'a> {
    current: Option<Twin<'a>>,
    /// The nearest place above that could be found in the old object.
    parent: Option<Twin<'a>>,
}

impl<'a> History<'a> {
    fn unchanged(&self) -> bool {
        self.current.or(self.parent).is_some_and(|twin| twin.equal())
    }

    fn key(&self, name: &str) -> History<'a> {
        match &self.current {
            None => *self,
            // Both versions of an object are shown in the same one, so its type cannot be told to be old.
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => History::default(),
            Some(twin) => History { current: twin.key(name), parent: self.current },
        }
    }

    fn index(&self, item: &'a Json) -> History<'a> {
        match &self.current {
            None => *self,
            Some(twin) => History { current: twin.item(item), parent: self.current },
        }
    }
}

impl<'a> Twin<'a> {
    fn key(&self, name: &str) -> Option<Twin<'a>> {
        let known = self.schema.properties.as_ref().and_then(|properties| properties.get(name));
        let schema = known.or(self.schema.additional.as_ref())?;
        Some(Twin { new: self.new.as_object()?.get(name)?, old: self.old.as_object()?.get(name)?, schema })
    }

    fn item(&self, item: &'a Json) -> Option<Twin<'a>> {
        let old = twin_item(&self.schema.list, item, self.old.as_array()?)?;
        Some(Twin { new: item, old, schema: self.schema.items.as_ref()? })
    }

    /// Whether nothing changed that the schema knows; lists that are maps may be in another order.
    fn equal(&self) -> bool {
        match (self.new, self.old) {
            (Json::Array(new), Json::Array(old)) => {
                let by_item = matches!(self.schema.list, ListType::Map(_)) && self.schema.items.is_some();
                new.len() == old.len()
                    && match by_item {
                        true => new.iter().all(|item| self.item(item).is_some_and(|twin| twin.equal())),
                        false => new == old,
                    }
            }
            (Json::Object(new), Json::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|twin| twin.equal()))
            }
            (new, old) => new == old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// How many rules cost too much, and whether all stopped.
    fn stopped(rule: &str, item: &Json, items: usize, cost: u64) -> (usize, usize) {
        let of = json!({"type": "object", "properties": {
            "text": {"type": "string"},
            "list": {"type": "array", "items": {"type": "integer"}},
        }, "x-kubernetes-validations": [{"rule": rule}]});
        let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": of}}});
        let object = json!({"items": vec![item.clone(); items]});
        let found = Validator::compile(&schema).unwrap().find_here(&object, None, Budget::of(cost));
        let count = |text: &str| found.errors.iter().filter(|error| error.detail.contains(text)).count();
        assert_eq!(count("cost"), found.errors.len(), "{:?}", found.errors);
        (count("call cost exceeds limit"), count("running out of cost budget"))
    }

    #[test]
    fn rules_of_all_items_have_one_budget() {
        let rule = "self.list.all(x, x > 0)";
        let item = json!({"list": vec![1; 100]});
        assert_eq!(stopped(rule, &item, 10, 10_000), (0, 0));
        assert_eq!(stopped(rule, &item, 100, 10_000), (0, 1));
    }

    #[test]
    fn long_texts_cost_more_than_short_ones() {
        let rule = "!self.text.contains('b')";
        assert_eq!(stopped(rule, &json!({"text": "aaa"}), 10, 10_000), (0, 0));
        assert_eq!(stopped(rule, &json!({"text": "a".repeat(50_000)}), 10, 10_000), (0, 1));
        // How long it is costs nothing.
        assert_eq!(stopped("size(self.text) > 0", &json!({"text": "a".repeat(50_000)}), 10, 10_000), (0, 0));
    }

    #[test]
    fn a_fold_that_ends_early_costs_little() {
        let rule = "self.list.all(x, self.list.exists(y, y == 1))";
        assert_eq!(stopped(rule, &json!({"list": vec![1; 1000]}), 1, 20_000), (0, 0));
    }
}
