//! Further kinds, as `spec.objects` names them, and what becomes of copies when a definition goes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::site::{ALL_WELL, OBJECT, Site, Sites};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const DEFINITION: &str = "crd/gslbhostrules.amko.vmware.com";

pub(super) async fn further(world: Arc<World>) -> anyhow::Result<()> {
    let mut sites = Sites::prepare(&world, &["a", "b"]).await?;
    for site in &sites.all {
        site.apply(&definition()).await?;
        allow(site).await?;
    }
    sites.start(0).await?;
    let [a, b] = &sites.all[..] else { anyhow::bail!("a pair") };
    a.configure().await?;
    a.says(&ALL_WELL).await?;
    let shop = Room::anew(&a.room.cluster, "avi-shop").await?;
    for (name, ttl) in [("one", 1), ("two", 2)] {
        shop.apply(&rule(name, ttl)).await?;
    }
    let wanted =
        json!([{"apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule", "namespace": "*"}]);
    a.patch(OBJECT, &json!({"spec": {"objects": wanted}})).await?;
    let stage = "GSLBHostRule Federation=federated to all valid clusters successfully:";
    let all_well: Vec<&str> = ALL_WELL.into_iter().chain([stage]).collect();
    a.says(&all_well).await?;
    // The namespace was made there too.
    until_rules(b, "one=1 two=2").await?;
    shop.kubectl(&["patch", "gslbhostrule", "one", "--type=merge", "-p", r#"{"spec": {"ttl": 9}}"#]).await?;
    shop.kubectl(&["delete", "gslbhostrule", "two"]).await?;
    until_rules(b, "one=9").await?;
    b.room.kubectl(&["delete", "gslbhostrule", "one", "--namespace=avi-shop"]).await?;
    until_rules(b, "one=9").await?;

    // Whoever deletes a definition here has not said that anything should go over there.
    a.room.kubectl(&["delete", DEFINITION]).await?;
    a.mentions("GSLBHostRule Federation=failure in federation:").await?;
    a.apply(&definition()).await?;
    a.mentions("the definition of GSLBHostRule in the current cluster was made anew").await?;
    until_rules(b, "one=9").await?;
    sites.stop(0).await?;
    sites.start(0).await?;
    let [a, b] = &sites.all[..] else { anyhow::bail!("a pair") };
    a.is_seen_to_lead(true).await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 7}})).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "7").await?;
    until_rules(b, "one=9").await?;
    shop.apply(&rule("one", 3)).await?;
    until_rules(b, "one=3").await?;
    a.says(&all_well).await?;

    for site in &sites.all {
        site.room.kubectl(&["delete", "namespace", "avi-shop", "--wait=false"]).await?;
    }
    sites.dissolve().await
}

/// What a user grants for further kinds: to the role that reads them, and to the credentials that write them.
async fn allow(site: &Site) -> anyhow::Result<()> {
    let subject = |name| json!({"kind": "ServiceAccount", "namespace": "avi-system", "name": name});
    let subjects = [subject("koinon-config"), subject("remote")];
    let rules = json!([
        {"apiGroups": ["amko.vmware.com"], "resources": ["gslbhostrules"],
         "verbs": ["get", "list", "watch", "create", "update", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]},
    ]);
    let group = "rbac.authorization.k8s.io";
    let reference = json!({"apiGroup": group, "kind": "ClusterRole", "name": "avi-further"});
    let made = |kind: &str, fields: Value| {
        let mut object = fields;
        object["apiVersion"] = format!("{group}/v1").into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "avi-further"});
        object
    };
    site.apply(&made("ClusterRole", json!({"rules": rules}))).await?;
    site.apply(&made("ClusterRoleBinding", json!({"roleRef": reference, "subjects": subjects}))).await
}

async fn until_rules(site: &Site, wanted: &str) -> anyhow::Result<()> {
    until(&format!("{} has the rules {wanted}", site.name), async || {
        let path = "jsonpath={range .items[*]}{.metadata.name}={.spec.ttl} {end}";
        let rules = site.room.kubectl(&["get", "gslbhostrules", "--namespace=avi-shop", "-o", path]).await?;
        Ok(if rules.trim_end() == wanted { Look::Found(()) } else { Look::NotYet(rules) })
    })
    .await
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gslbhostrules.amko.vmware.com"},
        "spec": {
            "group": "amko.vmware.com", "scope": "Namespaced",
            "names": {
                "kind": "GSLBHostRule", "listKind": "GSLBHostRuleList", "plural": "gslbhostrules",
                "singular": "gslbhostrule", "shortNames": ["ghr"],
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn rule(name: &str, ttl: u64) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule",
        "metadata": {"name": name}, "spec": {"fqdn": format!("{name}.example.com"), "ttl": ttl},
    })
}
