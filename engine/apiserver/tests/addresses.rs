//! Addresses that no resource has: rights in one namespace reach nothing beyond it through them.

use serde_json::{Value, json};

mod support;
use support::{Cluster, JSON, MERGE, cluster, open_version};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A server with the namespace `tenant`, and a user who has this role there and nowhere else.
async fn with_tenant(role: &str) -> (Cluster, Cluster) {
    let cluster = cluster().await;
    cluster.made("/api/v1/namespaces", &json!({"metadata": {"name": "tenant"}})).await;
    let binding = json!({"metadata": {"name": "tenant"}, "roleRef": role_ref(role), "subjects": [subject()]});
    cluster.made(&format!("{RBAC}/namespaces/tenant/rolebindings"), &binding).await;
    let tenant = cluster.with_user("tenant");
    (cluster, tenant)
}

fn role_ref(role: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role})
}

fn subject() -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"})
}

#[tokio::test]
async fn the_admin_of_a_namespace_does_not_become_that_of_the_cluster() {
    let (cluster, tenant) = with_tenant("cluster-admin").await;
    let taken =
        json!({"metadata": {"name": "taken"}, "roleRef": role_ref("cluster-admin"), "subjects": [subject()]});
    let role = json!({"metadata": {"name": "taken"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    for (plural, object) in [("clusterrolebindings", &taken), ("clusterroles", &role)] {
        for prefix in ["", "/watch"] {
            let below = format!("{RBAC}{prefix}/namespaces/tenant/{plural}");
            assert_eq!(tenant.post(&below, object).await.0, 404, "{below}");
            // A PUT makes roles and bindings as well.
            assert_eq!(tenant.put(&format!("{below}/taken"), object).await.0, 404, "{below}");
        }
        let (code, answer) = tenant.post(&format!("{RBAC}/{plural}"), object).await;
        assert_eq!(code, 403, "{answer}");
        assert_eq!(cluster.get(&format!("{RBAC}/{plural}/taken")).await.0, 404);
    }
    let secrets = tenant.get("/api/v1/namespaces/kube-system/secrets").await;
    assert_eq!(secrets.0, 403, "{}", secrets.1);
    let inside =
        json!({"metadata": {"name": "inside"}, "roleRef": role_ref("cluster-admin"), "subjects": []});
    tenant.made(&format!("{RBAC}/namespaces/tenant/rolebindings"), &inside).await;
}

#[tokio::test]
async fn a_reader_of_one_namespace_lists_no_others() {
    // What `view` is made of: no controller runs here that would put it together.
    let (_, reader) = with_tenant("system:aggregate-to-view").await;
    assert_eq!(reader.get("/api/v1/namespaces/tenant").await.0, 200);
    assert_eq!(reader.get("/api/v1/namespaces").await.0, 403);
    for below in ["namespaces", "namespaces/kube-system"] {
        for query in ["", "?watch=true&timeoutSeconds=1"] {
            let path = format!("/api/v1/namespaces/tenant/{below}{query}");
            assert_eq!(reader.get(&path).await.0, 404, "{path}");
        }
        let path = format!("/api/v1/watch/namespaces/tenant/{below}?timeoutSeconds=1");
        assert_eq!(reader.get(&path).await.0, 404, "{path}");
    }
    // A stock server judges the path first, as it is written: the role has nothing to say of nodes.
    assert_eq!(reader.get("/api/v1/namespaces/tenant/nodes").await.0, 403);
}

#[tokio::test]
async fn a_custom_resource_of_the_cluster_is_not_reached_through_a_namespace() {
    let (cluster, tenant) = with_tenant("cluster-admin").await;
    let definition = json!({
        "metadata": {"name": "wholes.t.io"},
        "spec": {
            "group": "t.io", "scope": "Cluster", "versions": open_version(),
            "names": {"plural": "wholes", "singular": "whole", "kind": "Whole", "listKind": "WholeList"},
        },
    });
    cluster.made(DEFINITIONS, &definition).await;
    let whole = json!({"apiVersion": "t.io/v1", "kind": "Whole", "metadata": {"name": "w"}});
    cluster.made("/apis/t.io/v1/wholes", &whole).await;
    let below = "/apis/t.io/v1/namespaces/tenant/wholes";
    for (method, path) in
        [("GET", ""), ("POST", ""), ("DELETE", ""), ("GET", "/w"), ("DELETE", "/w"), ("PUT", "/w")]
    {
        let (code, answer) = tenant.send(method, &format!("{below}{path}"), JSON, whole.to_string()).await;
        assert_eq!(code, 404, "{method} {path}: {answer}");
    }
    assert_eq!(cluster.get("/apis/t.io/v1/wholes/w").await.0, 200);
}

#[tokio::test]
async fn nothing_is_written_across_all_namespaces() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    let map = json!({"metadata": {"name": "m"}});
    let thing = json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "m"}});
    for (root, plural, object, code) in
        [("/api/v1", "configmaps", &map, 405), ("/apis/t.io/v1", "things", &thing, 404)]
    {
        let home = format!("{root}/namespaces/default/{plural}");
        cluster.made(&home, object).await;
        assert_eq!(cluster.get(&format!("{root}/{plural}")).await.0, 200);
        for method in ["POST", "DELETE"] {
            let (answered, answer) =
                cluster.send(method, &format!("{root}/{plural}"), JSON, object.to_string()).await;
            assert_eq!(answered, code, "{method} {plural}: {answer}");
        }
        assert_eq!(cluster.get(&format!("{home}/m")).await.0, 200);
    }
}

#[tokio::test]
async fn a_verb_in_the_path_deletes_nothing() {
    let (cluster, tenant) = with_tenant("cluster-admin").await;
    let maps = "/api/v1/namespaces/tenant/configmaps";
    cluster.made(maps, &json!({"metadata": {"name": "m"}})).await;
    for path in ["configmaps", "configmaps/m"] {
        let watched = format!("/api/v1/watch/namespaces/tenant/{path}");
        assert_eq!(tenant.delete(&watched).await.0, 405, "{watched}");
    }
    assert_eq!(tenant.get(&format!("{maps}/m")).await.0, 200);
}

/// One resource, as discovery tells it.
struct Listed {
    root: String,
    plural: String,
    namespaced: bool,
}

async fn listed(cluster: &Cluster) -> Vec<Listed> {
    let mut roots = vec!["/api/v1".to_owned()];
    let (_, groups) = cluster.get("/apis").await;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let (_, resources) = cluster.get(&root).await;
        for one in resources["resources"].as_array().unwrap() {
            let plural = one["name"].as_str().unwrap();
            if !plural.contains('/') {
                let namespaced = one["namespaced"] == true;
                found.push(Listed { root: root.clone(), plural: plural.to_owned(), namespaced });
            }
        }
    }
    found
}

/// The whole catalog: whatever the method and whoever asks, an address of the wrong shape serves nothing.
#[tokio::test]
async fn no_resource_is_served_where_it_does_not_lie() {
    let (cluster, tenant) = with_tenant("cluster-admin").await;
    cluster.made_crd(open_version()).await;
    let resources = listed(&cluster).await;
    assert!(resources.iter().filter(|one| !one.namespaced).count() > 20);
    assert!(resources.iter().filter(|one| one.namespaced).count() > 20);
    for Listed { root, plural, namespaced } in &resources {
        let object = json!({"metadata": {"name": "absent"}}).to_string();
        for (below, name) in [
            ("", ""),
            ("", "/absent"),
            ("", "/absent/status"),
            ("", "/absent/nonsense"),
            ("/watch", ""),
            ("/watch", "/absent"),
        ] {
            let place = if *namespaced { "" } else { "/namespaces/tenant" };
            let path = format!("{root}{below}{place}/{plural}{name}");
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                // Across all namespaces things are read, by those who may. The handler of custom resources looks at the
                // verb alone, and a verb in the path counts whatever the method.
                let custom = root == "/apis/t.io/v1";
                let read = match below {
                    "/watch" if custom => true,
                    _ => name.is_empty() && matches!(method, "GET" | "HEAD"),
                };
                let read = *namespaced && read;
                let media = if method == "PATCH" { MERGE } else { JSON };
                for (user, asked) in [("admin", &cluster), ("tenant", &tenant)] {
                    if read && user == "admin" {
                        continue;
                    }
                    let (code, answer) = asked.send(method, &path, media, object.clone()).await;
                    assert!(matches!(code, 403..=405), "{user} {method} {path}: {code} {answer}");
                }
            }
        }
    }
}
