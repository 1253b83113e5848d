//! A webhook on loopback that remembers what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Cluster;

pub(crate) struct Webhook {
    url: String,
    ca_bundle: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

/// What a webhook makes of a request: the rest of its response.
pub(crate) type Judge = fn(&Value) -> Value;

/// Lets it pass with these changes.
pub(crate) fn patched(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
}

impl Webhook {
    pub(crate) async fn start(judge: Judge) -> Webhook {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), judge, asked.clone()));
        Webhook { url, ca_bundle: STANDARD.encode(made.cert.pem()), asked }
    }

    /// What it was asked since the last time.
    pub(crate) fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Has the cluster ask it: `kind` is `Mutating` or `Validating`.
    pub(crate) async fn configure(&self, cluster: &Cluster, kind: &str, name: &str, resources: &[&str]) {
        let rule =
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources});
        let webhook = json!({
            "name": format!("{name}.t.io"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": self.url, "caBundle": self.ca_bundle}, "rules": [rule],
        });
        let plural = format!("{}webhookconfigurations", kind.to_lowercase());
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        cluster.made(&path, &json!({"metadata": {"name": name}, "webhooks": [webhook]})).await;
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, judge: Judge, asked: Arc<Mutex<Vec<Value>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, asked) = (acceptor.clone(), asked.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let asked = asked.clone();
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let review: Value = serde_json::from_slice(&body).unwrap();
                    let mut response = judge(&review["request"]);
                    response["uid"] = review["request"]["uid"].clone();
                    asked.lock().unwrap().push(review["request"].clone());
                    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                        "response": response});
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            // Whoever asked may be gone.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
