//! Which ReplicaSet is the new one, its revision, and what it takes over from the Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use super::conditions::{self, CREATED, FOUND, PROGRESSING};
use super::draft::Draft;
use super::limits::Strategy;
use super::sets::{DESIRED, MAX, REVISION, REVISION_HISTORY, Set};
use super::template::{self, HASH_LABEL};
use crate::replicasets::claim::controller_reference;

/// About a hundred revisions.
const LONGEST_HISTORY: usize = 2000;

/// What says something about the Deployment alone.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

impl Draft<'_> {
    /// Finds the new set and has it carry the newest revision.
    pub(super) fn find_new(&mut self) {
        if self.new.is_none() {
            self.new = template::find(&self.spec.template, self.sets.iter().map(Set::template));
        }
        let Some(new) = self.new else { return };
        let revision = self.next_revision();
        let before = self.sets[new].annotate.len();
        self.renew(new, revision);
        let seconds = self.spec.min_ready_seconds.unwrap_or(0);
        if self.sets[new].annotate.len() > before || self.sets[new].min_ready_seconds != seconds {
            self.sets[new].min_ready_seconds = seconds;
            self.touch(new, "it is the new ReplicaSet");
        }
        self.take_revision(new);
        if self.deadline().is_some() && conditions::get(&self.status, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", self.sets[new].name());
            let condition = conditions::new(PROGRESSING, "True", FOUND, message, self.now);
            conditions::set(&mut self.status, condition);
        }
    }

    /// Finds the new set, or has it made.
    pub(super) fn find_or_make_new(&mut self) {
        self.find_new();
        if self.new.is_some() {
            return;
        }
        let revision = self.next_revision();
        let mut set = Set { born: true, ..Set::of(Arc::new(self.newborn())) };
        set.replicas = 0;
        self.sets.push(set);
        let new = self.sets.len() - 1;
        self.new = Some(new);
        self.renew(new, revision);
        let replicas = match self.limits.strategy {
            Strategy::Rolling => self.room_for_new(),
            Strategy::Recreate => self.limits.replicas,
        };
        self.sets[new].replicas = replicas;
        self.note_size(new, "the template is new");
        self.touch(new, "the template is new");
        self.take_revision(new);
        if self.deadline().is_some() {
            let message = format!("Created new replica set {:?}", self.sets[new].name());
            let condition = conditions::new(PROGRESSING, "True", CREATED, message, self.now);
            conditions::set(&mut self.status, condition);
        }
    }

    fn newborn(&self) -> ReplicaSet {
        let mut template = self.spec.template.clone();
        let hash = template::hash(&template, self.status.collision_count);
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.into(), hash.clone());
        let labels = labels.clone();
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.into(), hash.clone());
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(template::set_name(&self.deployment.name_any(), &hash)),
                namespace: self.deployment.namespace(),
                owner_references: Some(vec![controller_reference(self.deployment)]),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(0),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }

    /// One more than any old set has.
    fn next_revision(&self) -> i64 {
        self.old().into_iter().filter_map(|old| self.sets[old].revision()).max().unwrap_or(0).max(0) + 1
    }

    /// Copies the Deployment's annotations and raises the revision, remembering the one before.
    fn renew(&mut self, index: usize, revision: i64) {
        let set = &mut self.sets[index];
        let before = set.annotation(REVISION).map(str::to_owned);
        // A revision that is not a number is somebody's own business.
        let Ok(known) = before.as_deref().filter(|before| !before.is_empty()).unwrap_or("0").parse::<i64>()
        else {
            return;
        };
        for (key, value) in self.deployment.metadata.annotations.iter().flatten() {
            if !NOT_COPIED.contains(&key.as_str()) && set.annotation(key) != Some(value) {
                set.annotate(key, value);
            }
        }
        if known >= revision {
            return;
        }
        set.annotate(REVISION, revision.to_string());
        if let Some(before) = before {
            let history = longer_history(set.annotation(REVISION_HISTORY).unwrap_or_default(), &before);
            if let Some(history) = history {
                set.annotate(REVISION_HISTORY, history);
            }
        }
    }

    fn take_revision(&mut self, new: usize) {
        let revision = self.sets[new].annotation(REVISION).unwrap_or_default();
        let known = self.deployment.metadata.annotations.as_ref();
        let known = known.and_then(|annotations: &BTreeMap<String, String>| annotations.get(REVISION));
        if known.map(String::as_str).unwrap_or_default() != revision {
            self.revision = Some(revision.to_owned());
        }
    }
}

/// The history with one more revision; the oldest ones make room for it.
fn longer_history(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut kept = history;
    while kept.len() + 1 + revision.len() > LONGEST_HISTORY {
        kept = kept.split_once(',')?.1;
    }
    Some(format!("{kept},{revision}"))
}

#[cfg(test)]
mod tests {
    use super::longer_history;

    #[test]
    fn history_grows_at_its_end_and_gives_way_at_its_start() {
        assert_eq!(longer_history("", "1").as_deref(), Some("1"));
        assert_eq!(longer_history("1,3", "5").as_deref(), Some("1,3,5"));
        let long = format!("1,{}", "2".repeat(1991));
        assert_eq!(longer_history(&long, "1234567"), Some(format!("{},1234567", "2".repeat(1991))));
    }
}
