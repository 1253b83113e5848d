//! What is measured when somebody asks: read off the board, never kept.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::board::{Board, CrdView, LinkView};
use crate::lane::Backlog;

/// Gauges that are read off the board when somebody asks.
pub(crate) struct Gauges(pub(crate) Arc<Board>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

type Labels = Vec<(&'static str, String)>;

/// One gauge, and its values by label.
struct Shown {
    name: &'static str,
    help: &'static str,
    values: Vec<(Labels, f64)>,
}

impl Gauges {
    fn all(&self) -> Vec<Shown> {
        let view = self.0.view();
        let of_crds = |value: &dyn Fn(&CrdView) -> f64| {
            view.crds.iter().map(|(name, crd)| (vec![("crd", name.clone())], value(crd))).collect::<Vec<_>>()
        };
        let of_lanes = |value: &dyn Fn(&Backlog) -> f64| {
            let lanes =
                view.crds.iter().flat_map(|(name, crd)| crd.lanes.iter().map(move |lane| (name, lane)));
            lanes
                .map(|(name, lane)| {
                    (
                        vec![("crd", name.clone()), ("direction", lane.direction.as_str().to_owned())],
                        value(lane),
                    )
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
        let shown = |name, help, values| Shown { name, help, values };
        let one = |yes: bool| f64::from(u8::from(yes));
        vec![
            shown(
                "koinon_sync_connected",
                "1 while the API server answers",
                of_links(&|link| Some(one(link.reachable))),
            ),
            shown(
                "koinon_sync_contact_age_seconds",
                "Since the API server last answered a list or showed something at a watch",
                of_links(&|link| link.seconds_since_contact.map(|seconds| seconds as f64)),
            ),
            shown("koinon_sync_running", "1 while a CRD is kept in step", of_crds(&|crd| one(crd.running))),
            shown("koinon_sync_objects", "Originals", of_crds(&|crd| crd.objects as f64)),
            shown(
                "koinon_sync_held_deletes",
                "Deletions held until confirmed",
                of_crds(&|crd| crd.held as f64),
            ),
            shown(
                "koinon_sync_pending",
                "Objects that wait for a write",
                of_lanes(&|lane| lane.pending as f64),
            ),
            shown(
                "koinon_sync_lag_seconds",
                "Since when the oldest of them waits",
                of_lanes(&|lane| lane.oldest.as_secs_f64()),
            ),
            shown(
                "koinon_sync_errors",
                "Objects whose last write failed",
                of_lanes(&|lane| lane.failing as f64),
            ),
            shown(
                "koinon_sync_problems",
                "What is wrong with a CRD or with objects of it",
                problems.collect(),
            ),
            shown(
                "koinon_sync_rival",
                "1 while another cluster syncs under the same robot name",
                vec![(Vec::new(), one(view.rival.is_some()))],
            ),
        ]
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for Shown { name, help, values } in self.all() {
            let kind = ConstGauge::new(0.0_f64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in values {
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
