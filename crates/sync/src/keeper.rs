//! The sync of one CRD over time: finds out what both sides serve, and does so again when that changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::access::Access;
use crate::board::Board;
use crate::definition::{Agreement, Definition, Misfit};
use crate::end::End;
use crate::engine::Options;
use crate::gate::Gate;
use crate::lane::{Direction, Lane};
use crate::metrics::Metrics;
use crate::names;
use crate::origin::Memory;
use crate::pipeline::{self, Pipeline};
use crate::plan::{self, Filter, Rules};
use crate::report::Reporter;
use crate::side::Side;

/// Two sides that do not fit, or cannot be asked, are looked at again after this time.
const AGREE_EVERY: Duration = Duration::from_secs(5);

/// Keeps the pipeline of one CRD.
pub(crate) struct Keeper {
    pub(crate) definition: Definition,
    pub(crate) options: Options,
    pub(crate) cloud: Access,
    pub(crate) robot: Access,
    pub(crate) board: Arc<Board>,
    pub(crate) metrics: Metrics,
    pub(crate) memories: [Arc<Memory>; 2],
    pub(crate) reporter: Reporter,
    pub(crate) confirmed: watch::Receiver<Option<usize>>,
}

impl Keeper {
    /// Keeps it for as long as it is polled.
    pub(crate) async fn keep(self) {
        let mut problem = None;
        loop {
            match self.definition.agree(&self.cloud).await {
                Ok(agreement) => {
                    self.board.cloud.reached();
                    if let Some(reason) = problem.take() {
                        self.reporter.solved(reason);
                    }
                    let pipeline = Arc::new(self.pipeline(&agreement));
                    self.board.started(&pipeline);
                    tokio::select! {
                        biased;
                        () = Box::pin(pipeline.run()) => {}
                        () = self.until_outdated(&agreement, &pipeline.doubt) => {}
                    }
                    self.reporter.begin_again();
                }
                Err(Misfit::Unknown(error)) => self.board.cloud.failed(&error),
                Err(misfit) => {
                    if let Some(reason) =
                        problem.replace(misfit.reason()).filter(|before| *before != misfit.reason())
                    {
                        self.reporter.solved(reason);
                    }
                    self.reporter.problem(
                        misfit.reason(),
                        format!("{} is not synced: {misfit}", self.definition.name),
                    );
                }
            }
            tokio::time::sleep(AGREE_EVERY).await;
        }
    }

    /// Waits until the cloud serves something else than what was agreed on. That is looked at with every resync, and
    /// when a write came to something that makes one wonder.
    async fn until_outdated(&self, agreement: &Agreement, doubt: &Notify) {
        loop {
            // A server may say a little later what it serves than it does so.
            let looks = tokio::select! {
                biased;
                () = doubt.notified() => 2,
                () = tokio::time::sleep(self.options.resync) => 1,
            };
            for _ in 0..looks {
                match self.definition.agree(&self.cloud).await {
                    Ok(now) if now == *agreement => {}
                    // It says nothing: then what was said before holds.
                    Err(Misfit::Unknown(_)) => {}
                    Ok(_) | Err(_) => return,
                }
                // However many writes make one wonder, this is asked no more often.
                tokio::time::sleep(AGREE_EVERY).await;
            }
        }
    }

    fn pipeline(&self, agreement: &Agreement) -> Pipeline {
        let Definition { name, group, plural, kind, settings, .. } = &self.definition;
        let own = format!("{}={}", names::ROBOT, self.options.robot);
        let end = |access: &Access, place, kind: &str, status, labels| End {
            access: access.clone(),
            place,
            base: self.definition.base(&agreement.version),
            api_version: format!("{group}/{}", agreement.version),
            kind: kind.to_owned(),
            plural: plural.clone(),
            labels,
            status,
            side: Side::default(),
            kick: Arc::default(),
        };
        // In the cloud a robot looks at nothing but its own. Beside the robot it looks at everything, so that it
        // sees a copy whose label was taken off.
        let only_own = settings.filter == Filter::OwnLabel || settings.source == plan::Source::Robot;
        let cloud =
            end(&self.cloud, "cloud", &agreement.cloud_kind, agreement.cloud_status, only_own.then_some(own));
        let robot = end(&self.robot, "robot", kind, agreement.robot_status, None);
        let links = (self.board.cloud.clone(), self.board.robot.clone());
        let [beside_robot, in_cloud] = &self.memories;
        let (up, down, up_link, down_link, memory) = match settings.source {
            plan::Source::Cloud => (cloud, robot, links.0, links.1, beside_robot),
            plan::Source::Robot => (robot, cloud, links.1, links.0, in_cloud),
        };
        let rules = Rules {
            source: settings.source,
            filter: settings.filter,
            subtree: settings.subtree.clone(),
            observed: settings.observed,
            robot: self.options.robot.clone(),
            downstream_status: down.status,
        };
        Pipeline {
            crd: name.clone(),
            rules,
            up,
            down,
            up_link,
            down_link,
            lanes: [Lane::new(Direction::Down), Lane::new(Direction::Up)],
            gate: Gate::default(),
            memory: memory.clone(),
            robot: self.robot.clone(),
            confirmed: self.confirmed.clone(),
            options: pipeline::Options {
                resync: self.options.resync,
                max_delete: self.options.max_delete,
                writes: self.options.writes,
            },
            reporter: self.reporter.clone(),
            metrics: self.metrics.clone(),
            ready: watch::Sender::new(false),
            lost: Notify::new(),
            doubt: Notify::new(),
        }
    }
}
