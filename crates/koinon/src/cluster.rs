//! `koinon cluster`: one cluster as its own process.

use anyhow::{Context as _, bail};
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::{Authority, ServerNames};
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server, listen};

use crate::args;
use crate::host;
use crate::keeper::Keeper;

pub(crate) async fn run(args: args::Cluster) -> anyhow::Result<()> {
    if !args.bare {
        bail!("this version has no simulated nodes and workload controllers yet: run it with --bare");
    }
    let folder = match args.data {
        Some(folder) => folder,
        None => host::default_data(&format!("clusters/{}", args.name))?,
    };
    host::private_folder(&folder)?;
    let listener = host::bind(args.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let context = Context::real();
    let names = ServerNames::default().with(&address.ip().to_string());
    let authority = Authority::open(&folder, &names, &context)?;
    let options = Options { data: Some(folder.clone()), port: address.port(), ..Options::default() };
    let server = Server::open(options, &authority, context).await?;

    let url = format!("https://{address}");
    let entry = Entry {
        name: &args.name,
        server: &url,
        authority: authority.certificate(),
        login: Login::Certificate(authority.admin()),
        namespace: None,
    };
    let file = args.kubeconfig.unwrap_or_else(|| folder.join("kubeconfig"));
    let tls = authority.server_config()?;
    let ending = server.clone();
    let keeper = Keeper::start(&server);
    let serving = listen::serve(listener, tls, server.router(), async move {
        if let Err(error) = host::asked_to_end().await {
            tracing::error!(%error, "signals cannot be received");
        }
        keeper.stop().await;
        ending.close().await;
    });
    kubeconfig::write(&file, &[entry], &args.name)
        .with_context(|| format!("cannot write the kubeconfig {}", file.display()))?;
    println!(
        "ready: cluster {} at https://{address}; try kubectl --kubeconfig {} get namespaces",
        args.name,
        file.display()
    );
    serving.await;
    Ok(())
}
