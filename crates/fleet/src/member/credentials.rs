//! How to log in to a member, as its Secret says.

use std::fmt;
use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::{MEMBER_SECRET, SERVER_KEY};
use koinon_control::client::{self, Keepalive};
use koinon_control::proxy;
use koinon_control::words::clean;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};

/// Longer than a probe waits and shorter than a call does: who does not take a connection is found out by the
/// same words each time, and does not cost a call its whole deadline.
const CONNECT_WITHIN: Duration = Duration::from_secs(8);

/// Where a member is and how to log in. Two are equal if they lead to the same place in the same way.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    server: String,
    login: Login,
}

#[derive(Clone, PartialEq, Eq)]
enum Login {
    Token { token: String, authority: Option<Vec<u8>> },
    Kubeconfig(String),
}

/// Why a member cannot be logged in to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the Secret has neither the keys token and ca.crt nor the key kubeconfig")]
    NothingInSecret,
    #[error("the key {0} in the Secret is not text")]
    NotText(&'static str),
    #[error(
        "the Secret does not have the label {MEMBER_SECRET}=true, without which it is read for no member"
    )]
    Unlabelled,
    #[error("{0:?} is no address that a token is sent to; one is https://10.0.0.1:6443")]
    Server(String),
    #[error(
        "its entry in the Federation says {entry}, but {whose} says {bound}, and its token is sent nowhere else: correct the \
         entry, or put the new address into the key server of the Secret"
    )]
    Elsewhere { entry: String, bound: String, whose: &'static str },
    #[error("the kubeconfig cannot be read: {0}")]
    Kubeconfig(String),
    #[error(
        "the kubeconfig uses {0}, which works on the machine it was made on only: put the token or certificates \
         themselves into it"
    )]
    NotSelfContained(&'static str),
    #[error("the credentials cannot be used: {0}")]
    Unusable(String),
}

impl Credentials {
    /// Reads what a Federation's entry and its Secret say. The Secret decides where its token goes: by its key `server`, or
    /// by the server in its kubeconfig; where it does not say, the address at which the member `answered` first does.
    pub fn from_secret(entry: &str, secret: &Secret, answered: Option<&str>) -> Result<Credentials, Error> {
        if secret.labels().get(MEMBER_SECRET).map(String::as_str) != Some("true") {
            return Err(Error::Unlabelled);
        }
        let key = |name: &'static str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(name));
            let text = bytes.map(|bytes| String::from_utf8(bytes.0.clone()));
            text.transpose().map_err(|_| Error::NotText(name))
        };
        let (token, kubeconfig) = (key("token")?, key("kubeconfig")?);
        let cluster = match (&token, &kubeconfig) {
            (None, Some(text)) => current_cluster(text)?,
            _ => None,
        };
        let named =
            key(SERVER_KEY)?.map(|server| server.trim().to_owned()).filter(|server| !server.is_empty());
        let in_kubeconfig = || cluster.as_ref()?.server.clone();
        let bound = match (named.or_else(in_kubeconfig), answered) {
            (Some(server), _) => Some((server, "its Secret")),
            (None, Some(server)) => Some((server.to_owned(), "the address at which it answered")),
            (None, None) => None,
        };
        let server = match bound {
            Some((bound, whose)) => {
                if !entry.is_empty() && !is_same_server(entry, &bound) {
                    return Err(Error::Elsewhere { entry: entry.to_owned(), bound, whose });
                }
                bound
            }
            None => entry.to_owned(),
        };
        uri(&server)?;
        match (token, kubeconfig) {
            (Some(token), _) => {
                let authority = key("ca.crt")?.map(String::into_bytes);
                Ok(Credentials::token(&server, token.trim(), authority))
            }
            (None, Some(text)) => Ok(Credentials::kubeconfig(&server, &text)),
            (None, None) => Err(Error::NothingInSecret),
        }
    }

    /// Where the member is.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What is not as safe as it should be about this way, in sentences about the member.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Login::Kubeconfig(text) = &self.login else { return Vec::new() };
        let Ok(Some(cluster)) = current_cluster(text) else { return Vec::new() };
        let mut warnings = Vec::new();
        if cluster.insecure_skip_tls_verify == Some(true) {
            warnings.push(
                "its kubeconfig says insecure-skip-tls-verify: whoever answers at its address gets the token; put \
                 certificate-authority-data there instead"
                    .to_owned(),
            );
        }
        if let Some(proxy) = &cluster.proxy_url {
            // Without the password that may stand in it.
            let proxy = proxy.rsplit_once('@').map_or(proxy.as_str(), |(_, place)| place);
            warnings.push(format!("it is reached through the proxy {}", clean(proxy, 200)));
        }
        warnings
    }

    /// A bearer token, and the authority that vouches for the server.
    pub fn token(server: &str, token: &str, authority: Option<Vec<u8>>) -> Credentials {
        let login = Login::Token { token: token.to_owned(), authority };
        Credentials { server: server.to_owned(), login }
    }

    /// What a kubeconfig says, with its server unless another is given.
    pub fn kubeconfig(server: &str, text: &str) -> Credentials {
        Credentials { server: server.to_owned(), login: Login::Kubeconfig(text.to_owned()) }
    }

    /// A client that retries nothing by itself: when to try again is for the fleet to decide.
    pub(crate) async fn connect(&self, keepalive: Keepalive) -> Result<Client, Error> {
        let mut config = match &self.login {
            Login::Token { token, authority } => self.token_config(token, authority.as_deref())?,
            Login::Kubeconfig(text) => self.kubeconfig_config(text).await?,
        };
        config.connect_timeout = Some(CONNECT_WITHIN);
        client::connect(&config, keepalive).map_err(|error| Error::Unusable(error.to_string()))
    }

    fn token_config(&self, token: &str, authority: Option<&[u8]>) -> Result<Config, Error> {
        let mut config = Config::new(uri(&self.server)?);
        if let Some(authority) = authority {
            config.root_cert = Some(certificates(authority)?);
        }
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        proxy::settle(&mut config, None).map_err(Error::Unusable)?;
        Ok(config)
    }

    async fn kubeconfig_config(&self, text: &str) -> Result<Config, Error> {
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| Error::Kubeconfig(error.to_string()))?;
        self_contained(&kubeconfig)?;
        let proxy = proxy::named(&kubeconfig, None);
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| Error::Kubeconfig(error.to_string()))?;
        if self.server.is_empty() {
            uri(&config.cluster_url.to_string())?;
        } else {
            config.cluster_url = uri(&self.server)?;
        }
        proxy::settle(&mut config, proxy.as_deref()).map_err(Error::Unusable)?;
        Ok(config)
    }
}

/// Secrets do not get into logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = match self.login {
            Login::Token { .. } => "token",
            Login::Kubeconfig(_) => "kubeconfig",
        };
        f.debug_struct("Credentials").field("server", &self.server).field("login", &login).finish()
    }
}

/// Over anything but TLS everybody on the way would read the token.
fn uri(server: &str) -> Result<Uri, Error> {
    let uri: Uri = server.parse().map_err(|_| Error::Server(server.to_owned()))?;
    let good = uri.scheme_str() == Some("https") && uri.authority().is_some();
    if good { Ok(uri) } else { Err(Error::Server(server.to_owned())) }
}

/// Whether two addresses lead to the same place, however they are written.
fn is_same_server(one: &str, other: &str) -> bool {
    let place = |server: &str| {
        let uri = uri(server).ok()?;
        let host = uri.host()?.to_ascii_lowercase();
        Some((host, uri.port_u16().unwrap_or(443), uri.path().trim_end_matches('/').to_owned()))
    };
    one == other || place(one).is_some_and(|place_of_one| place(other) == Some(place_of_one))
}

/// The cluster of a kubeconfig's current context.
fn current_cluster(text: &str) -> Result<Option<Cluster>, Error> {
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| {
        // What is wrong with it would be told with parts of it.
        Error::Kubeconfig("it is no kubeconfig".into())
    })?;
    let name = kubeconfig.current_context.as_ref();
    let context = kubeconfig.contexts.iter().find(|one| Some(&one.name) == name);
    let context = context.and_then(|one| one.context.as_ref());
    let named =
        context.and_then(|context| kubeconfig.clusters.iter().find(|one| one.name == context.cluster));
    Ok(named.and_then(|one| one.cluster.clone()))
}

/// Whoever can write a Secret must not thereby run programs or read files here.
pub(crate) fn self_contained(kubeconfig: &Kubeconfig) -> Result<(), Error> {
    for user in kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        let foreign = [
            (user.exec.is_some(), "a credential program (exec)"),
            (user.auth_provider.is_some(), "an auth-provider"),
            (user.token_file.is_some(), "a token file"),
            (user.client_certificate.is_some() || user.client_key.is_some(), "certificate files"),
        ];
        if let Some((_, what)) = foreign.into_iter().find(|(used, _)| *used) {
            return Err(Error::NotSelfContained(what));
        }
    }
    for cluster in kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()) {
        if cluster.certificate_authority.is_some() {
            return Err(Error::NotSelfContained("a file with the server's authority"));
        }
    }
    Ok(())
}

/// The certificates of a PEM file, as bytes.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all.into_iter().map(|one| one.to_vec()).collect()),
        Ok(_) => Err(Error::Unusable("ca.crt holds no certificate".into())),
        Err(error) => Err(Error::Unusable(format!("ca.crt cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let mut secret = Secret { data: Some(data.collect()), ..Secret::default() };
        secret.metadata.labels = Some([(MEMBER_SECRET.to_owned(), "true".to_owned())].into());
        secret
    }

    fn kubeconfig(cluster: &str) -> String {
        format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], \
             clusters: [{{name: other, cluster: {{server: 'https://other'}}}}, {{name: x, cluster: {{{cluster}}}}}], \
             users: [{{name: x, user: {{token: t}}}}]}}"
        )
    }

    #[test]
    fn a_secret_is_a_token_or_a_kubeconfig() {
        let of = |server: &str, data: &[(&str, &str)]| Credentials::from_secret(server, &secret(data), None);
        let token = of("https://a", &[("token", "t\n"), ("ca.crt", "c")]).unwrap();
        assert_eq!(token, Credentials::token("https://a", "t", Some(b"c".to_vec())));
        assert_eq!(format!("{token:?}"), "Credentials { server: \"https://a\", login: \"token\" }");
        let text = kubeconfig("server: 'https://a'");
        assert_eq!(of("", &[("kubeconfig", &text)]).unwrap(), Credentials::kubeconfig("https://a", &text));
        assert!(matches!(of("https://a", &[("x", "y")]), Err(Error::NothingInSecret)));
        assert!(matches!(of("https://a", &[("kubeconfig", "just text")]), Err(Error::Kubeconfig(_))));
    }

    #[test]
    fn a_secret_that_is_for_no_member_is_not_read() {
        for value in [None, Some("false")] {
            let mut other = secret(&[("token", "t")]);
            other.metadata.labels = value.map(|value| [(MEMBER_SECRET.to_owned(), value.to_owned())].into());
            let read = Credentials::from_secret("https://a", &other, None);
            assert!(matches!(read, Err(Error::Unlabelled)), "{value:?}");
        }
    }

    #[test]
    fn the_federation_does_not_decide_where_a_token_goes() {
        let text = kubeconfig("server: 'https://a:6443'");
        let named = secret(&[("token", "t"), ("server", "https://a:6443")]);
        let inside = secret(&[("kubeconfig", &text)]);
        let both = secret(&[("kubeconfig", &text), ("server", "https://b")]);
        let silent = secret(&[("token", "t")]);
        let goes = |entry: &str, secret: &Secret, answered: Option<&str>| {
            Credentials::from_secret(entry, secret, answered)
                .map(|one| one.server)
                .map_err(|error| error.to_string())
        };
        for (entry, secret, answered, expected) in [
            ("https://a:6443", &named, None, Some("https://a:6443")),
            ("https://A:6443/", &named, None, Some("https://a:6443")),
            ("", &named, Some("https://old"), Some("https://a:6443")),
            ("https://evil:6443", &named, None, None),
            ("https://evil:6443", &named, Some("https://evil:6443"), None),
            ("http://a:6443", &named, None, None),
            ("", &inside, None, Some("https://a:6443")),
            ("https://evil", &inside, None, None),
            ("https://b:443", &both, None, Some("https://b")),
            ("https://a", &silent, None, Some("https://a")),
            ("https://a", &silent, Some("https://a:443/"), Some("https://a:443/")),
            ("https://evil", &silent, Some("https://a"), None),
            ("http://a", &silent, None, None),
            ("http://a", &silent, Some("http://a"), None),
            ("", &silent, None, None),
        ] {
            let found = goes(entry, secret, answered);
            assert_eq!(found.as_deref().ok(), expected, "{entry} {answered:?}: {found:?}");
        }
        let told = goes("https://evil", &silent, Some("https://a")).unwrap_err();
        assert!(
            told.contains("https://evil") && told.contains("https://a") && told.contains("key server"),
            "{told}"
        );
    }

    #[test]
    fn what_is_not_safe_about_a_kubeconfig_is_told() {
        let told = |cluster: &str| {
            let text = kubeconfig(&format!("server: 'https://a', {cluster}"));
            Credentials::from_secret("", &secret(&[("kubeconfig", &text)]), None).unwrap().warnings()
        };
        assert_eq!(told("tls-server-name: b"), [""; 0]);
        assert!(told("insecure-skip-tls-verify: true")[0].contains("insecure-skip-tls-verify"));
        let proxy = told("proxy-url: 'http://me:secret@proxy:3128'");
        assert_eq!(proxy, ["it is reached through the proxy proxy:3128"]);
    }

    #[tokio::test]
    async fn what_runs_programs_or_reads_files_is_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = |user: &str, cluster: &str| {
            format!(
                "{{current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], \
                 clusters: [{{name: x, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}], users: [{{name: x, user: {{{user}}}}}]}}"
            )
        };
        for (user, cluster) in [
            (
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}",
                "",
            ),
            ("tokenFile: /etc/passwd", ""),
            ("client-certificate: /a, client-key: /b", ""),
            ("auth-provider: {name: gcp, config: {}}", ""),
            ("token: t", "certificate-authority: /etc/passwd"),
        ] {
            let outcome =
                Credentials::kubeconfig("", &file(user, cluster)).connect(Keepalive::default()).await;
            assert!(matches!(outcome, Err(Error::NotSelfContained(_))), "{user} {cluster}");
        }
        assert!(
            Credentials::kubeconfig("", &file("token: t", "")).connect(Keepalive::default()).await.is_ok()
        );
        for server in ["", "nonsense", "ftp://a", "https://", "http://a"] {
            let outcome = Credentials::token(server, "t", None).connect(Keepalive::default()).await;
            assert!(matches!(outcome, Err(Error::Server(_))), "{server:?}");
        }
    }
}
