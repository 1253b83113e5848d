//! What many servers in one process cost: `many COUNT FOLDER` opens them, renews a Lease in turns, and tells.
//!
//! ```sh
//! cargo run --release -p koinon-apiserver --example many -- 1000 /tmp/many
//! ```

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use axum::body::Body;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::{Context, rfc3339_micro};
use koinon_apiserver::serve::{Options, Server};
use serde_json::json;
use tower::ServiceExt as _;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const RENEWALS: usize = 2_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().ok_or("how many servers?")?.parse()?;
    let folder = arguments.next().map(PathBuf::from);
    let context = Context::real();
    let authority = Authority::in_memory(&context)?;
    tell("at first", Instant::now());
    let begun = Instant::now();
    let mut servers = Vec::new();
    for index in 0..count {
        let data = folder.as_ref().map(|folder| folder.join(index.to_string()));
        servers
            .push(Server::open(Options { data, ..Options::default() }, &authority, context.clone()).await?);
        if index == 0 {
            tell("with one server", begun);
        }
    }
    tell(&format!("with {count} servers"), begun);

    let begun = Instant::now();
    for server in &servers {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node"},
            "spec": {"holderIdentity": "node", "leaseDurationSeconds": 40, "renewTime": rfc3339_micro(context.now())},
        });
        call(server, "POST", LEASES, &lease).await?;
    }
    tell("with a Lease in each", begun);

    let begun = Instant::now();
    for server in servers.iter().cycle().take(RENEWALS) {
        let patch = json!({"spec": {"renewTime": rfc3339_micro(context.now())}});
        call(server, "PATCH", &format!("{LEASES}/node"), &patch).await?;
    }
    tell(&format!("after {RENEWALS} renewals"), begun);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    for server in &servers {
        server.close().await;
    }
    tell("closed", begun);
    Ok(())
}

async fn call(
    server: &Server,
    method: &str,
    path: &str,
    body: &serde_json::Value,
) -> Result<(), Box<dyn std::error::Error>> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(body.to_string()))?;
    let user = User::new("system:node:node", &["system:masters"]);
    let response = server.trusted_router(user).oneshot(request).await?;
    if !response.status().is_success() {
        return Err(format!("{method} {path}: {}", response.status()).into());
    }
    Ok(())
}

/// Elapsed and processor time, resident memory and threads.
fn tell(what: &str, since: Instant) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 =
        times.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    println!(
        "{what}: {:.2?}, {:.2} s of processor time so far, {} resident, {} threads",
        since.elapsed(),
        ticks as f64 / 100.0,
        field("VmRSS:"),
        field("Threads:"),
    );
}
