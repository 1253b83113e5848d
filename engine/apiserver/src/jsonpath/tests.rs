use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn sample() -> Value {
    json!({
        "spec": {"list": ["a", "b", "c"], "numbers": [1, 2.5, 3], "map": {"x": 1, "y": {"deep": 2}}, "none": null,
                 "flag": true, "word": "text"},
        "metadata": {"labels": {"a.b/c": "dotted"}},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2, "ok": true},
        ]},
    })
}

fn check(path: &str, expected: Value) {
    let object = sample();
    let parsed = Path::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let found: Vec<Value> = parsed.find(&object).into_iter().cloned().collect();
    assert_eq!(Value::Array(found), expected, "{path}");
    assert_eq!(parsed.to_string(), path);
}

#[test]
fn finds_fields_items_and_slices() {
    check(".spec.word", json!(["text"]));
    check(".spec.missing.below", json!([]));
    check(".spec.word.below", json!([]));
    check(".spec.none", json!([null]));
    check(".spec.none.below", json!([]));
    check(".spec.none[0]", json!([]));
    check("$.spec.word", json!(["text"]));
    check(".spec.list[0]", json!(["a"]));
    check(".spec.list[]", json!(["a"]));
    check(".spec.list[-1]", json!(["c"]));
    check(".spec.list[3]", json!([]));
    check(".spec.list[-4]", json!([]));
    check(".spec.list[*]", json!(["a", "b", "c"]));
    check(".spec.list[0:2]", json!(["a", "b"]));
    check(".spec.list[1:]", json!(["b", "c"]));
    check(".spec.list[:-1]", json!(["a", "b"]));
    check(".spec.list[0:4]", json!([]));
    check(".spec.list[2:1]", json!([]));
    check(".spec.list[1:1]", json!([]));
    check(".spec.list[::2]", json!(["a", "c"]));
    check(".spec.list[::0]", json!([]));
    check(".spec.word[0]", json!([]));
}

#[test]
fn keys_with_dots_are_escaped() {
    check(r".metadata.labels.a\.b/c", json!(["dotted"]));
    check(r".metadata.labels['a\.b/c']", json!(["dotted"]));
    check(".metadata.labels['a.b/c']", json!([]));
    check(".spec['word']", json!(["text"]));
    check(".spec['map.x']", json!([1]));
}

#[test]
fn unions_wildcards_and_descent() {
    check(".spec.list[0,2]", json!(["a", "c"]));
    check(".spec['word', 'flag']", json!(["text", true]));
    check(".spec.map.*", json!([1, {"deep": 2}]));
    check("..deep", json!([2]));
    check(".spec..deep", json!([2]));
    check("..n", json!([1, 2]));
}

#[test]
fn filters_compare_equals_with_equals() {
    check(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]));
    check(r#".status.conditions[?(@.type == 'Ready')].status"#, json!(["True"]));
    check(r#".status.conditions[?(@.type!="Ready")].type"#, json!(["Other"]));
    check(".status.conditions[?(@.n>1)].type", json!(["Other"]));
    check(".status.conditions[?(@.n>=1)].type", json!(["Ready", "Other"]));
    check(".status.conditions[?(@.n<2)].type", json!(["Ready"]));
    check(".status.conditions[?(@.n<=2)].type", json!(["Ready", "Other"]));
    check(".status.conditions[?(@.ok==true)].type", json!(["Other"]));
    check(".status.conditions[?(@.ok)].type", json!(["Other"]));
    check(r#".status.conditions[?(@.n=="1")].type"#, json!([]));
    check(".status.conditions[?(@.n==1.5)].type", json!([]));
    check(".status.conditions[?(@.ok<true)].type", json!([]));
    check(".status.conditions[?(@.n=!1)].type", json!([]));
    check(r#".status.conditions[?(@.type=="a)b")].type"#, json!([]));
    check(".spec.word[?(@.a==1)]", json!([]));
}

#[test]
fn literals_and_words() {
    check("'it\\'s'", json!(["it's"]));
    check(r#""tab\tA\x41\u00e9\101""#, json!(["tab\tAAéA"]));
    check(".spec.list[*]'x'", json!(["x"]));
    check(".spec.list[*]1", json!([1, 1, 1]));
    check("word", json!([]));
    check("", json!([sample()]));
}

#[test]
fn what_does_not_parse() {
    for bad in [
        "....",
        ".a[",
        ".a[x]",
        ".a[1:2:3:4]",
        ".a[-]",
        ".a['b]",
        ".a[?(@.b==1]",
        ".a[?(@.b==1)",
        "'open",
        r"'\q'",
        ".a{",
        ".a}",
        r".a\",
        "=",
        "1.2.3",
        "\n",
    ] {
        assert!(Path::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn values_print_as_go_prints_them() {
    for (value, expected) in [
        (json!(null), "<no value>"),
        (json!("a"), "a"),
        (json!(false), "false"),
        (json!(12345678), "12345678"),
        (json!(2.0), "2"),
        (json!(1.5), "1.5"),
        (json!(21000000.5), "2.10000005e+07"),
        (json!(100000.5), "100000.5"),
        (json!(0.0001), "0.0001"),
        (json!(0.00001), "1e-05"),
        (json!(1e20), "1e+20"),
        (json!(7767899424256262144.0), "7767899424256262000"),
        (json!(u64::MAX), "1.8446744073709552e+19"),
        (json!([1.0, 1e-7, 1e21, "<&>"]), r#"[1,1e-7,1e+21,"\u003c\u0026\u003e"]"#),
        (json!({"b": [], "a": null}), r#"{"a":null,"b":[]}"#),
    ] {
        assert_eq!(print(&value), expected);
    }
}

#[test]
fn plain_dotted_paths() {
    let mut object = json!({"spec": {"a": {"replicas": 1}, "word": "w"}});
    assert_eq!(get(&object, ".spec.a.replicas"), Some(&json!(1)));
    assert_eq!(get(&object, "spec.a.replicas"), Some(&json!(1)));
    assert_eq!(get(&object, ".spec.word.below"), None);
    set(&mut object, ".spec.a.replicas", json!(5)).expect("there");
    set(&mut object, ".status.replicas", json!(2)).expect("made on the way");
    assert_eq!(object, json!({"spec": {"a": {"replicas": 5}, "word": "w"}, "status": {"replicas": 2}}));
    let error = set(&mut object, ".spec.word.below", json!(1)).expect_err("a text has no fields");
    assert_eq!(error.to_string(), "value cannot be set because .spec.word is not a map[string]interface {}");
}

proptest! {
    #[test]
    fn any_text_is_a_path_or_an_error(text in r#"[.\[\]?()@$'"\\*:,=!<>a-c0-3 {}+-]{0,24}"#) {
        if let Ok(path) = Path::parse(&text) {
            path.find(&sample());
            prop_assert_eq!(Path::parse(&path.to_string()), Ok(path));
        }
    }

    #[test]
    fn any_unicode_is_a_path_or_an_error(text in "\\PC{0,16}") {
        if let Ok(path) = Path::parse(&text) {
            path.find(&sample());
        }
    }
}
