//! The authority over restarts, damage and years, and TLS with its certificates.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::auth::identity::{User, authenticate};

/// A clock that tests set, starting long before the machine's.
#[derive(Clone)]
struct Time(Arc<AtomicI64>);

impl Time {
    fn start() -> (Self, Context) {
        let time = Time(Arc::new(AtomicI64::new(100_000)));
        let clock = time.clone();
        let now = move || Timestamp::from_second(clock.0.load(Ordering::SeqCst)).unwrap();
        (time, Context::seeded(1, now))
    }

    fn pass(&self, days: i64) {
        self.0.fetch_add(days * 24 * 3600, Ordering::SeqCst);
    }
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Which files differ.
fn changed(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    before.iter().filter(|(name, bytes)| after[*name] != **bytes).map(|(name, _)| name.clone()).collect()
}

#[test]
fn a_restart_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (_, context) = Time::start();
    let names = ServerNames::default();
    let first = Authority::open(&dir.path().join("data"), &names, &context).unwrap();
    let folder = dir.path().join("data/pki");
    let before = contents(&folder);
    let second = Authority::open(&dir.path().join("data"), &names, &context).unwrap();
    assert_eq!(changed(&before, &contents(&folder)), Vec::<String>::new());
    assert_eq!(first.certificate(), second.certificate());
    assert_eq!(first.admin(), second.admin());
    assert_eq!(first.signing_key().jwk(), second.signing_key().jwk());

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in before.keys() {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}

#[test]
fn an_interrupted_first_start_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (_, context) = Time::start();
    fs::create_dir(dir.path().join("pki.new")).unwrap();
    fs::write(dir.path().join("pki.new/ca.key"), "half").unwrap();
    Authority::open(dir.path(), &ServerNames::default(), &context).unwrap();
    assert!(!dir.path().join("pki.new").exists());
}

#[test]
fn damage_is_refused_and_named() {
    let (_, context) = Time::start();
    let whole = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    for dir in [&whole, &other] {
        Authority::open(dir.path(), &ServerNames::default(), &context).unwrap();
    }
    let files = contents(&whole.path().join("pki"));
    let strange = contents(&other.path().join("pki"));
    for name in files.keys() {
        for (damage, bytes) in [
            ("missing", None),
            ("empty", Some(Vec::new())),
            ("half", Some(files[name][..files[name].len() / 2].to_vec())),
            ("binary", Some(vec![0xff; 100])),
            ("of another", Some(strange[name].clone())),
        ] {
            // A signing key stands for itself: another one is as good.
            if damage == "of another" && name == "service-account.key" {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("pki");
            fs::create_dir(&folder).unwrap();
            for (file, bytes) in &files {
                fs::write(folder.join(file), bytes).unwrap();
            }
            match bytes {
                Some(bytes) => fs::write(folder.join(name), bytes).unwrap(),
                None => fs::remove_file(folder.join(name)).unwrap(),
            }
            let before = contents(&folder);
            let error = Authority::open(dir.path(), &ServerNames::default(), &context).err();
            let error = error.unwrap_or_else(|| panic!("{name} {damage} was accepted")).to_string();
            // Of two files that do not fit together, either may be the one that is named.
            let stem = name.split('.').next().unwrap();
            let named = if damage == "of another" { stem } else { name };
            let place = folder.join(named).display().to_string();
            assert!(error.starts_with(&place), "{name} {damage}: {error}");
            assert!(error.contains("move the folder"), "{error}");
            assert_eq!(changed(&before, &contents(&folder)), Vec::<String>::new(), "{name} {damage}");
        }
    }
}

#[test]
fn certificates_follow_names_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let (time, context) = Time::start();
    let folder = dir.path().join("pki");
    let names = ServerNames::default();
    Authority::open(dir.path(), &names, &context).unwrap();
    let check = |names: &ServerNames, expected: &[&str]| {
        let before = contents(&folder);
        Authority::open(dir.path(), names, &context).unwrap();
        assert_eq!(changed(&before, &contents(&folder)), expected);
    };
    check(&names.clone().with("0.0.0.0"), &[]);
    let more = names.clone().with("192.0.2.7").with("[2001:db8::0:1]").with("api.example.com");
    check(&more, &["server.crt"]);
    check(&more, &[]);
    check(&names, &[]);
    time.pass(300);
    check(&names, &[]);
    time.pass(40);
    check(&names, &["admin.crt", "server.crt"]);
    // The last weeks: nothing can last longer than the authority.
    time.pass(3650 - 340 - 10);
    check(&names, &["admin.crt", "server.crt"]);
    check(&names, &[]);
    time.pass(11);
    let error = Authority::open(dir.path(), &names, &context).err().unwrap();
    assert!(matches!(error, Error::OutOfTime { .. }), "{error}");
}

#[test]
fn an_administrator_for_ten_years_of_an_earlier_version_gets_one_year() {
    let dir = tempfile::tempdir().unwrap();
    let (_, context) = Time::start();
    let names = ServerNames::default();
    let first = Authority::open(dir.path(), &names, &context).unwrap();
    let key = KeyPair::from_pem(&first.admin().key).unwrap();
    let earlier = first.issuer.client(&key, ADMIN, &[MASTERS], AUTHORITY_LIFETIME, &context).unwrap();
    fs::write(dir.path().join("pki/admin.crt"), &earlier).unwrap();
    let again = Authority::open(dir.path(), &names, &context).unwrap();
    let until = Kept::parse(&again.admin().certificate).unwrap().until;
    assert_eq!(until.as_second(), (context.now() + ADMIN_LIFETIME).as_second());
}

#[test]
fn an_authority_vouches_for_its_own_clients_while_they_are_valid() {
    let (time, context) = Time::start();
    let [one, other] = [(); 2].map(|()| Authority::in_memory(&context).unwrap());
    let der =
        |pem: &str| -> Arc<[u8]> { CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().as_ref().into() };
    let jane = der(&one.issue_client("jane", &[], DAY).unwrap().certificate);
    for _ in 0..2 {
        assert!(one.vouches_for(&jane) && !other.vouches_for(&jane));
        assert!(!one.vouches_for(&der(&other.admin().certificate)));
    }
    // Neither a server nor the authority itself is a client, though it signed both.
    let server: Arc<[u8]> = one.server_certificate().as_ref().into();
    assert!(!one.vouches_for(&server) && !one.vouches_for(&der(one.certificate())));
    let mut forged = jane.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    assert!(!one.vouches_for(&forged.into()));
    time.pass(2);
    assert!(!one.vouches_for(&jane), "a connection may live longer than the certificate");
}

/// What the server saw of a client that connected.
struct Seen {
    user: User,
    protocol: Option<Vec<u8>>,
    server: CertificateDer<'static>,
}

/// A connection over loopback.
async fn connect(
    authority: &Authority,
    trust: &Authority,
    credential: Option<&Credential>,
    host: &str,
) -> io::Result<Seen> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trust.certificate().as_bytes()).unwrap()).unwrap();
    let builder =
        ClientConfig::builder_with_details(provider, Arc::new(tls::Clock(authority.context.clone())))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
    let mut config = match credential {
        Some(credential) => {
            let chain = vec![CertificateDer::from_pem_slice(credential.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(credential.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let acceptor = TlsAcceptor::from(authority.server_config().unwrap());
    let server = async {
        let (stream, _) = listener.accept().await?;
        let mut stream = acceptor.accept(stream).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        let (_, connection) = stream.get_ref();
        let peer = connection.peer_certificates().and_then(|chain| chain.first());
        let user = authenticate(peer.map(AsRef::as_ref), None, &[], authority.context.now()).unwrap();
        io::Result::Ok((user, connection.alpn_protocol().map(<[u8]>::to_vec)))
    };
    let client = async {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let stream = TcpStream::connect(address).await?;
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let server = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        io::Result::Ok((text, server))
    };
    let (server, client) = tokio::join!(server, client);
    let ((text, certificate), (user, protocol)) = (client?, server?);
    assert_eq!(text, "hello");
    Ok(Seen { user, protocol, server: certificate })
}

#[tokio::test]
async fn tls_shows_who_is_there() {
    let (time, context) = Time::start();
    let authority = Authority::in_memory(&context).unwrap();

    let seen = connect(&authority, &authority, Some(authority.admin()), "localhost").await.unwrap();
    assert_eq!(seen.user.name, "kubernetes-admin");
    assert_eq!(seen.user.groups, ["system:masters", "system:authenticated"]);
    let id = &seen.user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    assert_eq!(seen.protocol.as_deref(), Some(b"h2".as_slice()));

    // Longer than one length byte can tell, in an order of its own, beyond ASCII.
    let long = "g".repeat(150);
    let groups = ["zebra", "ähren", long.as_str(), "apple"];
    let jane = authority.issue_client("jane", &groups, DAY).unwrap();
    for host in ["127.0.0.1", "::1", "10.96.0.1", "kubernetes.default.svc.cluster.local"] {
        let seen = connect(&authority, &authority, Some(&jane), host).await.unwrap();
        assert_eq!(seen.user.name, "jane");
        assert_eq!(seen.user.groups[..4], groups);
    }
    let nobody = connect(&authority, &authority, None, "localhost").await.unwrap();
    assert_eq!(nobody.user, User::anonymous());

    assert!(connect(&authority, &authority, None, "example.com").await.is_err(), "a name it does not have");
    let other = Authority::in_memory(&context).unwrap();
    assert!(connect(&authority, &other, None, "localhost").await.is_err(), "another authority");
    assert!(connect(&authority, &authority, Some(other.admin()), "localhost").await.is_err());
    time.pass(2);
    assert!(connect(&authority, &authority, Some(&jane), "localhost").await.is_err(), "expired");
}

#[tokio::test]
async fn a_running_server_renews_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (time, context) = Time::start();
    let authority = Authority::open(dir.path(), &ServerNames::default(), &context).unwrap();
    let first = connect(&authority, &authority, None, "localhost").await.unwrap().server;
    time.pass(300);
    assert_eq!(connect(&authority, &authority, None, "localhost").await.unwrap().server, first);
    time.pass(100);
    let renewed = connect(&authority, &authority, None, "localhost").await.unwrap().server;
    assert_ne!(renewed, first);
    let kept = fs::read(dir.path().join("pki/server.crt")).unwrap();
    assert_eq!(CertificateDer::from_pem_slice(&kept).unwrap(), renewed);
    assert_eq!(authority.server_certificate(), renewed);
}
