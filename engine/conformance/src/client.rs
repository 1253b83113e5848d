//! A raw HTTPS client: bodies and headers reach the server exactly as written.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client as Pool, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::kubeconfig::Kubeconfig;

/// The `User-Agent` of every request; servers derive the default field manager from it.
pub const AGENT: &str = "conformance/1";

/// Talks to one server over pooled HTTP/1.1 connections.
#[derive(Clone)]
pub struct Client {
    pool: Pool<Connector, Full<Bytes>>,
    /// Without our certificate: for requests that carry their own authorization.
    stranger: Pool<Connector, Full<Bytes>>,
    address: String,
    authorization: Option<String>,
}

/// One request: `path` carries the query, `headers` the content type and what to accept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The method, as it goes over the wire.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers beyond host, agent and authorization.
    pub headers: Vec<(String, String)>,
    /// The body, if one is sent.
    pub body: Option<String>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// A request with neither headers nor body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self { method: method.to_owned(), path: path.into(), ..Self::default() }
    }

    /// A request with a JSON body.
    pub fn json(method: &str, path: impl Into<String>, body: &Value) -> Self {
        Self::new(method, path).header("content-type", "application/json").body(body.to_string())
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }
}

impl Answer {
    /// The body as JSON; `Null` where it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Client {
    /// A client of the current context of a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let config = Kubeconfig::read(kubeconfig)?;
        let host = config.address.rsplit_once(':').map_or(config.address.as_str(), |(host, _)| host);
        let pool = |identity| {
            let connector = Connector {
                tls: TlsConnector::from(Arc::new(tls(&config, identity)?)),
                host: ServerName::try_from(host.to_owned())?,
                address: config.address.clone(),
            };
            anyhow::Ok(Pool::builder(TokioExecutor::new()).build(connector))
        };
        Ok(Self {
            pool: pool(config.identity.as_ref())?,
            stranger: pool(None)?,
            address: config.address.clone(),
            authorization: config.token.map(|token| format!("Bearer {token}")),
        })
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: &Request) -> Result<Answer> {
        let answer = self.open(request).await?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.with_context(|| format!("{} {}", request.method, request.path))?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    /// Sends a request and leaves the body to be read piece by piece, as watches are.
    pub async fn open(&self, request: &Request) -> Result<http::Response<Incoming>> {
        self.start(request)?.await.with_context(|| format!("{} {}", request.method, request.path))
    }

    /// Gets a path as JSON; fails on any other code than 200.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.send(&Request::new("GET", path)).await?;
        anyhow::ensure!(answer.status == StatusCode::OK, "GET {path}: {}", answer.status);
        Ok(answer.json())
    }

    fn start(&self, request: &Request) -> Result<ResponseFuture> {
        let uri = format!("https://{}{}", self.address, request.path);
        let mut builder =
            http::Request::builder().method(request.method.as_str()).uri(uri).header("user-agent", AGENT);
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let stranger = request.headers.iter().any(|(name, _)| name == "authorization");
        if let Some(authorization) = &self.authorization
            && !stranger
        {
            builder = builder.header("authorization", authorization);
        }
        let body = Full::from(request.body.clone().unwrap_or_default());
        let pool = if stranger { &self.stranger } else { &self.pool };
        Ok(pool.request(builder.body(body).with_context(|| format!("malformed {}", request.path))?))
    }
}

fn tls(config: &Kubeconfig, identity: Option<&(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => builder.with_client_auth_cert(
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>()?,
            PrivateKeyDer::from_pem_slice(key)?,
        )?,
    })
}

#[derive(Clone)]
struct Connector {
    tls: TlsConnector,
    host: ServerName<'static>,
    address: String,
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, std::io::Result<Stream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tls, host, address } = self.clone();
        Box::pin(async move {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            Ok(Stream(TokioIo::new(tls.connect(host, tcp).await?)))
        })
    }
}

/// A TLS connection that the pool can hold.
struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
