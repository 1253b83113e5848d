//! The columns of built-in kinds, as a release of Kubernetes describes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// One column of a table. Clients hide those whose priority is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: Cow<'static, str>,
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    #[serde(default)]
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    #[serde(default)]
    pub priority: i32,
}

/// Recorded from the answers of a real server; `$name` and `$creationTimestamp` stand for the
/// descriptions of those two fields of `metadata`.
const RECORDED: &str = include_str!("columns.json");

#[derive(Deserialize)]
struct Recorded {
    shared: BTreeMap<String, String>,
    /// By `Kind.group`, or `Kind` alone in the core group.
    kinds: BTreeMap<String, Vec<Column>>,
}

static COLUMNS: LazyLock<Known> = LazyLock::new(|| {
    let Recorded { shared, mut kinds } =
        serde_json::from_str(RECORDED).expect("the recorded columns are JSON");
    for column in kinds.values_mut().flatten() {
        if let Some(text) = column.description.strip_prefix('$').and_then(|key| shared.get(key)) {
            column.description = Cow::Owned(text.clone());
        }
    }
    let described = |key: &str| shared.get(key).cloned().unwrap_or_default();
    Known { name: described("name"), creation: described("creationTimestamp"), kinds }
});

struct Known {
    name: String,
    creation: String,
    kinds: BTreeMap<String, Vec<Column>>,
}

/// The columns of a kind that has its own printer.
pub(super) fn recorded(group: &str, kind: &str) -> Option<&'static [Column]> {
    let key = if group.is_empty() { Cow::Borrowed(kind) } else { Cow::Owned(format!("{kind}.{group}")) };
    COLUMNS.kinds.get(&*key).map(Vec::as_slice)
}

/// The columns of a kind without a printer.
pub(super) fn default() -> Vec<Column> {
    vec![name(), plain("Created At", "date", &COLUMNS.creation)]
}

/// The first column of nearly every table.
pub(super) fn name() -> Column {
    Column { format: Cow::Borrowed("name"), ..plain("Name", "string", &COLUMNS.name) }
}

/// What `metadata.creationTimestamp` is, for columns that show it.
pub(super) fn creation_description() -> &'static str {
    &COLUMNS.creation
}

fn plain(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column {
        name: Cow::Borrowed(name),
        kind: Cow::Borrowed(kind),
        format: Cow::Borrowed(""),
        description: Cow::Borrowed(description),
        priority: 0,
    }
}

/// All kinds with a printer, as `Kind.group`.
#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    COLUMNS.kinds.keys().map(String::as_str)
}
