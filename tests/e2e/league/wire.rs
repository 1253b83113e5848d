//! The way from the federation to one member: a wire that can fall silent, as a lost network does.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A port of ours that leads to a member's API server. Whoever goes there directly does not notice what is done to it.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    pub(crate) async fn open(server: SocketAddr) -> anyhow::Result<Wire> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a wire")?;
        let address = listener.local_addr()?;
        let cut = watch::Sender::new(false);
        let state = cut.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, server, state.subscribe()));
            }
        });
        Ok(Wire { address, cut })
    }

    /// From now on nothing passes, and nobody is told: connections stay open and are silent.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// What is begun from now on passes again; what was on its way is lost.
    pub(crate) fn heal(&self) {
        self.cut.send_replace(false);
    }
}

async fn carry(near: TcpStream, server: SocketAddr, mut cut: watch::Receiver<bool>) {
    if *cut.borrow() {
        // It waits for an answer that never comes.
        let _ = cut.wait_for(|cut| !cut).await;
        return;
    }
    let Ok(far) = TcpStream::connect(server).await else { return };
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
    let ended = tokio::select! {
        () = pass(&mut near_in, &mut far_out) => true,
        () = pass(&mut far_in, &mut near_out) => true,
        _ = cut.wait_for(|cut| *cut) => false,
    };
    if !ended {
        // Both ends stay open, and silent, until the cut is over.
        let _ = cut.wait_for(|cut| !cut).await;
    }
}

async fn pass(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
