//! Sequences that define a custom resource, use it and remove it.

use serde_json::{Value, json};

use super::kinds::{self, Edit, Kind};
use super::{Plan, json};
use crate::client::Request;
use crate::pointer;
use crate::sequence::{Action, Goal};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(super) fn fill(plan: &mut Plan) {
    let path = format!("{DEFINITIONS}/things.${{ns}}.example.com");
    for _ in 0..4 {
        let mut definition = definition();
        for _ in 0..1 + plan.rng.below(2) {
            edit(plan, &mut definition);
        }
        let options = plan.write_options();
        plan.send(json("POST", DEFINITIONS, &options, &definition));
        plan.push(Action::Until(path.clone(), Goal::Established));
        plan.send(Request::new("DELETE", path.clone()));
        plan.push(Action::Until(path.clone(), Goal::Gone));
    }
    plan.send(json("POST", DEFINITIONS, &[], &definition()));
    let mut established = plan.push(Action::Until(path.clone(), Goal::Established));
    plan.send(Request::new("GET", "/apis/${ns}.example.com/v1"));
    use_it(plan);
    for _ in 0..3 {
        let edit = &edits()[plan.rng.below(edits().len())];
        let changed = vec![(edit.at.clone(), Some(plan.rng.pick(&edit.values).clone()))];
        let request = Request::new("PUT", path.clone()).header("content-type", "application/json");
        plan.push(Action::Resend(request, established, changed));
        established = plan.push(Action::Until(path.clone(), Goal::Established));
    }
    plan.send(Request::new("DELETE", path.clone()));
    plan.push(Action::Until(path, Goal::Gone));
}

fn use_it(plan: &mut Plan) {
    let things = "/apis/${ns}.example.com/v1/namespaces/${ns}/things";
    for spec in [
        json!({"count": 1}),
        json!({"count": 0}),
        json!({"label": "x", "stray": 1}),
        json!({"count": "x"}),
        json!(null),
    ] {
        let body = json!({"apiVersion": "${ns}.example.com/v1", "kind": "Thing", "metadata": {"name": "t", "labels": {"seq": "${ns}"}}, "spec": spec});
        let options = plan.write_options();
        plan.send(json("POST", things, &options, &body));
        let patch = Request::new("PATCH", format!("{things}/t"));
        plan.send(
            patch
                .header("content-type", "application/merge-patch+json")
                .body(json!({"spec": {"count": 5, "note": "n"}}).to_string()),
        );
        plan.send(
            Request::new("GET", things).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        );
        plan.send(Request::new("DELETE", format!("{things}/t")));
    }
}

/// The first of the shared definitions, cut down and in the sequence's own group.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.${ns}.example.com", "labels": {"seq": "${ns}"}},
        "spec": {
            "group": "${ns}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "count": {"type": "integer", "minimum": 1, "default": 2},
                    "label": {"type": "string"}
                }}}}}
            }]
        }
    })
}

fn edit(plan: &mut Plan, definition: &mut Value) {
    let edit = &edits()[plan.rng.below(edits().len())];
    let value = plan.rng.pick(&edit.values).clone();
    pointer::put(definition, &edit.at, Some(value));
}

fn edits() -> &'static [Edit] {
    let definitions = kinds::kinds().iter().find(|kind: &&Kind| kind.kind == "CustomResourceDefinition");
    &definitions.expect("the definitions are among the kinds").edits
}
