//! Reads a watch event by event.

use anyhow::{Result, ensure};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::client::{Client, Request};

/// The events of a watch.
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    /// Opens a watch; fails when the server refuses it.
    pub async fn open(client: &Client, path: &str) -> Result<Self> {
        let response = client.open(&Request::new("GET", path)).await?;
        ensure!(response.status().is_success(), "watch {path}: {}", response.status());
        Ok(Self::from(response.into_body()))
    }

    /// The next event, or nothing at the stream's end.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => self.buffer.extend_from_slice(frame?.data_ref().map_or(&[][..], |data| data)),
            }
        }
    }
}

impl From<Incoming> for Events {
    fn from(body: Incoming) -> Self {
        Self { body, buffer: Vec::new() }
    }
}
