//! Expectations are the real server's own answers, kept in `testdata`.

use jiff::Timestamp;

use super::*;
use crate::context::Context;
use crate::field;

#[test]
fn definitions_get_the_answers_of_the_real_server() {
    let cases: Vec<(String, Value, Value)> =
        serde_json::from_str(include_str!("testdata/definitions.json")).unwrap();
    assert!(cases.len() > 80);
    for (name, mut crd, expected) in cases {
        default(&mut crd);
        prepare_create(&mut crd);
        let errors = validate(&crd);
        let mut answer = if errors.is_empty() {
            json!({"object": {"spec": crd["spec"], "status": crd["status"]}})
        } else {
            json!({"invalid": field::aggregate(&errors)})
        };
        let warnings = warnings(&crd, None);
        if errors.is_empty() && !warnings.is_empty() {
            answer["warnings"] = warnings.into();
        }
        assert_eq!(answer, expected, "{name}");
    }
}

fn definition(plural: &str, kind: &str) -> Value {
    let mut crd = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            }],
        },
    });
    default(&mut crd);
    prepare_create(&mut crd);
    assert_eq!(validate(&crd), []);
    crd
}

fn context() -> Context {
    Context::seeded(1, || Timestamp::UNIX_EPOCH)
}

#[test]
fn fresh_names_are_accepted_and_then_served() {
    let mut crd = definition("widgets", "Widget");
    assert!(accept_names(&mut crd, &[], &context()));
    let time = "1970-01-01T00:00:00Z";
    let accepted = json!({
        "type": "NamesAccepted", "status": "True", "lastTransitionTime": time,
        "reason": "NoConflicts", "message": "no conflicts found",
    });
    let established = |status: &str, reason: &str| {
        json!({
            "type": "Established", "status": status, "lastTransitionTime": time,
            "reason": reason, "message": "the initial names have been accepted",
        })
    };
    assert_eq!(
        crd["status"],
        json!({
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "conditions": [accepted, established("False", "Installing")],
            "storedVersions": ["v1"],
        })
    );
    assert!(!Crd::parse(&crd, None).established);
    assert!(establish(&mut crd, &context()));
    assert_eq!(crd["status"]["conditions"], json!([accepted, established("True", "InitialNamesAccepted")]));
    assert!(!accept_names(&mut crd, &[], &context()) && !establish(&mut crd, &context()));
}

#[test]
fn taken_names_are_not_given_twice() {
    let mut first = definition("widgets", "Widget");
    first["spec"]["names"]["shortNames"] = json!(["w"]);
    accept_names(&mut first, &[], &context());
    let mut second = definition("gadgets", "Widget");
    second["spec"]["names"]["shortNames"] = json!(["w", "g"]);
    let others = [first, second.clone()];
    assert!(accept_names(&mut second, &others, &context()));
    let conditions = second["status"]["conditions"].clone();
    assert_eq!(conditions[0]["reason"], "ListKindConflict");
    assert_eq!(conditions[0]["message"], r#""WidgetList" is already in use"#);
    assert_eq!(
        (&conditions[1]["status"], &conditions[1]["reason"]),
        (&json!("False"), &json!("NotAccepted"))
    );
    assert_eq!(second["status"]["acceptedNames"], json!({"plural": "gadgets", "kind": ""}));
    assert!(!establish(&mut second, &context()));
}

#[test]
fn what_is_served_cannot_change_its_nature() {
    let mut old = definition("widgets", "Widget");
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["kind"] = "Gadget".into();
    assert_eq!(validate_update(&new, &old), []);
    accept_names(&mut old, &[], &context());
    establish(&mut old, &context());
    new["spec"]["group"] = "example.org".into();
    prepare_update(&mut new, &old);
    let errors: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Gadget": field is immutable"#,
            r#"spec.group: Invalid value: "example.org": field is immutable"#,
        ]
    );
}

#[test]
fn versions_that_were_stored_must_stay() {
    let old = definition("widgets", "Widget");
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = "v2".into();
    prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    let errors: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#,
        ]
    );
}

#[test]
fn a_definition_is_read_for_serving() {
    let crd = Crd::parse(&definition("widgets", "Widget"), None);
    assert_eq!(
        (crd.group.as_str(), crd.scope, &crd.conversion),
        ("example.com", Scope::Namespaced, &Conversion::None)
    );
    assert_eq!(crd.names.list_kind, "WidgetList");
    let version = crd.storage().unwrap();
    assert!(version.served && version.status && version.schema.is_some());
    assert_eq!(version.scale.as_ref().unwrap().spec_path, ".spec.replicas");
    assert_eq!(version.columns.columns()[1].name, "Size");
    assert!(crd.served("v2").is_none());
}
