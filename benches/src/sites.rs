//! The members: embedded servers in this process on one port behind TLS, and what the leader asks of each of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use futures::StreamExt as _;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server, listen};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::league::{PATIENCE, client, login};

/// Where federations and global Services are.
pub(crate) const SYSTEM: &str = "antrea-plus-system";
/// Where users are at home.
pub(crate) const WORK: &str = "bench";
const API: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";

pub(crate) struct Sites {
    /// Holds the `kubeconfig` of the first, beside which the supervisor runs.
    pub(crate) folder: TempDir,
    pub(crate) all: Vec<Site>,
    _running: JoinSet<()>,
}

pub(crate) struct Site {
    pub(crate) name: String,
    /// What users do and see, over TLS as anybody else.
    pub(crate) client: Client,
    pub(crate) meter: Arc<Meter>,
    server: String,
    login: String,
}

/// What the leader asks of one member.
#[derive(Default)]
pub(crate) struct Meter {
    /// Of which resources writes are counted.
    of: &'static [&'static str],
    writes: AtomicUsize,
    watches: AtomicUsize,
    bytes: AtomicUsize,
}

impl Meter {
    /// Writes so far.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// Watches that are open.
    pub(crate) fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }

    /// Bytes that were answered so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Sites {
    /// Starts so many members with these definitions beside our own; of each, writes to these resources are counted.
    pub(crate) async fn start(
        count: usize,
        definitions: Vec<Value>,
        of: &'static [&'static str],
    ) -> Result<Sites> {
        let folder = tempfile::Builder::new().prefix("koinon-bench-").tempdir()?;
        let context = Context::real();
        let authority = Arc::new(Authority::in_memory(&context)?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut router = Router::new();
        let mut all = Vec::new();
        let mut inside = Vec::new();
        for number in 0..count {
            let name = format!("m{number:03}");
            let options = Options { port: address.port(), ..Options::default() };
            let server = Server::open(options, &authority, context.clone()).await?;
            let meter = Arc::new(Meter { of, ..Meter::default() });
            let counted = server.router().layer(from_fn_with_state(meter.clone(), counted));
            // By the one path come users, by the other the leader.
            router = router
                .nest_service(&format!("/users/{name}"), server.router())
                .nest_service(&format!("/leader/{name}"), counted);
            let users = login(&authority, &name, &format!("https://{address}/users/{name}"));
            let server_url = format!("https://{address}/leader/{name}");
            inside
                .push(Client::new(server.trusted_router(User::new("bench", &["system:masters"])), "default"));
            all.push(Site {
                client: client(&users).await?,
                login: login(&authority, &name, &server_url),
                server: server_url,
                meter,
                name,
            });
        }
        let mut running = JoinSet::new();
        let tls = authority.server_config()?;
        running.spawn(async move {
            listen::serve(listener, tls, router, std::future::pending()).await;
        });
        for (number, client) in inside.iter().enumerate() {
            let leads = if number == 0 { &all[..] } else { &[] };
            furnish(client, &all[number].name, leads, &definitions).await?;
        }
        std::fs::write(kubeconfig(&folder), &all[0].login)?;
        Ok(Sites { folder, all, _running: running })
    }
}

fn kubeconfig(folder: &TempDir) -> PathBuf {
    folder.path().join("kubeconfig")
}

/// Writes into one member who it is, and into the supervisor whom it may lead.
async fn furnish(client: &Client, name: &str, leads: &[Site], definitions: &[Value]) -> Result<()> {
    let named = |name: &str| json!({"name": name, "namespace": SYSTEM});
    let claim = |claim: &str, value: &str| json!({"apiVersion": API, "kind": "ClusterClaim", "metadata": named(claim), "value": value});
    let mut objects = koinon_network::crds();
    objects.extend_from_slice(definitions);
    for namespace in [SYSTEM, WORK] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    }
    objects.push(claim("id.k8s.io", name));
    if !leads.is_empty() {
        objects.push(claim("supervisor.antreaplus.tanzu-vmware.com", "true"));
    }
    let mut members = Vec::new();
    for site in leads {
        let secret = format!("member-{}", site.name);
        let mut metadata = named(&secret);
        metadata["labels"]["koinon.dev/member-secret"] = "true".into();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"kubeconfig": site.login},
        }));
        members.push(json!({"clusterID": {"value": site.name}, "server": site.server, "secret": secret}));
    }
    let spec = if members.is_empty() { json!({}) } else { json!({"members": members}) };
    objects.push(json!({"apiVersion": API, "kind": "Federation", "metadata": named("bench"), "spec": spec}));
    for object in &objects {
        applied(client, object).await?;
    }
    Ok(())
}

/// Applies an object, also one whose kind was defined a moment ago.
async fn applied(client: &Client, object: &Value) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = koinon_fleet::membership::apply(client, object).await {
        ensure!(error.is_path_unknown() && begun.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// One watch that is open.
struct Open(Arc<Meter>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn counted(
    axum::extract::State(meter): axum::extract::State<Arc<Meter>>,
    request: Request,
    next: Next,
) -> Response {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let counts = meter.of.iter().any(|part| path.contains(part));
    if request.method() != http::Method::GET && counts {
        meter.writes.fetch_add(1, Ordering::Relaxed);
    }
    let open = query.split('&').any(|one| matches!(one, "watch=true" | "watch=1" | "watch")).then(|| {
        meter.watches.fetch_add(1, Ordering::Relaxed);
        Open(meter.clone())
    });
    let (parts, body) = next.run(request).await.into_parts();
    let counted = body.into_data_stream().inspect(move |part| {
        let _while_it_streams = &open;
        meter.bytes.fetch_add(part.as_ref().map_or(0, |part| part.len()), Ordering::Relaxed);
    });
    Response::from_parts(parts, Body::from_stream(counted))
}

/// Waits until the leader has not written for a moment.
pub(crate) async fn until_quiet(sites: &[Site]) {
    let written = || sites.iter().map(|site| site.meter.writes()).sum::<usize>();
    let mut before = written();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = written();
        if now == before {
            return;
        }
        before = now;
    }
}
