//! `koinon up`: the federation and its members in one process, on one port.

mod beside;
mod dashboard;
mod league;
mod network;
mod progress;
mod sample;

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use futures::{StreamExt as _, TryStreamExt as _};
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::{Authority, ServerNames};
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::listen;
use koinon_cluster::Clock;
use kube::Client;
use tokio::sync::oneshot;

use self::dashboard::Dashboard;
use self::league::League;
use self::progress::Progress;
use crate::folder::{self, Folder, Use};
use crate::keeper::Kept;
use crate::lab;
use crate::site::{Ground, Site};
use crate::{args, host};

const FEDERATION: &str = "federation";
/// Clusters that start or stop at the same time: enough to keep the processors and the disk busy.
const AT_ONCE: usize = 8;
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
    let names = ServerNames::default().with(&address.ip().to_string());
    let authority = Arc::new(Authority::open(folder.path(), &names, &context)?);
    let ground = Ground { authority: authority.clone(), context, port: address.port() };

    let place = |name: &str| folder.path().join("members").join(name);
    let kept = Kept::Whole(Arc::new(args.nodes.settings(args.members.0.len())));
    let federation = Site::new(FEDERATION, folder.path().join(FEDERATION), Kept::Bare, &ground);
    let members: Vec<_> =
        args.members.0.iter().map(|name| Site::new(name, place(name), kept.clone(), &ground)).collect();
    let url = format!("https://{address}");
    let tls = authority.server_config()?;
    let mut router = Router::new();
    for member in &members {
        router = router.nest_service(&format!("/clusters/{}", member.name()), member.router());
    }
    let router = router.fallback_service(federation.router());

    let end = host::Ending::new()?;
    let progress = Progress::new(members.len());
    let (stop_serving, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listen::serve(listener, tls, router, async move { drop(stopped.await) }));
    let bench = lab::serve::Bench::open(lab::words::socket(&folder.path().canonicalize()?), members.clone())?;

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
        let context = ground.context.clone();
        let instance = context.uid();
        let clock = Clock::new(move || context.now());
        let ground = league::Ground {
            federation: &federation,
            members: &members,
            authority: &authority,
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
        let client = Client::new(federation.from_federation(), "default");
        if args.sample {
            sample::put(&client, members.first().map_or("*", |member| member.name())).await?;
        }
        let dashboard = match args.dashboard {
            Some(address) => Some(Dashboard::open(address, client).await?),
            None => None,
        };
        if let Some(address) = args.dashboard {
            progress.say(&format!("the dashboard is at http://{address}"));
        }
        write_kubeconfig(&folder, &authority, &url, &members)?;
        let file = folder.path().join("kubeconfig");
        println!(
            "ready: the federation at {url} with {}; try export KUBECONFIG={}",
            describe(&members),
            file.display()
        );
        anyhow::Ok((league, dashboard))
    };
    let outcome = tokio::select! {
        outcome = started => match outcome {
            Ok((league, _dashboard)) => {
                tokio::select! {
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

fn write_kubeconfig(
    folder: &Folder,
    authority: &Authority,
    url: &str,
    members: &[Arc<Site>],
) -> anyhow::Result<()> {
    let file = folder.path().join("kubeconfig");
    let servers: Vec<_> =
        members.iter().map(|member| (member.name(), format!("{url}/clusters/{}", member.name()))).collect();
    let contexts =
        [(FEDERATION, url)].into_iter().chain(servers.iter().map(|(name, server)| (*name, server.as_str())));
    let entries: Vec<Entry<'_>> = contexts
        .map(|(name, server)| Entry {
            name,
            server,
            authority: authority.certificate(),
            login: Login::Certificate(authority.admin()),
            namespace: None,
        })
        .collect();
    kubeconfig::write(&file, &entries, FEDERATION)
        .with_context(|| format!("cannot write the kubeconfig {}", file.display()))
}
