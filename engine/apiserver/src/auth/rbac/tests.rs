//! Decisions and sentences, held against a recording of the real server.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::auth::identity::{service_account_groups, split_service_account};
use crate::auth::impersonate::impersonate;
use crate::auth::recorded::{index, rows, strings, user};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The attributes in the spec of an access review.
fn attributes<'a>(user: &'a User, spec: &'a Value) -> Attributes<'a> {
    if let Some(path) = spec.get("nonResourceAttributes") {
        return Attributes::path(user, text(path, "verb"), text(path, "path"));
    }
    let resource = &spec["resourceAttributes"];
    Attributes {
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        ..Attributes::resource(
            user,
            text(resource, "verb"),
            text(resource, "group"),
            text(resource, "resource"),
        )
    }
}

/// The real server goes through bindings in no order: only the set of sentences is certain.
fn unordered(sentence: &str) -> Vec<&str> {
    let mut words: Vec<&str> = sentence.split(['[', ']', ',']).map(str::trim).collect();
    words.sort_unstable();
    words
}

#[test]
fn decides_as_the_real_server() {
    let index = index();
    for row in rows("decisions") {
        let user = user(&row["spec"]);
        let decision = authorize(&attributes(&user, &row["spec"]), &index);
        assert_eq!(decision.allowed(), row["status"]["allowed"] == true, "{row}");
        let (Decision::Allow { reason } | Decision::NoOpinion { reason }) = decision;
        let expected = text(&row["status"], "reason");
        // Two stock bindings give the same paths; either may be the one that is found.
        if !expected.contains("system:") || expected.contains("basic-user") {
            assert_eq!(unordered(&reason), unordered(expected), "{row}");
        }
    }
}

/// The attributes of a GET, as the request path gives them.
fn of_path<'a>(user: &'a User, path: &'a str) -> Attributes<'a> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return Attributes::path(user, "get", path),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        ["namespaces", namespace] => (*namespace, rest),
        _ => ("", rest),
    };
    let at = |index: usize| rest.get(index).copied().unwrap_or_default();
    let verb = if at(1).is_empty() { "list" } else { "get" };
    Attributes {
        namespace,
        name: at(1),
        subresource: at(2),
        ..Attributes::resource(user, verb, group, at(0))
    }
}

#[test]
fn refuses_in_the_real_servers_words() {
    let index = index();
    for row in rows("refusals") {
        let user = user(&row["user"]);
        let error = require(&of_path(&user, text(row, "path")), &index).expect_err("refused");
        let mut status = error.to_status();
        assert_eq!(
            unordered(status["message"].take().as_str().unwrap()),
            unordered(text(&row["status"], "message"))
        );
        status["message"] = row["status"]["message"].clone();
        assert_eq!(status, row["status"]);
    }
}

#[test]
fn nobody_gives_what_they_do_not_have() {
    let index = index();
    for row in rows("escalations") {
        let (user, object) = (user(&row["user"]), &row["object"]);
        let resource = format!("{}s", text(object, "kind").to_lowercase());
        let namespace = text(&object["metadata"], "namespace");
        let request = Attributes { namespace, ..Attributes::resource(&user, "create", GROUP, &resource) };
        let check = if resource.ends_with("bindings") { check_binding } else { check_role };
        let answer = check(&request, object, None, &index).err().map(|error| error.to_status());
        assert_eq!(answer.unwrap_or(Value::Null), row["refusal"], "{object}");
    }
}

#[test]
fn impersonates_as_the_real_server() {
    let index = index();
    let mut last = HashMap::new();
    for row in rows("impersonations") {
        let name = text(row, "requestor");
        let (namespace, _) = split_service_account(name).unwrap();
        let requestor = User { groups: service_account_groups(namespace), ..User::new(name, &[]) };
        let requestor = requestor.authenticated();
        let mut headers = HeaderMap::new();
        for pair in row["wish"].as_array().unwrap() {
            let [name, value] = [0, 1].map(|index| pair[index].as_str().unwrap());
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        fn ask(user: &User) -> Attributes<'_> {
            Attributes::resource(user, "create", "authentication.k8s.io", "selfsubjectreviews")
        }
        let answer = impersonate(&headers, &ask(&requestor), last.get(name).copied(), &index)
            .map(|impersonated| impersonated.expect("a wish"))
            .and_then(|impersonated| {
                last.insert(name, impersonated.mode);
                require(&ask(&impersonated.user), &index)?;
                Ok(impersonated.user.to_info())
            });
        match answer {
            Ok(info) => assert_eq!(info, row["user"], "{row}"),
            Err(error) => assert_eq!(error.to_status(), row["refusal"], "{row}"),
        }
    }
}

#[test]
fn updates_for_the_collector_need_no_rights() {
    let index = index();
    let user = User::new("nobody", &[]);
    let request =
        Attributes { name: "r", namespace: "ns", ..Attributes::resource(&user, "update", GROUP, "roles") };
    let old = json!({"metadata": {"name": "r", "finalizers": ["a"]}, "rules": [{"verbs": ["get"],
        "apiGroups": [""], "resources": ["pods"]}]});
    let mut new = old.clone();
    new["metadata"].as_object_mut().unwrap().remove("finalizers");
    assert!(check_role(&request, &new, Some(&old), &index).is_ok());
    assert!(check_role(&request, &new, None, &index).is_err());
    new["rules"][0]["verbs"] = json!(["list"]);
    assert!(check_role(&request, &new, Some(&old), &index).is_err());
}

fn role(name: &str, labels: Value, verbs: &[&str]) -> Value {
    let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb], "apiGroups": [""]})).collect();
    json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules})
}

#[test]
fn aggregates_what_the_selectors_pick() {
    let roles = [
        role("c", json!({"to": "view", "tier": "x"}), &["get", "watch"]),
        role("a", json!({"to": "view"}), &["list", "get"]),
        role("b", json!({"to": "edit"}), &["update"]),
    ];
    let all: Vec<&Value> = roles.iter().collect();
    let check = |selectors: Value, expected: Option<&[&str]>| {
        let mut sum = role("sum", json!({"to": "view"}), &["delete"]);
        sum["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        let mut all = all.clone();
        let own = sum.clone();
        all.push(&own);
        let rules = aggregate(&sum, &all);
        let verbs = |rules: &Vec<Value>| -> Vec<String> {
            rules.iter().flat_map(|rule| strings(&rule["verbs"])).collect()
        };
        assert_eq!(
            rules.as_ref().map(verbs).as_deref(),
            expected.map(|all| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>()).as_deref()
        );
        if let Some(rules) = rules {
            sum["rules"] = json!(rules);
            assert_eq!(aggregate(&sum, &all), None, "a second run changes nothing");
        }
    };
    check(json!([{"matchLabels": {"to": "view"}}]), Some(&["list", "get", "watch"]));
    check(
        json!([{"matchLabels": {"to": "edit"}}, {"matchLabels": {"to": "view"}}]),
        Some(&["update", "list", "get", "watch"]),
    );
    check(
        json!([{"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}]),
        Some(&["list", "get", "update"]),
    );
    check(
        json!([{"matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["view"]}]}]),
        Some(&["update"]),
    );
    check(
        json!([{"matchExpressions": [{"key": "to", "operator": "In", "values": ["view"]}, {"key": "tier", "operator": "Exists"}]}]),
        Some(&["get", "watch"]),
    );
    check(json!([]), Some(&[]));
    assert_eq!(aggregate(&roles[0], &all), None, "not an aggregated role");
}

#[test]
fn the_index_forgets_what_is_removed() {
    let mut index = index();
    let alice = User::new("alice", &[]);
    let list = Attributes { namespace: "auth-record", ..Attributes::resource(&alice, "list", "", "pods") };
    assert!(authorize(&list, &index).allowed());
    let known = index.clone();

    index.remove("Role", "auth-record", "rec-pods");
    let missing = "RBAC: role.rbac.authorization.k8s.io \"rec-pods\" not found";
    assert_eq!(authorize(&list, &index), Decision::NoOpinion { reason: missing.into() });
    index.remove("RoleBinding", "auth-record", "rec-pods");
    assert_eq!(authorize(&list, &index), Decision::NoOpinion { reason: String::new() });
    assert!(authorize(&list, &known).allowed(), "a clone is its own");

    let mut changed = known;
    changed.apply(
        "RoleBinding",
        &json!({"metadata": {"name": "rec-pods", "namespace": "auth-record"},
            "roleRef": {"kind": "Role", "name": "rec-pods"}, "subjects": [{"kind": "User", "name": "zoe"}]}),
    );
    assert!(!authorize(&list, &changed).allowed(), "no longer a subject");
    let zoe = User::new("zoe", &[]);
    assert!(authorize(&Attributes { user: &zoe, ..list }, &changed).allowed());
}

#[test]
fn every_object_can_be_removed_without_a_trace() {
    let mut index = index();
    for object in rows("objects") {
        let meta = &object["metadata"];
        index.remove(text(object, "kind"), text(meta, "namespace"), text(meta, "name"));
    }
    assert_eq!(format!("{index:?}"), format!("{:?}", Index::default()));
}
