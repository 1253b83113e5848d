//! Patches with the answers that a real server gave.

use serde_json::{Value, json};

use super::{Patched, Unknown, json as json_patch, merge, strategic};
use crate::apply::testing::{Origin, schema};
use crate::schema::Schema;
use crate::status::Result;

const REJECTED: &str = "422 the server rejected our request due to an error in our request";

/// The patched object, or code and message.
fn outcome(result: Result<Patched>) -> String {
    match result {
        Ok(patched) if patched.strict.is_empty() => patched.object.to_string(),
        Ok(patched) => format!("{} with {}", patched.object, patched.strict.join(", ")),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

#[test]
fn json_patches() {
    let document = r#"{"a":{"b":1,"n":null},"l":["x","y"],"s/t~":2}"#;
    let cases: &[(&str, &str)] = &[
        ("[]", document),
        ("null", document),
        (
            r#"[{"op":"add","path":"/a/c","value":2}]"#,
            r#"{"a":{"b":1,"c":2,"n":null},"l":["x","y"],"s/t~":2}"#,
        ),
        (
            r#"[{"op":"add","path":"/l/-","value":"z"}]"#,
            r#"{"a":{"b":1,"n":null},"l":["x","y","z"],"s/t~":2}"#,
        ),
        (
            r#"[{"op":"add","path":"/l/2","value":"z"}]"#,
            r#"{"a":{"b":1,"n":null},"l":["x","y","z"],"s/t~":2}"#,
        ),
        (
            r#"[{"op":"add","path":"/l/-1","value":"z"}]"#,
            r#"{"a":{"b":1,"n":null},"l":["x","y","z"],"s/t~":2}"#,
        ),
        (r#"[{"op":"add","path":"/l/3","value":"z"}]"#, REJECTED),
        (r#"[{"op":"add","path":"","value":{}}]"#, REJECTED),
        (r#"[{"op":"add","path":"/no/c","value":2}]"#, REJECTED),
        (r#"[{"op":"add","path":"/a/b/c","value":2}]"#, REJECTED),
        (r#"[{"op":"remove","path":"/a/b"}]"#, r#"{"a":{"n":null},"l":["x","y"],"s/t~":2}"#),
        (r#"[{"op":"remove","path":"/a/no"}]"#, REJECTED),
        (r#"[{"op":"remove","path":"/l/-1"}]"#, r#"{"a":{"b":1,"n":null},"l":["x"],"s/t~":2}"#),
        (r#"[{"op":"remove","path":"/l/2"}]"#, REJECTED),
        (r#"[{"op":"remove","path":"/s~1t~0"}]"#, r#"{"a":{"b":1,"n":null},"l":["x","y"]}"#),
        (
            r#"[{"op":"replace","path":"/a/no","value":3}]"#,
            r#"{"a":{"b":1,"n":null,"no":3},"l":["x","y"],"s/t~":2}"#,
        ),
        (r#"[{"op":"replace","path":"/l/-2","value":3}]"#, r#"{"a":{"b":1,"n":null},"l":[3,"y"],"s/t~":2}"#),
        (r#"[{"op":"replace","path":"/l/-","value":3}]"#, REJECTED),
        (r#"[{"op":"replace","path":"","value":{"q":1}}]"#, r#"{"q":1}"#),
        (r#"[{"op":"replace","path":"","value":1}]"#, REJECTED),
        (r#"[{"op":"move","from":"/a/b","path":"/l/0"}]"#, r#"{"a":{"n":null},"l":[1,"x","y"],"s/t~":2}"#),
        (r#"[{"op":"move","from":"/a/no","path":"/l/0"}]"#, REJECTED),
        (
            r#"[{"op":"copy","from":"/l","path":"/a/b"}]"#,
            r#"{"a":{"b":["x","y"],"n":null},"l":["x","y"],"s/t~":2}"#,
        ),
        (r#"[{"op":"test","path":"/a/b","value":1}]"#, document),
        (r#"[{"op":"test","path":"/a/b","value":1.0}]"#, REJECTED),
        (r#"[{"op":"test","path":"/a/no"}]"#, document),
        (r#"[{"op":"test","path":"/a/no","value":1}]"#, REJECTED),
        (r#"[{"op":"test","path":"/l/5","value":1}]"#, REJECTED),
        (r#"[{"op":"test","path":"","value":{}}]"#, REJECTED),
        (r#"[{"op":"frob","path":"/a"}]"#, REJECTED),
        (r#"[{"path":"/a"}]"#, REJECTED),
        (r#"[{"op":"add","value":1}]"#, REJECTED),
        (
            r#"[{"op":"add","path":"/q","value":1,"foo":1}]"#,
            r#"{"a":{"b":1,"n":null},"l":["x","y"],"q":1,"s/t~":2} with json patch unknown field "[0].foo""#,
        ),
        (
            r#"{"op":"remove"}"#,
            "400 error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            r#"["x"]"#,
            "400 error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"op":1,"path":"/a"}]"#,
            "400 error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (r#"[{"op":"test""#, "400 error decoding patch: unexpected end of JSON input"),
        ("[nope]", "400 error decoding patch: invalid character 'o' in literal null (expecting 'u')"),
        ("", "400 error decoding patch: unexpected end of JSON input"),
    ];
    let document: Value = serde_json::from_str(document).expect("JSON");
    for (patch, expected) in cases {
        assert_eq!(outcome(json_patch(&document, patch.as_bytes(), Unknown::Report)), *expected, "{patch}");
    }
    let ignored = |patch: &str| outcome(json_patch(&document, patch.as_bytes(), Unknown::Ignore));
    assert_eq!(ignored("{}"), "400 json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    assert_eq!(ignored("[nope]"), "400 invalid character 'o' in literal null (expecting 'u')");
    let many = format!("[{}]", vec![r#"{"op":"test","path":"/no"}"#; 10_001].join(","));
    assert_eq!(ignored(&many), "413 The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn merge_patches() {
    let document = json!({"a": {"b": 1, "c": 2}, "l": [1], "n": null, "s": "x"});
    let cases: &[(&str, &str)] = &[
        (r#"{"a":{"b":null,"d":3}}"#, r#"{"a":{"c":2,"d":3},"l":[1],"n":null,"s":"x"}"#),
        (r#"{"a":[null,{"x":null}]}"#, r#"{"a":[null,{"x":null}],"l":[1],"n":null,"s":"x"}"#),
        (r#"{"l":{"x":null,"y":[{"z":null}]}}"#, r#"{"a":{"b":1,"c":2},"l":{"y":[{}]},"n":null,"s":"x"}"#),
        (r#"{"n":{"x":null}}"#, r#"{"a":{"b":1,"c":2},"l":[1],"n":{},"s":"x"}"#),
        (r#"{"s":null,"t":null}"#, r#"{"a":{"b":1,"c":2},"l":[1],"n":null}"#),
        (
            "[1]",
            "400 error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        ("null", "400 Invalid JSON Patch"),
        ("{", "400 error decoding patch: unexpected end of JSON input"),
        ("", "400 error decoding patch: unexpected end of JSON input"),
    ];
    for (patch, expected) in cases {
        assert_eq!(outcome(merge(&document, patch.as_bytes(), Unknown::Report)), *expected, "{patch}");
    }
    for (patch, expected) in
        [("[{\"a\":null}]", "[{}]"), ("{", "400 Invalid JSON Patch"), ("\"x\"", "400 Invalid JSON Patch")]
    {
        assert_eq!(outcome(merge(&document, patch.as_bytes(), Unknown::Ignore)), expected, "{patch}");
    }
}

#[test]
fn syntax_errors_read_like_gos() {
    let cases = [
        ("{a}", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("1 2", "invalid character '2' after top-level value"),
        ("\"\\q\"", "invalid character 'q' in string escape code"),
        ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("tru", "unexpected end of JSON input"),
        ("'", "invalid character '\\'' looking for beginning of value"),
        ("ü", "invalid character 'Ã' looking for beginning of value"),
    ];
    for (text, expected) in cases {
        assert_eq!(super::syntax::check(text.as_bytes()), Err(expected.to_owned()), "{text}");
    }
    assert_eq!(super::syntax::check(b" {\"a\":[1,-2.5e+3,true,null,\"\\u00e9\"]} "), Ok(()));
}

fn workload() -> Schema {
    let text = json!("string");
    let container = json!({
        "name": text, "image": text, "args": ["atomic", text],
        "ports~containerPort": ["atomic", {"name": text, "containerPort": "integer", "protocol": text}],
        "env~name": ["atomic", {"name": text, "value": text}],
    });
    let volume = json!({"name": text, "emptyDir": {"medium": text}, "configMap": {"name": text}});
    schema(
        Origin::Builtin,
        &json!({
            "metadata": {"labels": {"*": text}, "finalizers~": ["set", text]},
            "spec": {
                "strategy": {"type": text, "rollingUpdate": {"maxSurge": "int-or-string", "maxUnavailable": "int-or-string"}},
                "template": {"spec": {
                    "containers~name": ["atomic", container], "volumes~~name": ["atomic", volume],
                    "tolerations": ["atomic", {"key": text}],
                }},
            },
        }),
    )
}

/// What decoding into Go types drops; a volume without a source gets an `emptyDir`.
fn decoded(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), decoded(value)));
            let is_unset = |name: &str, value: &Value| {
                value.is_null()
                    || [json!([]), json!("")].contains(value)
                    || (["labels", "emptyDir"].contains(&name) && *value == json!({}))
            };
            Value::Object(
                kept.filter(|(name, value)| !name.starts_with('$') && !is_unset(name, value)).collect(),
            )
        }
        Value::Array(items) => items.iter().map(decoded).collect(),
        other => other.clone(),
    }
}

#[test]
fn strategic_patches_do_what_the_real_server_did() {
    let recorded: Value = serde_json::from_str(include_str!("testdata/strategic.json")).expect("JSON");
    let schema = workload();
    let live = &recorded["live"];
    for case in recorded["patches"].as_array().expect("patches") {
        let patch = case["patch"].to_string();
        let result = strategic(&schema, live, patch.as_bytes());
        match (result, case.get("result")) {
            (Ok(patched), Some(expected)) => {
                assert_eq!(decoded(&patched.object), decoded(expected), "{patch}")
            }
            (Err(error), None) => {
                assert_eq!(json!(error.message), case["message"], "{patch}");
                assert_eq!(json!(error.code), case["code"], "{patch}");
            }
            (other, _) => panic!("{patch}: {case} but got {other:?}"),
        }
    }
}

#[test]
fn strategic_patches_that_are_refused() {
    let live = json!({
        "metadata": {"labels": {"a": "b"}, "finalizers": ["t/a"]},
        "spec": {"template": {"spec": {"containers": [{"name": "c1"}]}}},
    });
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let cases = [
        (
            pod(json!({"containers": [{"image": "x"}]})),
            "500 map: map[image:x] does not contain declared merge key: name",
        ),
        (
            pod(json!({"containers": [{"$patch": "delete"}]})),
            "500 map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            pod(json!({"containers": [{"name": "c1", "$patch": "foo"}]})),
            "500 unknown patch type: foo in map: map[$patch:foo name:c1]",
        ),
        (
            pod(json!({"containers": [{"$patch": "merge"}]})),
            "500 merging lists cannot yet be specified in the patch",
        ),
        (pod(json!({"containers": ["x"]})), "500 list element types are not identical: [[map[name:c1]] [x]]"),
        (
            pod(json!({"$setElementOrder/containers": "x"})),
            "500 expected a []interface {}, but received a string",
        ),
        (
            pod(json!({"$setElementOrder/nope": []})),
            "500 unable to find api field in struct  for the json field \"nope\"",
        ),
        (
            pod(
                json!({"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}], "containers": [{"name": "c3", "image": "q"}]}),
            ),
            "500 The order in patch list:\n[map[image:q name:c3]]\n doesn't match $setElementOrder list:\n[map[name:c2] map[name:c1]]\n",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": ["a"]}}),
            "400 invalid patch format of primitive list",
        ),
        (json!({"metadata": {"$retainKeys": "x"}}), "400 invalid patch format of retainKeys"),
        (
            json!({"metadata": {"finalizers": [["a"]]}}),
            "500 list element types are not identical: [[t/a] [[a]]]",
        ),
    ];
    for (patch, expected) in cases {
        assert_eq!(outcome(strategic(&workload(), &live, patch.to_string().as_bytes())), expected, "{patch}");
    }
    let raw = |patch: &str| outcome(strategic(&workload(), &live, patch.as_bytes()));
    assert_eq!(raw(""), "400 unexpected end of JSON input");
    assert_eq!(raw("[1]"), "400 json: cannot unmarshal array into Go value of type map[string]interface {}");
    assert_eq!(raw("null"), live.to_string());
}
