//! `koinon run sync`: custom resources, between the cloud and one robot.

use std::path::PathBuf;

use koinon_context::Context;
use koinon_control::Clock;
use koinon_sync::{Access, BadName, Handle, Options, Sync};
use prometheus_client::registry::Registry;

use super::{Cluster, Common, Health, Monitor, Turn};
use crate::flags::{Time, some_time};
use crate::host::Ending;

/// Replicas of this role contend for this Lease, beside the robot.
const LEASE: &str = "koinon-sync";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The robot's name, as objects carry it in the label cloudrobotics.com/robot-name
    #[arg(long, value_name = "NAME", default_value = "", value_parser = robot_name)]
    robot_name: String,
    /// The kubeconfig of the cloud
    #[arg(long, value_name = "FILE")]
    cloud_kubeconfig: PathBuf,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    cloud_context: Option<String>,
    /// The kubeconfig of the robot; the same as --kubeconfig
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    robot_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pace: Pace,
}

/// How often the two sides are compared, and how much may go at once.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sync of custom resources")]
pub(crate) struct Pace {
    /// How often both sides are listed again and compared
    #[arg(long, value_name = "TIME", default_value_t = Time(Options::default().resync), value_parser = some_time)]
    resync: Time,
    /// Of a CRD's copies, so many may be deleted at once without confirmation; ten always may
    #[arg(long, value_name = "PERCENT", default_value_t = Percent(Options::default().max_delete), value_parser = percent)]
    max_delete: Percent,
}

impl Pace {
    /// For the robot of this name.
    pub(crate) fn options(&self, robot: &str) -> Options {
        let robot = robot.to_owned();
        Options { robot, resync: self.resync.0, max_delete: self.max_delete.0, ..Options::default() }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let cloud = Cluster { kubeconfig: Some(args.cloud_kubeconfig), context: args.cloud_context };
    let common = args.common;
    let kubeconfig = args.robot_kubeconfig.or(common.cluster.kubeconfig);
    let robot = Cluster { kubeconfig, context: common.cluster.context };
    let options = args.pace.options(&args.robot_name);
    common.election.timing()?;
    let (above, beside) = (cloud.config().await?.cluster_url, robot.config().await?.cluster_url);
    let (handle, mut registry, health) = (Handle::default(), Registry::default(), Health::default());
    handle.register(&mut registry);
    let turn = Turn::default();
    let (ours, seen) = (turn.clone(), handle.clone());
    // The cloud may be away for hours: that is nothing a restart would help.
    health.require(move || match seen.view().robot.failure {
        Some(why) if ours.is_ours() => Err(format!("the robot's API server: {why}")),
        _ => Ok(()),
    });
    let ours = turn.clone();
    health.require_of_leader(move || {
        if ours.is_ours() { Ok(()) } else { Err("it is not this replica's turn to sync".into()) }
    });
    // The board tells when one of the two is lost.
    let (cloud, robot) = (Access::new(cloud.client().await?), Access::new(robot.client().await?));
    let _monitor = Monitor::open(common.metrics, health, registry, robot.client()).await?;
    let end = Ending::new()?;
    let context = Context::real();
    let clock = Clock::new(move || context.now());
    let make = || Sync::new(options.clone(), cloud.clone(), robot.clone(), clock.clone());
    make()?;
    println!("ready: custom resources are synced between {above} and {beside}, until Ctrl-C");
    common
        .election
        .run(&turn, robot.client(), LEASE, &end, || {
            let sync = make().map(|sync| sync.seen_by(handle.clone()));
            let end = end.asked();
            async {
                if let Ok(sync) = sync {
                    sync.run(end).await;
                }
            }
        })
        .await
}

fn robot_name(text: &str) -> Result<String, BadName> {
    koinon_sync::check_name(text).map(|()| text.to_owned())
}

/// A share of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Percent(u8);

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.0)
    }
}

fn percent(text: &str) -> Result<Percent, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = number.parse().ok().filter(|percent| *percent <= 100);
    percent.map(Percent).ok_or_else(|| "give a share between 0% and 100%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("50%"), Ok(Percent(50)));
        assert_eq!(percent("7"), Ok(Percent(7)));
        for wrong in ["101%", "-1", "half", "", "%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
