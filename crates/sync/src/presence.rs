//! A Lease in the cloud for each robot: when it was last there, how far it is, and whether it is the only one of
//! its name.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use koinon_control::Clock;
use koinon_control::call::{self, within_deadline};
use koinon_control::client::urgent;
use koinon_control::writes::written_by;
use kube::Api;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::board::Board;
use crate::names;
use crate::origin::{make_namespace, object_name};

const RENEW_EVERY: Duration = Duration::from_secs(15);
const RETRY_EVERY: Duration = Duration::from_secs(4);
/// A holder that was not seen to renew for this long is gone. Clocks are not compared: robots have none to trust.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(60);
/// Whoever finds the name taken leaves this on the Lease, so that its holder knows too.
pub(crate) const RIVAL: &str = "koinon.dev/rival";

/// Whether this cluster is the one that syncs under its robot's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The cloud could not be asked yet.
    Unknown,
    Ours,
    /// Another cluster renews the Lease.
    Taken(String),
}

/// The Lease of one robot.
pub(crate) struct Presence {
    pub(crate) cloud: Access,
    pub(crate) clock: Clock,
    pub(crate) robot: String,
    /// The identity of the robot's cluster: a restart is no rival, and of several replicas only the leader syncs.
    pub(crate) cluster: String,
    pub(crate) board: Arc<Board>,
    pub(crate) standing: watch::Sender<Standing>,
}

/// What was seen of the other's Lease, and when first.
struct Watched {
    version: String,
    since: Instant,
}

/// Who else wants the name, and when it last said so.
struct Heard {
    rival: String,
    last: Instant,
}

impl Presence {
    /// Renews the Lease for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        let mut watched = None;
        let mut heard = None;
        loop {
            let pause = match self.renew(&mut watched, &mut heard).await {
                Ok(standing) => {
                    self.change(standing);
                    RENEW_EVERY
                }
                Err(error) => {
                    tracing::debug!(robot = self.robot, %error, "the robot's Lease was not renewed");
                    RETRY_EVERY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn change(&self, standing: Standing) {
        self.standing.send_if_modified(|now| {
            let changed = *now != standing;
            if changed && let Standing::Taken(by) = &standing {
                tracing::error!(
                    robot = self.robot,
                    by,
                    "another cluster syncs under this robot's name; nothing is synced here until it stops"
                );
                self.board.set_rival(Some(by.clone()));
            } else if changed && matches!(now, Standing::Taken(_)) {
                tracing::info!(robot = self.robot, "the robot's name is free again");
                self.board.set_rival(None);
            }
            *now = standing;
            changed
        });
    }

    async fn renew(
        &self,
        watched: &mut Option<Watched>,
        heard: &mut Option<Heard>,
    ) -> Result<Standing, call::Error> {
        let api: Api<Lease> = Api::namespaced(urgent(self.cloud.client()), names::NAMESPACE);
        let name = object_name(&self.robot);
        let params = written_by(names::MANAGER);
        let Some(mut lease) = within_deadline(api.get_opt(&name)).await? else {
            make_namespace(&self.cloud, names::NAMESPACE).await?;
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let mut lease = Lease { metadata, ..Lease::default() };
            self.fill(&mut lease);
            within_deadline(api.create(&params, &lease)).await?;
            return Ok(Standing::Ours);
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        match holder.filter(|holder| !holder.is_empty() && *holder != self.cluster) {
            None => {
                self.notice_rival(&lease, heard);
                self.fill(&mut lease);
                within_deadline(api.replace(&name, &params, &lease)).await?;
                *watched = None;
                Ok(Standing::Ours)
            }
            Some(other) => {
                if self.is_gone(&lease, watched) {
                    self.fill(&mut lease);
                    within_deadline(api.replace(&name, &params, &lease)).await?;
                    *watched = None;
                    return Ok(Standing::Ours);
                }
                let annotations = lease.metadata.annotations.get_or_insert_default();
                if annotations.get(RIVAL) != Some(&self.cluster) {
                    annotations.insert(RIVAL.into(), self.cluster.clone());
                    within_deadline(api.replace(&name, &params, &lease)).await?;
                }
                Ok(Standing::Taken(other))
            }
        }
    }

    /// Whether the holder has not renewed for too long, as far as we saw it.
    fn is_gone(&self, lease: &Lease, watched: &mut Option<Watched>) -> bool {
        let version = renewal(lease);
        match watched {
            Some(seen) if seen.version == version => seen.since.elapsed() >= GONE_AFTER,
            _ => {
                *watched = Some(Watched { version, since: Instant::now() });
                false
            }
        }
    }

    /// Tells once that somebody else wants the name, and when it gave up.
    fn notice_rival(&self, lease: &Lease, heard: &mut Option<Heard>) {
        let marked = lease.metadata.annotations.as_ref().and_then(|all| all.get(RIVAL));
        match (marked, &heard) {
            (Some(rival), before) => {
                if before.as_ref().is_none_or(|before| before.rival != *rival) {
                    tracing::warn!(
                        robot = self.robot,
                        rival,
                        "another cluster tries to sync under this robot's name"
                    );
                    self.board.set_rival(Some(rival.clone()));
                }
                *heard = Some(Heard { rival: rival.clone(), last: Instant::now() });
            }
            (None, Some(before)) if before.last.elapsed() >= GONE_AFTER => {
                self.board.set_rival(None);
                *heard = None;
            }
            (None, _) => {}
        }
    }

    fn fill(&self, lease: &mut Lease) {
        let now = self.clock.now();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.holder_identity.as_deref() != Some(&self.cluster) {
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count + 1));
        }
        spec.holder_identity = Some(self.cluster.clone());
        spec.lease_duration_seconds = i32::try_from(GONE_AFTER.as_secs()).ok();
        spec.renew_time = Some(MicroTime(now));
        let (managed, by) = names::MANAGED_BY;
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert(managed.into(), by.into());
        labels.insert(names::ROBOT.into(), self.robot.clone());
        let progress = serde_json::to_string(&self.board.summary()).expect("numbers and strings are JSON");
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(names::PROGRESS.into(), progress);
        // A rival that is still there leaves its mark again.
        annotations.remove(RIVAL);
    }
}

/// What changes with every renewal.
fn renewal(lease: &Lease) -> String {
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0.to_string());
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    format!("{} {}", holder.unwrap_or_default(), renewed.unwrap_or_default())
}
