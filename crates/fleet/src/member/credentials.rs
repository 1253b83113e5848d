//! How to log in to a member, as its Secret says.

use std::fmt;
use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

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
    #[error("{0:?} is no address of an API server; one is https://10.0.0.1:6443")]
    Server(String),
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
    /// Reads what a Federation's entry and its Secret say.
    pub fn from_secret(server: &str, secret: &Secret) -> Result<Credentials, Error> {
        let key = |name: &'static str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(name));
            let text = bytes.map(|bytes| String::from_utf8(bytes.0.clone()));
            text.transpose().map_err(|_| Error::NotText(name))
        };
        if let Some(token) = key("token")? {
            let authority = key("ca.crt")?.map(String::into_bytes);
            return Ok(Credentials::token(server, token.trim(), authority));
        }
        match key("kubeconfig")? {
            Some(text) => Ok(Credentials::kubeconfig(server, &text)),
            None => Err(Error::NothingInSecret),
        }
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
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let mut config = match &self.login {
            Login::Token { token, authority } => self.token_config(token, authority.as_deref())?,
            Login::Kubeconfig(text) => self.kubeconfig_config(text).await?,
        };
        config.connect_timeout = Some(CONNECT_WITHIN);
        config.default_retry = false;
        Client::try_from(config).map_err(|error| Error::Unusable(error.to_string()))
    }

    fn token_config(&self, token: &str, authority: Option<&[u8]>) -> Result<Config, Error> {
        let mut config = Config::new(uri(&self.server)?);
        if let Some(authority) = authority {
            config.root_cert = Some(certificates(authority)?);
        }
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        Ok(config)
    }

    async fn kubeconfig_config(&self, text: &str) -> Result<Config, Error> {
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| Error::Kubeconfig(error.to_string()))?;
        self_contained(&kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| Error::Kubeconfig(error.to_string()))?;
        if !self.server.is_empty() {
            config.cluster_url = uri(&self.server)?;
        }
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

fn uri(server: &str) -> Result<Uri, Error> {
    let uri: Uri = server.parse().map_err(|_| Error::Server(server.to_owned()))?;
    let good = matches!(uri.scheme_str(), Some("https" | "http")) && uri.authority().is_some();
    if good { Ok(uri) } else { Err(Error::Server(server.to_owned())) }
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
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    #[test]
    fn a_secret_is_a_token_or_a_kubeconfig() {
        let token =
            Credentials::from_secret("https://a", &secret(&[("token", "t\n"), ("ca.crt", "c")])).unwrap();
        assert_eq!(token, Credentials::token("https://a", "t", Some(b"c".to_vec())));
        assert_eq!(format!("{token:?}"), "Credentials { server: \"https://a\", login: \"token\" }");
        let file = Credentials::from_secret("", &secret(&[("kubeconfig", "k")])).unwrap();
        assert_eq!(file, Credentials::kubeconfig("", "k"));
        assert!(matches!(Credentials::from_secret("", &secret(&[("x", "y")])), Err(Error::NothingInSecret)));
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
            let outcome = Credentials::kubeconfig("", &file(user, cluster)).connect().await;
            assert!(matches!(outcome, Err(Error::NotSelfContained(_))), "{user} {cluster}");
        }
        assert!(Credentials::kubeconfig("", &file("token: t", "")).connect().await.is_ok());
        for server in ["", "nonsense", "ftp://a", "https://"] {
            let outcome = Credentials::token(server, "t", None).connect().await;
            assert!(matches!(outcome, Err(Error::Server(_))), "{server:?}");
        }
    }
}
