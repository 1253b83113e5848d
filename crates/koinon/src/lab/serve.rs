//! The side of `koinon lab` that a running `up` has: it listens and does what it is told to members.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::words::{Answer, Order};
use crate::folder;
use crate::site::Site;

/// Listens for orders; the socket goes when this is dropped.
pub(crate) struct Bench {
    listener: UnixListener,
    path: PathBuf,
    members: Vec<Arc<Site>>,
}

impl Bench {
    /// Opens the socket. Its folder is ours alone, so one that is left there is of a process that ended.
    pub(crate) fn open(path: PathBuf, members: Vec<Arc<Site>>) -> anyhow::Result<Bench> {
        use std::os::unix::fs::PermissionsExt as _;
        if let Some(home) = path.parent() {
            folder::private(home)?;
            folder::own(home)?;
        }
        let _ = std::fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Bench { listener, path, members })
    }

    /// Does what it is told for as long as it is polled.
    pub(crate) async fn run(&self) -> std::convert::Infallible {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let members = self.members.clone();
                    tokio::spawn(async move {
                        if let Err(error) = talk(stream, &members).await {
                            tracing::debug!(%error, "lab: a caller left");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "lab: a caller could not be heard");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn talk(mut stream: UnixStream, members: &[Arc<Site>]) -> anyhow::Result<()> {
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(order) => match carry_out(order, members).await {
            Ok(said) => Answer::Done(said),
            Err(error) => Answer::Failed(crate::sentence(&error)),
        },
        Err(_) => Answer::Failed("this order is unknown here: use the `koinon` that runs `up`".into()),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).await?;
    Ok(())
}

async fn carry_out(order: Order, members: &[Arc<Site>]) -> anyhow::Result<String> {
    let find = |name: &str| {
        members.iter().find(|site| site.name() == name).with_context(|| {
            let names: Vec<_> = members.iter().map(|site| site.name()).collect();
            format!("there is no member {name}; there are {}", super::several(&names))
        })
    };
    Ok(match order {
        Order::Stop { member } => {
            find(&member)?.stop().await;
            format!("{member} is stopped")
        }
        Order::Start { member } => {
            let site = find(&member)?;
            site.start().await?;
            site.settled().await;
            format!("{member} runs")
        }
        Order::Cut { member } => {
            find(&member)?.wire.set_cut(true);
            format!("{member} is cut off from the federation; users still reach it")
        }
        Order::Heal { member } => {
            let site = find(&member)?;
            site.wire.set_cut(false);
            site.wire.set_delay(std::time::Duration::ZERO);
            format!("{member} is connected again")
        }
        Order::Delay { member, delay } => {
            find(&member)?.wire.set_delay(delay);
            format!("every call to {member} now takes {delay:?} longer")
        }
        Order::Show => members.iter().map(|site| show(site)).collect::<Vec<_>>().join("\n"),
    })
}

fn show(site: &Site) -> String {
    let mut words = vec![if site.is_running() { "runs".to_owned() } else { "stopped".to_owned() }];
    if site.wire.is_cut() {
        words.push("cut off".into());
    }
    let delay = site.wire.delay();
    if !delay.is_zero() {
        words.push(format!("delayed by {delay:?}"));
    }
    format!("{}: {}", site.name(), words.join(", "))
}
