//! Robots as the cloud sees them, from their Leases alone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use koinon_control::clock::age;

use crate::board::Summary;
use crate::names;
use crate::presence::{GONE_AFTER, RIVAL};

/// One robot, as the cloud sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Robot {
    pub name: String,
    /// The robot's cluster, by the UID of its `kube-system`.
    pub cluster: Option<String>,
    pub contact: Contact,
    /// When it was last there, by the cloud's clock where the cloud noted it.
    pub last_contact: Option<Timestamp>,
    /// How far it had come then; nothing if that could not be read.
    pub progress: Option<Summary>,
    /// Another cluster that wants the same name.
    pub rival: Option<String>,
}

/// Whether a robot is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    Connected,
    /// It has not been heard of for so long. What it was told last, it does.
    Silent(SignedDuration),
    Never,
}

/// Reads robots from the Leases of the cloud's `koinon-system`, in the order of their names. Other Leases are left out.
pub fn seen_from_cloud<'a>(now: Timestamp, leases: impl IntoIterator<Item = &'a Lease>) -> Vec<Robot> {
    let mut robots: Vec<Robot> = leases.into_iter().filter_map(|lease| read(now, lease)).collect();
    robots.sort_by(|one, other| one.name.cmp(&other.name));
    robots
}

fn read(now: Timestamp, lease: &Lease) -> Option<Robot> {
    let (managed, by) = names::MANAGED_BY;
    let labels = lease.metadata.labels.as_ref()?;
    if labels.get(managed).is_none_or(|manager| manager != by) {
        return None;
    }
    let name = labels.get(names::ROBOT)?.clone();
    let annotation = |key| lease.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let last_contact = last_contact(lease);
    let contact = match last_contact.map(|last| now.duration_since(last)) {
        None => Contact::Never,
        Some(silent) if silent > SignedDuration::try_from(GONE_AFTER).unwrap_or_default() => {
            Contact::Silent(silent)
        }
        Some(_) => Contact::Connected,
    };
    Some(Robot {
        name,
        cluster: lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()),
        contact,
        last_contact,
        progress: annotation(names::PROGRESS).and_then(|text| serde_json::from_str(text).ok()),
        rival: annotation(RIVAL).cloned(),
    })
}

/// A robot's clock may be wrong by years. The API server notes with its own when a writer last changed something.
fn last_contact(lease: &Lease) -> Option<Timestamp> {
    let entries = lease.metadata.managed_fields.iter().flatten();
    let ours = entries.filter(|entry| entry.manager.as_deref() == Some(names::MANAGER));
    let noted = ours.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
    noted.or_else(|| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0))
}

impl Robot {
    /// Titles of [`Robot::cells`].
    pub const COLUMNS: [&'static str; 8] =
        ["ROBOT", "STATUS", "LAST CONTACT", "CRDS", "PENDING", "LAG", "ERRORS", "HELD"];

    /// What a table shows of it.
    pub fn cells(&self, now: Timestamp) -> [String; 8] {
        let status = match (&self.rival, self.contact) {
            (Some(_), _) => "Contested",
            (None, Contact::Connected) => "Connected",
            (None, Contact::Silent(_)) => "Silent",
            (None, Contact::Never) => "Unknown",
        };
        let unknown = || "?".to_owned();
        let last = self.last_contact.map_or_else(unknown, |last| age(now.duration_since(last)) + " ago");
        let number = |pick: fn(&Summary) -> usize| {
            self.progress.as_ref().map_or_else(unknown, |progress| pick(progress).to_string())
        };
        // What waited when it was last heard of has waited ever since.
        let silent = match self.contact {
            Contact::Silent(silent) => silent,
            Contact::Connected | Contact::Never => SignedDuration::ZERO,
        };
        let lag = self.progress.as_ref().map_or_else(unknown, |progress| match progress.pending {
            0 => "-".into(),
            _ => age(SignedDuration::from_secs(i64::try_from(progress.lag_seconds).unwrap_or(i64::MAX))
                .saturating_add(silent)),
        });
        [
            self.name.clone(),
            status.into(),
            last,
            number(|progress| progress.crds),
            number(|progress| progress.pending),
            lag,
            number(|progress| progress.errors),
            number(|progress| progress.held),
        ]
    }

    /// What is wrong with it, a sentence each.
    pub fn complaints(&self) -> Vec<String> {
        let name = &self.name;
        let rival = self.rival.as_ref().map(|rival| {
            let holder = self.cluster.as_deref().unwrap_or("unknown");
            format!("{name}: cluster {rival} wants the name of cluster {holder}; give one of them another")
        });
        let problems = self.progress.iter().flat_map(|progress| &progress.problems);
        let problems = problems.map(|(what, message)| format!("{name}: {what}: {message}"));
        rival.into_iter().chain(problems).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2027-01-15T08:00:00Z";

    fn lease(name: &str, noted: &str, more: Value) -> Lease {
        let mut annotations = json!({"koinon.dev/sync": r#"{"crds":2,"objects":9,"pending":3,"lagSeconds":30,"errors":1,"held":0}"#});
        for (key, value) in more.as_object().unwrap() {
            annotations[key] = value.clone();
        }
        let lease = json!({
            "metadata": {
                "name": format!("sync-{name}"), "annotations": annotations,
                "labels": {"app.kubernetes.io/managed-by": "koinon", "cloudrobotics.com/robot-name": name},
                "managedFields": [
                    {"manager": "koinon", "operation": "Update", "time": noted},
                    {"manager": "kubectl", "operation": "Update", "time": NOW},
                ],
            },
            // The robot's clock is years late.
            "spec": {"holderIdentity": "uid-1", "renewTime": "2020-01-01T00:00:00.000000Z"},
        });
        serde_json::from_value(lease).unwrap()
    }

    fn table(leases: &[Lease]) -> Vec<String> {
        let now = NOW.parse().unwrap();
        seen_from_cloud(now, leases).iter().map(|robot| robot.cells(now).join(" | ")).collect()
    }

    #[test]
    fn rows_tell_who_is_there_and_how_far() {
        let leases = [
            lease("r2", "2027-01-15T05:00:00Z", json!({})),
            lease("r1", "2027-01-15T07:59:50Z", json!({})),
            lease("r3", NOW, json!({"koinon.dev/rival": "uid-2", "koinon.dev/sync": "{}"})),
            lease("r4", NOW, json!({"koinon.dev/sync": "what?"})),
        ];
        assert_eq!(
            table(&leases),
            [
                "r1 | Connected | 10s ago | 2 | 3 | 30s | 1 | 0",
                "r2 | Silent | 3h ago | 2 | 3 | 3h | 1 | 0",
                "r3 | Contested | 0s ago | 0 | 0 | - | 0 | 0",
                "r4 | Connected | 0s ago | ? | ? | ? | ? | ?",
            ]
        );
    }

    #[test]
    fn other_leases_are_none_of_its_business() {
        let mut other = lease("r1", NOW, json!({}));
        other.metadata.labels.as_mut().unwrap().remove(names::ROBOT);
        let mut foreign = lease("r1", NOW, json!({}));
        foreign.metadata.labels.as_mut().unwrap().insert(names::MANAGED_BY.0.into(), "somebody".into());
        assert_eq!(table(&[other, foreign, Lease::default()]), Vec::<String>::new());
    }

    #[test]
    fn without_a_note_of_the_server_the_robots_own_time_counts() {
        let mut lease = lease("r1", NOW, json!({}));
        lease.metadata.managed_fields = None;
        let shown = table(std::slice::from_ref(&lease));
        assert!(shown[0].starts_with("r1 | Silent | 2571d ago"), "{shown:?}");
        lease.spec = None;
        assert!(table(&[lease])[0].starts_with("r1 | Unknown | ? |"));
    }

    #[test]
    fn complaints_are_sentences() {
        let problems = r#"{"problems":{"toys.play.io DeletionsHeld":"20 deletions of copies are held"}}"#;
        let lease = lease("r1", NOW, json!({"koinon.dev/rival": "uid-2", "koinon.dev/sync": problems}));
        assert_eq!(
            seen_from_cloud(NOW.parse().unwrap(), [&lease])[0].complaints(),
            [
                "r1: cluster uid-2 wants the name of cluster uid-1; give one of them another",
                "r1: toys.play.io DeletionsHeld: 20 deletions of copies are held",
            ]
        );
    }
}
