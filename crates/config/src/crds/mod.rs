//! The custom resources of this role, as AMKO defines them, with its checks in the schema.

mod cluster;
mod config;
mod policy;

use serde_json::{Value, json};

use crate::names::GROUP;

/// The three CustomResourceDefinitions, ready to be applied to any cluster of the federation.
pub fn crds() -> Vec<Value> {
    vec![cluster::crd(), config::crd(), policy::crd()]
}

struct Names {
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
}

fn definition(names: &Names, version: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", names.plural)},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": names.kind,
                "listKind": format!("{}List", names.kind),
                "plural": names.plural,
                "singular": names.singular,
                "shortNames": names.short,
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    #[test]
    fn they_are_definitions_with_one_stored_version_each() {
        let names: Vec<_> = crds()
            .into_iter()
            .map(|crd| {
                let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
                let [version] = &crd.spec.versions[..] else { panic!("one version") };
                assert!(version.served && version.storage);
                format!("{}/{}", crd.metadata.name.unwrap(), version.name)
            })
            .collect();
        assert_eq!(
            names,
            [
                "amkoclusters.amko.vmware.com/v1alpha1",
                "gslbconfigs.amko.vmware.com/v1alpha1",
                "globaldeploymentpolicies.amko.vmware.com/v1alpha2",
            ]
        );
    }
}
