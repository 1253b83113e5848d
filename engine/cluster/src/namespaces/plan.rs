//! What is left of a namespace, what its status says about it, and when to look again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// Things with finalizers are given this long before it is looked at them again.
const FINALIZER_ESTIMATE: u64 = 15;

/// Each condition with its reason and message when all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    (DISCOVERY, "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (CONTENT, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";
const CONTENT: &str = "NamespaceDeletionContentFailure";
const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// What one pass over a namespace found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// What the server could not tell about what it serves.
    discovery_failure: Option<String>,
    failures: Vec<String>,
    /// By `resource.group`.
    remaining: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    estimate: u64,
}

/// A resource, as messages name it.
pub(super) struct Name<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
}

impl Findings {
    pub(super) fn discovery_failed(&mut self, why: String) {
        self.discovery_failure = Some(why);
    }

    pub(super) fn failed(&mut self, why: String) {
        self.failures.push(why);
    }

    /// Notes what is left of a resource after everything of it was deleted. `estimate` is how many seconds
    /// it may take to end in good order.
    pub(super) fn left(&mut self, namespace: &str, name: &Name<'_>, objects: &[ObjectMeta], estimate: u64) {
        if objects.is_empty() {
            return;
        }
        *self.remaining.entry(format!("{}.{}", name.resource, name.group)).or_default() += objects.len();
        let mut held = false;
        for finalizer in objects.iter().flat_map(|object| object.finalizers.iter().flatten()) {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
            held = true;
        }
        if estimate > 0 {
            self.estimate = self.estimate.max(estimate);
        } else if held {
            self.estimate = self.estimate.max(FINALIZER_ESTIMATE);
        } else {
            self.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                name.group, name.version, name.resource
            ));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Nothing is left, and that is certain.
    pub(super) fn is_finished(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty() && self.discovery_failure.is_none()
    }

    /// How long to wait for what ends by itself; none if something failed and should be tried again.
    pub(super) fn wait(&self) -> Option<Duration> {
        let failed = !self.failures.is_empty() || self.discovery_failure.is_some();
        (!failed).then(|| Duration::from_secs(self.estimate / 2 + 1))
    }

    /// The conditions of the namespace, unless they say all this already.
    pub(super) fn conditions(
        &self,
        before: &[NamespaceCondition],
        now: Timestamp,
    ) -> Option<Vec<NamespaceCondition>> {
        let mut conditions = before.to_vec();
        for (type_, ok_reason, ok_message) in CONDITIONS {
            let trouble = self.trouble(type_);
            let status = if trouble.is_some() { "True" } else { "False" };
            let (reason, message) = trouble.unwrap_or_else(|| (ok_reason, ok_message.to_owned()));
            let condition = NamespaceCondition {
                type_: type_.into(),
                status: status.into(),
                last_transition_time: Some(Time(now)),
                reason: Some(reason.into()),
                message: Some(message),
            };
            match conditions.iter_mut().find(|old| old.type_ == type_) {
                Some(old) => {
                    let since =
                        if old.status == status { old.last_transition_time.clone() } else { Some(Time(now)) };
                    *old = NamespaceCondition { last_transition_time: since, ..condition };
                }
                None => conditions.push(condition),
            }
        }
        (conditions != before).then_some(conditions)
    }

    fn trouble(&self, type_: &str) -> Option<(&'static str, String)> {
        let counted = |counts: &BTreeMap<String, usize>, what: &str| {
            counts
                .iter()
                .map(|(name, count)| format!("{name} {what}", what = what.replace('#', &count.to_string())))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match type_ {
            DISCOVERY => self.discovery_failure.clone().map(|why| ("DiscoveryFailed", why)),
            CONTENT if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            REMAINING if !self.remaining.is_empty() => {
                let each = counted(&self.remaining, "has # resource instances");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {each}")))
            }
            FINALIZERS if !self.finalizers.is_empty() => {
                let each = counted(&self.finalizers, "in # resource instances");
                let message = format!("Some content in the namespace has finalizers remaining: {each}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

/// How many seconds pods may still take to end in good order: the longest of their grace periods, counted
/// from the namespace's own deletion. Pods that ended already have none.
pub(super) fn grace_left(
    grace_periods: impl Iterator<Item = i64>,
    deleted: Timestamp,
    now: Timestamp,
) -> u64 {
    let longest = grace_periods.max().unwrap_or(0).max(0);
    let passed = now.as_second() - deleted.as_second();
    if passed >= longest { 0 } else { longest.unsigned_abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Name<'_> = Name { group: "", version: "v1", resource: "pods" };
    const SETS: Name<'_> = Name { group: "apps", version: "v1", resource: "replicasets" };

    fn objects(finalizers: &[&[&str]]) -> Vec<ObjectMeta> {
        let object = |finalizers: &&[&str]| ObjectMeta {
            finalizers: Some(finalizers.iter().map(|finalizer| finalizer.to_string()).collect()),
            ..ObjectMeta::default()
        };
        finalizers.iter().map(object).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn messages(findings: &Findings) -> Vec<String> {
        let conditions = findings.conditions(&[], at(0)).unwrap();
        let troubled = conditions.iter().filter(|condition| condition.status == "True");
        troubled
            .map(|one| format!("{}: {}", one.reason.as_ref().unwrap(), one.message.as_ref().unwrap()))
            .collect()
    }

    #[test]
    fn what_is_left_is_told_in_the_words_of_clusters() {
        let mut findings = Findings::default();
        findings.left("ns", &PODS, &objects(&[&["a/b"], &[]]), 30);
        findings.left("ns", &SETS, &objects(&[&["a/b", "c/d"]]), 0);
        assert_eq!(
            messages(&findings),
            [
                "SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances, \
                 replicasets.apps has 1 resource instances",
                "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
                 a/b in 2 resource instances, c/d in 1 resource instances",
            ]
        );
        assert_eq!(findings.wait(), Some(Duration::from_secs(16)));
        assert!(!findings.is_finished());
    }

    #[test]
    fn what_stays_for_no_reason_is_a_failure() {
        let mut findings = Findings::default();
        findings.left("ns", &SETS, &objects(&[&[]]), 0);
        findings.failed("another".into());
        assert_eq!(
            messages(&findings)[0],
            "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: another, \
             unexpected items still remain in namespace: ns for gvr: apps/v1, Resource=replicasets"
        );
        assert_eq!(findings.wait(), None);
    }

    #[test]
    fn nothing_is_finished_while_anything_is_unknown() {
        assert!(Findings::default().is_finished());
        let mut unknown = Findings::default();
        unknown.discovery_failed("stale".into());
        assert!(unknown.is_empty() && !unknown.is_finished());
        let mut failed = Findings::default();
        failed.failed("no list".into());
        assert!(failed.is_empty() && !failed.is_finished());
    }

    #[test]
    fn conditions_change_only_when_they_say_something_else() {
        let mut findings = Findings::default();
        findings.left("ns", &SETS, &objects(&[&["a/b"]]), 0);
        let first = findings.conditions(&[], at(1)).unwrap();
        assert_eq!(first.len(), 5);
        assert_eq!(findings.conditions(&first, at(2)), None);
        findings.left("ns", &SETS, &objects(&[&["a/b"]]), 0);
        let second = findings.conditions(&first, at(3)).unwrap();
        assert_eq!(second[3].last_transition_time, Some(Time(at(1))));
        let last = Findings::default().conditions(&second, at(4)).unwrap();
        assert_eq!(last[3].last_transition_time, Some(Time(at(4))));
        assert_eq!(last[0].last_transition_time, Some(Time(at(1))));
    }

    #[test]
    fn grace_is_the_longest_until_it_has_passed() {
        assert_eq!(grace_left([5, 30].into_iter(), at(100), at(129)), 30);
        assert_eq!(grace_left([5, 30].into_iter(), at(100), at(130)), 0);
        assert_eq!(grace_left([].into_iter(), at(100), at(100)), 0);
    }
}
