//! `koinon up`: the federation and its members in one process, on one port.

mod beside;
mod dashboard;
mod league;
mod network;
mod progress;
mod rights;
mod robots;
mod sample;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use futures::{StreamExt as _, TryStreamExt as _};
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::serve::{Limits, listen};
use koinon_cluster::Clock;
use koinon_context::Context;
use kube::Client;
use tokio::sync::oneshot;

use self::dashboard::Dashboard;
use self::league::League;
use self::progress::Progress;
use crate::folder::{self, Folder, Use};
use crate::keeper::Kept;
use crate::lab;
use crate::site::{Ground, Site, administrator};
use crate::{args, host};

const FEDERATION: &str = "federation";
/// Clusters that start or stop at the same time: enough to keep the processors and the disk busy.
const AT_ONCE: usize = 8;
const REPLACED: &str = "each cluster has an authority of its own now: kubeconfigs and tokens that an earlier version made no \
                        longer work, the kubeconfig in the data folder does";
const ENDING: &str = "ending; the state stays in the data folder";

pub(crate) async fn run(args: args::Up) -> anyhow::Result<()> {
    let timing = args.election.timing()?;
    let path = match args.data {
        Some(path) => path,
        None => folder::default("up")?,
    };
    let folder = Folder::open(path, Use::Up)?;
    let listener = host::bind(args.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let context = Context::real();
    let reached = args.serve_as.reached(address);
    let home = folder.path().join(FEDERATION);
    folder::private(&home)?;
    let authority = Arc::new(Authority::open(&home, &reached.names, &context)?);
    let replaced = forget_common_authority(folder.path())?;
    let in_flight = Limits::default();
    let ground = Ground { authority: authority.clone(), context, address, in_flight };

    let place = |name: &str| folder.path().join("members").join(name);
    let kept = Kept::Whole(Arc::new(args.nodes.settings(args.members.0.len())));
    let federation = Site::first(FEDERATION, home, Kept::Bare, &ground);
    let members: Vec<_> =
        args.members.0.iter().map(|name| Site::new(name, place(name), kept.clone(), &ground)).collect();
    let url = reached.url;
    // Each cluster has an authority of its own, and asks that one about a client's certificate.
    let tls = authority.server_config_for_several()?;
    let mut router = Router::new();
    for member in &members {
        router = router.nest_service(&format!("/clusters/{}", member.name()), member.router());
    }
    let router = router.fallback_service(federation.router());

    let end = host::Ending::new()?;
    let progress = Progress::new(members.len());
    if let Some(remark) = &reached.remark {
        progress.say(remark);
    }
    if replaced {
        progress.say(REPLACED);
    }
    let (stop_serving, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listen::serve(listener, tls, router, async move { drop(stopped.await) }));
    let bench =
        lab::serve::Bench::open(lab::words::socket(&folder.path().canonicalize()?)?, members.clone())?;

    let started = async {
        federation.start().await?;
        progress.say(&format!("the federation's API server is up at {url}"));
        for_each(&members, async |member| {
            member.start().await?;
            member.settled().await;
            progress.ready(member.name());
            anyhow::Ok(())
        })
        .await?;
        let site_context = ground.context.clone();
        let context = ground.context.clone();
        let instance = context.uid();
        let clock = Clock::new(move || context.now());
        let ground = league::Ground {
            federation: &federation,
            members: &members,
            authority: authority.certificate(),
            url: &url,
            clock,
            instance: &instance,
        };
        let pace = args.pace;
        let terms = league::Terms {
            thresholds: args.health.thresholds(),
            spreading: args.spreading.options(),
            timing,
            services: args.services.options(),
            policies: args.policies.options(),
            sync: Box::new(move |robot| pace.options(robot)),
        };
        let league = League::start(ground, terms).await?;
        if !league::has_all_roles(members.len()) {
            progress.say("so many members are looked after by the workloads role alone");
        }
        let client = Client::new(federation.from_federation(administrator()), "default");
        if args.sample {
            sample::put(&client, members.first().map_or("*", |member| member.name())).await?;
        }
        let dashboard = match args.dashboard {
            Some(address) => {
                let opened = Dashboard::open(address, args.serve_as.names(), client, &site_context).await?;
                progress.say(&format!("the dashboard is at {}", opened.url()));
                Some(opened)
            }
            None => None,
        };
        write_kubeconfig(&folder, &authority, &url, &federation, &members)?;
        let file = folder.path().join("kubeconfig");
        println!(
            "ready: the federation at {url} with {}; try export KUBECONFIG={}",
            describe(&members),
            file.display()
        );
        anyhow::Ok((league, dashboard))
    };
    let outcome = tokio::select! {
        biased;
        outcome = started => match outcome {
            Ok((league, _dashboard)) => {
                tokio::select! {
                    biased;
                    () = end.asked() => {}
                    never = bench.run() => match never {},
                }
                progress.say(ENDING);
                league.end().await;
                Ok(())
            }
            Err(failed) => Err(failed),
        },
        () = end.asked() => {
            progress.say(ENDING);
            Ok(())
        }
    };
    for_each(&members, async |member| {
        member.stop().await;
        anyhow::Ok(())
    })
    .await?;
    federation.stop().await;
    drop(stop_serving);
    serving.await.context("the listener ended badly")?;
    outcome
}

/// Does something to all members, several at a time.
async fn for_each(
    members: &[Arc<Site>],
    work: impl AsyncFn(&Arc<Site>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    futures::stream::iter(members).map(|member| work(member)).buffer_unordered(AT_ONCE).try_collect().await
}

fn describe(members: &[Arc<Site>]) -> String {
    let names: Vec<_> = members.iter().map(|member| member.name()).collect();
    let word = if names.len() == 1 { "member" } else { "members" };
    format!("{} {word}: {}", names.len(), lab::several(&names))
}

/// An administrator for each cluster, whose certificate counts in that one alone.
fn write_kubeconfig(
    folder: &Folder,
    authority: &Authority,
    url: &str,
    federation: &Site,
    members: &[Arc<Site>],
) -> anyhow::Result<()> {
    let file = folder.path().join("kubeconfig");
    let servers: Vec<String> =
        members.iter().map(|member| format!("{url}/clusters/{}", member.name())).collect();
    let contexts = [(federation, url)]
        .into_iter()
        .chain(members.iter().map(|member| &**member).zip(servers.iter().map(String::as_str)));
    let entries: Vec<Entry<'_>> = contexts
        .map(|(site, server)| {
            Ok(Entry {
                name: site.name(),
                server,
                authority: authority.certificate(),
                login: Login::Certificate(site.authority()?.admin()),
                namespace: None,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    kubeconfig::write(&file, &entries, FEDERATION)
        .with_context(|| format!("cannot write the kubeconfig {}", file.display()))
}

/// Earlier versions had one authority for all clusters, whose administrator's certificate was in a Secret of the first member:
/// nothing trusts it any more, and its keys go. Says whether there was one.
fn forget_common_authority(folder: &Path) -> anyhow::Result<bool> {
    let common = folder.join("pki");
    match std::fs::remove_dir_all(&common) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", common.display())),
    }
}
