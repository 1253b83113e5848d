//! API servers for tests, each with a vice of its own, and the wire to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::{Request, Response};
use kube::{Client, Config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::HandshakeKind;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::{Keepalive, connect_by};

/// An authority, and the certificates that it gives.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// A server's side of TLS that speaks these protocols.
    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let certificate = certificate.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|one| one.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// What becomes of each connection.
pub(super) type Serve = Arc<dyn Fn(usize, TlsStream<TcpStream>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What was seen of a server's connections.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) opened: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) resumed: AtomicUsize,
    /// From now on connections that are open carry nothing more.
    frozen: AtomicUsize,
    /// From now on the certificate is another authority's.
    pub(super) changed: AtomicBool,
}

impl Seen {
    pub(super) fn count(&self) -> (usize, usize) {
        (self.opened.load(Ordering::SeqCst), self.open.load(Ordering::SeqCst))
    }

    /// The first so many connections carry nothing more, and nobody is told.
    pub(super) fn freeze(&self) {
        self.frozen.store(self.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

pub(super) struct Server {
    pub(super) config: Config,
    pub(super) seen: Arc<Seen>,
    pub(super) other: Arc<Authority>,
}

impl Server {
    pub(super) async fn start(protocols: &[&str], serve: Serve) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (authority, other) = (Authority::new(), Arc::new(Authority::new()));
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.root_cert = Some(vec![authority.der()]);
        config.connect_timeout = Some(Duration::from_secs(5));
        let seen = Arc::new(Seen::default());
        let acceptors = (authority.acceptor(protocols), other.acceptor(protocols));
        let counted = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counted.opened.fetch_add(1, Ordering::SeqCst) + 1;
                counted.open.fetch_add(1, Ordering::SeqCst);
                let changed = counted.changed.load(Ordering::SeqCst);
                let acceptor = if changed { &acceptors.1 } else { &acceptors.0 }.clone();
                let (counted, serve) = (counted.clone(), serve.clone());
                tokio::spawn(async move {
                    let stream = relayed(stream, number, counted.clone()).await;
                    if let Ok(stream) = acceptor.accept(stream).await {
                        if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
                            counted.resumed.fetch_add(1, Ordering::SeqCst);
                        }
                        serve(number, stream).await;
                    }
                    counted.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Server { config, seen, other }
    }

    pub(super) fn client(&self) -> Client {
        self.client_with(Keepalive::default())
    }

    pub(super) fn client_with(&self, keepalive: Keepalive) -> Client {
        connect_by(&self.config, keepalive, true).unwrap()
    }
}

/// The other end of a wire that can be frozen.
async fn relayed(outer: TcpStream, number: usize, seen: Arc<Seen>) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let (mut outer_read, mut outer_write) = outer.into_split();
    let (mut near_read, mut near_write) = near.into_split();
    let frozen = move || number <= seen.frozen.load(Ordering::SeqCst);
    let also_frozen = frozen.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = outer_read.read(&mut buffer).await {
            if !frozen() && near_write.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = near_read.read(&mut buffer).await {
            if !also_frozen() && outer_write.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    });
    far
}

pub(super) type Http2 = Connection<TlsStream<TcpStream>, Bytes>;
pub(super) type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// Speaks HTTP/2 with `settings`, and gives each connection to `serve`.
pub(super) fn http2<F>(
    settings: fn(&mut Builder),
    serve: impl Fn(usize, Http2) -> F + Send + Sync + 'static,
) -> Serve
where
    F: Future<Output = ()> + Send + 'static,
{
    let serve = Arc::new(serve);
    Arc::new(move |number, stream| {
        let serve = serve.clone();
        Box::pin(async move {
            let mut builder = Builder::new();
            settings(&mut builder);
            if let Ok(connection) = builder.handshake(stream).await {
                serve(number, connection).await;
            }
        })
    })
}

/// Answers each request as `answer` does, all at the same time.
pub(super) async fn each<F>(mut connection: Http2, answer: impl Fn(Asked) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Some(Ok(asked)) = connection.accept().await {
        tokio::spawn(answer(asked));
    }
}

/// `GET` of a path that ends with `watch=true` is answered without an end, anything else with an object.
pub(super) async fn plainly((request, mut respond): Asked) {
    let is_watch = crate::bounds::is_watch(&request);
    let Ok(mut body) = respond.send_response(Response::new(()), false) else { return };
    if is_watch {
        let _ = body.send_data(Bytes::from_static(b"{}\n"), false);
        // Until the client has enough.
        let _ = std::future::poll_fn(|context| body.poll_reset(context)).await;
        return;
    }
    let _ = body.send_data(
        Bytes::from_static(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#),
        true,
    );
}
