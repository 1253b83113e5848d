//! `join`: lets a cluster into the federation, and the federation into the cluster.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koinon_api::membership::{CLUSTER_UID, ClusterId, SERVER_KEY};
use koinon_control::bounds::{Bounds, limiting};
use koinon_control::call;
use koinon_control::client::{Keepalive, connect};
use koinon_control::words::{SENTENCE, clean};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use super::admit::{Host, Terms, scope_of};
use super::federation_store::{FederationStore, Login, apply, secret_name, uid};
use super::formation::answered_at;
use super::leave::is_made_by_join;
use super::list::BOUNDS;
use super::{Error, Scope, rbac, token};
use crate::member::Credentials;

/// A server may need a moment until it knows an account that was just made.
const TOKEN_WORKS_WITHIN: Duration = Duration::from_secs(20);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A cluster that wants to join, as its administrator sees it.
pub struct Candidate {
    client: Client,
    server: String,
    authority: Option<String>,
    is_insecure: bool,
    server_name: Option<String>,
    /// The proxy by which it is reached.
    proxy: Option<String>,
    terms: Terms,
}

impl Candidate {
    /// A cluster as a kubeconfig describes it.
    pub fn new(mut config: Config) -> Result<Candidate, Error> {
        config.connect_timeout = Some(CONNECT_WITHIN);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let authority = config.root_cert.as_deref().filter(|all| !all.is_empty()).map(pem);
        let (is_insecure, server_name) = (config.accept_invalid_certs, config.tls_server_name.clone());
        let client =
            connect(&config, Keepalive::default()).map_err(|error| Error::Credentials(error.to_string()))?;
        let client = limiting(client, Bounds::default());
        let (proxy, terms) = (None, Terms::default());
        Ok(Candidate { client, server, authority, is_insecure, server_name, proxy, terms })
    }

    /// Has the federation reach it by the proxy that the kubeconfig names.
    #[must_use]
    pub fn through(mut self, proxy: Option<String>) -> Candidate {
        self.proxy = proxy;
        self
    }

    /// Lets it in on these terms.
    #[must_use]
    pub fn on(mut self, terms: Terms) -> Candidate {
        self.terms = terms;
        self
    }

    /// What the federation keeps to log in with this token.
    fn login(&self, token: &str) -> Value {
        if !self.is_insecure && self.server_name.is_none() && self.proxy.is_none() {
            return match &self.authority {
                Some(authority) => json!({"token": token, "ca.crt": authority}),
                None => json!({"token": token}),
            };
        }
        let mut cluster = json!({"server": self.server});
        if self.is_insecure {
            cluster["insecure-skip-tls-verify"] = true.into();
        } else if let Some(authority) = &self.authority {
            cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
        }
        if let Some(name) = &self.server_name {
            cluster["tls-server-name"] = name.as_str().into();
        }
        if let Some(proxy) = &self.proxy {
            cluster["proxy-url"] = proxy.as_str().into();
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "member",
            "clusters": [{"name": "member", "cluster": cluster}],
            "users": [{"name": "member", "user": {"token": token}}],
            "contexts": [{"name": "member", "context": {"cluster": "member", "user": "member"}}],
        });
        json!({"kubeconfig": kubeconfig.to_string()})
    }
}

/// What joining did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    New,
    /// It was a member already, and everything was as it should be.
    Already,
}

/// Lets a cluster into the federation under a name. `progress` hears what is done, in words for people.
pub async fn join(
    federation: &Client,
    name: &ClusterId,
    candidate: &Candidate,
    mut progress: impl FnMut(&str),
) -> Result<Joined, Error> {
    let store = FederationStore::new(federation.clone());
    let own = store.uid().await?;
    let theirs =
        uid(&candidate.client).await.map_err(|error| Error::unreachable(&candidate.server, error))?;
    if own == theirs {
        return Err(Error::Itself);
    }
    let secret = secret_name(name.as_str());
    check_free(&store, name, &theirs).await?;
    let host = Host { client: &candidate.client, name, own: &own };
    let bound = host.unbound(&candidate.terms).await?;

    store.open().await?;
    progress(&format!("cluster {name} is at {}; letting the federation in", candidate.server));
    let account = host.admit(&candidate.terms, bound.as_ref(), &mut progress).await?;
    let works = match store.secret(&secret).await? {
        // One from before Secrets said where their token goes is made anew.
        Some(kept) if kept.data.as_ref().is_none_or(|data| !data.contains_key(SERVER_KEY)) => false,
        Some(kept) => match Credentials::from_secret(&candidate.server, &kept, None) {
            // One that lasts for years is replaced by one that is renewed.
            Ok(_) if is_made_by_join(&kept) && token::is_too_long(&kept) => false,
            Ok(credentials) => see(&credentials).await.is_ok_and(|seen| seen == theirs),
            Err(_) => false,
        },
        None => false,
    };
    if !works {
        let token = token::get(&candidate.client, &account, &mut progress).await;
        let token = token.map_err(|error| error.at(&candidate.server))?;
        progress("checking that the federation can log in");
        let credentials = credentials(candidate, &token);
        wait_until_seen(&credentials, &theirs).await?;
        let login = Login { uid: &theirs, server: &candidate.server, data: &candidate.login(&token) };
        store.keep_secret(&secret, login, &json!({})).await?;
        let dropped = token::drop_endless(&candidate.client).await;
        dropped.map_err(|error| Error::unreachable(&candidate.server, error))?;
    }
    let entered = match store.enter(name, &candidate.server, &secret, &theirs).await {
        Ok(entered) => entered,
        Err(error) => {
            if let Error::SameCluster { known } = &error {
                let scope = bound.as_ref().map_or(Scope::Everywhere, scope_of);
                let binding = rbac::binding(&own, known, &candidate.terms.scope.clone().unwrap_or(scope));
                give_way(&store, candidate, &binding, &secret).await?;
            }
            return Err(error);
        }
    };
    Ok(if entered || !works { Joined::New } else { Joined::Already })
}

/// Another `join` was faster and let the same cluster in under another name: what this one wrote must not get in its way.
async fn give_way(
    store: &FederationStore,
    candidate: &Candidate,
    binding: &Value,
    secret: &str,
) -> Result<(), Error> {
    if let Some(secret) = store.secret(secret).await? {
        store.drop_secret(&secret).await?;
    }
    // The account is one for both, and says whose it is.
    let binding = apply(&candidate.client, binding).await;
    binding.map(drop).map_err(|error| Error::unreachable(&candidate.server, error))
}

/// Neither the name nor the cluster may be in the federation as something else.
async fn check_free(store: &FederationStore, name: &ClusterId, theirs: &str) -> Result<(), Error> {
    let Some(federation) = store.federation().await? else { return Ok(()) };
    match store.member_with(&federation, theirs).await? {
        Some(known) if known == name.as_str() => return Ok(()),
        Some(known) => return Err(Error::SameCluster { known }),
        None => {}
    }
    let named = federation.spec.members.iter().find(|one| one.cluster_id.value == name.as_str());
    let Some(entry) = named else { return Ok(()) };
    let taken = || Error::NameTaken { name: name.clone() };
    // A role saw which cluster it is, and it is not this one: that nobody can log in there now changes nothing.
    let status = federation.status.as_ref();
    let said =
        status.and_then(|status| status.member_status.iter().find(|one| one.cluster_id == name.as_str()));
    if said.is_some_and(|said| said.uid.is_some()) {
        return Err(taken());
    }
    // An entry by hand that nobody can log in with yet waits for exactly this.
    let Some(secret) = store.secret(&entry.secret).await? else { return Ok(()) };
    if secret.annotations().contains_key(CLUSTER_UID) {
        return Err(taken());
    }
    // Nobody has written down yet which cluster it is: it can say so itself.
    let answered = answered_at(&federation, name.as_str());
    let credentials = Credentials::from_secret(&entry.server, &secret, answered.as_deref());
    let credentials = credentials.map_err(|_| taken())?;
    match see(&credentials).await {
        Ok(seen) if seen == theirs => Ok(()),
        _ => Err(taken()),
    }
}

fn credentials(candidate: &Candidate, token: &str) -> Credentials {
    match candidate.login(token) {
        Value::Object(login) if login.contains_key("kubeconfig") => {
            let text = login["kubeconfig"].as_str().unwrap_or_default();
            Credentials::kubeconfig(&candidate.server, text)
        }
        _ => Credentials::token(
            &candidate.server,
            token,
            candidate.authority.as_ref().map(|authority| authority.clone().into_bytes()),
        ),
    }
}

async fn see(credentials: &Credentials) -> Result<String, String> {
    let client = credentials.connect(Keepalive::default()).await.map_err(|error| error.to_string())?;
    uid(&limiting(client, BOUNDS)).await.map_err(|error| said(&error))
}

async fn wait_until_seen(credentials: &Credentials, theirs: &str) -> Result<(), Error> {
    let start = tokio::time::Instant::now();
    loop {
        match see(credentials).await {
            Ok(seen) if seen == theirs => return Ok(()),
            Ok(_) => return Err(Error::Login("another cluster answered".into())),
            Err(why) if start.elapsed() >= TOKEN_WORKS_WITHIN => return Err(Error::Login(why)),
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

/// What a failed call says at its innermost.
pub(super) fn said(error: &call::Error) -> String {
    match error {
        call::Error::Failed(error) => crate::member::cause(error),
        call::Error::Refused(status) if status.code == 401 && status.message == "Unauthorized" => {
            "it refuses these credentials".into()
        }
        error => clean(&error.to_string(), SENTENCE),
    }
}

/// Certificates as the text that Secrets and kubeconfigs hold.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
