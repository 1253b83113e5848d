//! One rule of a role: which requests it allows, and which other rules it covers.

use serde_json::{Map, Value};

use super::Attributes;

type Strings = Box<[Box<str>]>;

/// A rule of a role, as compact as it can be kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Strings,
    pub groups: Strings,
    pub resources: Strings,
    pub names: Strings,
    pub paths: Strings,
}

impl Rule {
    /// The rule in its JSON form. What is not a list of strings counts as empty.
    pub fn parse(value: &Value) -> Self {
        let strings = |key: &str| -> Strings {
            let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(Box::from).collect()
        };
        Rule {
            verbs: strings("verbs"),
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            paths: strings("nonResourceURLs"),
        }
    }

    /// All rules of a role or an aggregated list.
    pub fn parse_all(rules: Option<&Value>) -> Vec<Self> {
        rules.and_then(Value::as_array).into_iter().flatten().map(Rule::parse).collect()
    }

    /// The half about resources, as reviews show it.
    pub(crate) fn resource_info(&self) -> Value {
        let keys = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
        ];
        info(&keys)
    }

    /// The half about paths, as reviews show it.
    pub(crate) fn path_info(&self) -> Value {
        info(&[("verbs", &self.verbs), ("nonResourceURLs", &self.paths)])
    }

    /// Whether this rule allows a request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.is_resource {
            return self.paths.iter().any(|path| path_matches(path, attributes.path));
        }
        has(&self.groups, attributes.group)
            && self.resources.iter().any(|one| resource_matches(one, attributes))
            && (self.names.is_empty() || self.names.iter().any(|name| **name == *attributes.name))
    }

    /// Whether this rule gives at least what `part` does. `part` must be one of [`Rule::parts`].
    pub(crate) fn covers(&self, part: &Rule) -> bool {
        let any_name = self.names.is_empty();
        let names = any_name || (!part.names.is_empty() && has_all(&self.names, &part.names));
        covers_all(&self.verbs, &part.verbs)
            && covers_all(&self.groups, &part.groups)
            && part.resources.iter().all(|one| resource_covered(&self.resources, one))
            && part.paths.iter().all(|one| self.paths.iter().any(|own| path_matches(own, one)))
            && names
    }

    /// The same rights, one verb and one resource, name or path at a time.
    pub(crate) fn parts(&self) -> Vec<Rule> {
        let one = |text: &str| -> Strings { Box::new([Box::from(text)]) };
        let mut parts = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let whole = Rule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    if self.names.is_empty() {
                        parts.push(whole);
                    } else {
                        parts
                            .extend(self.names.iter().map(|name| Rule { names: one(name), ..whole.clone() }));
                    }
                }
            }
        }
        for path in &self.paths {
            let of_verb = |verb: &str| Rule { verbs: one(verb), paths: one(path), ..Rule::default() };
            parts.extend(self.verbs.iter().map(|verb| of_verb(verb)));
        }
        parts
    }

    /// The rule in one line, as messages about missing rights show it.
    pub(crate) fn describe(&self) -> String {
        let keys = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = keys
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| format!("{key}:{}", quoted(values)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list of strings as Go's `%q` prints it.
pub(crate) fn quoted<S: AsRef<str>>(values: &[S]) -> String {
    let all: Vec<String> = values.iter().map(|one| format!("{:?}", one.as_ref())).collect();
    format!("[{}]", all.join(" "))
}

fn info(keys: &[(&str, &Strings)]) -> Value {
    let filled = keys.iter().filter(|(_, values)| !values.is_empty());
    let entries = filled.map(|(key, values)| {
        let list = values.iter().map(|one| Value::from(&**one)).collect();
        ((*key).to_owned(), Value::Array(list))
    });
    Value::Object(entries.collect::<Map<_, _>>())
}

fn contains(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|one| **one == *wanted)
}

fn has(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|one| **one == *"*" || **one == *wanted)
}

fn has_all(list: &[Box<str>], wanted: &[Box<str>]) -> bool {
    wanted.iter().all(|one| contains(list, one))
}

fn covers_all(list: &[Box<str>], wanted: &[Box<str>]) -> bool {
    contains(list, "*") || has_all(list, wanted)
}

/// `*`, `pods`, `pods/log` or `*/log`. `pods/*` matches nothing but itself.
fn resource_matches(rule: &str, attributes: &Attributes<'_>) -> bool {
    let Attributes { resource, subresource, .. } = *attributes;
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let below = |parent: &str| rule.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
    below(resource) == Some(subresource) || below("*") == Some(subresource)
}

fn resource_covered(own: &[Box<str>], wanted: &str) -> bool {
    let through_star = |subresource: &str| {
        own.iter().any(|one| one.strip_prefix("*/").is_some_and(|right| right == subresource))
    };
    covers_all(own, &[Box::from(wanted)])
        || wanted.split_once('/').is_some_and(|(_, right)| through_star(right))
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}
