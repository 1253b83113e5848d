//! Who owns which fields, as `metadata.managedFields` records it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::context::rfc3339;

use super::fields::{DecodeError, FieldSet};

/// How many entries of updates are kept before the oldest are put together.
const MOST_UPDATERS: usize = 10;
/// The manager that the oldest updates are put under.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// It applied a configuration, and owns what that says.
    Apply,
    /// It wrote the object in any other way, and owns what it changed.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What tells one entry from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub manager: String,
    pub operation: Operation,
    /// Empty for appliers: they have one entry, whichever version they used.
    pub api_version: String,
    pub subresource: String,
}

impl Id {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Id {
            manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }

    /// The manager as conflicts name it.
    pub fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub set: FieldSet,
    /// The version of the object in which the paths are meant.
    pub api_version: String,
    /// When the manager last changed something; none if all that it applied was there already.
    pub time: Option<Timestamp>,
}

/// All entries of one object.
pub type Managed = BTreeMap<Id, Owned>;

/// Why `metadata.managedFields` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    #[error("error decoding set: {0}")]
    Fields(#[from] DecodeError),
    #[error("managed fields entry {0} is malformed")]
    Malformed(usize),
}

/// The entries of an object.
pub fn decode(object: &Value) -> Result<Managed, Unreadable> {
    let mut managed = Managed::new();
    let entries = match object.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => return Ok(managed),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(Unreadable::Malformed(0)),
    };
    for (at, entry) in entries.iter().enumerate() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(Unreadable::Operation),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(Unreadable::ApiVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(Unreadable::NoFieldsType(at)),
            other => return Err(Unreadable::FieldsType(other.to_owned(), at)),
        }
        let time = match entry.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => {
                let time = time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
                Some(time.ok_or(Unreadable::Malformed(at))?)
            }
        };
        let set = match entry.get("fieldsV1") {
            Some(fields) => FieldSet::from_json(fields)?,
            None => FieldSet::new(),
        };
        // Straight from the entry: unlike a writer without a name, this one may have none.
        let id = Id {
            manager: text("manager").to_owned(),
            ..Id::new("", operation, api_version, text("subresource"))
        };
        managed.insert(id, Owned { set, api_version: api_version.to_owned(), time });
    }
    Ok(managed)
}

/// Whether the list says that nobody owns anything: it is there and empty, or has one empty entry.
/// (For a custom resource an empty list is as good as none.)
pub(super) fn is_reset(object: &Value, is_custom: bool) -> bool {
    let is_zero = |entry: &Value| match entry {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(|value| value.is_null() || value == ""),
        _ => false,
    };
    match object.pointer("/metadata/managedFields") {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => !is_custom,
            [one] => is_zero(one),
            _ => false,
        },
        _ => false,
    }
}

/// Writes the entries into the object, in the order in which the real server keeps them.
pub(super) fn encode(managed: &Managed, object: &mut Value) {
    clear(object);
    if managed.is_empty() {
        return;
    }
    let seconds = |owned: &Owned| owned.time.map_or(0, |time| time.as_second());
    let mut entries: Vec<(&Id, &Owned)> = managed.iter().collect();
    entries.sort_by(|(left_id, left), (right_id, right)| {
        let left =
            (left_id.operation, seconds(left), &left_id.manager, &left.api_version, &left_id.subresource);
        left.cmp(&(
            right_id.operation,
            seconds(right),
            &right_id.manager,
            &right.api_version,
            &right_id.subresource,
        ))
    });
    let entries: Vec<Value> = entries.into_iter().map(|(id, owned)| entry(id, owned)).collect();
    if let Value::Object(fields) = object
        && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| json!({}))
    {
        metadata.insert("managedFields".to_owned(), entries.into());
    }
}

fn entry(id: &Id, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), value.into());
        }
    };
    put("manager", &id.manager);
    put("operation", id.operation.name());
    put("apiVersion", &owned.api_version);
    put("time", &owned.time.map(rfc3339).unwrap_or_default());
    put("fieldsType", "FieldsV1");
    put("subresource", &id.subresource);
    entry.insert("fieldsV1".to_owned(), owned.set.to_json());
    Value::Object(entry)
}

/// Takes the entries out of the object.
pub(super) fn clear(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// Puts the oldest updates of each version together until there are few enough.
pub(super) fn cap(managed: &mut Managed) {
    let mut updaters: Vec<Id> =
        managed.keys().filter(|id| id.operation == Operation::Update).cloned().collect();
    let mut count = updaters.len();
    updaters.sort_by_key(|id| (managed[id].time.map_or(0, |time| time.as_second()), id.clone()));
    let mut first_of_version: BTreeMap<String, Id> = BTreeMap::new();
    for id in updaters {
        if count <= MOST_UPDATERS {
            break;
        }
        let version = managed[&id].api_version.clone();
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, id);
            continue;
        };
        let bucket = Id::new(ANCIENT, Operation::Update, &version, "");
        if bucket == id {
            continue;
        }
        if !managed.contains_key(&bucket)
            && let Some(owned) = managed.remove(first)
        {
            managed.insert(bucket.clone(), owned);
        }
        // The later of the two gives the time.
        if let Some(merged) = managed.remove(&id)
            && let Some(ancient) = managed.get_mut(&bucket)
        {
            ancient.set = merged.set.union(&ancient.set);
            ancient.time = merged.time;
        }
        count -= 1;
    }
}

/// Puts back the old times where nothing but times changed, so that a write that changes nothing
/// is seen as one. Called last, with the object as it would be stored.
pub fn keep_times(old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (entries(old), entries(new)) else { return };
    let same = |(old, new)| same_without("time", old, new);
    let same_but_times = before.len() == after.len() && before.iter().zip(after).all(same);
    if same_but_times
        && before != after
        && same_without("metadata", old, new)
        && same_without("managedFields", &old["metadata"], &new["metadata"])
    {
        new["metadata"]["managedFields"] = before.clone().into();
    }
}

fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.pointer("/metadata/managedFields")?.as_array()
}

/// Whether two objects are the same but for one key.
fn same_without(key: &str, one: &Value, other: &Value) -> bool {
    let rest = |value| Value::as_object(value).into_iter().flatten().filter(|(name, _)| *name != key);
    rest(one).eq(rest(other))
}

/// The manager's name that a request without one gets: what its user agent says before the
/// first slash, if it can be printed.
pub fn name_of(field_manager: &str, user_agent: &str) -> String {
    const MOST: usize = 128;
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    let product = user_agent.split('/').next().unwrap_or_default();
    for letter in product.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > MOST {
            break;
        }
        name.push(letter);
    }
    name
}
