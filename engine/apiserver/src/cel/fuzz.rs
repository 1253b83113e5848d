//! Hostile expressions: whatever the source, it is compiled or refused; whatever it does, the work, the cost and what it
//! makes stay within the limits.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::eval::{Scope, evaluate};
use super::meter::{Budget, Meter};
use super::program;
use super::room;
use super::schema::Schema;
use super::types::Type;
use super::value::Value;
use crate::fuzz::{corpus, hostile};

fn schema() -> Json {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({"type": "object", "properties": {
        "list": texts,
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": texts},
        "text": {"type": "string"},
        "bytes": {"type": "string", "format": "byte"},
        "number": {"type": "integer"},
        "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                 "items": {"type": "object", "properties": {"key": {"type": "string"}, "of": texts}}},
    }})
}

fn object() -> Json {
    let names: Vec<String> = (0..200).map(|at| format!("name {at}")).collect();
    let rows: Vec<Json> = names.iter().map(|name| json!({"key": name, "of": ["a", name]})).collect();
    json!({
        "list": names, "set": names, "map": {"a": names, "b": []}, "text": "aé".repeat(5000), "bytes": "QUFB", "number": 3,
        "rows": rows,
    })
}

/// How many bytes a value holds that an evaluation made; what it holds of the object is not its own.
fn held(value: &Value<'_>) -> usize {
    use super::value::{List, Text};
    32 + match value {
        Value::String(Text::Made(text) | Text::Literal(text)) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => match &**list {
            List::Made(items, _) => items.iter().map(held).sum(),
            List::Written(..) => 0,
        },
        Value::Map(map) => map.values().map(|(key, value)| held(key) + held(value)).sum(),
        Value::Optional(Some(value)) => held(value),
        _ => 0,
    }
}

/// Compiles and evaluates. What is over a limit ends with the error that says so.
fn run(source: &str) {
    room::with_room(room::levels(source), || {
        let (schema, object) = (schema(), object());
        let schema = std::sync::Arc::new(Schema::parse(&schema));
        let of: Type = schema.declared(false, "self").expect("the schema has a type");
        let Ok((expr, _)) = program::compile(source, &[("self", of)]) else { return };
        let _ = program::constants(&expr);
        let budget = Budget::default();
        let scope = Scope::new("self", Value::read(&object, &schema), None);
        let result = evaluate(&expr, &scope, &budget);
        let (cost, work, made) = budget.used();
        let (most_cost, most_work, most_made) = Meter::MOST;
        match result {
            Ok(value) => {
                assert!(cost <= most_cost && work <= most_work && made <= most_made, "{source}");
                // One made value may be held many times, and then costs little more than a pointer.
                let shared = matches!(value, Value::List(_) | Value::Map(_));
                assert!(shared || held(&value) <= most_made as usize, "{source}");
            }
            Err(error) => {
                let stopped = error.0.starts_with("operation cancelled");
                let over = cost > most_cost || work > most_work || made > most_made;
                assert!(stopped || !over, "{source}: {} with {cost}, {work}, {made}", error.0);
            }
        }
    });
}

#[test]
fn the_corpus_is_handled() {
    corpus(include_str!("../testdata/fuzz/cel.txt")).for_each(run);
}

const WORDS: &[&str] = &[
    "self",
    ".list",
    ".set",
    ".map",
    ".text",
    ".bytes",
    ".rows",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "!",
    "&&",
    "||",
    "==",
    "in ",
    " + ",
    "'a'",
    "\"\"",
    "b'\\xff'",
    "r'\\'",
    "1",
    "0x",
    "1u",
    "1e9",
    "true",
    "null",
    "x",
    ".all(x, ",
    ".map(x, ",
    ".size()",
    ".?",
    "has(",
    "\\u12",
    "'''",
    "//",
    "\n",
    "-9223372036854775808",
    "lists.range(",
    "optional.of(",
    "duration('1h')",
];

/// An expression over the object: lists `l`, texts `t` and numbers, combined at random.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "self.list",
        "self.set",
        "self.map.a",
        "['a', self.text]",
        "lists.range(1000).map(n, string(n))",
        "x0",
        "[self.text]",
        "self.rows.map(r, r.key)",
        "self.text.split('')",
        "self.list.map(y, self.text)",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(6, 24, 2, |inner| {
        let unary = prop::sample::select(vec![
            "(L + L)",
            "L.map(x, x + x)",
            "L.filter(x, x in L)",
            "L.map(x, L.join(x))",
            "L.distinct()",
            "L.sort()",
            "L.reverse()",
            "L.map(x, x.replace('a', 'aaaa'))",
            "L.map(x, '%s%s'.format([x, L]))",
            "L.sortBy(x, x.size())",
            "[L, L].flatten()",
            "L.slice(0, 2)",
            "L.map(x, L.all(y, y == x) ? x : self.text)",
            "[L.join('')]",
            "L.map(x, x.matches(self.text) ? x : 'b')",
            "L.filter(x, L.exists(y, y.startsWith(x)))",
            "[string(L == L), string(self.rows == self.rows)]",
            "L.map(x, x.substring(1))",
            "L.map(x, string(x.lastIndexOf('é')))",
            "[string(sets.equivalent(L, L))]",
            "L.map(x, string(lists.range(x.size()).sum()))",
            "self.map.transformList(k, v, k + v.join('')) + L",
            "L.transformMap(i, v, v).map(k, string(k))",
            "L.map(x, x.find(x))",
            "self.text.findAll('a') + L",
        ]);
        (unary, inner).prop_map(|(shape, list)| shape.replace('L', &list))
    })
    .prop_map(|list| format!("{}.size() >= 0", list.replace("x0", "['a', 'b']")))
    .prop_filter("sources have a limit of their own", |source| source.len() < 20_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_source_is_compiled_or_refused(source in hostile(WORDS)) {
        run(&source);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_expression_ends_within_its_limits(source in expression()) {
        run(&source);
    }
}
