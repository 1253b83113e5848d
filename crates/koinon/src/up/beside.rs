//! The roles that run beside each member of `up`: it is a robot whose cloud is the federation, and it may lead or
//! follow in a federation of configuration.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use koinon_cluster::Clock;
use koinon_config::{Config, by_kubeconfig};
use koinon_control::View;
use koinon_sync::{Access, Sync, names};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::site::Site;

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
        for member in members {
            let Terms { sync, config } = terms(member.name());
            let own = Client::new(member.from_beside(), "default");
            let cloud = Client::new(federation.from_member(member), "default");
            let sync = Sync::new(sync, Access::new(cloud), Access::new(own.clone()), clock.clone())?;
            tasks.spawn(sync_once_asked(sync, own.clone(), asked(stopped.clone())));
            let config = Config::new(config, own, by_kubeconfig(), clock.clone());
            tasks.spawn(config.run(asked(stopped.clone())));
        }
        Ok(Beside { stop, tasks })
    }

    /// Ends them in good order.
    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        self.tasks.join_all().await;
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
        never = definitions.follow(Api::all(member)) => match never {},
        () = wanted => {}
        () = &mut end => return,
    }
    sync.run(end).await;
}
