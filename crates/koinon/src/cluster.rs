//! `koinon cluster`: one cluster as its own process.

use std::sync::Arc;

use anyhow::Context as _;
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::serve::listen;
use koinon_context::Context;
use tokio::sync::oneshot;

use crate::folder::{self, Folder, Use};
use crate::keeper::Kept;
use crate::site::{Ground, Site};
use crate::{args, host};

pub(crate) async fn run(args: args::Cluster) -> anyhow::Result<()> {
    let kept = if args.bare { Kept::Bare } else { Kept::Whole(Arc::new(args.nodes.settings(1))) };
    let path = match args.data {
        Some(path) => path,
        None => folder::default(&format!("clusters/{}", args.name))?,
    };
    let folder = Folder::open(path, Use::Cluster)?;
    let listener = host::bind(args.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let context = Context::real();
    let reached = args.serve_as.reached(address);
    if let Some(remark) = &reached.remark {
        eprintln!("{remark}");
    }
    let authority = Arc::new(Authority::open(folder.path(), &reached.names, &context)?);
    let tls = authority.server_config()?;
    let ground =
        Ground { authority: authority.clone(), context, address, in_flight: args.in_flight.limits() };
    let site = Site::first(&args.name, folder.path().to_owned(), kept, &ground);

    let end = host::Ending::new()?;
    site.start().await?;
    let (stop_serving, stopped) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(listen::serve(listener, tls, site.router(), async move { drop(stopped.await) }));
    let started = async {
        site.settled().await;
        let url = reached.url;
        let entry = Entry {
            name: &args.name,
            server: &url,
            authority: authority.certificate(),
            login: Login::Certificate(authority.admin()),
            namespace: None,
        };
        let file = args.kubeconfig.unwrap_or_else(|| folder.path().join("kubeconfig"));
        kubeconfig::write(&file, &[entry], &args.name)
            .with_context(|| format!("cannot write the kubeconfig {}", file.display()))?;
        println!(
            "ready: cluster {} at {url}; try kubectl --kubeconfig {} get namespaces",
            args.name,
            file.display()
        );
        anyhow::Ok(())
    };
    let outcome = tokio::select! {
        biased;
        outcome = started => match outcome {
            Ok(()) => { end.asked().await; Ok(()) }
            failed => failed,
        },
        () = end.asked() => Ok(()),
    };
    site.stop().await;
    drop(stop_serving);
    serving.await.context("the listener ended badly")?;
    outcome
}
