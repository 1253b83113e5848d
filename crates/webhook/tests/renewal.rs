//! A year of a webhook's life in paused time: whoever trusts what is registered can always call it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_control::Clock;
use koinon_webhook::registration::Registrar;
use koinon_webhook::{Certificates, Metrics, Place, Registration};
use kube::{Api, Client, ResourceExt as _};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::json;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone)]
struct Now(Clock);

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Now")
    }
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Lets time go by, and then a minute in which everybody does what was due.
async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
}

/// Shakes hands as an API server does that trusts this bundle.
async fn handshake(certificates: &Arc<Certificates>, bundle: &[u8], clock: &Clock) -> std::io::Result<()> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_details(provider, Arc::new(Now(clock.clone())))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let acceptor = TlsAcceptor::from(certificates.server_config().unwrap());
    let accepting = tokio::spawn(async move { acceptor.accept(far).await.map(drop) });
    let name = ServerName::try_from("10.0.0.1").unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, near).await.map(drop);
    let _ = accepting.await;
    connected
}

#[tokio::test(start_paused = true)]
async fn whoever_trusts_what_is_registered_can_always_call() {
    let start = Instant::now();
    let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
    let context = Context::seeded(1, now);
    let authority = Authority::in_memory(&context).unwrap();
    let server = Server::open(Options::default(), &authority, context).await.unwrap();
    let client = Client::new(server.trusted_router(User::new("admin", &["system:masters"])), "default");
    let clock = Clock::new(now);
    let registration = Registration {
        name: "koinon-test",
        webhook: "test.webhook.koinon.dev",
        rules: json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]),
        conditions: json!([]),
        place: Place::of("https://10.0.0.1:9443").unwrap(),
    };
    let certificates = Certificates::new(&registration.place.host(), clock.clone()).unwrap();
    let (kept, shown) = (client.clone(), certificates.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let metrics = Metrics::default();
        let mut registrar = Registrar::new(kept, &registration, &shown, &metrics);
        tokio::select! {
            never = registrar.keep() => match never {},
            _ = stopped => {}
        }
        registrar.withdraw().await;
    });
    tokio::time::sleep(Duration::from_secs(1)).await;

    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let registered = || async {
        let object = api.get("koinon-test").await.unwrap();
        let bundle = object.webhooks.as_ref().unwrap()[0].client_config.ca_bundle.clone().unwrap().0;
        (object.resource_version().unwrap(), bundle)
    };
    let (first, _) = registered().await;
    let mut bundles = std::collections::BTreeSet::new();
    for day in 0..400 {
        let (_, bundle) = registered().await;
        assert!(certificates.end() > clock.now(), "day {day}");
        if let Err(error) = handshake(&certificates, &bundle, &clock).await {
            panic!("day {day}: {error}");
        }
        bundles.insert(bundle);
        pass(DAY).await;
        if day == 10 {
            assert_eq!(registered().await.0, first, "at rest nothing is written");
        }
    }
    assert!((7..=9).contains(&bundles.len()), "each certificate lives about 60 days: {}", bundles.len());

    // What others do to it is undone; at the end it goes.
    api.delete("koinon-test", &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, bundle) = registered().await;
    handshake(&certificates, &bundle, &clock).await.unwrap();
    stop.send(()).unwrap();
    task.await.unwrap();
    assert!(api.get_opt("koinon-test").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_not_shown_before_it_is_trusted() {
    let start = Instant::now();
    let clock = Clock::new(move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed());
    let certificates = Certificates::new("10.0.0.1", clock.clone()).unwrap();
    let before = certificates.bundle();
    tokio::time::advance(61 * DAY).await;
    certificates.look_ahead().unwrap();
    assert!(certificates.is_waiting());
    certificates.trusted(&before);
    assert!(certificates.is_waiting(), "they do not know of it yet");
    handshake(&certificates, before.as_bytes(), &clock).await.unwrap();
    let both = certificates.bundle();
    certificates.trusted(&both);
    handshake(&certificates, both.as_bytes(), &clock).await.unwrap();
    handshake(&certificates, before.as_bytes(), &clock).await.unwrap_err();
    handshake(&certificates, certificates.bundle().as_bytes(), &clock).await.unwrap();
}
