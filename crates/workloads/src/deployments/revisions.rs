//! What is written down of a Deployment's revisions, on the Deployment itself: its shadows only mirror that, so whatever somebody
//! writes on one of them is put back, also by a role that was not running then.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::names::workloads;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use super::read;
use crate::rollout::{Shadow, ShadowWanted};

/// The content of [`REVISIONS`](workloads::REVISIONS), by template.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Revisions(BTreeMap<String, Revision>);

/// One revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Revision {
    revision: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl Revisions {
    /// What the Deployment says; what somebody else wrote there is nothing.
    pub(super) fn of(deployment: &Deployment) -> Option<Revisions> {
        serde_json::from_str(deployment.annotations().get(workloads::REVISIONS)?).ok()
    }

    /// What is to be written down: the revisions that there should be. `there` finds the shadow of a name.
    pub(super) fn wanted<S: AsRef<ReplicaSet>>(
        &self,
        deployment: &Deployment,
        wanted: &[ShadowWanted],
        newest: &str,
        there: impl Fn(&str) -> Option<S>,
    ) -> Revisions {
        let one = |shadow: &ShadowWanted| {
            let set = there(&shadow.name);
            let set = set.as_ref().map(AsRef::as_ref);
            let cause = self.cause(deployment, shadow, shadow.template == newest, set);
            (shadow.template.clone(), Revision { revision: shadow.revision, cause })
        };
        Revisions(wanted.iter().map(one).collect())
    }

    /// The annotation's JSON; none where there are no revisions.
    pub(super) fn to_json(&self) -> Option<String> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.0.is_empty()).then(text)
    }

    /// What a revision was for. That of the newest is the Deployment's; of one that is not written down, its shadow is all there is.
    pub(super) fn cause(
        &self,
        deployment: &Deployment,
        shadow: &ShadowWanted,
        is_newest: bool,
        there: Option<&ReplicaSet>,
    ) -> Option<String> {
        let of = |annotations: &BTreeMap<String, String>| annotations.get(workloads::CHANGE_CAUSE).cloned();
        match self.0.get(&shadow.template) {
            _ if is_newest => of(deployment.annotations()),
            Some(known) => known.cause.clone(),
            None => there.and_then(|there| of(there.annotations())),
        }
    }

    /// What a ReplicaSet of a Deployment's namespace mirrors, if it is one of its shadows: by its name, where that is written down.
    pub(super) fn shadow(&self, deployment: &Deployment, set: &ReplicaSet) -> Option<Shadow> {
        let (name, of) = (set.name_any(), deployment.name_any());
        let template = name.strip_prefix(&of).and_then(|rest| rest.strip_prefix('-'));
        if let Some((template, known)) = template.and_then(|template| self.0.get_key_value(template)) {
            let owner =
                |set: &ReplicaSet| set.owner_references().iter().any(|one| one.controller == Some(true));
            let ours = read::is_owned_by(set, deployment) || !owner(set);
            return ours.then(|| Shadow { name, template: template.clone(), revision: known.revision });
        }
        let mirrors = read::is_shadow_of(set, deployment) || read::is_left_for(set, deployment);
        read::shadow(set).filter(|_| mirrors)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(annotations: Value) -> Deployment {
        let metadata = json!({"name": "web", "namespace": "default", "uid": "1", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn set(name: &str, annotations: Value) -> ReplicaSet {
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": true});
        let labels = json!({"pod-template-hash": name.strip_prefix("web-")});
        serde_json::from_value(json!({"metadata": {
            "name": name, "namespace": "default", "labels": labels, "annotations": annotations,
            "ownerReferences": [owner],
        }}))
        .unwrap()
    }

    fn wanted(template: &str, revision: i64) -> ShadowWanted {
        let name = format!("web-{template}");
        ShadowWanted { name, template: template.into(), revision, replicas: 0, ready: 0, available: 0 }
    }

    #[test]
    fn what_is_written_down_counts_and_not_what_a_shadow_says() {
        let web = deployment(json!({"kubernetes.io/change-cause": "the newest"}));
        let old = set("web-b", json!({"kubernetes.io/change-cause": "the first"}));
        let there = |name: &str| (name == "web-b").then(|| std::sync::Arc::new(old.clone()));
        let revisions = Revisions::default().wanted(&web, &[wanted("b", 1), wanted("c", 2)], "c", there);
        let text = revisions.to_json().unwrap();
        assert_eq!(
            text,
            r#"{"b":{"revision":1,"cause":"the first"},"c":{"revision":2,"cause":"the newest"}}"#
        );
        let read = Revisions::of(&deployment(json!({"koinon.dev/revisions": text}))).unwrap();
        assert_eq!(read, revisions);

        // Whatever is written on it, and even if it does not look like a shadow any more.
        let meddled =
            json!({"deployment.kubernetes.io/revision": "77", "kubernetes.io/change-cause": "mine"});
        let meddled = set("web-b", meddled);
        let shadow = revisions.shadow(&web, &meddled).unwrap();
        assert_eq!((shadow.template.as_str(), shadow.revision), ("b", 1));
        let cause = |known: &Revisions| known.cause(&web, &wanted("b", 1), false, Some(&meddled));
        assert_eq!(cause(&revisions).as_deref(), Some("the first"));
        assert_eq!(cause(&Revisions::default()).as_deref(), Some("mine"), "nothing else is known");
        assert!(Revisions::default().shadow(&web, &meddled).is_none(), "it has no mark");
        assert_eq!(Revisions::default().to_json(), None);
    }
}
