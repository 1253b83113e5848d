//! A server behind a socket, asked by several users.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Limits, Options, Server, Trusted, listen};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Names the user that a request is from; a test need not make certificates for each.
pub(crate) const USER: &str = "x-test-user";

pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    roots: RootCertStore,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Served {
    pub(crate) async fn start(in_flight: Limits, options: listen::Options) -> Served {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let context = Context::real();
        let authority = Authority::in_memory(&context).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server =
            Server::open(Options { in_flight, ..Options::default() }, &authority, context).await.unwrap();
        let name_user = tower::util::MapRequestLayer::new(|mut request: Request| {
            let name = request.headers().get(USER).map(|name| name.to_str().unwrap().to_owned());
            if let Some(name) = name {
                let groups: &[&str] =
                    if name == "admin" { &["system:masters"] } else { &["system:authenticated"] };
                request.extensions_mut().insert(Trusted(User::new(&name, groups)));
            }
            request
        });
        let router = server.router().layer(name_user);
        let tls = authority.server_config().unwrap();
        let mut roots = RootCertStore::empty();
        let pem = authority.certificate();
        roots.add(rustls_pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let serving =
            tokio::spawn(listen::serve_with(listener, tls, router, options, std::future::pending()));
        Served { server, address, roots, serving }
    }

    /// The same server, asked by its administrator without a socket.
    pub(crate) fn admin(&self) -> super::Cluster {
        super::Cluster {
            server: self.server.clone(),
            router: self.server.trusted_router(User::new("system:admin", &["system:masters"])),
        }
    }

    /// Lets users do everything, without making them administrators.
    pub(crate) async fn allow(&self, users: &[&str]) {
        let admin = self.admin();
        let subjects: Vec<_> = users
            .iter()
            .map(|name| serde_json::json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}))
            .collect();
        let binding = serde_json::json!({
            "metadata": {"name": "testers"}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        });
        admin.made("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    }

    /// A connection after its handshake.
    pub(crate) async fn connect(&self, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config =
            ClientConfig::builder().with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|one| one.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub(crate) async fn client(&self, user: &str) -> Client {
        let stream = self.connect(&["http/1.1"]).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client { user: user.to_owned(), sender }
    }
}

/// One connection of a user.
pub(crate) struct Client {
    user: String,
    sender: hyper::client::conn::http1::SendRequest<Body>,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Asks, and takes no more of the answer than its code. The answer goes on as long as what this gives is kept.
    pub(crate) async fn begin(mut self, path: &str) -> (u16, impl Sized) {
        let request = http::Request::get(path).header("host", "test").header(USER, &self.user);
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request.body(Body::empty()).unwrap()).await.unwrap();
        (answer.status().as_u16(), (answer, self.sender))
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: Body) -> Answer {
        let request = http::Request::builder().method(method).uri(path).header("host", "test");
        let request = request.header(USER, &self.user).header("content-type", super::JSON);
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request.body(body).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { code: head.status.as_u16(), headers: head.headers, body }
    }
}
