//! `koinon up`: the federation and its members in one process, on one port.

use anyhow::Context as _;
use axum::Router;
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::{Authority, ServerNames};
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server, listen};

use crate::args;
use crate::host;
use crate::keeper::Keeper;

const FEDERATION: &str = "federation";

pub(crate) async fn run(args: args::Up) -> anyhow::Result<()> {
    let folder = match args.data {
        Some(folder) => folder,
        None => host::default_data("up")?,
    };
    host::private_folder(&folder)?;
    let listener = host::bind(args.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let context = Context::real();
    let names = ServerNames::default().with(&address.ip().to_string());
    let authority = Authority::open(&folder, &names, &context)?;
    let url = format!("https://{address}");

    let open = |path: String| {
        let options = Options { data: Some(folder.join(path)), port: address.port(), ..Options::default() };
        Server::open(options, &authority, context.clone())
    };
    let federation = open(FEDERATION.to_owned()).await?;
    let mut router = Router::new();
    let mut contexts = vec![(FEDERATION.to_owned(), url.clone())];
    let mut servers = vec![federation.clone()];
    for name in &args.members.0 {
        eprintln!("starting member {name}");
        let member = open(format!("members/{name}")).await?;
        let path = format!("/clusters/{name}");
        contexts.push((name.clone(), format!("{url}{path}")));
        router = router.nest_service(&path, member.router());
        servers.push(member);
    }
    let router = router.fallback_service(federation.router());

    let file = folder.join("kubeconfig");
    let tls = authority.server_config()?;
    let keepers: Vec<Keeper> = servers.iter().map(Keeper::start).collect();
    let serving = listen::serve(listener, tls, router, async move {
        if let Err(error) = host::asked_to_end().await {
            tracing::error!(%error, "signals cannot be received");
        }
        for keeper in keepers {
            keeper.stop().await;
        }
        for server in &servers {
            server.close().await;
        }
    });
    let entries: Vec<Entry<'_>> = contexts
        .iter()
        .map(|(name, server)| Entry {
            name,
            server,
            authority: authority.certificate(),
            login: Login::Certificate(authority.admin()),
            namespace: None,
        })
        .collect();
    kubeconfig::write(&file, &entries, FEDERATION)
        .with_context(|| format!("cannot write the kubeconfig {}", file.display()))?;
    println!(
        "ready: the federation at {url} with the members {}; try export KUBECONFIG={}",
        args.members.0.join(", "),
        file.display()
    );
    serving.await;
    Ok(())
}
