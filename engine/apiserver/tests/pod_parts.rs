//! Parts of a pod, and of a certificate signing request, that are written by themselves: only those change, and only to
//! what is right.

use serde_json::{Value, json};

mod support;
use support::{Cluster, cluster};

const POD: &str = "/api/v1/namespaces/default/pods/p";

async fn with_pod(resources: Value) -> Cluster {
    let cluster = cluster().await;
    let account = json!({"metadata": {"name": "default"}});
    cluster.made("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    cluster.made("/api/v1/namespaces/default/pods", &pod).await;
    cluster
}

fn requests(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": "8Mi"}})
}

#[tokio::test]
async fn a_resize_changes_resources_and_nothing_else() {
    let cluster = with_pod(requests("1")).await;
    let (_, mut pod) = cluster.get(POD).await;
    pod["metadata"]["labels"] = json!({"a": "b"});
    pod["spec"]["containers"][0]["image"] = "other".into();
    pod["spec"]["containers"][0]["resources"] = requests("2");
    pod["spec"]["nodeName"] = "somewhere".into();
    pod["status"] = json!({"phase": "Running"});
    let (code, resized) = cluster.put(&format!("{POD}/resize"), &pod).await;
    assert_eq!(code, 200, "{resized}");
    assert_eq!(resized["spec"]["containers"][0]["resources"], requests("2"));
    assert_eq!(resized["spec"]["containers"][0]["image"], "i");
    assert_eq!(resized["spec"].get("nodeName"), None);
    assert_eq!(resized["metadata"].get("labels"), None);
    assert_eq!(resized["status"]["phase"], "Pending");
    assert_eq!(resized["metadata"]["generation"], 2);
    let managers = resized["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|one| one["subresource"] == "resize"), "{managers:?}");
}

#[tokio::test]
async fn a_resize_is_held_against_what_a_pod_may_be() {
    let cluster = with_pod(requests("1")).await;
    let resize = async |containers: Value| {
        let (_, mut pod) = cluster.get(POD).await;
        pod["spec"]["containers"] = containers;
        let (code, answer) = cluster.put(&format!("{POD}/resize"), &pod).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    let container =
        |name: &str, resources: Value| json!({"name": name, "image": "i", "resources": resources});
    for (containers, why) in [
        (json!([container("d", requests("1"))]), "containers may not be renamed or reordered on resize"),
        (
            json!([container("c", requests("1")), container("d", requests("1"))]),
            "containers may not be added or removed on resize",
        ),
        (json!([container("c", json!({"requests": {"cpu": "1"}}))]), "resource requests cannot be removed"),
        (json!([container("c", json!({}))]), "Pod QOS Class may not change as a result of resizing"),
        (
            json!([container(
                "c",
                json!({"requests": {"cpu": "1", "memory": "8Mi", "ephemeral-storage": "1"}})
            )]),
            "only cpu and memory resources are mutable",
        ),
        (
            json!([container("c", json!({"requests": {"cpu": "-1", "memory": "8Mi"}}))]),
            "must be greater than or equal to 0",
        ),
    ] {
        let (code, message) = resize(containers).await;
        assert!(code == 422 && message.contains(why), "{why}: {code} {message}");
    }
}

#[tokio::test]
async fn a_resize_is_counted_by_limits_and_quotas() {
    let cluster = with_pod(requests("1")).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}});
    cluster.made("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let used = json!({"status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}});
    assert_eq!(cluster.merge("/api/v1/namespaces/default/resourcequotas/q/status", &used).await.0, 200);
    let patch = |cpu: &str| json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": requests(cpu)}]}});
    let (code, answer) = cluster.merge(&format!("{POD}/resize"), &patch("3")).await;
    assert_eq!(code, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("exceeded quota: q"), "{answer}");
    assert_eq!(cluster.merge(&format!("{POD}/resize"), &patch("2")).await.0, 200);
    let max =
        json!({"limits": [{"type": "Container", "max": {"memory": "16Mi"}, "default": {"memory": "16Mi"}}]});
    cluster
        .made("/api/v1/namespaces/default/limitranges", &json!({"metadata": {"name": "l"}, "spec": max}))
        .await;
    let mut larger = patch("2");
    larger["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "2", "memory": "8Mi"}, "limits": {"memory": "32Mi"}});
    let (code, answer) = cluster.merge(&format!("{POD}/resize"), &larger).await;
    assert_eq!(code, 403, "{answer}");
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_nothing_else() {
    let cluster = with_pod(json!({})).await;
    let path = format!("{POD}/ephemeralcontainers");
    let debug = |image: &str| json!([{"name": "debug", "image": image}]);
    let (_, mut pod) = cluster.get(POD).await;
    pod["metadata"]["labels"] = json!({"a": "b"});
    pod["spec"]["containers"][0]["image"] = "other".into();
    pod["spec"]["ephemeralContainers"] = debug("tools");
    let (code, put) = cluster.put(&path, &pod).await;
    assert_eq!(code, 200, "{put}");
    assert_eq!(put["spec"]["ephemeralContainers"][0]["image"], "tools");
    assert_eq!(put["spec"]["containers"][0]["image"], "i");
    assert_eq!(put["metadata"].get("labels"), None);
    assert_eq!(put["metadata"]["generation"], 2);
    let (code, answer) =
        cluster.merge(&path, &json!({"spec": {"ephemeralContainers": debug("others")}})).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        code == 422 && message.contains("existing ephemeral containers \"debug\" may not be changed"),
        "{answer}"
    );
    let (code, answer) = cluster.merge(&path, &json!({"spec": {"ephemeralContainers": []}})).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        code == 422 && message.contains("existing ephemeral containers \"debug\" may not be removed"),
        "{answer}"
    );
    let nameless = json!([{"name": "debug", "image": "tools"}, {"name": "", "image": "tools"}]);
    let (code, answer) = cluster.merge(&path, &json!({"spec": {"ephemeralContainers": nameless}})).await;
    assert_eq!(code, 422, "{answer}");
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request for a certificate of this group's, as the API carries it.
fn request(group: &str) -> String {
    use base64::Engine as _;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    base64::engine::general_purpose::STANDARD.encode(format!("# for {group}\n{pem}"))
}

async fn with_request() -> Cluster {
    let cluster = cluster().await;
    let spec = json!({"request": request("team"), "signerName": "t.io/one", "usages": ["client auth"]});
    cluster.made(REQUESTS, &json!({"metadata": {"name": "r"}, "spec": spec})).await;
    cluster
}

fn approved(message: &str) -> Value {
    json!({"status": {
        "certificate": "AAAA",
        "conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": message}],
    }})
}

#[tokio::test]
async fn an_approval_changes_conditions_and_nothing_else() {
    let cluster = with_request().await;
    let path = format!("{REQUESTS}/r/approval");
    let (code, answer) = cluster.merge(&path, &approved("fine")).await;
    assert_eq!(code, 200, "{answer}");
    let condition = &answer["status"]["conditions"][0];
    assert_eq!(answer["status"].get("certificate"), None, "{answer}");
    assert!(
        condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string(),
        "{answer}"
    );
    let both = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"},
    ]}});
    for (body, why) in [
        (both, "Approved and Denied conditions are mutually exclusive"),
        (json!({"status": {"conditions": []}}), "updates may not remove a condition of type \"Approved\""),
        (
            json!({"status": {"conditions": [{"type": "Approved", "status": "No"}]}}),
            "Unsupported value: \"No\"",
        ),
    ] {
        let (code, answer) = cluster.merge(&path, &body).await;
        assert!(code == 422 && answer["message"].as_str().unwrap().contains(why), "{why}: {answer}");
    }
    // The status is written by who signs, and approval is not for them.
    let (code, answer) = cluster.merge(&format!("{REQUESTS}/r/status"), &approved("changed")).await;
    assert_eq!((code, &answer["status"]["conditions"][0]["message"]), (200, &json!("fine")), "{answer}");
}

#[tokio::test]
async fn who_approves_or_signs_needs_leave_for_that_signer() {
    let cluster = with_request().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let group = "certificates.k8s.io";
    let parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules = json!([{"apiGroups": [group], "resources": parts, "verbs": ["update", "patch"]}]);
    cluster
        .made(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "write"}, "rules": rules}))
        .await;
    let rules = json!([{"apiGroups": [group], "resources": ["signers"], "resourceNames": ["t.io/*"],
        "verbs": ["approve", "sign"]}]);
    cluster
        .made(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "sign"}, "rules": rules}))
        .await;
    let bind = async |role: &str| {
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]);
        let binding = json!({"metadata": {"name": role}, "roleRef": role_ref, "subjects": subjects});
        cluster.made(&format!("{rbac}/clusterrolebindings"), &binding).await;
    };
    bind("write").await;
    let ann = cluster.with_user("ann");
    let signed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    let (approval, status) = (format!("{REQUESTS}/r/approval"), format!("{REQUESTS}/r/status"));
    let (code, answer) = ann.merge(&approval, &approved("fine")).await;
    let why = "user not permitted to approve requests with signerName \"t.io/one\"";
    assert!(code == 403 && answer["message"].as_str().unwrap().ends_with(why), "{answer}");
    let (code, answer) = ann.merge(&status, &signed).await;
    let why = "user not permitted to sign requests with signerName \"t.io/one\"";
    assert!(code == 403 && answer["message"].as_str().unwrap().ends_with(why), "{answer}");
    assert_eq!(ann.merge(&status, &json!({"metadata": {"labels": {"a": "b"}}})).await.0, 200);
    bind("sign").await;
    assert_eq!(ann.merge(&status, &signed).await.0, 200);
}

#[tokio::test]
async fn no_certificate_makes_an_administrator() {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let cluster = cluster().await;
    let asked = |name: &str, request: String| {
        let spec = json!({"request": request, "signerName": SIGNER, "usages": ["client auth"]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    cluster.made(REQUESTS, &asked("team", request("team"))).await;
    let (code, answer) = cluster.post(REQUESTS, &asked("masters", request("system:masters"))).await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{answer}");
    // PEM of something that is no request.
    let junk = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KQUFBQQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let (code, answer) = cluster.post(REQUESTS, &asked("junk", junk.to_owned())).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{answer}");
    for absent in ["masters", "junk"] {
        assert_eq!(cluster.get(&format!("{REQUESTS}/{absent}")).await.0, 404);
    }
}
