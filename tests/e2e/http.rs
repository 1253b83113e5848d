//! Questions to the port on which a role tells how it is.

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The first line and the rest of an answer.
pub(crate) async fn ask(address: &str, path: &str) -> anyhow::Result<(String, String)> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (first, rest) = text.split_once("\r\n").context("an answer has lines")?;
    Ok((first.to_owned(), rest.to_owned()))
}
