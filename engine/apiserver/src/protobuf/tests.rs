//! Against what Go writes: an object of every kind (from the dump), answers of a stock server and what
//! `kubectl create` sends. JSON and bytes must be the same to the last one, with two exceptions: a whole
//! number may be written with a point, and what protobuf cannot say (an empty list or empty bytes that
//! JSON leaves out, the kind of an object within an object) is not in the samples.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::wire::{put_bytes, put_nested, put_varint};
use super::*;

fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("samples are gzip");
    text
}

/// Pairs of what Go writes for the same object: JSON and protobuf.
fn pairs(text: &str) -> Vec<(Value, Vec<u8>)> {
    let pair = |line: &str| {
        let (json, bytes) = line.split_once('\t').expect("a line has two columns");
        let json = serde_json::from_str(json).expect("the first column is JSON");
        (json, STANDARD.decode(bytes).expect("the second column is base64"))
    };
    text.lines().map(pair).collect()
}

fn samples() -> Vec<(Value, Vec<u8>)> {
    pairs(&unpacked(include_bytes!("testdata/kinds.gz")))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn normalised(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            special::double(number.as_f64().unwrap_or_default()).expect("JSON has no others")
        }
        Value::Array(items) => items.iter().map(normalised).collect(),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| (key.clone(), normalised(value));
            Value::Object(entries.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

/// Where two values differ, so that a failure can be read.
fn first_difference(path: &str, got: &Value, expected: &Value) -> Option<String> {
    match (got, expected) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => first_difference(&format!("{path}.{key}"), a, b),
                (a, b) => Some(format!("{path}.{key}: {a:?} instead of {b:?}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut items = a.iter().zip(b).enumerate();
            items.find_map(|(at, (a, b))| first_difference(&format!("{path}[{at}]"), a, b))
        }
        (a, b) => (a != b).then(|| format!("{path}: {a} instead of {b}")),
    }
}

#[track_caller]
fn check_sample(json: &Value, bytes: &[u8]) {
    let (api_version, kind) = (text(&json["apiVersion"]), text(&json["kind"]));
    let decoded = decode(bytes, "", "").unwrap_or_else(|error| panic!("{api_version} {kind}: {error}"));
    assert_eq!((decoded.api_version.as_str(), decoded.kind.as_str()), (api_version, kind));
    let difference = first_difference("", &normalised(&decoded.value), &normalised(json));
    assert_eq!(difference, None, "{api_version} {kind}");
    let encoded = encode(api_version, kind, json).expect("it is known");
    assert!(encoded == bytes, "{api_version} {kind}: other bytes than Go's");
}

#[test]
fn every_kind_reads_and_writes_as_go_does() {
    let samples = samples();
    for (json, bytes) in &samples {
        check_sample(json, bytes);
    }
    let kind =
        |(json, _): &(Value, Vec<u8>)| (text(&json["apiVersion"]).to_owned(), text(&json["kind"]).to_owned());
    let mut kinds: Vec<(String, String)> = samples.iter().map(kind).collect();
    kinds.sort_unstable();
    let mut known: Vec<_> =
        table::kinds().map(|(version, kind)| (version.to_owned(), kind.to_owned())).collect();
    known.sort_unstable();
    assert_eq!(kinds, known);
}

#[test]
fn answers_of_a_stock_server() {
    for (json, bytes) in &pairs(&unpacked(include_bytes!("testdata/recorded.gz"))) {
        check_sample(json, bytes);
    }
}

#[test]
fn requests_of_kubectl() {
    let requests = unpacked(include_bytes!("testdata/requests.gz"));
    let mut seen = Vec::new();
    for line in requests.lines() {
        let body = STANDARD.decode(line).expect("a line is base64");
        let Decoded { api_version, kind, value } = decode(&body, "", "").expect("kubectl knows how");
        assert!(encode(&api_version, &kind, &value).is_some_and(|again| again == body), "{value}");
        seen.push(value);
    }
    let deployment = seen.iter().find(|value| value["kind"] == "Deployment").expect("one was created");
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "pbt", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 80}], "resources": {}},
                ]},
            },
        },
        "status": {},
    });
    assert_eq!(first_difference("", deployment, &expected), None);
}

#[test]
fn events_of_a_watch() {
    for (event, frame) in pairs(include_str!("testdata/watch.tsv")) {
        let object = &event["object"];
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let written = watch_frame(text(&event["type"]), api_version, kind, object).expect("it is known");
        assert!(written == frame, "{event}");
    }
}

#[test]
fn a_list_item_by_item() {
    let lists = pairs(&unpacked(include_bytes!("testdata/recorded.gz")));
    let lists = lists.iter().filter(|(json, _)| json["items"].is_array());
    let mut seen = 0;
    for (json, bytes) in lists {
        let mut writer =
            ListWriter::new(text(&json["apiVersion"]), text(&json["kind"])).expect("it is known");
        for item in json["items"].as_array().into_iter().flatten() {
            writer.push(item.as_object().expect("items are objects"));
        }
        assert!(writer.finish(&json["metadata"]) == *bytes, "{json}");
        seen += 1;
    }
    assert!(seen > 0);
    assert!(ListWriter::new("v1", "Pod").is_none());
    assert!(ListWriter::new("example.com/v1", "FooList").is_none());
}

#[test]
fn what_has_no_protobuf() {
    assert!(knows("apps/v1", "Deployment") && knows("example.com/v1", "DeleteOptions"));
    for (api_version, kind) in
        [("example.com/v1", "Foo"), ("meta.k8s.io/v1", "Table"), ("v1", "apps/v1 Deployment")]
    {
        assert!(!knows(api_version, kind), "{api_version} {kind}");
        assert_eq!(encode(api_version, kind, &json!({})), None);
        assert_eq!(watch_frame("ADDED", api_version, kind, &json!({})), None);
    }
}

/// A body of that kind around the bytes of its message.
fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut body = b"k8s\0".to_vec();
    put_nested(&mut body, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_bytes(&mut body, 2, raw);
    body
}

#[track_caller]
fn check_refused(body: &[u8], expected: &str) {
    let error = decode(body, "v1", "ConfigMap").expect_err(expected);
    assert_eq!(error.message("ConfigMap", body), expected);
}

#[test]
fn malformed_bodies_are_refused_in_the_words_of_a_stock_server() {
    let unrecognized = |body: &[u8], why: &str| {
        check_refused(
            body,
            &format!("the object provided is unrecognized (must be of type ConfigMap): {why}"),
        );
    };
    const NO_PREFIX: &str =
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    unrecognized(b"", "empty data (<empty>)");
    unrecognized(b"k8", &format!("{NO_PREFIX} (6b38)"));
    unrecognized(br#"{"kind":"ConfigMap"}"#, &format!(r#"{NO_PREFIX} ({{"kind":"ConfigMap"}})"#));
    unrecognized(&[b'{'; 31], &format!("{NO_PREFIX} ({} ...)", "{".repeat(30)));
    unrecognized(b"k8s\0", "empty body (6b387300)");
    unrecognized(b"k8s\0\x0a\x20", "unexpected EOF (6b3873000a20)");
    unrecognized(b"k8s\0\x0c", "proto: Unknown: wiretype end group for non-group (6b3873000c)");

    let unregistered = |api_version: &str, registered: &str| {
        let why = format!(
            r#"no kind "Foo" is registered for version "{registered}" in scheme "pkg/runtime/scheme.go:111""#
        );
        let expected = format!(r#"Foo in version "v1" cannot be handled as a ConfigMap: {why}"#);
        check_refused(&enveloped(api_version, "Foo", b""), &expected);
    };
    unregistered("v1", "v1");
    unregistered("foo/v1", "foo/v1");
    unregistered("a/b/c", "v1");
    unregistered("", "v1");

    let malformed = |raw: &[u8], why: &str| {
        let expected = format!(r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: {why}"#);
        check_refused(&enveloped("v1", "ConfigMap", raw), &expected);
    };
    malformed(b"\x0a\x05\x0a\x03pb", "unexpected EOF");
    malformed(b"\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta");
    malformed(b"\x0c", "proto: ConfigMap: wiretype end group for non-group");
    malformed(b"\x02\x01", "proto: ConfigMap: illegal tag 0 (wire type 2)");
    malformed(b"\xfa\xff\xff\xff\xff\x01\x00", "proto: ConfigMap: illegal tag -1 (wire type 68719476730)");
    malformed(&[0xff; 11], "proto: integer overflow");
    malformed(
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "proto: negative length found during unmarshaling",
    );
    malformed(b"\xa7\x06", "proto: illegal wireType 7");
    malformed(b"\xa3\x06\xac\x06\xac\x06", "proto: ConfigMap: wiretype end group for non-group");

    let limit = b"\x12\x15\x0a\x13\x0a\x03Pod\x12\x0c\x0a\x03cpu\x12\x05\x0a\x03abc";
    let error =
        decode(&enveloped("v1", "LimitRange", limit), "v1", "LimitRange").expect_err("abc is no amount");
    assert!(error.to_string().starts_with("quantities must match the regular expression"), "{error}");
}

/// What the bytes of a message say, without what Go adds.
#[track_caller]
fn check_read(api_version: &str, kind: &str, raw: &[u8], pointer: &str, expected: Value) {
    let decoded = decode(&enveloped(api_version, kind, raw), "", "").expect("it can be read");
    assert_eq!(decoded.value.pointer(pointer), Some(&expected), "{}", decoded.value);
}

#[test]
fn what_the_wire_allows() {
    // An envelope that says nothing is about what the address says.
    let named = decode(b"k8s\0\x12\x05\x0a\x03\x0a\x01a", "v1", "ConfigMap").expect("a kind is known");
    assert_eq!(named.value, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    // Fields that nobody knows, as a number, as bytes and as a group.
    let strange = b"\xa0\x06\x01\xa2\x06\x01x\xa3\x06\x08\x01\xa4\x06\x0a\x03\x0a\x01a";
    check_read("v1", "ConfigMap", strange, "/metadata/name", "a".into());
    // A message in two pieces, of which the later one counts.
    check_read(
        "v1",
        "ConfigMap",
        b"\x0a\x06\x0a\x01a\x1a\x01n\x0a\x03\x0a\x01b",
        "/metadata",
        json!({"name": "b", "namespace": "n"}),
    );
    check_read(
        "v1",
        "ConfigMap",
        b"\x0a\x06\x0a\x01a\x1a\x01n\x0a\x02\x0a\x00",
        "/metadata",
        json!({"namespace": "n"}),
    );
    // Numbers in one piece and one by one.
    let groups = b"\x12\x0a\x72\x08\x22\x02\x01\x02\x20\x03\x22\x00";
    check_read("v1", "Pod", groups, "/spec/securityContext/supplementalGroups", json!([1, 2, 3]));
    // Text that is not UTF-8.
    check_read("v1", "ConfigMap", b"\x12\x07\x0a\x01a\x12\x02\xff\xfe", "/data/a", "\u{fffd}\u{fffd}".into());
    // A map's entry without key and value.
    check_read("v1", "ConfigMap", b"\x12\x00", "/data", json!({"": ""}));
    // A pointer to zero is there, a zero is not.
    check_read("apps/v1", "Deployment", b"\x12\x04\x08\x00\x28\x00", "/spec/replicas", 0.into());
}

#[test]
fn depth_has_an_end() {
    let nested = |levels: usize| {
        let mut schema = Vec::new();
        for _ in 0..levels {
            let mut outer = Vec::new();
            put_bytes(&mut outer, 28, &schema);
            schema = outer;
        }
        let mut raw = Vec::new();
        put_nested(&mut raw, 2, |out| {
            put_nested(out, 7, |out| put_nested(out, 4, |out| put_bytes(out, 1, &schema)));
        });
        decode(&enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw), "", "")
    };
    let deep = nested(100).expect("a hundred levels are fine");
    assert!(serde_json::from_str::<Value>(&deep.value.to_string()).is_ok());
    assert_eq!(nested(10_000).expect_err("ten thousand are not").to_string(), "exceeded max depth");

    let raw = |levels: usize| {
        let mut raw = Vec::new();
        let json = "[".repeat(levels) + &"]".repeat(levels);
        put_nested(&mut raw, 2, |out| put_bytes(out, 1, json.as_bytes()));
        decode(&enveloped("apps/v1", "ControllerRevision", &raw), "", "")
    };
    assert!(raw(100).is_ok());
    assert!(raw(125).is_err());
    assert!(raw(100_000).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(which in any::<prop::sample::Index>(), raw in prop::collection::vec(any::<u8>(), 0..200)) {
        let kinds: Vec<_> = table::kinds().collect();
        let (api_version, kind) = kinds[which.index(kinds.len())];
        let _ = decode(&raw, api_version, kind);
        let _ = decode(&enveloped(api_version, kind, &raw), "", "");
    }

    #[test]
    fn no_damage_makes_it_panic(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        static SAMPLES: std::sync::OnceLock<Vec<(Value, Vec<u8>)>> = std::sync::OnceLock::new();
        let samples = SAMPLES.get_or_init(samples);
        let mut body = samples[which.index(samples.len())].1.clone();
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(decoded) = decode(&body, "v1", "ConfigMap") {
            prop_assert!(encode(&decoded.api_version, &decoded.kind, &decoded.value).is_some());
        }
        body.truncate(cut.index(body.len()));
        let _ = decode(&body, "v1", "ConfigMap");
    }

    #[test]
    fn any_json_can_be_written(which in any::<prop::sample::Index>(), value in any_json()) {
        let kinds: Vec<_> = table::kinds().collect();
        let (api_version, kind) = kinds[which.index(kinds.len())];
        let object: Map<String, Value> =
            ["metadata", "spec", "status", "data", "items"].map(|key| (key.to_owned(), value.clone())).into_iter().collect();
        prop_assert!(encode(api_version, kind, &object.into()).is_some());
    }

    #[test]
    fn numbers_come_back(number in any::<u64>()) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        prop_assert_eq!(wire::Reader::new("", &bytes).varint(), Ok(number));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![Just("spec".to_owned()), Just("name".to_owned()), Just("template".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..3)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}
