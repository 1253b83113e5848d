//! Expectations are the documents that the real server publishes, with parameters cut down to their names.

use super::*;

fn data() -> Value {
    serde_json::from_str(include_str!("../testdata/openapi.json")).unwrap()
}

#[test]
fn the_document_is_the_real_servers() {
    let data = data();
    let document = document([&data["crd"]], "probe.example.com", "v1", &data["apps"]);
    let expected = &data["document"];
    for (path, item) in expected["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert_eq!(document["paths"][path][method], *operation, "{method} {path}");
        }
    }
    let names = |document: &Value, key: &str| -> Vec<String> {
        document.pointer(key).and_then(Value::as_object).unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&document, "/paths"), names(expected, "/paths"));
    for (name, schema) in expected["components"]["schemas"].as_object().unwrap() {
        assert_eq!(document["components"]["schemas"][name], *schema, "{name}");
    }
    assert_eq!(document["info"], expected["info"]);
}

#[test]
fn old_clients_get_definitions_they_understand() {
    let data = data();
    let definitions = definitions_v2(&data["crd"], "v1");
    for (name, definition) in data["definitions"].as_object().unwrap() {
        assert_eq!(definitions[name], *definition, "{name}");
    }
}

#[test]
fn versions_that_are_not_served_are_not_described() {
    let data = data();
    let document = document([&data["crd"]], "probe.example.com", "v2", &data["apps"]);
    assert_eq!(document["paths"], json!({}));
}
