use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;

/// Pairs of what Go writes for the same object: JSON and protobuf.
fn samples(packed: &[u8]) -> Vec<(Value, Vec<u8>)> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("samples are gzip");
    let pair = |line: &str| {
        let (json, bytes) = line.split_once('\t').expect("a line has two columns");
        let json = serde_json::from_str(json).expect("the first column is JSON");
        (json, STANDARD.decode(bytes).expect("the second column is base64"))
    };
    text.lines().map(pair).collect()
}

/// Whole numbers are the same with and without a point.
fn normalised(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            number.as_f64().map_or(value.clone(), |float| special::double(float).expect("JSON has no others"))
        }
        Value::Array(items) => items.iter().map(normalised).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), normalised(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

#[track_caller]
fn check_sample(json: &Value, bytes: &[u8]) {
    let (api_version, kind) = (text(&json["apiVersion"]), text(&json["kind"]));
    let decoded = decode(bytes, "", "").unwrap_or_else(|error| panic!("{api_version} {kind}: {error}"));
    assert_eq!((decoded.api_version.as_str(), decoded.kind.as_str()), (api_version, kind));
    assert_eq!(
        first_difference("", &normalised(&decoded.value), &normalised(json)),
        None,
        "{api_version} {kind}"
    );
    let encoded = encode(api_version, kind, json).expect("it is known");
    assert!(encoded == bytes, "{api_version} {kind}: other bytes than Go's");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(at, (a, b))| first_difference(&format!("{path}[{at}]"), a, b)),
        (a, b) => (a != b).then(|| format!("{path}: {a} instead of {b}")),
    }
}

#[test]
fn every_kind_reads_and_writes_as_go_does() {
    let samples = samples(include_bytes!("testdata/kinds.gz"));
    for (json, bytes) in &samples {
        check_sample(json, bytes);
    }
    let mut kinds: Vec<(&str, &str)> =
        samples.iter().map(|(json, _)| (text(&json["apiVersion"]), text(&json["kind"]))).collect();
    kinds.sort_unstable();
    let mut known: Vec<(&str, &str)> = table::kinds().collect();
    known.sort_unstable();
    assert_eq!(kinds, known);
}
