//! A federation of embedded servers in this process, on one port behind TLS, and the role as a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server, listen};
use koinon_cluster::kubelet::Settings;
use koinon_cluster::{Cluster, Housekeeping};
use koinon_conformance::harness::koinon_program;
use koinon_control::Clock;
use koinon_fleet::ClusterId;
use koinon_fleet::membership::{self, Recruit};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Everything must have happened by then, or something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// Nothing for so long is rest: longer than what swarms are waited for, shorter than the pauses between retries.
const REST: Duration = Duration::from_secs(3);

/// What members are made of.
pub(crate) enum Members {
    /// An API server alone.
    Bare,
    /// With controllers, a scheduler and a node.
    Whole,
}

/// The federation and its members.
pub(crate) struct League {
    pub(crate) folder: TempDir,
    /// Clients as anybody else has: over TLS.
    pub(crate) federation: Client,
    pub(crate) members: Vec<Client>,
    _running: JoinSet<()>,
}

impl League {
    pub(crate) async fn start(count: usize, kind: Members) -> Result<League> {
        let folder = tempfile::Builder::new().prefix("koinon-bench-").tempdir()?;
        let context = Context::real();
        let authority = Arc::new(Authority::in_memory(&context)?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut running = JoinSet::new();
        let admin = || User::new("bench", &["system:masters", "system:authenticated"]);
        let open = async |name: &str| {
            let data = folder.path().join(name);
            std::fs::create_dir_all(&data)?;
            let options = Options { data: Some(data), port: address.port(), ..Options::default() };
            anyhow::Ok(Server::open(options, &authority, context.clone()).await?)
        };
        let clock = {
            let context = context.clone();
            Clock::new(move || context.now())
        };
        let federation = open("federation").await?;
        let direct = Client::new(federation.trusted_router(admin()), "default");
        running.spawn(Housekeeping::new(direct.clone()).clock(clock.clone()).run(std::future::pending()));
        let mut router = Router::new();
        let (mut recruits, mut clients) = (Vec::new(), Vec::new());
        for number in 0..count {
            let name = format!("m{number:03}");
            let server = open(&name).await?;
            let inside = Client::new(server.trusted_router(admin()), "default");
            if matches!(kind, Members::Whole) {
                let settings = Settings { nodes: 1, events: false, ..Settings::default() };
                let cluster = Cluster::new(inside.clone(), clock.clone(), authority.certificate(), settings);
                running.spawn(cluster.run(std::future::pending()));
            }
            let url = format!("https://{address}/clusters/{name}");
            let text = login(&authority, &name, &url);
            clients.push(client(&text).await?);
            let login = json!({"kubeconfig": text});
            recruits.push(Recruit { name: ClusterId::new(&name)?, server: url, login, client: inside });
            router = router.nest_service(&format!("/clusters/{name}"), server.router());
        }
        let router = router.fallback_service(federation.router());
        let tls = authority.server_config()?;
        running.spawn(async move {
            listen::serve(listener, tls, router, std::future::pending()).await;
        });
        membership::enlist(&direct, &recruits).await?;
        let text = login(&authority, "federation", &format!("https://{address}"));
        std::fs::write(folder.path().join("kubeconfig"), &text)?;
        let federation = client(&text).await?;
        Ok(League { folder, federation, members: clients, _running: running })
    }

    /// How much the federation's own store takes on disk, in MiB.
    pub(crate) fn stored(&self) -> Result<f64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(self.folder.path().join("federation"))? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes as f64 / (1024.0 * 1024.0))
    }
}

pub(crate) fn login(authority: &Authority, name: &str, server: &str) -> String {
    let login = Login::Certificate(authority.admin());
    let entry = Entry { name, server, authority: authority.certificate(), login, namespace: None };
    kubeconfig::render(&[entry], name)
}

pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// A role of ours, as its own process.
pub(crate) struct Role {
    process: Child,
    metrics: u16,
    pub(crate) since: Instant,
}

impl Role {
    /// `koinon run workloads`.
    pub(crate) fn start(folder: &Path) -> Result<Role> {
        Role::launch("workloads", folder)
    }

    /// `koinon run network`.
    pub(crate) fn network(folder: &Path) -> Result<Role> {
        Role::launch("network", folder)
    }

    fn launch(role: &str, folder: &Path) -> Result<Role> {
        let metrics = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let since = Instant::now();
        let process = Command::new(koinon_program()?)
            .args(["run", role, "--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s"])
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .arg("--metrics")
            .arg(format!("127.0.0.1:{metrics}"))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Role { process, metrics, since })
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").arg(self.process.id().to_string()).status()?;
        ensure!(asked.success(), "the role was gone already");
        self.process.wait().context("the role did not end")?;
        Ok(())
    }

    pub(crate) fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a process has a VmRSS")?;
        Ok(line.split_whitespace().nth(1).context("VmRSS has a value")?.parse::<f64>()? / 1024.0)
    }

    /// Seconds of processor time so far.
    pub(crate) fn processor(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let after = stat.rsplit_once(')').context("a process has a name")?.1;
        let ticks: Vec<f64> =
            after.split_whitespace().skip(11).take(2).filter_map(|text| text.parse().ok()).collect();
        Ok(ticks.iter().fold(0.0, |sum, one| sum + one) / 100.0)
    }

    /// The sum of all values of a measurement whose line starts so.
    pub(crate) async fn measured(&self, start: &str) -> Result<f64> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.metrics)).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let values = text.lines().filter(|line| line.starts_with(start));
        Ok(values
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .fold(0.0, |sum, one| sum + one))
    }

    /// Waits until a measurement is at least that.
    pub(crate) async fn until_measured(&self, start: &str, least: f64) -> Result<()> {
        let begun = Instant::now();
        loop {
            // It may not listen yet.
            if self.measured(start).await.is_ok_and(|value| value >= least) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "{start} did not become {least}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Role {
    /// Waits until a measurement rests, and gives the time from the start of the process until it last changed.
    pub(crate) async fn until_quiet(&self, start: &str) -> Result<Duration> {
        let (mut last, mut changed) = (self.measured(start).await?, self.since.elapsed());
        while self.since.elapsed() - changed < REST {
            ensure!(self.since.elapsed() < PATIENCE, "{start} did not come to rest");
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = self.measured(start).await?;
            if now != last {
                (last, changed) = (now, self.since.elapsed());
            }
        }
        Ok(changed)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Already gone when it was stopped.
        let _ = self.process.kill();
    }
}
