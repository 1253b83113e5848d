//! The roles that run beside each member of `up`: it is a robot whose cloud is the federation, and it may lead or
//! follow in a federation of configuration.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use koinon_cluster::Clock;
use koinon_config::{Config, by_kubeconfig};
use koinon_control::View;
use koinon_sync::{Access, Sync, manifests, names};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::rights::{self, CONFIG, SYNC};
use super::{for_each, robots};
use crate::site::{Site, administrator};

/// What runs beside one member.
pub(super) struct Terms {
    pub(super) sync: koinon_sync::Options,
    pub(super) config: koinon_config::Options,
}

/// The roles at work.
pub(super) struct Beside {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Beside {
    pub(super) fn start(
        federation: &Arc<Site>,
        members: &[Arc<Site>],
        terms: impl Fn(&str) -> Terms,
        clock: &Clock,
    ) -> anyhow::Result<Beside> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let cloud = Client::new(federation.from_beside(administrator()), "default");
        tasks.spawn(until(robots::keep(cloud, "the federation", robots::in_cloud), asked(stopped.clone())));
        for member in members {
            let Terms { sync, config } = terms(member.name());
            let with = |account| Client::new(member.from_beside(rights::user(account)), "default");
            let robot = rights::user(robots::account(member.name()));
            let cloud = Client::new(federation.from_member(member, robot), "default");
            let own = with(SYNC);
            let sync = Sync::new(sync, Access::new(cloud), Access::new(own.clone()), clock.clone())?;
            tasks.spawn(sync_once_asked(sync, own, asked(stopped.clone())));
            let (admin, name) =
                (Client::new(member.from_beside(administrator()), "default"), member.name().to_owned());
            let kept = async move { robots::keep(admin, &name, manifests::beside_robot).await };
            tasks.spawn(until(kept, asked(stopped.clone())));
            let config = Config::new(config, with(CONFIG), by_kubeconfig(), clock.clone());
            tasks.spawn(config.run(asked(stopped.clone())));
        }
        Ok(Beside { stop, tasks })
    }

    /// Makes the accounts that they work with, and the rights that do not depend on what is synced.
    pub(super) async fn furnish(federation: &Arc<Site>, members: &[Arc<Site>]) -> anyhow::Result<()> {
        let admin = |site: &Arc<Site>| Client::new(site.from_beside(administrator()), "default");
        let robots = members.iter().flat_map(|member| manifests::robot(member.name()));
        let all = manifests::cloud(&[]).into_iter().chain(robots);
        rights::put(&admin(federation), "the federation", all).await?;
        for_each(members, async |member| {
            let all = manifests::beside_robot(&[]).into_iter().chain(rights::of_config());
            rights::put(&admin(member), member.name(), all).await
        })
        .await
    }

    /// Ends them in good order.
    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        self.tasks.join_all().await;
    }
}

/// Something without an end of its own.
async fn until(never: impl Future<Output = Infallible>, end: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = end => {}
        never = never => match never {},
    }
}

/// Done once the end was asked for, or nobody is left to ask.
async fn asked(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Syncs from when the member has a definition that asks for it: a member that is no robot shows up as none.
async fn sync_once_asked(sync: Sync, member: Client, end: impl Future<Output = ()> + Send + 'static) {
    let definitions = View::<PartialObjectMeta<CustomResourceDefinition>>::new();
    let wanted = definitions
        .until(|all| all.iter().any(|definition| definition.annotations().contains_key(names::SPEC_SOURCE)));
    let mut end = Box::pin(end);
    tokio::select! {
        biased;
        never = definitions.follow(Api::all(member)) => match never {},
        () = wanted => {}
        () = &mut end => return,
    }
    sync.run(end).await;
}
