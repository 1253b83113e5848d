//! What can be seen of a running sync: links, backlogs, problems.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::lane::Backlog;
use crate::pipeline::Pipeline;
use crate::report::Reporter;

/// The link to one API server, as those who use it find it.
pub(crate) struct Link {
    /// `cloud` or `robot`.
    place: &'static str,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    last_contact: Option<Instant>,
    failure: Option<String>,
}

impl Link {
    fn to(place: &'static str) -> Arc<Link> {
        Arc::new(Link { place, state: Mutex::default() })
    }

    /// The server answered. Says whether it did not before.
    pub(crate) fn reached(&self) -> bool {
        let mut state = self.state.lock();
        state.last_contact = Some(Instant::now());
        let back = state.failure.take().is_some();
        if back {
            tracing::info!(server = self.place, reason = "ServerBack", "the API server answers again");
        }
        back
    }

    /// The server did not answer, or does not want us.
    pub(crate) fn failed(&self, error: &dyn std::error::Error) {
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            why = format!("{why}: {deeper}");
            cause = deeper.source();
        }
        let mut state = self.state.lock();
        if state.failure.is_none() {
            tracing::warn!(
                server = self.place,
                reason = "ServerLost",
                "the API server does not answer as it should: {why}"
            );
        }
        state.failure = Some(why);
    }

    fn view(&self) -> LinkView {
        let state = self.state.lock();
        LinkView {
            reachable: state.failure.is_none() && state.last_contact.is_some(),
            failure: state.failure.clone(),
            seconds_since_contact: state.last_contact.map(|at| at.elapsed().as_secs()),
        }
    }
}

/// Everything that can be seen.
pub(crate) struct Board {
    pub(crate) cloud: Arc<Link>,
    pub(crate) robot: Arc<Link>,
    crds: Mutex<BTreeMap<String, Entry>>,
    rival: Mutex<Option<String>>,
}

impl Default for Board {
    fn default() -> Self {
        Board {
            cloud: Link::to("cloud"),
            robot: Link::to("robot"),
            crds: Mutex::default(),
            rival: Mutex::default(),
        }
    }
}

struct Entry {
    reporter: Reporter,
    pipeline: Weak<Pipeline>,
}

/// The link to one API server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkView {
    pub reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_since_contact: Option<u64>,
}

/// The sync of one CRD.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdView {
    /// Both sides were listed, and changes are passed on.
    pub running: bool,
    pub objects: usize,
    pub pending: usize,
    pub lag_seconds: u64,
    pub errors: usize,
    pub held: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub problems: BTreeMap<&'static str, String>,
    #[serde(skip)]
    pub(crate) lanes: Vec<Backlog>,
}

/// Everything that can be seen of a running sync.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub cloud: LinkView,
    pub robot: LinkView,
    /// Another cluster that syncs under the same robot name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rival: Option<String>,
    pub crds: BTreeMap<String, CrdView>,
}

/// All CRDs together, as a robot's Lease tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// CRDs that are synced.
    pub crds: usize,
    pub objects: usize,
    /// Objects that wait to be written, in either direction.
    pub pending: usize,
    /// How long the first of them has waited.
    pub lag_seconds: u64,
    /// Objects that could not be written.
    pub errors: usize,
    /// Deletions that wait for a word.
    pub held: usize,
    /// What is wrong, by CRD and reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub problems: BTreeMap<String, String>,
}

impl Board {
    pub(crate) fn enter(&self, reporter: Reporter) {
        let entry = Entry { pipeline: Weak::new(), reporter };
        self.crds.lock().insert(entry.reporter.crd().to_owned(), entry);
    }

    pub(crate) fn started(&self, pipeline: &Arc<Pipeline>) {
        if let Some(entry) = self.crds.lock().get_mut(&pipeline.crd) {
            entry.pipeline = Arc::downgrade(pipeline);
        }
    }

    pub(crate) fn leave(&self, crd: &str) {
        self.crds.lock().remove(crd);
    }

    /// Nothing runs any more.
    pub(crate) fn clear(&self) {
        self.crds.lock().clear();
        *self.rival.lock() = None;
        for link in [&self.cloud, &self.robot] {
            *link.state.lock() = LinkState::default();
        }
    }

    pub(crate) fn set_rival(&self, rival: Option<String>) {
        *self.rival.lock() = rival;
    }

    pub(crate) fn view(&self) -> View {
        let crds = self.crds.lock().iter().map(|(name, entry)| (name.clone(), entry.view())).collect();
        View { cloud: self.cloud.view(), robot: self.robot.view(), rival: self.rival.lock().clone(), crds }
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (name, crd) in self.view().crds {
            summary.crds += usize::from(crd.running);
            summary.objects += crd.objects;
            summary.pending += crd.pending;
            summary.lag_seconds = summary.lag_seconds.max(crd.lag_seconds);
            summary.errors += crd.errors;
            summary.held += crd.held;
            let problems =
                crd.problems.into_iter().map(|(reason, message)| (format!("{name} {reason}"), message));
            summary.problems.extend(problems);
        }
        summary
    }
}

impl Entry {
    fn view(&self) -> CrdView {
        let problems = self.reporter.problems();
        let Some(pipeline) = self.pipeline.upgrade() else {
            return CrdView { problems, ..CrdView::default() };
        };
        let lanes: Vec<Backlog> = pipeline.lanes.iter().map(|lane| lane.backlog()).collect();
        CrdView {
            running: *pipeline.ready.borrow(),
            objects: pipeline.up.side.len(),
            pending: lanes.iter().map(|lane| lane.pending).sum(),
            lag_seconds: lanes.iter().map(|lane| lane.oldest.as_secs()).max().unwrap_or(0),
            errors: lanes.iter().map(|lane| lane.failing).sum(),
            held: pipeline.gate.held().map_or(0, |(count, _)| count),
            problems,
            lanes,
        }
    }
}
