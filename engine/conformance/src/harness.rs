//! Starts the two servers that a test compares, and makes sure that they end.
//!
//! Beside each server runs a guard: a shell that waits on a pipe whose other end this process holds.
//! However the test ends, by success, panic or signal, the pipe closes and the guard stops the server
//! and removes its folder.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::client::Client;

/// The controllers that run beside the stock server: those whose work Koinon's API server does itself.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller";

/// Which server an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// kube-apiserver and etcd, of `hack/kubernetes`.
    Stock,
    /// `koinon cluster --bare`.
    Koinon,
}

/// What runs beside a stock server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// Those whose work Koinon's API server does itself.
    Some,
    /// None: the server alone.
    None,
    /// All of them, and so many simulated nodes: a whole cluster on either side.
    All {
        /// How many nodes.
        nodes: u32,
    },
}

/// A running server.
pub struct Engine {
    /// Which server it is.
    pub kind: Kind,
    /// Where its data, its logs and its kubeconfig are.
    pub folder: PathBuf,
    /// The port it listens on.
    pub port: u16,
    /// A client of it.
    pub client: Client,
    controllers: Controllers,
    koinon: Option<Child>,
    guard: Child,
}

/// The two sides of a comparison.
pub struct Pair {
    /// The stock server.
    pub stock: Engine,
    /// The server under test.
    pub subject: Engine,
}

impl Pair {
    /// Starts both sides. With `KOINON_SUBJECT=stock` the server under test is a second stock server:
    /// a check of the comparison itself, which must then find no difference.
    pub fn start() -> Result<Self> {
        let subject = match std::env::var("KOINON_SUBJECT").as_deref() {
            Ok("stock") => Kind::Stock,
            Ok("koinon") | Err(_) => Kind::Koinon,
            Ok(other) => bail!("KOINON_SUBJECT is {other:?}: `stock` and `koinon` are known"),
        };
        let stock = std::thread::spawn(|| Engine::start(Kind::Stock));
        let subject = Engine::start(subject);
        // Even if one fails, the other's start has to come to its end: nobody would stop what it starts later.
        let stock = stock.join().expect("the start of an engine does not panic");
        Ok(Self { stock: stock?, subject: subject? })
    }
}

impl Engine {
    /// Starts a server with fresh data.
    pub fn start(kind: Kind) -> Result<Self> {
        Self::start_with(kind, Controllers::Some)
    }

    /// Starts a server with fresh data, with or without controllers beside a stock one.
    pub fn start_with(kind: Kind, controllers: Controllers) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("koinon-conformance-").tempdir()?.keep();
        let port = free_ports()?;
        let guard = guard(kind, &folder)?;
        let koinon = launch(kind, controllers, &folder, port)?;
        let client = Client::new(&folder.join("kubeconfig"))?;
        Ok(Self { kind, folder, port, client, controllers, koinon, guard })
    }

    /// The kubeconfig that the server wrote.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Ends the server's processes with SIGKILL, as a power cut would.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.koinon.take() {
            std::fs::remove_file(self.folder.join("koinon.pid"))?;
            child.kill()?;
            child.wait()?;
        }
        for pid in self.pids()? {
            Command::new("kill").args(["-9", &pid.to_string()]).status()?;
            wait_until(Duration::from_secs(10), || !Path::new(&format!("/proc/{pid}")).exists())?;
        }
        Ok(())
    }

    /// Ends the server as an operator would, and waits until it has.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.koinon.take() {
            Command::new("kill").arg(child.id().to_string()).status()?;
            let ended = wait_until(Duration::from_secs(10), || matches!(child.try_wait(), Ok(Some(_))));
            if ended.is_err() {
                child.kill()?;
                child.wait()?;
            }
            std::fs::remove_file(self.folder.join("koinon.pid"))?;
        }
        if self.kind == Kind::Stock {
            let status = Command::new(script()).arg("stop").arg(&self.folder).status()?;
            ensure!(status.success(), "cluster.sh stop failed");
        }
        Ok(())
    }

    /// Starts the server again with the data it had.
    pub fn resume(&mut self) -> Result<()> {
        self.koinon = launch(self.kind, self.controllers, &self.folder, self.port)?;
        self.client = Client::new(&self.kubeconfig())?;
        Ok(())
    }

    /// The processes of the server.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pid") {
                pids.push(std::fs::read_to_string(path)?.trim().parse()?);
            }
        }
        Ok(pids)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The guard has the last word; an error here has nobody left to tell.
        let _ = self.stop();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Asks `predicate` until it holds, or fails once `limit` has passed.
pub fn wait_until(limit: Duration, mut predicate: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !predicate() {
        ensure!(Instant::now() < deadline, "waited {limit:?} in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The script that builds, starts and stops stock Kubernetes.
pub fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/kubernetes/cluster.sh")
}

/// The folder of the stock programs, kubectl among them; builds what is missing.
pub fn stock_programs() -> Result<PathBuf> {
    let output = Command::new(script()).arg("build").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{} build failed", script().display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// The `koinon` program: `KOINON_BIN`, or what cargo built beside this test.
pub fn koinon_program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("KOINON_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "KOINON_BIN is {}, which is no file", path.display());
        return Ok(path);
    }
    let own = std::env::current_exe()?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("koinon"))
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "there is no koinon program near {}: run `cargo build --release -p koinon` \
                 (and this test with --release), or set KOINON_BIN to its path",
                own.display()
            )
        })
}

fn launch(kind: Kind, controllers: Controllers, folder: &Path, port: u16) -> Result<Option<Child>> {
    match kind {
        Kind::Stock => {
            let beside = match controllers {
                Controllers::Some => CONTROLLERS,
                Controllers::None => "",
                Controllers::All { .. } => "all",
            };
            let log = std::fs::File::create(folder.join("cluster.log"))?;
            let mut child = Command::new(script())
                .args([Path::new("start"), folder, Path::new(&port.to_string())])
                .env("KOINON_CONTROLLERS", beside)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?;
            let starting = folder.join("starting");
            std::fs::write(&starting, child.id().to_string())?;
            let status = child.wait()?;
            std::fs::remove_file(starting)?;
            let log = || std::fs::read_to_string(folder.join("cluster.log")).unwrap_or_default();
            ensure!(status.success(), "cluster.sh start failed:\n{}", log());
            let Controllers::All { nodes } = controllers else { return Ok(None) };
            let mut command = Command::new(koinon_program()?);
            command.args(["nodes", "--nodes", &nodes.to_string()]);
            launch_koinon(command, folder).map(Some)
        }
        Kind::Koinon => {
            let mut command = Command::new(koinon_program()?);
            command.args(["cluster", "--name", "conformance", "--listen", &format!("127.0.0.1:{port}")]);
            command.arg("--data").arg(folder.join("data"));
            match controllers {
                Controllers::All { nodes } => command.args(["--nodes", &nodes.to_string()]),
                Controllers::Some | Controllers::None => command.arg("--bare"),
            };
            launch_koinon(command, folder).map(Some)
        }
    }
}

/// Starts the program and waits for its word that it is ready.
fn launch_koinon(mut command: Command, folder: &Path) -> Result<Child> {
    let output = folder.join("koinon.out");
    let log = std::fs::File::options().create(true).append(true).open(folder.join("koinon.log"))?;
    let mut child = command
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&output)?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    std::fs::write(folder.join("koinon.pid"), child.id().to_string())?;
    let mut ended = None;
    wait_until(Duration::from_secs(60), || {
        ended = child.try_wait().ok().flatten();
        let printed = std::fs::read_to_string(&output).unwrap_or_default();
        ended.is_some() || printed.lines().any(|line| line.starts_with("ready"))
    })
    .context("koinon printed no line that starts with `ready`")?;
    if let Some(status) = ended {
        let log = std::fs::read_to_string(folder.join("koinon.log")).unwrap_or_default();
        bail!("koinon ended with {status} before it was ready:\n{log}");
    }
    Ok(child)
}

fn guard(kind: Kind, folder: &Path) -> Result<Child> {
    const WAIT: &str = r#"trap "" INT TERM HUP; cat >/dev/null; "#;
    const STOCK: &str = r#"[ ! -f "$2/starting" ] || kill -9 "$(cat "$2/starting")" 2>/dev/null; "$1" stop "$2" >/dev/null 2>&1; "#;
    const KOINON: &str = r#"if [ -f "$2/koinon.pid" ]; then pid=$(cat "$2/koinon.pid"); kill "$pid" 2>/dev/null
        for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
        kill -9 "$pid" 2>/dev/null; fi; "#;
    const REMOVE: &str = r#"[ -n "${KOINON_KEEP:-}" ] || rm -rf "$2""#;
    let stop = if kind == Kind::Stock { format!("{KOINON}{STOCK}") } else { KOINON.to_owned() };
    let mut command = Command::new("bash");
    // A process group of its own: a Ctrl-C meant for the test must not reach the guard.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
        .args(["-c", &format!("{WAIT}{stop}{REMOVE}"), "guard"])
        .arg(script())
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the guard of a server")
}

/// The first of eight neighbouring ports, none of which is in use.
fn free_ports() -> Result<u16> {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if (first..first.saturating_add(8)).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return Ok(first);
        }
    }
    bail!("found no eight neighbouring free ports")
}
