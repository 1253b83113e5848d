//! Short stories of a few managers, with the outcomes that a real server gave.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::testing::{Origin, schema};
use super::super::{
    Element, FieldSet, Force, Kind, ReplicaPaths, Writer, apply, decode, display, name_of, scale_fields,
    scale_fields_to_parent, update,
};
use crate::patch::{Unknown, merge};
use crate::status;

fn metadata() -> Value {
    let text = json!("string");
    json!({
        "name?": text, "namespace?": text, "uid?": text, "generation?": "integer",
        "labels?": {"*": text}, "annotations?": {"*": text}, "finalizers?~": ["set", text],
        "managedFields?": ["atomic", "any"],
    })
}

fn config_map() -> Value {
    json!({
        "apiVersion?": "string", "kind?": "string", "metadata?": metadata(),
        "data?": {"*": "string"}, "immutable!?": "boolean",
    })
}

fn workload() -> Value {
    let text = json!("string");
    let port = json!({"name?": text, "containerPort": "integer", "protocol?=TCP": text});
    let container = json!({
        "name": text, "image?": text, "ports?": ["map", "containerPort,protocol", port],
        "env?": ["map", "name", {"name": text, "value?": text}], "resources?": {"limits?": {"*": "int-or-string"}},
        "args?": ["atomic", text],
    });
    let pod = json!({
        "containers": ["map", "name", container], "restartPolicy?": text, "securityContext!?": {"user?": text},
        "volumes?": ["map", "name", {"name": text, "emptyDir!?": {"medium?": text}}],
    });
    json!({
        "apiVersion?": "string", "kind?": "string", "metadata?": metadata(),
        "spec?": {
            "replicas!?": "integer",
            "selector!": {"%atomic": {"matchLabels?": {"*": text}}},
            "strategy?": {"type?": text, "rollingUpdate!?": {"maxSurge!?": "int-or-string"}},
            "template": {"metadata?": metadata(), "spec?": pod},
        },
        "status?": {"replicas?": "integer"},
    })
}

/// Runs steps `(what, body, outcome)` in the order given; `what` is `apply NAME`, `force NAME`, `patch NAME` (a
/// merge patch) or `create NAME`. The outcome shows the object's own part and its entries with the step
/// in which each was last written, or the message of the failure.
fn check(notation: &Value, steps: &[(&str, Value, &str)]) {
    let schema = schema(Origin::Builtin, notation);
    let reset = FieldSet::of(&["status"]);
    let kind = Kind {
        schema: &schema,
        api_version: "v1",
        kind: "Test",
        versions: &[],
        elsewhere: None,
        reset: &reset,
    };
    let mut live: Option<Value> = None;
    for (at, (what, body, expected)) in steps.iter().enumerate() {
        let (verb, name) = what.split_once(' ').expect("a verb and a name");
        let now = Timestamp::from_second(at as i64 + 1).expect("a time");
        let writer = Writer { name, subresource: "", now };
        let mut body = body.clone();
        body["apiVersion"] = "v1".into();
        body["kind"] = "Test".into();
        let result = match verb {
            "create" => {
                let mut new = body;
                update(&kind, None, &mut new, &writer);
                Ok(new)
            }
            "patch" => {
                let old = live.as_ref().expect("an object");
                let patched = merge(old, body.to_string().as_bytes(), Unknown::Report).expect("a patch");
                let mut new = patched.object;
                update(&kind, Some(old), &mut new, &writer);
                Ok(new)
            }
            "apply" => apply(&kind, live.as_ref(), &body, &writer, Force::No),
            "force" => apply(&kind, live.as_ref(), &body, &writer, Force::Yes),
            other => panic!("no verb {other}"),
        };
        let outcome = match &result {
            Ok(object) => render(object),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, *expected, "step {at}: {what}");
        live = result.ok().or(live);
    }
}

fn render(object: &Value) -> String {
    let mut own = object.clone();
    let fields = own.as_object_mut().expect("an object");
    fields.retain(|name, value| {
        !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") && *value != json!({})
    });
    let mut lines = vec![own.to_string()];
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let set = FieldSet::from_json(&entry["fieldsV1"]).expect("fields");
        let paths: Vec<String> = set.paths().iter().map(|path| display(path)).collect();
        let step = entry["time"]
            .as_str()
            .map_or(-1, |time| time.parse::<Timestamp>().expect("a time").as_second() - 1);
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        lines.push(format!("{} {} {step}: {}", text("manager"), text("operation"), paths.join(" ")));
    }
    lines.join("\n")
}

#[test]
fn appliers_share_fields_and_the_last_one_removes_them() {
    let data = |data: Value| json!({"metadata": {"name": "b"}, "data": data});
    check(
        &config_map(),
        &[
            (
                "apply one",
                data(json!({"x": "1", "y": "1"})),
                "{\"data\":{\"x\":\"1\",\"y\":\"1\"}}\none Apply 0: .data.x .data.y",
            ),
            // What is there already changes nothing, so the new entry has no time and comes first.
            (
                "apply two",
                data(json!({"x": "1"})),
                "{\"data\":{\"x\":\"1\",\"y\":\"1\"}}\ntwo Apply -1: .data.x\none Apply 0: .data.x .data.y",
            ),
            (
                "apply two",
                data(json!({"x": "1"})),
                "{\"data\":{\"x\":\"1\",\"y\":\"1\"}}\ntwo Apply -1: .data.x\none Apply 0: .data.x .data.y",
            ),
            (
                "apply one",
                json!({"metadata": {"labels": {"l": "1"}}}),
                "{\"data\":{\"x\":\"1\"}}\ntwo Apply -1: .data.x\none Apply 3: .metadata.labels.l",
            ),
            (
                "apply three",
                json!({"metadata": {"labels": {"l": "2"}}, "data": {"x": "3"}}),
                "Apply failed with 2 conflicts: conflicts with \"one\":\n- .metadata.labels.l\nconflicts with \"two\":\n- .data.x",
            ),
            (
                "apply three",
                data(json!({"x": "3"})),
                "Apply failed with 1 conflict: conflict with \"two\": .data.x",
            ),
            (
                "force three",
                data(json!({"x": "3"})),
                "{\"data\":{\"x\":\"3\"}}\none Apply 3: .metadata.labels.l\nthree Apply 6: .data.x",
            ),
        ],
    );
}

#[test]
fn other_writers_take_what_they_change() {
    let data = |data: Value| json!({"data": data});
    check(
        &config_map(),
        &[
            (
                "apply one",
                data(json!({"x": "1", "y": "1"})),
                "{\"data\":{\"x\":\"1\",\"y\":\"1\"}}\none Apply 0: .data.x .data.y",
            ),
            (
                "patch upd",
                data(json!({"x": "2"})),
                "{\"data\":{\"x\":\"2\",\"y\":\"1\"}}\none Apply 0: .data.y\nupd Update 1: .data.x",
            ),
            (
                "apply one",
                data(json!({"x": "1", "y": "1"})),
                "Apply failed with 1 conflict: conflict with \"upd\" using v1: .data.x",
            ),
            // The same value is no conflict; both own it.
            (
                "apply one",
                data(json!({"x": "2", "y": "1"})),
                "{\"data\":{\"x\":\"2\",\"y\":\"1\"}}\none Apply 0: .data.x .data.y\nupd Update 1: .data.x",
            ),
            (
                "patch upd",
                data(json!({"y": "1"})),
                "{\"data\":{\"x\":\"2\",\"y\":\"1\"}}\none Apply 0: .data.x .data.y\nupd Update 1: .data.x",
            ),
            ("patch upd", data(json!({"x": null})), "{\"data\":{\"y\":\"1\"}}\none Apply 0: .data.y"),
            ("patch upd", json!({"metadata": {"managedFields": []}}), "{\"data\":{\"y\":\"1\"}}"),
            ("patch upd", data(json!({"q": "2"})), "{\"data\":{\"q\":\"2\",\"y\":\"1\"}}"),
            (
                "apply one",
                data(json!({"x": "2", "y": "1"})),
                "{\"data\":{\"q\":\"2\",\"x\":\"2\",\"y\":\"1\"}}\none Apply 8: .data.x .data.y\nbefore-first-apply Update 8: .data .data.q .data.y",
            ),
        ],
    );
}

#[test]
fn what_does_not_fit_is_refused_in_the_servers_words() {
    let cases = [
        (
            json!({"dat": {}}),
            "failed to create typed patch object (/b; /v1, Kind=Test): .dat: field not declared in schema",
        ),
        (
            json!({"data": {"x": 3, "y": true}}),
            "failed to create typed patch object (/b; /v1, Kind=Test): errors:\n  .data.x: expected string, got &value.valueUnstructured{Value:3}\n  .data.y: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            json!({"data": "3"}),
            "failed to create typed patch object (/b; /v1, Kind=Test): .data: expected map, got &{3}",
        ),
        (
            json!({"immutable": "3"}),
            "failed to create typed patch object (/b; /v1, Kind=Test): .immutable: expected boolean, got &{3}",
        ),
        (json!({"metadata": {"name": "b", "managedFields": []}}), "metadata.managedFields must be nil"),
        (
            json!({"metadata": {"name": "b", "finalizers": ["a/b", "a/b"]}}),
            "failed to create typed patch object (/b; /v1, Kind=Test): .metadata.finalizers: duplicate entries for key [=\"a/b\"]",
        ),
    ];
    for (mut body, expected) in cases {
        if body.get("metadata").is_none() {
            body["metadata"] = json!({"name": "b"});
        }
        check(&config_map(), &[("apply one", body, expected)]);
    }
}

#[test]
fn failures_become_statuses() {
    let schema = schema(Origin::Builtin, &config_map());
    let kind = Kind {
        schema: &schema,
        api_version: "v1",
        kind: "Test",
        versions: &[],
        elsewhere: None,
        reset: &FieldSet::new(),
    };
    let writer = Writer { name: "one", subresource: "", now: Timestamp::UNIX_EPOCH };
    let body = |kind: &str, x: &str| json!({"apiVersion": "v1", "kind": kind, "data": {"x": x}});
    let wrong = apply(&kind, None, &body("Secret", "1"), &writer, Force::No).expect_err("another kind");
    let wrong = status::Error::from(wrong);
    assert_eq!((wrong.code, wrong.message.as_str()), (400, "invalid object type: /v1, Kind=Secret"));

    let live = apply(&kind, None, &body("Test", "1"), &writer, Force::No).expect("a new object");
    let other = Writer { name: "two", ..writer };
    let conflict = apply(&kind, Some(&live), &body("Test", "2"), &other, Force::No).expect_err("a conflict");
    let cause =
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"});
    assert_eq!(
        status::Error::from(conflict).to_status(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409,
            "reason": "Conflict", "details": {"causes": [cause]},
            "message": "Apply failed with 1 conflict: conflict with \"one\": .data.x",
        })
    );
}

#[test]
fn a_creator_does_not_own_structs_that_are_always_there() {
    let container = json!({
        "name": "c1", "image": "i1", "resources": {},
        "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "E", "value": "1"}],
    });
    let pod = json!({
        "containers": [container], "restartPolicy": "Always", "securityContext": {},
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    let spec = json!({
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
    });
    let object = json!({"metadata": {"name": "d"}, "spec": spec, "status": {}});
    let expected = json!({"f:spec": {
        "f:replicas": {}, "f:selector": {},
        "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
        "f:template": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c1\"}": {
                    ".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                    "f:env": {".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}},
                    "f:ports": {
                        ".": {},
                        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
                    },
                }},
                "f:restartPolicy": {}, "f:securityContext": {},
                "f:volumes": {".": {}, "k:{\"name\":\"v\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}},
            },
        },
    }});
    let schema = schema(Origin::Builtin, &workload());
    let reset = FieldSet::of(&["status"]);
    let kind = Kind {
        schema: &schema,
        api_version: "v1",
        kind: "Test",
        versions: &[],
        elsewhere: None,
        reset: &reset,
    };
    let mut created = object;
    created["apiVersion"] = "v1".into();
    created["kind"] = "Test".into();
    update(&kind, None, &mut created, &Writer { name: "curl", subresource: "", now: Timestamp::UNIX_EPOCH });
    assert_eq!(created["metadata"]["managedFields"][0]["fieldsV1"], expected);
}

#[test]
fn items_are_known_by_keys_that_are_defaulted() {
    let ports = |ports: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": ports}]}}}});
    let at = ".spec.template.spec.containers[name=\"c\"]";
    let list = ".spec.template.spec.containers";
    let port = |number: u16| format!("{at}.ports[containerPort={number},protocol=\"TCP\"]");
    let (p80, p443) = (port(80), port(443));
    let zero = r#""selector":null,"strategy":{}"#;
    check(
        &workload(),
        &[
            (
                "apply one",
                ports(json!([{"containerPort": 80, "name": "a"}, {"containerPort": 443, "protocol": "TCP"}])),
                &format!(
                    "{{\"spec\":{{{zero},\"template\":{{\"metadata\":{{}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\"ports\":[{{\"containerPort\":80,\"name\":\"a\"}},{{\"containerPort\":443,\"protocol\":\"TCP\"}}]}}]}}}}}}}}\none Apply 0: {list}[name=\"c\"] {at}.name {p80} {p443} {p80}.containerPort {p80}.name {p443}.containerPort {p443}.protocol"
                ),
            ),
            (
                "apply two",
                ports(json!([{"containerPort": 80, "protocol": "TCP"}])),
                &format!(
                    "{{\"spec\":{{{zero},\"template\":{{\"metadata\":{{}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\"ports\":[{{\"containerPort\":80,\"name\":\"a\",\"protocol\":\"TCP\"}},{{\"containerPort\":443,\"protocol\":\"TCP\"}}]}}]}}}}}}}}\none Apply 0: {list}[name=\"c\"] {at}.name {p80} {p443} {p80}.containerPort {p80}.name {p443}.containerPort {p443}.protocol\ntwo Apply 1: {list}[name=\"c\"] {at}.name {p80} {p80}.containerPort {p80}.protocol"
                ),
            ),
        ],
    );
}

#[test]
fn items_that_cannot_be_told_apart_are_owned_together() {
    let list = json!(["map", "name", {"name": "string", "value?": "string"}]);
    let notation =
        json!({"apiVersion?": "string", "kind?": "string", "metadata?": metadata(), "spec?": {"env?": list}});
    let env = |env: &[(&str, &str)]| {
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({"spec": {"env": env}})
    };
    let shown = |list: &[(&str, &str)]| json!({"spec": env(list)["spec"]}).to_string();
    let item = |name: &str| format!(".spec.env[name=\"{name}\"]");
    let (e, f) = (item("E"), item("F"));
    let whole = |item: &str| format!("{item}.name {item}.value");
    let (all_e, all_f) = (whole(&e), whole(&f));
    let thrice = [("E", "1"), ("F", "1"), ("E", "2")];
    check(
        &notation,
        &[
            (
                "create cr",
                env(&thrice),
                &format!("{}\ncr Update 0: .spec.env {e} {f} {all_f}", shown(&thrice)),
            ),
            (
                "force one",
                env(&[("F", "1")]),
                &format!(
                    "{}\none Apply -1: {f} {all_f}\ncr Update 0: .spec.env {e} {f} {all_f}",
                    shown(&thrice)
                ),
            ),
            (
                "force one",
                env(&[("F", "1"), ("E", "9")]),
                &format!(
                    "{}\none Apply 2: {e} {f} {all_e} {all_f}\ncr Update 0: .spec.env {f} {all_f}",
                    shown(&[("F", "1"), ("E", "9")])
                ),
            ),
            (
                "patch up",
                env(&[("E", "1"), ("E", "2")]),
                &format!("{}\ncr Update 0: .spec.env\nup Update 3: {e}", shown(&[("E", "1"), ("E", "2")])),
            ),
            (
                "patch up2",
                env(&[("E", "1"), ("E", "3")]),
                &format!("{}\ncr Update 0: .spec.env\nup2 Update 4: {e}", shown(&[("E", "1"), ("E", "3")])),
            ),
            (
                "patch up3",
                env(&[("E", "3")]),
                &format!("{}\ncr Update 0: .spec.env\nup3 Update 5: {e} {all_e}", shown(&[("E", "3")])),
            ),
            (
                "apply one",
                env(&[("E", "1"), ("E", "1")]),
                "failed to create typed patch object (/; /v1, Kind=Test): .spec.env: duplicate entries for key [name=\"E\"]",
            ),
        ],
    );
}

#[test]
fn a_client_side_applier_may_go_over() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let schema = schema(Origin::Builtin, &config_map());
    let kind = Kind {
        schema: &schema,
        api_version: "v1",
        kind: "ConfigMap",
        versions: &[],
        elsewhere: None,
        reset: &FieldSet::new(),
    };
    let config = |x: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"l": "1"}, "name": "la"}, "data": {"x": x, "z": "2"}});
    let writer = |name| Writer { name, subresource: "", now: Timestamp::UNIX_EPOCH };
    let mut live = config("<1>");
    live["metadata"]["annotations"] = json!({ANNOTATION: config("<1>").to_string()});
    update(&kind, None, &mut live, &writer("kubectl-client-side-apply"));

    // Nobody changed x since, so it is no conflict; and the annotation follows, as Go writes JSON.
    let applied =
        apply(&kind, Some(&live), &config("<9>"), &writer("kubectl"), Force::No).expect("no conflict");
    assert_eq!(applied["data"]["x"], "<9>");
    assert_eq!(
        applied["metadata"]["annotations"][ANNOTATION],
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c9\\u003e\",\"z\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"labels\":{\"l\":\"1\"},\"name\":\"la\"}}\n"
    );
    // Under any other name, and after a change by another, it is one.
    assert!(apply(&kind, Some(&live), &config("<9>"), &writer("other"), Force::No).is_err());
    let mut changed = live.clone();
    changed["data"] = json!({"x": "5", "z": "2"});
    update(&kind, Some(&live), &mut changed, &writer("other"));
    let error =
        apply(&kind, Some(&changed), &config("<9>"), &writer("kubectl"), Force::No).expect_err("a conflict");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"other\" using v1: .data.x");
}

#[test]
fn old_updates_are_put_together() {
    let mut steps: Vec<(String, Value)> =
        (0..13).map(|at| (format!("patch m{at}"), json!({"data": {format!("k{at}"): "2"}}))).collect();
    steps[0].0 = "create m0".to_owned();
    let schema = schema(Origin::Builtin, &config_map());
    let kind = Kind {
        schema: &schema,
        api_version: "v1",
        kind: "Test",
        versions: &[],
        elsewhere: None,
        reset: &FieldSet::new(),
    };
    let mut live = json!({"apiVersion": "v1", "kind": "Test", "data": {"k": "0"}});
    let writer =
        |name, now| Writer { name, subresource: "", now: Timestamp::from_second(now).expect("a time") };
    update(&kind, None, &mut live, &writer("first", 1));
    for (at, (what, body)) in steps.iter().enumerate() {
        let patched = merge(&live, body.to_string().as_bytes(), Unknown::Ignore).expect("a patch");
        let mut new = patched.object;
        let name = what.split_once(' ').map_or("", |(_, name)| name);
        update(&kind, Some(&live), &mut new, &writer(name, at as i64 + 2));
        live = new;
    }
    let managed = decode(&live).expect("entries");
    let names: Vec<&str> = managed.keys().map(|id| id.manager.as_str()).collect();
    assert_eq!(names, ["ancient-changes", "m10", "m11", "m12", "m4", "m5", "m6", "m7", "m8", "m9"]);
    let ancient = &live["metadata"]["managedFields"][0];
    assert_eq!(ancient["manager"], "ancient-changes");
    assert_eq!(ancient["time"], "1970-01-01T00:00:05Z");
    assert_eq!(
        ancient["fieldsV1"],
        json!({"f:data": {".": {}, "f:k": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}})
    );
}

#[test]
fn a_list_that_becomes_atomic_has_one_owner() {
    let schema_of = |kind: &str| {
        schema(
            Origin::Custom,
            &json!({
                "apiVersion": "string", "kind": "string", "metadata": metadata(),
                "spec": {"list": [kind, "string"], "gone": "string"},
            }),
        )
    };
    let (granular, atomic) = (schema_of("set"), schema_of("atomic"));
    let reset = FieldSet::new();
    let kind = |schema| Kind {
        schema,
        api_version: "g/v1",
        kind: "Test",
        versions: &["g/v1"],
        elsewhere: None,
        reset: &reset,
    };
    let config = |list: Value| json!({"apiVersion": "g/v1", "kind": "Test", "spec": {"list": list}});
    let writer = |name| Writer { name, subresource: "", now: Timestamp::UNIX_EPOCH };
    let live = apply(&kind(&granular), None, &config(json!(["a"])), &writer("one"), Force::No).expect("new");
    let shown = |object: &Value| object["metadata"]["managedFields"][0]["fieldsV1"].clone();
    assert_eq!(shown(&live), json!({"f:spec": {"f:list": {"v:\"a\"": {}}}}));
    let again =
        apply(&kind(&atomic), Some(&live), &config(json!(["a"])), &writer("one"), Force::No).expect("same");
    assert_eq!(shown(&again), json!({"f:spec": {"f:list": {}}}));
    let other = apply(&kind(&atomic), Some(&live), &config(json!(["b"])), &writer("two"), Force::No);
    let error = other.expect_err("a conflict").to_string();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"one\": .spec.list");

    // What was recorded under a version that is gone is forgotten.
    let later = Kind { api_version: "g/v2", versions: &["g/v2"], ..kind(&atomic) };
    let mut config = config(json!(["b"]));
    config["apiVersion"] = "g/v2".into();
    let taken = apply(&later, Some(&live), &config, &writer("two"), Force::No).expect("nobody owns it");
    assert_eq!(taken["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
}

#[test]
fn scaling_takes_the_replicas() {
    let path: Vec<Element> = ["spec", "replicas"].map(Element::field).into();
    let paths = ReplicaPaths::from([("apps/v1".to_owned(), Some(path))]);
    let entry = |manager: &str, fields: Value| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
    };
    let mut parent = json!({"metadata": {"managedFields": [
        entry("one", json!({"f:paused": {}, "f:replicas": {}})), entry("two", json!({"f:paused": {}})),
    ]}});
    let mut scale = json!({"metadata": {}});
    scale_fields(&parent, &paths, &mut scale).expect("entries");
    let seen = decode(&scale).expect("entries");
    let seen: Vec<&str> = seen.keys().map(|id| id.manager.as_str()).collect();
    assert_eq!(seen, ["one"]);

    let written = json!({"metadata": {"managedFields": [{
        "manager": "scaler", "operation": "Update", "apiVersion": "autoscaling/v1", "fieldsType": "FieldsV1",
        "subresource": "scale", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]}});
    scale_fields_to_parent(&mut parent, "apps/v1", &written, &paths).expect("entries");
    assert_eq!(
        parent["metadata"]["managedFields"],
        json!([
            entry("one", json!({"f:paused": {}})),
            entry("two", json!({"f:paused": {}})),
            // The real server loses the time here, too.
            {"manager": "scaler", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ])
    );
}

#[test]
fn managers_without_a_name_get_one_from_their_user_agent() {
    assert_eq!(name_of("given", "kubectl/v1"), "given");
    assert_eq!(name_of("", "kubectl/v1.36.3 (linux/amd64)"), "kubectl");
    assert_eq!(name_of("", "a\u{7}b/1"), "ab");
    assert_eq!(name_of("", &"é".repeat(100)), "é".repeat(64));
}
