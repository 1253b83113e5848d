//! ServiceAccount: every pod runs as someone, and gets that one's token.

use serde_json::{Value, json};

use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, items_mut, list, map_mut, object_mut, set_absent, text};
use crate::status::Result;

const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
/// An hour, and a little more so that older clients can be told apart.
const TOKEN_SECONDS: i64 = 3607;
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

fn is_mirror(pod: &Value) -> bool {
    !get(pod, &["metadata", "annotations", MIRROR]).is_null()
}

pub(super) fn mutate(request: &Attributes<'_>, pod: &mut Value, lookup: &dyn Lookup) -> Result<()> {
    if !request.creates("", "pods") {
        return Ok(());
    }
    if is_mirror(pod) {
        return check(request, pod, lookup);
    }
    let spec = object_mut(pod, "spec");
    if text(spec, "serviceAccountName").is_empty() {
        map_mut(spec).insert("serviceAccountName".to_owned(), "default".into());
    }
    // The older name of the field follows the newer one.
    let name = text(spec, "serviceAccountName").to_owned();
    map_mut(spec).insert("serviceAccount".to_owned(), name.clone().into());
    let account = find(request, pod, &name, lookup)?;
    let spec = object_mut(pod, "spec");
    let wanted = [spec, &account].into_iter().find_map(|one| one["automountServiceAccountToken"].as_bool());
    if wanted.unwrap_or(true) {
        mount_token(request, object_mut(pod, "spec"));
    }
    let spec = object_mut(pod, "spec");
    let secrets = list(&account["imagePullSecrets"]);
    if list(&spec["imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let names: Vec<Value> = secrets.iter().map(|secret| json!({"name": secret["name"]})).collect();
        map_mut(spec).insert("imagePullSecrets".to_owned(), names.into());
    }
    check(request, pod, lookup)
}

pub(super) fn check(request: &Attributes<'_>, pod: &Value, lookup: &dyn Lookup) -> Result<()> {
    if !request.is("", "pods") || request.operation != Operation::Create || !request.subresource.is_empty() {
        return Ok(());
    }
    let spec = get(pod, &["spec"]);
    let name = text(spec, "serviceAccountName");
    let refuse = |why: &str| Err(request.forbidden(pod, why));
    if is_mirror(pod) {
        let tokens = list(&spec["volumes"]).iter().any(|volume| {
            list(get(volume, &["projected", "sources"]))
                .iter()
                .any(|one| one.get("serviceAccountToken").is_some())
        });
        return if !name.is_empty() {
            refuse("a mirror pod may not reference service accounts")
        } else if names_secrets(spec) {
            refuse("a mirror pod may not reference secrets")
        } else if tokens {
            refuse("a mirror pod may not use ServiceAccountToken volume projections")
        } else {
            Ok(())
        };
    }
    if name.is_empty() {
        let pod_name = text(get(pod, &["metadata"]), "name");
        return refuse(&format!("no service account specified for pod {}/{pod_name}", request.namespace));
    }
    let account = find(request, pod, name, lookup)?;
    let enforced = get(&account, &["metadata", "annotations", ENFORCE_SECRETS]).as_str();
    if matches!(enforced, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
        && let Some(why) = foreign_secret(spec, &account)
    {
        return refuse(&why);
    }
    Ok(())
}

fn find(request: &Attributes<'_>, pod: &Value, name: &str, lookup: &dyn Lookup) -> Result<Value> {
    lookup.get("", "serviceaccounts", request.namespace, name).ok_or_else(|| {
        let namespace = request.namespace;
        let why =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        request.forbidden(pod, &why)
    })
}

fn names_secrets(spec: &Value) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let in_env = |container: &Value| {
        list(&container["env"]).iter().any(|one| !get(one, &["valueFrom", "secretKeyRef"]).is_null())
            || list(&container["envFrom"]).iter().any(|one| one.get("secretRef").is_some())
    };
    let in_volume = |volume: &Value| {
        volume.get("secret").is_some()
            || list(get(volume, &["projected", "sources"])).iter().any(|one| one.get("secret").is_some())
    };
    !list(&spec["imagePullSecrets"]).is_empty()
        || list(&spec["volumes"]).iter().any(in_volume)
        || containers.iter().any(|key| list(&spec[*key]).iter().any(in_env))
}

/// The first secret that the pod names and its account does not.
fn foreign_secret(spec: &Value, account: &Value) -> Option<String> {
    let account_name = text(&account["metadata"], "name");
    let known = |key: &str, name: &str| list(&account[key]).iter().any(|one| text(one, "name") == name);
    let not_referenced = |what: String| {
        format!("{what} is not allowed because service account {account_name} does not reference that secret")
    };
    for volume in list(&spec["volumes"]).iter().filter(|volume| volume.get("secret").is_some()) {
        let secret = text(&volume["secret"], "secretName");
        if !known("secrets", secret) {
            return Some(not_referenced(format!("volume with secret.secretName=\"{secret}\"")));
        }
    }
    for (key, what) in [("initContainers", "init container"), ("containers", "container")] {
        for container in list(&spec[key]) {
            let name = text(container, "name");
            for variable in list(&container["env"]) {
                let secret = text(get(variable, &["valueFrom", "secretKeyRef"]), "name");
                if !secret.is_empty() && !known("secrets", secret) {
                    let variable = text(variable, "name");
                    return Some(not_referenced(format!(
                        "{what} {name} with envVar {variable} referencing secret.secretName=\"{secret}\""
                    )));
                }
            }
            for source in list(&container["envFrom"]).iter().filter(|one| one.get("secretRef").is_some()) {
                let secret = text(&source["secretRef"], "name");
                if !known("secrets", secret) {
                    return Some(not_referenced(format!(
                        "{what} {name} with envFrom referencing secret.secretName=\"{secret}\""
                    )));
                }
            }
        }
    }
    list(&spec["imagePullSecrets"]).iter().enumerate().find_map(|(index, secret)| {
        let secret = text(secret, "name");
        let why = format!(
            "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {account_name} does not reference that imagePullSecret"
        );
        (!known("imagePullSecrets", secret)).then_some(why)
    })
}

fn mount_token(request: &Attributes<'_>, spec: &mut Value) {
    let present = list(&spec["volumes"])
        .iter()
        .map(|volume| text(volume, "name"))
        .find(|name| name.starts_with(VOLUME));
    let has_volume = present.is_some();
    let name = present.map_or_else(|| format!("{VOLUME}{}", request.context.name_suffix()), str::to_owned);
    let mut mounted = false;
    for key in ["initContainers", "containers"] {
        for container in items_mut(spec, key) {
            let taken =
                list(&container["volumeMounts"]).iter().any(|one| text(one, "mountPath") == MOUNT_PATH);
            if !taken {
                set_absent(container, "volumeMounts", json!([]));
                let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
                container["volumeMounts"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|mounts| mounts.push(mount.clone()));
                mounted = true;
            }
        }
    }
    if mounted && !has_volume {
        set_absent(spec, "volumes", json!([]));
        let volume = json!({"name": name, "projected": token_source()});
        spec["volumes"].as_array_mut().into_iter().for_each(|volumes| volumes.push(volume.clone()));
    }
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
    })
}
