//! How a server is reached: by TCP, perhaps through a proxy, and over TLS, where both agree on HTTP/2 or else HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt as _;
use kube::{Config, Error};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Service};

/// What the system asks of a connection that is quiet: HTTP/1.1 has no PING.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What a connection is read from and written to.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, and what is spoken on it.
pub(super) enum Dialed {
    Http2(Box<dyn Io>),
    Http1(Box<dyn Io>),
}

/// Which protocols are offered to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Both,
    /// For what HTTP/2 cannot do: upgrades.
    Http1Only,
}

/// A connection that did not come about. Many requests may have waited for it.
#[derive(Clone, Debug)]
pub(super) struct Unreachable(Arc<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no connection")
    }
}

impl std::error::Error for Unreachable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<BoxError> for Unreachable {
    fn from(error: BoxError) -> Self {
        Unreachable(error.into())
    }
}

/// Connects to one server.
pub(super) struct Dialer {
    server: Uri,
    way: Way,
    tls: Option<Tls>,
    within: Option<Duration>,
}

#[derive(Clone)]
enum Way {
    Direct(HttpConnector),
    Tunnel(Tunnel<HttpConnector>),
    Socks(SocksV5<HttpConnector>),
}

/// One configuration for all connections: by it a second one resumes the TLS session of the first.
struct Tls {
    both: TlsConnector,
    http1: TlsConnector,
    name: ServerName<'static>,
}

impl Dialer {
    /// `http2`: whether it is offered at all.
    pub(super) fn new(config: &Config, http2: bool) -> kube::Result<Dialer> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.set_keepalive_interval(Some(TCP_KEEPALIVE / 2));
        let way = match &config.proxy_url {
            None => Way::Direct(tcp),
            Some(proxy) if proxy.scheme_str() == Some("socks5") => {
                let socks = SocksV5::new(proxy.clone(), tcp);
                Way::Socks(match login(proxy) {
                    Some((user, password)) => socks.with_auth(user, password),
                    None => socks,
                })
            }
            Some(proxy) if proxy.scheme_str() == Some("http") => {
                let tunnel = Tunnel::new(proxy.clone(), tcp);
                Way::Tunnel(match login(proxy).as_ref().and_then(basic) {
                    Some(login) => tunnel.with_auth(login),
                    None => tunnel,
                })
            }
            Some(proxy) => {
                return Err(Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy.clone()) });
            }
        };
        let server = config.cluster_url.clone();
        let tls = if server.scheme_str() == Some("http") { None } else { Some(tls(config, http2)?) };
        Ok(Dialer { server, way, tls, within: config.connect_timeout })
    }

    /// Connects and shakes hands, but does not wait for it longer than it may.
    pub(super) async fn dial(&self, offer: Offer) -> Result<Dialed, BoxError> {
        match self.within {
            Some(within) => tokio::time::timeout(within, self.connect(offer)).await?,
            None => self.connect(offer).await,
        }
    }

    /// The time that it may take until a connection can be used.
    pub(super) fn within(&self) -> Option<Duration> {
        self.within
    }

    async fn connect(&self, offer: Offer) -> Result<Dialed, BoxError> {
        let stream = self.way.clone().connect(self.server.clone()).await?;
        let Some(tls) = &self.tls else { return Ok(Dialed::Http1(Box::new(stream))) };
        let connector = match offer {
            Offer::Both => &tls.both,
            Offer::Http1Only => &tls.http1,
        };
        let stream = connector.connect(tls.name.clone(), stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        let stream: Box<dyn Io> = Box::new(stream);
        Ok(if is_http2 { Dialed::Http2(stream) } else { Dialed::Http1(stream) })
    }
}

impl Way {
    async fn connect(self, server: Uri) -> Result<TcpStream, BoxError> {
        async fn by<C>(mut connector: C, server: Uri) -> Result<TcpStream, BoxError>
        where
            C: Service<Uri, Response = TokioIo<TcpStream>>,
            C::Error: Into<BoxError>,
        {
            std::future::poll_fn(|context| connector.poll_ready(context)).await.map_err(Into::into)?;
            connector.call(server).await.map(TokioIo::into_inner).map_err(Into::into)
        }
        match self {
            Way::Direct(connector) => by(connector, server).await,
            Way::Tunnel(connector) => by(connector, server).await,
            Way::Socks(connector) => by(connector, server).await,
        }
    }
}

fn tls(config: &Config, http2: bool) -> kube::Result<Tls> {
    let host = config.cluster_url.host().unwrap_or_default();
    let host = config.tls_server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned());
    let name = name.map_err(|error| Error::Service(error.into()))?;
    let mut client = config.rustls_client_config()?;
    client.alpn_protocols = vec![HTTP1.to_vec()];
    let http1 = TlsConnector::from(Arc::new(client.clone()));
    if http2 {
        client.alpn_protocols.insert(0, HTTP2.to_vec());
    }
    Ok(Tls { both: TlsConnector::from(Arc::new(client)), http1, name })
}

/// User and password in the address of a proxy, as they are meant.
fn login(proxy: &Uri) -> Option<(String, String)> {
    let (login, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decoded = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(user), decoded(password)))
}

fn basic((user, password): &(String, String)) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_told_user_and_password_as_they_are() {
        let of = |proxy: &str| login(&proxy.parse().unwrap());
        assert_eq!(of("http://proxy:3128"), None);
        let found = of("http://me:p%40ss%3Aword@proxy:3128").unwrap();
        assert_eq!(found, ("me".into(), "p@ss:word".into()));
        let expected = format!("Basic {}", STANDARD.encode("me:p@ss:word"));
        assert_eq!(basic(&found).unwrap(), expected.as_str());
    }
}
