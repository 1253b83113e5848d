//! Calling a webhook: one POST over TLS, within its time.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Inner;
use super::admit::service_address;
use crate::admission::webhook::{Endpoint, Target};

/// More than this is no AdmissionReview.
const ANSWER_MOST: usize = 3 * 1024 * 1024;

/// Posts a review and gives the answer's body, or why there is none, in the words of Go's client.
pub(crate) async fn ask(server: Arc<Inner>, target: Target, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let seconds = target.timeout.as_secs();
    let place = Place::of(&server, &target)?;
    let url = place.url.clone();
    let failed = |why: String| format!("Post \"{url}?timeout={seconds}s\": {why}");
    match tokio::time::timeout(target.timeout, post(place, &target, body)).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed("context deadline exceeded".to_owned())),
    }
}

/// Where a webhook is.
struct Place {
    url: String,
    /// What to connect to.
    address: Result<String, String>,
    /// The name its certificate must have.
    host: String,
    path: String,
}

impl Place {
    fn of(server: &Inner, target: &Target) -> Result<Place, String> {
        match &target.endpoint {
            Endpoint::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let path = if path.starts_with('/') { path.clone() } else { format!("/{path}") };
                Ok(Place {
                    url: format!("https://{host}:{port}{path}"),
                    address: service_address(server, namespace, name, *port),
                    host,
                    path,
                })
            }
            Endpoint::Url(url) => {
                let uri: http::Uri = url.parse().map_err(|why| format!("{url}: {why}"))?;
                let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                let port = uri.port_u16().unwrap_or(443);
                let address =
                    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                Ok(Place { url: url.clone(), address: Ok(address), host, path: uri.path().to_owned() })
            }
        }
    }
}

async fn post(place: Place, target: &Target, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let address = place.address?;
    let stream =
        TcpStream::connect(&address).await.map_err(|why| format!("dial tcp {address}: connect: {why}"))?;
    let name = ServerName::try_from(place.host.clone()).map_err(|why| why.to_string())?;
    let connector = TlsConnector::from(Arc::new(trusting(&target.ca_bundle)?));
    let stream = connector.connect(name, stream).await.map_err(|why| format!("tls: {why}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
    let driver = tokio::spawn(connection);
    let request = Request::post(format!("{}?timeout={}s", place.path, target.timeout.as_secs()))
        .header(HOST, &place.host)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .body(Full::new(Bytes::from(body)))
        .map_err(|why| why.to_string())?;
    let response = sender.send_request(request).await.map_err(|why| why.to_string());
    let answer = match response {
        Ok(response) => {
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_MOST).collect().await;
            match body {
                Ok(body) if status.is_success() => Ok(body.to_bytes().to_vec()),
                Ok(_) => Err(format!("unexpected status {status}")),
                Err(why) => Err(why.to_string()),
            }
        }
        Err(why) => Err(why),
    };
    driver.abort();
    answer
}

/// A client that trusts the webhook's own authority, and nobody without one.
fn trusting(ca_bundle: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
        let certificate = certificate.map_err(|why| format!("the caBundle is not PEM: {why}"))?;
        roots.add(certificate).map_err(|why| format!("the caBundle has a bad certificate: {why}"))?;
    }
    if roots.is_empty() {
        return Err("tls: failed to verify certificate: x509: certificate signed by unknown authority (the webhook has no caBundle)".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
