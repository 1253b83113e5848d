//! What a storm is made of, as data: it can be drawn, shrunk, printed and kept.

use std::time::Duration;

use koinon_simulation::{Fault, Requests};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::Toys;

/// So few objects that things happen to the same one.
const OBJECTS: usize = 6;

/// One storm.
#[derive(Clone, Debug)]
pub(super) struct Storm {
    /// What is left to chance in the faults.
    pub(super) chances: u64,
    pub(super) kind: Kind,
    pub(super) status_subresource: bool,
    /// Hours by which the clocks of the cloud, the robot and the syncer are wrong.
    pub(super) skew: [i64; 3],
    /// What happens, and for how many milliseconds nothing does afterwards.
    pub(super) steps: Vec<(Step, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Filtered,
    FromRobot,
}

impl Storm {
    pub(super) fn toys(&self) -> Toys {
        let base = match self.kind {
            Kind::Plain => Toys::plain(),
            Kind::Filtered => Toys::filtered(),
            Kind::FromRobot => Toys::robots(),
        };
        Toys { status: self.status_subresource, ..base }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An original is made or changed.
    Write(usize),
    Erase(usize),
    /// An original goes and another comes under its name.
    Replace(usize),
    /// A controller downstream reports on the copy.
    Report(usize),
    /// Somebody downstream does what is not theirs to do.
    Meddle(usize, Meddling),
    Faults(Side, Vec<Fault>),
    Heal,
    /// Another cluster, which has the CRD and nothing else, answers in the place of the one with the originals.
    Impostor,
    /// The syncer ends at its so many-th request from here, and another is started.
    End(usize),
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Cloud,
    Robot,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Meddling {
    Delete,
    ChangeSpec,
    AddLabel,
    TakeLabelOff,
}

/// Storms of up to so many steps.
pub(super) fn storms(steps: usize) -> impl Strategy<Value = Storm> + Clone {
    let kinds = select(vec![Kind::Plain, Kind::Filtered, Kind::FromRobot]);
    let hours = || select(vec![0, 0, -30, 5000]);
    let skew = [hours(), hours(), hours()];
    let pauses = select(vec![0u64, 1, 20, 300, 5_000, 60_000]);
    (any::<u64>(), kinds, prop::bool::weighted(0.66), skew, vec((step(), pauses), 1..=steps)).prop_map(
        |(chances, kind, status_subresource, skew, steps)| Storm {
            chances,
            kind,
            status_subresource,
            skew,
            steps,
        },
    )
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let name = || 0..OBJECTS;
    let meddling =
        select(vec![Meddling::Delete, Meddling::ChangeSpec, Meddling::AddLabel, Meddling::TakeLabelOff]);
    let side = select(vec![Side::Cloud, Side::Cloud, Side::Robot]);
    prop_oneof![
        8 => name().prop_map(Step::Write),
        2 => name().prop_map(Step::Erase),
        2 => name().prop_map(Step::Replace),
        4 => name().prop_map(Step::Report),
        2 => (name(), meddling).prop_map(|(name, what)| Step::Meddle(name, what)),
        4 => (side, vec(fault(), 1..3)).prop_map(|(side, faults)| Step::Faults(side, faults)),
        2 => Just(Step::Heal),
        1 => Just(Step::Impostor),
        2 => (1usize..30).prop_map(Step::End),
        1 => Just(Step::Nothing),
    ]
}

pub(super) fn fault() -> impl Strategy<Value = Fault> + Clone {
    let one_in = 1u32..4;
    let any = select(vec![401u16, 403, 429, 500, 503, 504]);
    let refused =
        (any, one_in.clone()).prop_map(|(code, one_in)| Fault::Refuse { what: Requests::Any, code, one_in });
    let writes =
        one_in.clone().prop_map(|one_in| Fault::Refuse { what: Requests::Writes, code: 409, one_in });
    let watches =
        one_in.clone().prop_map(|one_in| Fault::Refuse { what: Requests::Watches, code: 410, one_in });
    prop_oneof![
        Just(Fault::Cut),
        Just(Fault::Hang),
        Just(Fault::StallWatches),
        (1u64..8_000).prop_map(|millis| Fault::Delay(Duration::from_millis(millis))),
        refused,
        writes,
        watches,
        one_in.prop_map(|one_in| Fault::Lose { one_in }),
        (1u32..4).prop_map(|after| Fault::CutWatches { after }),
        (1u32..4).prop_map(|after| Fault::MissEvents { after }),
        (1u64..60).prop_map(|seconds| Fault::Stale(Duration::from_secs(seconds))),
    ]
}
