//! What the controllers share.

use std::sync::Arc;
use std::time::Duration;

use koinon_control::events::Recorder;
use koinon_control::queue::Queue;
use koinon_control::{Clock, Key};
use kube::Client;

use crate::members::{Kind, Members};
use crate::placing::Surge;
use crate::writing::Ledger;

/// How workloads are looked after.
#[derive(Debug, Clone)]
pub struct Options {
    /// A pod that found no node for so long is stuck, and its replica goes elsewhere.
    pub unschedulable_after: Duration,
    /// How many more replicas there may be while some move.
    pub max_surge: Surge,
}

impl Default for Options {
    fn default() -> Self {
        Options { unschedulable_after: Duration::from_secs(60), max_surge: Surge::default() }
    }
}

/// One workload to look at.
pub(crate) type Job = (Kind, Key);

/// What the controllers share.
pub(crate) struct Hub {
    pub(crate) options: Options,
    pub(crate) federation: Client,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) members: Members,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) queue: Arc<Queue<Job>>,
}
