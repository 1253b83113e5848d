//! ClusterRoles that gather the rules of other ClusterRoles by their labels.

mod plan;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use koinon_control::call::within_deadline;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::watch::{self, Event};

const MANAGER: &str = "clusterrole-aggregation-controller";
const WORKERS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Keeps gathered rules up to date for as long as it is polled.
pub async fn run(client: Client) -> Infallible {
    let api: Api<ClusterRole> = Api::all(client);
    let roles: Mutex<BTreeMap<String, ClusterRole>> = Mutex::default();
    let queue = Queue::new(FIRST_PAUSE, LONGEST_PAUSE);
    // A list that is not complete yet would make rules disappear: it counts only once it is.
    let mut listing = None;
    let on = |event: Event<ClusterRole>| {
        match event {
            Event::Init => listing = Some(BTreeMap::new()),
            Event::InitApply(role) => {
                listing.get_or_insert_default().insert(role.name_any(), small(role));
                return;
            }
            Event::InitDone => *roles.lock() = listing.take().unwrap_or_default(),
            Event::Apply(role) => drop(roles.lock().insert(role.name_any(), small(role))),
            Event::Delete(role) => drop(roles.lock().remove(&role.name_any())),
        }
        for (name, role) in roles.lock().iter() {
            if role.aggregation_rule.is_some() {
                queue.add(name.clone());
            }
        }
    };
    let gather = |name: String| {
        let (api, roles) = (&api, &roles);
        async move {
            let Some(rules) = plan::change(&roles.lock(), &name) else { return Next::Done };
            let mut role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            });
            if !rules.is_empty() {
                role["rules"] = json!(rules);
            }
            // Forced: whoever wrote rules into a role that gathers them wrote them for nothing.
            let params = PatchParams::apply(MANAGER).force();
            match within_deadline(api.patch(&name, &params, &Patch::Apply(role))).await {
                Ok(_) => Next::Done,
                Err(error) => {
                    tracing::debug!(name, %error, "roles: will try again");
                    Next::Retry
                }
            }
        }
    };
    tokio::select! {
        biased;
        never = watch::follow(api.clone(), on) => never,
        never = queue::work(&queue, WORKERS, gather) => never,
    }
}

/// Only what gathering needs: a cluster may have many roles.
fn small(mut role: ClusterRole) -> ClusterRole {
    role.metadata.managed_fields = None;
    role.metadata.annotations = None;
    role
}
