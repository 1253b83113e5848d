//! How much of a quota is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::scope;
use super::usage::{self, Amounts, amounts};
use crate::amount::Amount;

const COUNT: &str = "count/";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Kinds that can also be counted by their plain name.
const PLAIN: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// A kind of object that is only counted, by group and resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counted {
    pub(super) group: String,
    pub(super) resource: String,
}

/// What a name in a quota is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Pods,
    Services,
    Claims,
    Objects(Counted),
}

/// What a name is about; names that nobody can measure are about nothing.
pub(super) fn subject(name: &str) -> Option<Subject> {
    let objects = |group: &str, resource: &str| {
        Subject::Objects(Counted { group: group.to_owned(), resource: resource.to_owned() })
    };
    if let Some(counted) = name.strip_prefix(COUNT) {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(match (group, resource) {
            ("", "pods") => Subject::Pods,
            ("", "services") => Subject::Services,
            ("", "persistentvolumeclaims") => Subject::Claims,
            // They only tell of other things, and are too many to count.
            ("" | "events.k8s.io", "events") => return None,
            _ => objects(group, resource),
        });
    }
    match name {
        "pods" | "cpu" | "memory" | "ephemeral-storage" => return Some(Subject::Pods),
        "services" | "services.nodeports" | "services.loadbalancers" => return Some(Subject::Services),
        "persistentvolumeclaims" | "requests.storage" => return Some(Subject::Claims),
        _ if PLAIN.contains(&name) => return Some(objects("", name)),
        _ if name.contains(BY_CLASS) => return Some(Subject::Claims),
        _ => {}
    }
    let asked = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    (asked.is_some() || name.starts_with("hugepages-")).then_some(Subject::Pods)
}

/// Everything that a quota is about.
pub(super) fn subjects(quota: &ResourceQuota) -> BTreeSet<Subject> {
    let hard = quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten());
    hard.filter_map(|(name, _)| subject(name)).collect()
}

/// What there is in the namespace of a quota.
pub(super) struct Look<'a> {
    pub(super) quota: &'a ResourceQuota,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) services: &'a [Arc<Service>],
    /// Unknown until they are listed.
    pub(super) claims: Option<&'a [Arc<PersistentVolumeClaim>]>,
    /// How many there are, of those kinds that are listed.
    pub(super) counts: &'a BTreeMap<Counted, usize>,
    pub(super) now: Timestamp,
}

/// What to write, and when a pod that should be gone stops counting.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) status: Option<ResourceQuotaStatus>,
    pub(super) recheck: Option<Timestamp>,
}

pub(super) fn plan(look: &Look<'_>) -> Plan {
    let hard = look.quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let before = look.quota.status.clone().unwrap_or_default();
    let measured = measure(look);
    let known = amounts(before.used.as_ref());
    // What cannot be measured at the moment stays as it was.
    let used = |name: &String| {
        let found = match subject(name)? {
            Subject::Claims if look.claims.is_none() => None,
            Subject::Objects(counted) => look
                .counts
                .get(&counted)
                .map(|count| if scope::is_unlimited(look.quota) { *count } else { 0 })
                .map(Amount::count),
            _ => Some(measured.get(name).copied().unwrap_or(Amount::ZERO)),
        };
        found.or_else(|| known.get(name).copied())
    };
    let used: Amounts = hard.keys().filter_map(|name| Some((name.clone(), used(name)?))).collect();
    let same =
        before.used.is_some() && known == used && amounts(before.hard.as_ref()) == amounts(Some(&hard));
    let text = |(name, amount): (String, Amount)| (name, Quantity(amount.to_string()));
    let after = ResourceQuotaStatus { hard: Some(hard), used: Some(used.into_iter().map(text).collect()) };
    let waiting = look.pods.iter().filter_map(|pod| usage::written_off(pod));
    Plan { status: (!same).then_some(after), recheck: waiting.filter(|at| *at >= look.now).min() }
}

/// What pods, Services and claims use together.
fn measure(look: &Look<'_>) -> Amounts {
    let mut used = Amounts::new();
    for pod in look.pods.iter().filter(|pod| scope::counts_pod(look.quota, pod)) {
        usage::add(&mut used, &usage::of_pod(pod, look.now));
    }
    for service in look.services.iter().filter(|_| scope::is_unlimited(look.quota)) {
        usage::add(&mut used, &usage::of_service(service));
    }
    for claim in look.claims.into_iter().flatten().filter(|claim| scope::counts_claim(look.quota, claim)) {
        usage::add(&mut used, &usage::of_claim(claim));
    }
    used
}
