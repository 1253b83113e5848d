//! Which members were seen to lead as well, kept over a restart: an annotation on the Lease of leadership.
//!
//! The status says so too, in AMKO's words for people. A process that starts reads the fact and not the sentence, so
//! the fact is written first: no status names a rival that the next process would not know of.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::call::{Failure, within};
use crate::names::{LEASE, NAMESPACE, RIVALS_ANNOTATION};

/// Not one of those that write the rest of the Lease, which would take the annotation away with their next write.
const FIELD_MANAGER: &str = "AMKO-Federator-rivals";

/// The members that were seen to lead as well, and not to follow since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rivals {
    /// The AMKOCluster under which this cluster led then, by its uid.
    pub(crate) cluster: String,
    pub(crate) members: BTreeSet<String>,
}

impl Rivals {
    /// What a Lease holds. What cannot be read was not written here, and says nothing.
    pub(crate) fn of(lease: &Lease) -> Rivals {
        let text = lease.annotations().get(RIVALS_ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Those that count under this AMKOCluster: one made anew may belong to a store that was wiped.
    pub(crate) fn under(&self, cluster: &str) -> BTreeSet<String> {
        if self.cluster == cluster { self.members.clone() } else { BTreeSet::new() }
    }

    /// Has them kept in place of those that are there. A cluster that never had any gets no Lease by that.
    pub(crate) async fn keep(&self, client: &Client, deadline: Duration) -> Result<(), Failure> {
        let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        let kept = match within(deadline, api.get(LEASE)).await {
            Ok(lease) => Rivals::of(&lease),
            Err(failure) if failure.code == Some(404) => Rivals::default(),
            Err(failure) => return Err(failure),
        };
        if kept == *self || (kept.members.is_empty() && self.members.is_empty()) {
            return Ok(());
        }
        let annotations = match self.members.is_empty() {
            true => json!({}),
            false => json!({RIVALS_ANNOTATION: json!(self).to_string()}),
        };
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "annotations": annotations},
        });
        // Forced: nobody else knows what this cluster saw.
        let params = PatchParams::apply(FIELD_MANAGER).force();
        within(deadline, api.patch(LEASE, &params, &Patch::Apply(lease))).await.map(drop)
    }
}
