//! The way from the federation to one member: a wire that can fall silent, as a lost network does.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A port of ours that leads to a member's API server. Whoever goes there directly does not notice what is done to it.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    state: watch::Sender<State>,
    /// Held once by each connection.
    open: Arc<()>,
}

#[derive(Clone, Copy)]
struct State {
    server: SocketAddr,
    cut: bool,
}

impl Wire {
    pub(crate) async fn open(server: SocketAddr) -> anyhow::Result<Wire> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a wire")?;
        let address = listener.local_addr()?;
        let state = watch::Sender::new(State { server, cut: false });
        let (known, open) = (state.clone(), Arc::new(()));
        let counted = open.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (state, counted) = (known.subscribe(), counted.clone());
                tokio::spawn(async move {
                    carry(near, state).await;
                    drop(counted);
                });
            }
        });
        Ok(Wire { address, state, open })
    }

    /// How many connections are open by it.
    pub(crate) fn connections(&self) -> usize {
        // One is the wire's own, and one that of the task that accepts.
        Arc::strong_count(&self.open) - 2
    }

    /// From now on it leads somewhere else; connections that are open end.
    pub(crate) fn turn_to(&self, server: SocketAddr) {
        self.state.send_modify(|state| state.server = server);
    }

    /// From now on nothing passes, and nobody is told: connections stay open and are silent.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cut = true);
    }

    /// What is begun from now on passes again; what was on its way is lost.
    pub(crate) fn heal(&self) {
        self.state.send_modify(|state| state.cut = false);
    }
}

async fn carry(near: TcpStream, mut state: watch::Receiver<State>) {
    let State { server, cut } = *state.borrow();
    if cut {
        // It waits for an answer that never comes.
        let _ = state.wait_for(|state| !state.cut).await;
        return;
    }
    let Ok(far) = TcpStream::connect(server).await else { return };
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
    let cut = cut_off(state.clone());
    let ended = tokio::select! {
        () = pass(&mut near_in, &mut far_out) => true,
        () = pass(&mut far_in, &mut near_out) => true,
        _ = state.wait_for(|state| state.server != server) => true,
        () = cut => false,
    };
    if !ended {
        // Both ends stay open, and silent, until the cut is over.
        let _ = state.wait_for(|state| !state.cut).await;
    }
}

async fn cut_off(mut state: watch::Receiver<State>) {
    let _ = state.wait_for(|state| state.cut).await;
}

async fn pass(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
