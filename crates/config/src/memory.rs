//! What this leader was seen to have, kept over a restart: an annotation on the Lease of leadership.
//!
//! Only a leader that had objects of a kind may delete their copies by having them no longer. The status cannot tell
//! it from one that never had any: both are fine while there is no member to federate to.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::call::{Failure, within};
use crate::model::Kind;
use crate::names::{LEASE, NAMESPACE, OWNED_KINDS, OWNED_KINDS_BEFORE};
use crate::rivals::Rivals;

/// Not the one that writes the rest of the Lease, which would take the annotation away with its next write.
const FIELD_MANAGER: &str = "AMKO-Federator-memory";

/// The kinds that a leader had objects of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// The AMKOCluster under which it led, by its uid: one made anew may belong to a store that was wiped.
    pub(crate) cluster: String,
    /// Each with the uid of its definition, without which its objects go too.
    pub(crate) kinds: BTreeMap<String, String>,
}

impl Memory {
    /// A kind and where its objects are; which version of it is federated does not matter.
    pub(crate) fn entry(kind: &Kind) -> String {
        format!("{}.{}/{}", kind.plural, kind.group, kind.namespace.as_deref().unwrap_or("*"))
    }

    /// What a Lease holds. What cannot be read was not written here, and says nothing.
    pub(crate) fn of(lease: &Lease) -> Memory {
        let said = lease.annotations();
        let text = said.get(OWNED_KINDS).or_else(|| said.get(OWNED_KINDS_BEFORE));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Has it kept in place of what is there.
    pub(crate) async fn keep(&self, api: &Api<Lease>, deadline: Duration) -> Result<(), Failure> {
        let annotations =
            if self.kinds.is_empty() { json!({}) } else { json!({OWNED_KINDS: json!(self).to_string()}) };
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "annotations": annotations},
        });
        // Forced: nobody else knows what this cluster had.
        let params = PatchParams::apply(FIELD_MANAGER).force();
        within(deadline, api.patch(LEASE, &params, &Patch::Apply(lease))).await.map(drop)
    }
}

/// What an earlier process kept; nothing if there was none.
pub(crate) async fn recall(client: &Client, deadline: Duration) -> Result<(Memory, Rivals), Failure> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    match within(deadline, api.get(LEASE)).await {
        Ok(lease) => Ok((Memory::of(&lease), Rivals::of(&lease))),
        Err(failure) if failure.code == Some(404) => Ok(Default::default()),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_release_kept_is_read() {
        let of = |name: &str, uid: &str| {
            let kept = json!({"cluster": uid, "kinds": {"a.b/c": "d"}}).to_string();
            serde_json::from_value::<Lease>(json!({"metadata": {"annotations": {name: kept}}})).unwrap()
        };
        assert_eq!(Memory::of(&of(OWNED_KINDS_BEFORE, "x")).cluster, "x");
        let mut both = of(OWNED_KINDS, "y");
        both.annotations_mut().extend(of(OWNED_KINDS_BEFORE, "x").metadata.annotations.unwrap());
        assert_eq!(Memory::of(&both).cluster, "y", "the newer one counts");
    }
}
