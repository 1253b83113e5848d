//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`.

use std::fmt;

use serde_json::Value;

use super::Error;
use crate::{field, names};

mod parse;

/// What labels must be like. All requirements hold at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector(Selects);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selects {
    Nothing,
    /// Sorted by key; no requirement at all selects everything.
    All(Vec<Requirement>),
}

/// What one label must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

/// How a label is compared with the values of its requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        LabelSelector(Selects::All(Vec::new()))
    }

    /// Selects no object: what the absence of a selector means in most kinds.
    pub fn nothing() -> Self {
        LabelSelector(Selects::Nothing)
    }

    /// Parses the `labelSelector` of a query.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse::parse(text).map(Self::of)
    }

    /// The object form with `matchLabels` and `matchExpressions`; null selects nothing.
    pub fn from_label_selector(selector: &Value) -> Result<Self, Error> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Error(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let key = expression["key"].as_str().unwrap_or_default();
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    /// The plain map form, as Services and ReplicationControllers have it; nothing is checked.
    pub fn from_map(labels: &Value) -> Self {
        let entries = labels.as_object().into_iter().flatten();
        Self::of(
            entries
                .map(|(key, value)| Requirement {
                    key: key.clone(),
                    operator: Operator::Equals,
                    values: vec![value.as_str().unwrap_or_default().to_owned()],
                })
                .collect(),
        )
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector(Selects::All(requirements))
    }

    /// Whether the labels that `lookup` knows satisfy all requirements.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Selects::Nothing => false,
            Selects::All(requirements) => requirements.iter().all(|one| one.matches(lookup(&one.key))),
        }
    }

    /// Whether an object's `metadata.labels` satisfy all requirements.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether this selects everything.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Selects::All(requirements) if requirements.is_empty())
    }

    /// The requirements, sorted by key; `None` for a selector that selects nothing.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        match &self.0 {
            Selects::Nothing => None,
            Selects::All(requirements) => Some(requirements),
        }
    }
}

impl Requirement {
    /// Checks key and values as the real server does.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, Error> {
        let mut wrong = Vec::new();
        let why = names::qualified_name(key);
        if !why.is_empty() {
            wrong.push(field::Error::invalid(&field::Path::new("key"), key, why.join("; ")));
        }
        let path = field::Path::new("values");
        let mut complain = |detail: &str| {
            // An empty list is no list to Go.
            let shown = if values.is_empty() { Value::Null } else { values.clone().into() };
            wrong.push(field::Error::invalid(&path, shown, detail));
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                complain("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                complain("exact-match compatibility requires one single value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                complain("values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    complain("for 'Gt', 'Lt' operators, exactly one value is required");
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| number(value).is_none()) {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    wrong.push(field::Error::invalid(&path.index(index), value.as_str(), detail));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let why = names::label_value(value);
            if !why.is_empty() {
                let path = path.index(index).key(key);
                wrong.push(field::Error::invalid(&path, value.as_str(), why.join("; ")));
            }
        }
        if wrong.is_empty() {
            Ok(Requirement { key: key.to_owned(), operator, values })
        } else {
            Err(Error(field::aggregate(&wrong)))
        }
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compare(label).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.compare(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((number(label?)?, number(self.values.first()?)?))
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().into_iter().flatten().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted: Vec<&str> = match self.values.as_slice() {
            [one] => vec![one],
            many => {
                let mut sorted: Vec<&str> = many.iter().map(String::as_str).collect();
                sorted.sort_unstable();
                sorted
            }
        };
        let (key, values) = (&self.key, sorted.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
