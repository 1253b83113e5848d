//! What can be seen of a running sync: links, backlogs, problems.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use koinon_control::call;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Serialize;
use tokio::time::Instant;

use crate::lane::Direction;
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
            tracing::info!(place = self.place, "the API server answers again");
        }
        back
    }

    /// The server did not answer, or does not want us.
    pub(crate) fn failed(&self, error: &call::Error) {
        let mut why = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(deeper) = cause {
            why = format!("{why}: {deeper}");
            cause = deeper.source();
        }
        let mut state = self.state.lock();
        if state.failure.is_none() {
            tracing::warn!(place = self.place, error = why, "the API server does not answer as it should");
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
    lanes: Vec<LaneView>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) crds: usize,
    pub(crate) objects: usize,
    pub(crate) pending: usize,
    pub(crate) lag_seconds: u64,
    pub(crate) errors: usize,
    pub(crate) held: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) problems: BTreeMap<String, String>,
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
        let lanes: Vec<_> = pipeline
            .lanes
            .iter()
            .map(|lane| {
                let (pending, oldest, failing) = lane.backlog();
                (lane.direction, pending, oldest, failing)
            })
            .collect();
        CrdView {
            running: *pipeline.ready.borrow(),
            objects: pipeline.up.side.len(),
            pending: lanes.iter().map(|lane| lane.1).sum(),
            lag_seconds: lanes.iter().map(|lane| lane.2.as_secs()).max().unwrap_or(0),
            errors: lanes.iter().map(|lane| lane.3).sum(),
            held: pipeline.gate.held().map_or(0, |(count, _)| count),
            problems,
            lanes,
        }
    }
}

/// Gauges that are read off the board when somebody asks.
pub(crate) struct Gauges(pub(crate) Arc<Board>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

type Labels = Vec<(&'static str, String)>;
/// Name, help, and values by label.
type Gauge = (&'static str, &'static str, Vec<(Labels, f64)>);
/// A direction: how many wait, since when, and how many failed.
type LaneView = (Direction, usize, Duration, usize);

impl Gauges {
    /// Every gauge: name, help, and its values by label.
    fn all(&self) -> Vec<Gauge> {
        let view = self.0.view();
        let of_crds = |value: &dyn Fn(&CrdView) -> f64| {
            view.crds.iter().map(|(name, crd)| (vec![("crd", name.clone())], value(crd))).collect::<Vec<_>>()
        };
        let of_lanes = |value: &dyn Fn(&LaneView) -> f64| {
            let lanes =
                view.crds.iter().flat_map(|(name, crd)| crd.lanes.iter().map(move |lane| (name, lane)));
            lanes
                .map(|(name, lane)| {
                    (vec![("crd", name.clone()), ("direction", lane.0.as_str().to_owned())], value(lane))
                })
                .collect::<Vec<_>>()
        };
        let of_links = |value: &dyn Fn(&LinkView) -> Option<f64>| {
            [("cloud", &view.cloud), ("robot", &view.robot)]
                .into_iter()
                .filter_map(|(side, link)| Some((vec![("side", side.to_owned())], value(link)?)))
                .collect::<Vec<_>>()
        };
        let problems = view.crds.iter().flat_map(|(name, crd)| {
            crd.problems
                .keys()
                .map(move |reason| (vec![("crd", name.clone()), ("reason", (*reason).to_owned())], 1.0))
        });
        vec![
            (
                "koinon_sync_connected",
                "1 while the API server answers",
                of_links(&|link| Some(f64::from(u8::from(link.reachable)))),
            ),
            (
                "koinon_sync_contact_age_seconds",
                "Since the API server last answered a list or a watch",
                of_links(&|link| link.seconds_since_contact.map(|seconds| seconds as f64)),
            ),
            (
                "koinon_sync_running",
                "1 while a CRD is kept in step",
                of_crds(&|crd| f64::from(u8::from(crd.running))),
            ),
            ("koinon_sync_objects", "Originals", of_crds(&|crd| crd.objects as f64)),
            ("koinon_sync_held_deletes", "Deletions held until confirmed", of_crds(&|crd| crd.held as f64)),
            ("koinon_sync_pending", "Objects that wait for a write", of_lanes(&|lane| lane.1 as f64)),
            (
                "koinon_sync_lag_seconds",
                "Since when the oldest of them waits",
                of_lanes(&|lane| lane.2.as_secs_f64()),
            ),
            ("koinon_sync_errors", "Objects whose last write failed", of_lanes(&|lane| lane.3 as f64)),
            ("koinon_sync_problems", "What holds up a CRD", problems.collect()),
            (
                "koinon_sync_rival",
                "1 while another cluster syncs under the same robot name",
                vec![(Vec::new(), f64::from(u8::from(view.rival.is_some())))],
            ),
        ]
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help, values) in self.all() {
            let kind = ConstGauge::new(0.0_f64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in values {
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
