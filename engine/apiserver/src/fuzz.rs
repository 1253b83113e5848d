//! Hostile input for what reads texts and bodies: no input makes it panic, and none makes more of it than its length
//! allows. CI draws the same cases each time, `hack/soak.sh` others; what was once found, or is known to be delicate
//! elsewhere, stands in `testdata/fuzz`, one input a line.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::apply::{Element, FieldSet};
use crate::catalog::builtin_schema;
use crate::jsonpath;
use crate::patch::{self, Unknown};
use crate::protobuf;
use crate::selector::{FieldSelector, LabelSelector};

/// Inputs that are partly well formed: words of the language, and any bytes in between.
pub(crate) fn hostile(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    let part = prop_oneof![
        8 => prop::sample::select(words).prop_map(str::to_owned),
        1 => bytes.prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        1 => "[ -~]{0,3}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// The inputs of a file, one a line.
pub(crate) fn corpus(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter(|line| !line.is_empty())
}

/// How many values are in one.
pub(crate) fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
}

fn selectors(text: &str) {
    if let Ok(selector) = LabelSelector::parse(text) {
        let requirements = selector.requirements().unwrap_or_default();
        assert!(requirements.len() <= text.len() + 1, "{text}");
        selector.matches(|_| Some("x"));
        selector.matches_object(&json!({"metadata": {"labels": {"a": "b", "app": ""}}}));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        assert!(selector.requirements().len() <= text.len() + 1, "{text}");
        selector.matches(|_| None);
    }
}

fn field_paths(text: &str) {
    let object =
        json!({"a": [{"b": 1, "a": [1, 2]}, {"b": 2}], "b": {"a": {"b": "x"}}, "metadata": {"name": "n"}});
    if let Ok(path) = jsonpath::Path::parse(text) {
        // Each step of a path finds at most all values below each that was found.
        assert!(path.find(&object).len() <= values(&object).pow(2) * (text.len() + 1), "{text}");
        path.first(&object);
    }
    if let Ok(Some(element)) = Element::parse(text) {
        let again = Element::parse(&element.encode()).expect("what is written can be read");
        assert_eq!(again, Some(element), "{text}");
    }
    if let Ok(set) = FieldSet::from_json(&json!({ text: {} })) {
        set.paths();
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let _ = FieldSet::from_json(&value).map(|set| set.to_json());
    }
}

fn patches(text: &str) {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "args": ["x"]}, {"name": "b"}]}}},
    });
    let schema = builtin_schema("apps", "v1", "Deployment").expect("a built-in kind");
    let most = (values(&object) + 1) * (text.len() + 1);
    let check = |patched: crate::status::Result<patch::Patched>| {
        if let Ok(patched) = patched {
            assert!(values(&patched.object) <= most, "{text}");
        }
    };
    // A copy doubles at most; a text of this length has no room for more than twenty.
    if let Ok(patched) = patch::json(&object, text.as_bytes(), Unknown::Report) {
        assert!(patched.object.to_string().len() <= 4 << 20, "{text}");
    }
    check(patch::merge(&object, text.as_bytes(), Unknown::Report));
    check(patch::strategic(&schema, &object, text.as_bytes()));
}

fn protobufs(body: &[u8]) {
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Status")] {
        if let Ok(decoded) = protobuf::decode(body, api_version, kind) {
            // A message of a few bytes stands for a few structs, whose fields are all there.
            assert!(values(&decoded.value) <= 64 * (body.len() + 1), "{body:?}");
            protobuf::encode(&decoded.api_version, &decoded.kind, &decoded.value);
        }
    }
}

#[test]
fn the_corpus_is_handled() {
    corpus(include_str!("testdata/fuzz/selectors.txt")).for_each(selectors);
    corpus(include_str!("testdata/fuzz/field-paths.txt")).for_each(field_paths);
    corpus(include_str!("testdata/fuzz/patches.txt")).for_each(patches);
    corpus(include_str!("testdata/fuzz/patches.txt")).for_each(|line| protobufs(line.as_bytes()));
}

const SELECTOR: &[&str] = &[
    "a",
    "app",
    "x.io/y",
    "=",
    "==",
    "!=",
    "!",
    " in ",
    " notin ",
    "in",
    "(",
    ")",
    ",",
    " ",
    ">",
    "<",
    "1",
    "\\",
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    ".",
];
const PATH: &[&str] = &[
    "{",
    "}",
    ".",
    "..",
    "[",
    "]",
    "*",
    "a",
    "b",
    "metadata",
    "name",
    "'",
    "\"",
    "0",
    "-1",
    ":",
    "?(",
    ")",
    "@",
    "==",
    "\\",
    "$",
    ",",
    "f:",
    "v:",
    "k:",
    "i:",
    "99999999999999999999",
    "{\"a\":1}",
    "range",
    "end",
];
const PATCH: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "1",
    "\"a\"",
    "\"spec\"",
    "\"template\"",
    "\"containers\"",
    "\"name\"",
    "\"$patch\"",
    "\"delete\"",
    "\"replace\"",
    "\"merge\"",
    "\"$retainKeys\"",
    "\"$setElementOrder/containers\"",
    "\"$deleteFromPrimitiveList/args\"",
    "\"args\"",
    "\"op\"",
    "\"copy\"",
    "\"move\"",
    "\"add\"",
    "\"remove\"",
    "\"test\"",
    "\"path\"",
    "\"from\"",
    "\"value\"",
    "\"/spec\"",
    "\"/spec/template/spec/containers/0\"",
    "\"/-\"",
    "\"\"",
    "1e400",
    "-0",
];

/// A JSON patch, which random words hardly ever are.
fn operations() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "",
        "/",
        "/spec",
        "/spec/replicas",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/-",
        "/spec/template/spec/containers/0",
        "/spec/template/spec/containers/01",
        "/metadata/labels/a~1b",
        "/~2",
        "/kind",
    ]);
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]);
    let one = (op, path.clone(), path, 0..4u8).prop_map(|(op, path, from, value)| {
        let value = [json!(null), json!({"a": []}), json!([1]), json!("x")][usize::from(value)].clone();
        json!({"op": op, "path": path, "from": from, "value": value})
    });
    prop::collection::vec(one, 0..12).prop_map(|all| Value::from(all).to_string())
}

/// A pod in protobuf with some of its bytes changed, cut or doubled.
fn bent_protobuf() -> impl Strategy<Value = Vec<u8>> {
    let pod = json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "a", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}, {"name": "b"},
    ]}});
    let body = protobuf::encode("v1", "Pod", &pod).expect("pods can be written as protobuf");
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..6);
    changes.prop_map(move |changes| {
        let mut bent = body.clone();
        for (at, byte, what) in changes {
            let at = at.index(bent.len());
            match what {
                0 => bent[at] = byte,
                1 => bent.insert(at, byte),
                _ => bent.truncate(at + 1),
            }
        }
        bent
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_selector_is_read_or_refused(text in hostile(SELECTOR)) {
        selectors(&text);
    }

    #[test]
    fn any_field_path_is_read_or_refused(text in hostile(PATH)) {
        field_paths(&text);
    }

    #[test]
    fn any_patch_is_applied_or_refused(text in prop_oneof![hostile(PATCH), operations()]) {
        patches(&text);
    }

    #[test]
    fn any_protobuf_is_read_or_refused(body in prop_oneof![
        bent_protobuf(),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|rest| [b"k8s\0".as_slice(), &rest].concat()),
    ]) {
        protobufs(&body);
    }
}
