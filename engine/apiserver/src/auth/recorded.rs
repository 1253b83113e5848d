//! What a real kube-apiserver 1.36 decided, for the tests of this module. See `testdata/record.py`.

use std::sync::LazyLock;

use serde_json::Value;

use super::identity::User;
use super::rbac::Index;

static RECORDED: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("testdata/rbac.json")).expect("the recording is valid JSON")
});

/// One list of the recording.
pub(crate) fn rows(key: &str) -> &'static [Value] {
    RECORDED[key].as_array().expect("the recording has this list")
}

/// The roles and bindings that were there during the recording.
pub(crate) fn index() -> Index {
    let mut index = Index::default();
    for object in rows("objects") {
        index.apply(object["kind"].as_str().expect("a kind"), object);
    }
    index
}

/// `{"user": …, "groups": […]}`.
pub(crate) fn user(value: &Value) -> User {
    User {
        name: value["user"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&value["groups"]),
        ..User::default()
    }
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
