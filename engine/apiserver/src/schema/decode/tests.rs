//! Expectations are the real server's own answers.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::facts::Facts;
use crate::schema::parse::Document;

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let facts = Facts::from_json(include_bytes!("../testdata/facts.json")).unwrap();
    Document::parse(include_bytes!("../testdata/openapi.json"), &facts).unwrap()
});

/// A part of the real documents, without descriptions.
pub(crate) fn document() -> &'static Document {
    &DOCUMENT
}

fn schema(kind: &str) -> Schema {
    let document = document();
    let gvk = document.kinds().find(|gvk| gvk.kind == kind).expect("the kind is there").clone();
    document.kind(&gvk.group, &gvk.version, &gvk.kind).unwrap()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// `base` with the value at `pointer` set, creating the last step.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    base.pointer_mut(parent).unwrap()[last] = value;
    base
}

/// Where in a Deployment, what is put there, and what is said of it.
const MISMATCHES: &[(&str, &str, &str)] = &[
    (
        "/spec/replicas",
        r#""x""#,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/replicas",
        "1.5",
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/replicas",
        "true",
        "json: cannot unmarshal bool into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/replicas",
        "{}",
        "json: cannot unmarshal object into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/replicas",
        "[1]",
        "json: cannot unmarshal array into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/replicas",
        "3000000000",
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "/spec/paused",
        r#""x""#,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool",
    ),
    (
        "/spec/template",
        r#""x""#,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec",
    ),
    (
        "/spec/template",
        "[]",
        "json: cannot unmarshal array into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec",
    ),
    (
        "/spec/template/spec/containers",
        r#""x""#,
        "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    ),
    (
        "/spec/template/spec/containers",
        "{}",
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    ),
    (
        "/spec/template/spec/containers",
        "[5]",
        "json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
    ),
    (
        "/spec/template/spec/containers/0/name",
        "5",
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
    ),
    (
        "/spec/template/spec/containers/0/image",
        r#"{"a": 1}"#,
        "json: cannot unmarshal object into Go struct field Container.spec.template.spec.containers.image of type string",
    ),
    (
        "/spec/template/spec/containers/0/args",
        r#""x""#,
        "json: cannot unmarshal string into Go struct field Container.spec.template.spec.containers.args of type []string",
    ),
    (
        "/spec/template/spec/containers/0/args",
        "[1]",
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.args of type string",
    ),
    (
        "/spec/template/spec/containers/0/env",
        r#"[{"name": "a", "value": 5}]"#,
        "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"{"limits": {"cpu": "abc"}}"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"{"limits": {"cpu": true}}"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"{"limits": {"cpu": {}}}"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"{"limits": 5}"#,
        "json: cannot unmarshal number into Go struct field ResourceRequirements.spec.template.spec.containers.resources.limits of type v1.ResourceList",
    ),
    (
        "/spec/template/spec/containers/0/ports",
        r#"[{"containerPort": "80"}]"#,
        "json: cannot unmarshal string into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
    ),
    (
        "/spec/template/spec/restartPolicy",
        "5",
        "json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.restartPolicy of type v1.RestartPolicy",
    ),
    (
        "/spec/template/spec/nodeSelector",
        r#"{"a": 5}"#,
        "json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.nodeSelector of type string",
    ),
    (
        "/spec/template/spec/nodeSelector",
        "[]",
        "json: cannot unmarshal array into Go struct field PodSpec.spec.template.spec.nodeSelector of type map[string]string",
    ),
    (
        "/spec/template/spec/volumes",
        r#"[{"name": "x", "emptyDir": 5}]"#,
        "json: cannot unmarshal number into Go struct field Volume.spec.template.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
    ),
    (
        "/spec/template/spec/volumes",
        r#"[{"name": "x", "emptyDir": {"sizeLimit": "zz"}}]"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "/metadata/name",
        "5",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
    ),
    (
        "/metadata/creationTimestamp",
        r#""foo""#,
        r#"parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006""#,
    ),
    (
        "/metadata/creationTimestamp",
        "5",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
    ),
    (
        "/metadata/labels",
        r#"{"a": 1}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    (
        "/metadata",
        "5",
        "json: cannot unmarshal number into Go struct field Deployment.metadata of type v1.ObjectMeta",
    ),
    (
        "/spec/strategy",
        r#"{"rollingUpdate": {"maxSurge": 1.5}}"#,
        "json: cannot unmarshal number 1.5 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    ),
    (
        "/spec/strategy",
        r#"{"rollingUpdate": {"maxSurge": true}}"#,
        "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    ),
    (
        "/spec/strategy",
        r#"{"rollingUpdate": {"maxSurge": {}}}"#,
        "json: cannot unmarshal object into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    ),
    (
        "/spec/strategy",
        r#"{"rollingUpdate": {"maxSurge": 3000000000}}"#,
        "json: cannot unmarshal number 3000000000 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    ),
    (
        "/spec/template/spec/containers/0/livenessProbe",
        r#"{"httpGet": {"port": []}}"#,
        "json: cannot unmarshal array into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
    ),
    (
        "/spec/template/spec/containers/0/livenessProbe",
        r#"{"httpGet": {"port": 1, "host": 1}}"#,
        "json: cannot unmarshal number into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.host of type string",
    ),
    (
        "/spec/template/spec/containers/0/livenessProbe",
        r#"{"httpGet": 5}"#,
        "json: cannot unmarshal number into Go struct field Probe.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet of type v1.HTTPGetAction",
    ),
    (
        "/spec/template/spec/containers/0/terminationMessagePolicy",
        "5",
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.terminationMessagePolicy of type v1.TerminationMessagePolicy",
    ),
    (
        "/spec/selector",
        "5",
        "json: cannot unmarshal number into Go struct field DeploymentSpec.spec.selector of type v1.LabelSelector",
    ),
    (
        "/spec/template/spec/tolerations",
        r#"[{"tolerationSeconds": "x"}]"#,
        "json: cannot unmarshal string into Go struct field Toleration.spec.template.spec.tolerations.tolerationSeconds of type int64",
    ),
    (
        "/spec/template/spec/securityContext",
        r#"{"runAsUser": "x", "sysctls": 5}"#,
        "json: cannot unmarshal string into Go struct field PodSecurityContext.spec.template.spec.securityContext.runAsUser of type int64",
    ),
    (
        "/spec/template/spec/containers/0/envFrom",
        r#"[{"configMapRef": {"name": 5}}]"#,
        "json: cannot unmarshal number into Go struct field ConfigMapEnvSource.spec.template.spec.containers.envFrom.configMapRef.LocalObjectReference.name of type string",
    ),
    (
        "/spec/template/spec/containers/0/env",
        r#"[{"name": "a", "valueFrom": {"secretKeyRef": {"name": 1}}}]"#,
        "json: cannot unmarshal number into Go struct field SecretKeySelector.spec.template.spec.containers.env.valueFrom.secretKeyRef.LocalObjectReference.name of type string",
    ),
    (
        "/metadata/ownerReferences",
        "[5]",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.ownerReferences of type v1.OwnerReference",
    ),
    (
        "/metadata/managedFields",
        r#"[{"time": "x"}]"#,
        r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
    ),
    (
        "/metadata/uid",
        "5",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID",
    ),
    (
        "/status",
        "5",
        "json: cannot unmarshal number into Go struct field Deployment.status of type v1.DeploymentStatus",
    ),
];

#[test]
fn wrong_types_are_refused_in_gos_words() {
    let schema = schema("Deployment");
    for (pointer, value, message) in MISMATCHES {
        let value = with(deployment(), pointer, serde_json::from_str(value).unwrap());
        let error = decode(&schema, value.clone()).expect_err(pointer);
        assert_eq!(error.to_string(), *message, "{pointer}");
    }
}

/// What is sent, what it becomes, and what strict validation says.
#[track_caller]
fn check(kind: &str, body: &str, expected: Value, strict: &[&str]) {
    let schema = schema(kind);
    let decoded = decode_json(&schema, Json::parse(body.as_bytes()).unwrap()).unwrap();
    assert_eq!(decoded.value, expected, "{body}");
    assert_eq!(decoded.strict, strict, "{body}");
    let again = decode(&schema, decoded.value.clone()).unwrap();
    assert_eq!(again, Decoded { value: decoded.value, strict: vec![] }, "{body}, once more");
}

#[test]
fn empty_fields_show_as_their_go_types_say() {
    check(
        "Deployment",
        "{}",
        json!({
            "metadata": {},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
            "status": {},
        }),
        &[],
    );
    check("Role", r#"{"rules":[]}"#, json!({"metadata": {}, "rules": []}), &[]);
    let stored = decode_stored(&schema("Role"), json!({"rules": []})).expect("a Role");
    assert_eq!(stored.value, json!({"metadata": {}, "rules": null}), "the store knows no empty list");
    check("Role", r#"{"rules":[{}]}"#, json!({"metadata": {}, "rules": [{"verbs": null}]}), &[]);
    check(
        "Event",
        "{}",
        json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        }),
        &[],
    );
    check(
        "Service",
        r#"{"spec":{"ports":[{"port":80,"targetPort":null}]}}"#,
        json!({
            "metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]}, "status": {"loadBalancer": {}},
        }),
        &[],
    );
    check(
        "Secret",
        r#"{"metadata":{"labels":{},"annotations":{},"finalizers":[]},"data":{}}"#,
        json!({"metadata": {}}),
        &[],
    );
    check("ControllerRevision", "{}", json!({"metadata": {}, "data": null, "revision": 0}), &[]);
}

#[test]
fn nulls_become_zero_values() {
    check(
        "Secret",
        r#"{"data":{"a":"","b":null,"c":"Y\nQ==","d":[97,98]},"immutable":null,"type":null}"#,
        json!({"metadata": {}, "data": {"a": "", "b": "", "c": "YQ==", "d": "YWI="}}),
        &[],
    );
    let body = r#"{"spec":{"template":{"spec":{"nodeSelector":{"a":null},"containers":[null,{
        "name":"c","args":[null,"b"],"resources":{"limits":{"cpu":null,"memory":1.50}}}]}}}}"#;
    check(
        "Deployment",
        body,
        json!({
            "metadata": {},
            "spec": {
                "selector": null,
                "strategy": {},
                "template": {"metadata": {}, "spec": {
                    "nodeSelector": {"a": ""},
                    "containers": [
                        {"name": "", "resources": {}},
                        {"name": "c", "args": ["", "b"], "resources": {"limits": {"cpu": "0", "memory": "1500m"}}},
                    ],
                }},
            },
            "status": {},
        }),
        &[],
    );
}

#[test]
fn pointers_keep_what_was_set_on_purpose() {
    let body = r#"{"spec":{"replicas":0,"paused":false,"minReadySeconds":0,"selector":{},
        "strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"25%"}}}}"#;
    check(
        "Deployment",
        body,
        json!({
            "metadata": {},
            "spec": {
                "replicas": 0, "selector": {},
                "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
                "template": {"metadata": {}, "spec": {"containers": null}},
            },
            "status": {},
        }),
        &[],
    );
    check(
        "Lease",
        r#"{"spec":{"holderIdentity":"","renewTime":"2020-01-01T00:00:00.123456+02:00","acquireTime":null}}"#,
        json!({"metadata": {}, "spec": {"holderIdentity": "", "renewTime": "2019-12-31T22:00:00.123456Z"}}),
        &[],
    );
    // Go shows a zero time that was set on purpose as null, and reads that as none.
    let zero = json!({"spec": {"renewTime": "0001-01-01T00:00:00.000000Z"}});
    assert_eq!(decode(&schema("Lease"), zero).unwrap().value["spec"], json!({"renewTime": null}));
}

#[test]
fn strict_validation_tells_in_the_order_of_the_document() {
    check(
        "Secret",
        r#"{"stringData":{"a":"1","a":"2"},"dat":1,"metadata":{"name":"b","foo":1},"zzz":{"a":1,"a":2},
            "type":"x","type":"y"}"#,
        json!({"metadata": {"name": "b"}, "stringData": {"a": "2"}, "type": "y"}),
        &[
            r#"duplicate field "stringData.a""#,
            r#"unknown field "dat""#,
            r#"unknown field "metadata.foo""#,
            r#"unknown field "zzz""#,
            r#"duplicate field "type""#,
        ],
    );
    check(
        "Role",
        r#"{"rules":[{"verbs":["get"]},{"verbs":["get"],"Verbs":[],"verbs":["list"]}]}"#,
        json!({"metadata": {}, "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]}),
        &[r#"unknown field "rules[1].Verbs""#, r#"duplicate field "rules[1].verbs""#],
    );
    let findings = ["unknown field \"a\"".to_owned(), "unknown field \"b\"".to_owned()];
    assert_eq!(strict_error(&findings), r#"strict decoding error: unknown field "a", unknown field "b""#);
}

#[test]
fn numbers_are_refused_as_they_were_written() {
    for (literal, message) in [
        ("1e3", Some("number 1e3")),
        ("1.0", Some("number 1.0")),
        ("9223372036854775808", Some("number 9223372036854775808")),
        ("9223372036854775807", None),
    ] {
        let body = format!(r#"{{"metadata":{{"generation":{literal}}}}}"#);
        let result = decode_json(&schema("Secret"), Json::parse(body.as_bytes()).unwrap());
        let path = "into Go struct field ObjectMeta.metadata.generation of type int64";
        let expected = message.map(|number| format!("json: cannot unmarshal {number} {path}"));
        assert_eq!(result.err().map(|error| error.to_string()), expected);
    }
}

#[test]
fn the_first_error_of_the_document_counts_unless_a_type_decodes_itself() {
    let error = |body: &str| {
        decode_json(&schema("Secret"), Json::parse(body.as_bytes()).unwrap()).unwrap_err().to_string()
    };
    let data = "json: cannot unmarshal number into Go struct field Secret.data of type map[string][]uint8";
    assert_eq!(
        error(r#"{"type":5,"data":5}"#),
        "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType"
    );
    assert_eq!(error(r#"{"data":5,"type":5}"#), data);
    assert_eq!(
        error(r#"{"data":5,"metadata":{"creationTimestamp":true}}"#),
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
    );
    assert_eq!(error(r#"{"data":{"a":"YQ"}}"#), "illegal base64 data at input byte 0");
    assert_eq!(error("[]"), "json: cannot unmarshal array into Go value of type v1.Secret");
}

#[test]
fn schemas_inside_definitions_are_typed_and_not_told_of() {
    let body = r#"{"spec":{"group":"g","names":{"plural":"p","kind":"K"},"scope":"Namespaced","versions":[{
        "name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","bad":1,"properties":{
            "a":{"type":"array","items":{"type":"string","bad":1},"default":[1.0]},
            "b":{"additionalProperties":{"type":"string","bad":1,"maxLength":0}},
            "c":{"additionalProperties":true,"required":[]}}}}}]}}"#;
    check(
        "CustomResourceDefinition",
        body,
        json!({
            "metadata": {},
            "spec": {
                "group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "array", "items": {"type": "string"}, "default": [1.0]},
                        "b": {"additionalProperties": {"type": "string", "maxLength": 0}},
                        "c": {"additionalProperties": true},
                    },
                }}}],
            },
            "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null},
        }),
        &[r#"unknown field "spec.versions[0].schema.openAPIV3Schema.bad""#],
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9]{0,4}".prop_map(Value::from),
        Just(json!("2020-01-01T00:00:00+01:00")),
        Just(json!("1.5Gi")),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "spec",
        "template",
        "containers",
        "name",
        "image",
        "resources",
        "limits",
        "cpu",
        "replicas",
        "selector",
        "matchLabels",
        "strategy",
        "rollingUpdate",
        "maxSurge",
        "paused",
        "labels",
        "volumes",
        "emptyDir",
        "sizeLimit",
        "creationTimestamp",
        "other",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn decoding_twice_changes_nothing(spec in any_json(), metadata in any_json(), pod in any_json()) {
        let schema = schema("Deployment");
        let mut body = json!({"spec": spec, "metadata": metadata});
        if body["spec"].is_object() {
            body["spec"]["template"] = json!({"spec": pod});
        }
        if let Ok(decoded) = decode(&schema, body) {
            let again = decode(&schema, decoded.value.clone()).unwrap();
            prop_assert_eq!(again.value, decoded.value);
            prop_assert!(again.strict.is_empty());
        }
    }
}
