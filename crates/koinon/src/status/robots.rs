//! Robots as their cloud sees them.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_control::call::within_deadline;
use koinon_sync::{Contact, Robot, seen_from_cloud};
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;

use super::Scope;
use crate::table::table;

/// What is told of one robot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told {
    name: String,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_contact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<usize>,
    complaints: Vec<String>,
    #[serde(skip)]
    cells: Vec<String>,
}

pub(super) async fn gather(scope: &Scope<'_>) -> anyhow::Result<Vec<Told>> {
    let leases: Api<Lease> = Api::namespaced(scope.client.clone(), SYSTEM_NAMESPACE);
    let leases = within_deadline(leases.list(&ListParams::default())).await;
    let leases = leases.context("the Leases of robots cannot be read")?;
    Ok(seen_from_cloud(scope.now, &leases).into_iter().map(|robot| told(&robot, scope.now)).collect())
}

fn told(robot: &Robot, now: Timestamp) -> Told {
    Told {
        name: robot.name.clone(),
        connected: robot.contact == Contact::Connected,
        last_contact: robot.last_contact.map(|last| last.to_string()),
        pending: robot.progress.as_ref().map(|progress| progress.pending),
        errors: robot.progress.as_ref().map(|progress| progress.errors),
        held: robot.progress.as_ref().map(|progress| progress.held),
        complaints: robot.complaints(),
        cells: robot.cells(now).to_vec(),
    }
}

pub(super) fn render(robots: &[Told]) -> String {
    if robots.is_empty() {
        return "none; koinon run sync beside a robot makes it known here\n".to_owned();
    }
    let head = Robot::COLUMNS.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(robots.iter().map(|robot| robot.cells.clone())).collect();
    let complaints = robots.iter().flat_map(|robot| &robot.complaints).map(|one| format!("{one}\n"));
    table(&rows) + &complaints.collect::<String>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_silent_robot_says_since_when_and_what_waits() {
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {
                "name": "sync-r1",
                "labels": {"app.kubernetes.io/managed-by": "koinon", "cloudrobotics.com/robot-name": "r1"},
                "annotations": {
                    "koinon.dev/sync": r#"{"crds":2,"objects":9,"pending":3,"lagSeconds":30,"errors":0,"held":0}"#,
                },
            },
            "spec": {"holderIdentity": "uid-1", "renewTime": "2027-01-15T07:00:00.000000Z"},
        }))
        .unwrap();
        let now: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
        let robots: Vec<Told> = seen_from_cloud(now, [&lease]).iter().map(|robot| told(robot, now)).collect();
        let text = render(&robots);
        assert!(text.contains("r1      Silent   60m ago        2      3         60m"), "{text}");
        assert!(!robots[0].connected && robots[0].pending == Some(3));
        assert!(render(&[]).starts_with("none"));
    }
}
