//! StatefulSets.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::kinds::claims::validate_claim_spec;
use crate::kinds::core::{SPEC_AND_STATUS, default_claim};
use crate::kinds::pods::{default_pod_template_spec, validate_pod_template};
use crate::kinds::selectors;
use crate::kinds::walk::{
    At, Faults, copy, find_path_mut, get, is_empty, items_mut, list, map_mut, object_mut, remove, same,
    set_absent, set_zero, text,
};
use crate::kinds::workloads::{
    Counts, is_usable, number_of, shown, validate_at_most_all, validate_collisions, validate_counts,
    validate_int_or_percent, validate_labels_are_selected, validate_runs_forever, validate_selector,
};
use crate::kinds::{Strategy, internal, meta};
use crate::names;

pub(super) const STATEFUL_SET: Strategy = Strategy {
    default: default_stateful_set,
    prepare_create: |set| {
        drop_disabled(set, None);
        let status = object_mut(set, "status");
        set_absent(status, "replicas", 0);
        set_absent(status, "availableReplicas", 0);
    },
    prepare_update: |new, old| drop_disabled(new, Some(old)),
    validate: |set| [meta::validate_builtin(set), validate_stateful_set(set, Write::Create)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_stateful_set(new, Write::Update));
        faults.extend(validate_rest_is_kept(new, old));
        faults
    },
    validate_status: |new, old| {
        let mut faults = validate_counts(new, &COUNTS);
        faults.extend(meta::validate_builtin_update(new, old));
        faults.extend(validate_collisions(new, old));
        faults
    },
    name: names::dns1123_label,
    ..SPEC_AND_STATUS
};

const COUNTS: Counts = Counts {
    non_negative: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    at_most_replicas: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    available_at_most_ready: Some("cannot be greater than status.readyReplicas"),
};

#[derive(Clone, Copy, PartialEq)]
enum Write {
    Create,
    /// What cannot change need not be valid.
    Update,
}

fn default_stateful_set(set: &mut Value) {
    let spec = object_mut(set, "spec");
    set_zero(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set_zero(strategy, "type", "RollingUpdate");
        set_absent(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = find_path_mut(strategy, &["rollingUpdate"])
    {
        set_absent(rolling, "partition", 0);
    }
    let policy = object_mut(spec, "persistentVolumeClaimRetentionPolicy");
    set_zero(policy, "whenDeleted", "Retain");
    set_zero(policy, "whenScaled", "Retain");
    set_absent(spec, "replicas", 1);
    set_absent(spec, "revisionHistoryLimit", 10);
    default_pod_template_spec(object_mut(spec, "template"));
    for claim in items_mut(spec, "volumeClaimTemplates") {
        let map = map_mut(claim);
        map.insert("apiVersion".into(), "v1".into());
        map.insert("kind".into(), "PersistentVolumeClaim".into());
        default_claim(claim);
    }
}

/// How many pods may be down during an update is behind a feature that is off in this release.
fn drop_disabled(set: &mut Value, old: Option<&Value>) {
    let path = ["spec", "updateStrategy", "rollingUpdate"];
    let in_use = old.is_some_and(|old| !get(get(old, &path), &["maxUnavailable"]).is_null());
    if let Some(rolling) = find_path_mut(set, &path).filter(|_| !in_use) {
        remove(rolling, "maxUnavailable");
    }
}

fn validate_stateful_set(set: &Value, write: Write) -> Faults {
    let spec = At::top(set, "spec");
    let mut faults = Faults::new();
    let policy = spec.child("podManagementPolicy");
    match policy.str() {
        "OrderedReady" | "Parallel" => {}
        "" => faults.push(policy.required("")),
        _ => faults.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    faults.extend(validate_strategy(&spec.child("updateStrategy")));
    let retention = spec.child("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"].map(|name| retention.child(name)) {
        if retention.is_set() && !["Retain", "Delete"].contains(&when.str()) {
            faults.push(when.not_supported(&["Retain", "Delete"]));
        }
    }
    if write == Write::Create {
        let claims = spec.child("volumeClaimTemplates");
        faults.extend(claims.items().flat_map(|claim| validate_claim_spec(&claim.child("spec"))));
    }
    faults.extend(spec.child("replicas").non_negative());
    faults.extend(spec.child("minReadySeconds").non_negative());
    faults.extend(
        At::new(get(spec.value, &["ordinals", "start"]), spec.path.child("ordinals.start")).non_negative(),
    );
    let service = spec.child("serviceName");
    if write == Write::Create && !service.str().is_empty() {
        faults.extend(service.obey(names::dns1123_label));
    }
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    faults.extend(validate_selector(&selector, "statefulset"));
    if is_usable(selector.value) {
        let whole = with_claimed_volumes(&spec);
        let checked = At::new(&whole, template.path.clone());
        faults.extend(validate_labels_are_selected(&checked, selector.value));
        faults.extend(validate_pod_template(checked.value, &checked.path));
        faults.extend(validate_labels_again(&checked));
    } else {
        faults.push(shown(&selector, ""));
    }
    faults.extend(validate_runs_forever(&template, "StatefulSet"));
    faults
}

/// The real server checks labels and annotations of the template twice; causes list both.
fn validate_labels_again(template: &At<'_>) -> Faults {
    let meta = At::new(template.child("metadata").value, template.path.clone());
    let mut faults = selectors::validate_labels(&meta.child("labels"));
    faults.extend(selectors::validate_annotations(&meta.child("annotations")));
    faults
}

/// The template as its pods will be: names are given to them, and claims become volumes.
fn with_claimed_volumes(spec: &At<'_>) -> Value {
    let mut template = spec.child("template").value.clone();
    let claims = list(get(spec.value, &["volumeClaimTemplates"]));
    let name_of = |claim: &Value| text(&claim["metadata"], "name").to_owned();
    let pod = object_mut(&mut template, "spec");
    remove(pod, "subdomain");
    remove(pod, "hostname");
    if claims.is_empty() {
        return template;
    }
    let mut names: Vec<String> = claims.iter().map(name_of).collect();
    names.sort_unstable();
    names.dedup();
    let mut volumes: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    let own =
        list(&pod["volumes"]).iter().filter(|volume| !names.iter().any(|name| volume["name"] == **name));
    volumes.extend(own.cloned());
    map_mut(pod).insert("volumes".into(), volumes.into());
    template
}

fn validate_strategy(strategy: &At<'_>) -> Faults {
    let rolling = strategy.child("rollingUpdate");
    let show = |at: &At<'_>, kind: &str, why: &str| Error {
        value: None,
        ..at.invalid(format!("{}: {why}", internal::show(kind, at.value)))
    };
    match strategy.text("type") {
        "" => vec![strategy.required("")],
        "OnDelete" => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            let set = rolling.is_set().then(|| show(&rolling, "RollingUpdateStatefulSetStrategy", why));
            set.into_iter().collect()
        }
        "RollingUpdate" => {
            let mut faults: Faults = rolling.child("partition").non_negative().into_iter().collect();
            let most = rolling.child("maxUnavailable");
            if most.is_set() {
                faults.extend(validate_int_or_percent(&most));
                if number_of(most.value) == 0 {
                    faults.push(most.invalid("cannot be 0"));
                }
                faults.extend(validate_at_most_all(&most));
            }
            faults
        }
        _ => vec![show(strategy, "StatefulSetUpdateStrategy", "must be 'RollingUpdate' or 'OnDelete'")],
    }
}

fn validate_rest_is_kept(new: &Value, old: &Value) -> Option<Error> {
    let mut spec = new["spec"].clone();
    for name in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        copy(&mut spec, &old["spec"], name);
    }
    let kept = same(&spec, &old["spec"]) || (is_empty(&spec) && is_empty(&old["spec"]));
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    (!kept).then(|| Error::forbidden(&Path::new("spec"), why))
}
