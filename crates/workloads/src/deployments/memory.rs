//! What the controller remembers of each Deployment, as long as there is one.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::apps::v1::Deployment;
use koinon_api::placement::Placement;
use koinon_control::Key;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::Value;

use super::revisions::Revisions;
use super::snapshot::Unobserved;
use crate::rollout::{Record, Shadow};

/// What a Deployment should say of itself, in case somebody wiped it off: kubectl's undo replaces all annotations.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Of which Deployment of that name.
    uid: String,
    pub(super) record: Record,
    pub(super) placement: Option<Placement>,
    /// What members were told, as long as it is not written down: a user who changes the Deployment at that moment must not bring
    /// back what was decided before.
    pub(super) decided: Option<Placement>,
    pub(super) unobserved: Unobserved,
    /// What was last written down of its revisions.
    pub(super) revisions: Option<Revisions>,
    /// The templates of its revisions, by name.
    pub(super) templates: BTreeMap<String, (Value, Shadow)>,
}

/// The memory of every Deployment, by its key, so that it goes when the Deployment does. One that is made anew under a name
/// starts with none.
#[derive(Default)]
pub(super) struct Memories(Mutex<HashMap<Key, Memory>>);

impl Memories {
    pub(super) fn of(&self, deployment: &Deployment) -> Memory {
        let memories = self.0.lock();
        let memory = memories.get(&Key::of(deployment));
        memory.filter(|memory| memory.uid == uid(deployment)).cloned().unwrap_or_default()
    }

    /// What was last written down of a Deployment's revisions.
    pub(super) fn revisions(&self, deployment: &Deployment) -> Option<Revisions> {
        let memories = self.0.lock();
        let memory = memories.get(&Key::of(deployment)).filter(|memory| memory.uid == uid(deployment));
        memory.and_then(|memory| memory.revisions.clone())
    }

    pub(super) fn change(&self, deployment: &Deployment, change: impl FnOnce(&mut Memory)) {
        let mut memories = self.0.lock();
        let memory = memories.entry(Key::of(deployment)).or_default();
        if memory.uid != uid(deployment) {
            *memory = Memory { uid: uid(deployment), ..Memory::default() };
        }
        change(memory);
    }

    /// How many Deployments are remembered.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets a Deployment that is gone, and says which shadows it had.
    pub(super) fn forget(&self, key: &Key) -> Vec<Key> {
        let memory = self.0.lock().remove(key).unwrap_or_default();
        let shadows = memory.templates.into_values();
        shadows.map(|(_, shadow)| Key::new(key.namespace.as_str(), shadow.name.as_str())).collect()
    }
}

fn uid(deployment: &Deployment) -> String {
    deployment.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, uid: &str) -> Deployment {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default", "uid": uid}}))
            .unwrap()
    }

    #[test]
    fn what_is_remembered_goes_with_its_deployment() {
        let memories = Memories::default();
        for number in 0..10_000 {
            let web = deployment(&format!("web-{}", number % 7), &number.to_string());
            assert!(memories.of(&web).templates.is_empty(), "one made anew starts with none");
            let shadow = Shadow { name: format!("shadow-{number}"), template: "t".into(), revision: 1 };
            memories.change(&web, |memory| drop(memory.templates.insert("t".into(), (Value::Null, shadow))));
            assert_eq!(memories.of(&web).templates.len(), 1);
            let forgotten = memories.forget(&Key::of(&web));
            assert_eq!(forgotten, [Key::new("default", format!("shadow-{number}").as_str())]);
        }
        assert_eq!(memories.0.lock().len(), 0);
    }

    #[test]
    fn another_deployment_under_a_name_has_another_memory() {
        let memories = Memories::default();
        let decided = |memory: &mut Memory| memory.decided = Some(Placement::default());
        memories.change(&deployment("web", "1"), decided);
        assert!(memories.of(&deployment("web", "1")).decided.is_some());
        assert!(memories.of(&deployment("web", "2")).decided.is_none());
        memories.change(&deployment("web", "2"), |_| ());
        assert!(memories.of(&deployment("web", "1")).decided.is_none(), "the first one is gone");
    }
}
