//! `join`: lets a cluster into the federation, and the federation into the cluster.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use koinon_api::membership::{CLUSTER_UID, ClusterId, KOINON_NAMESPACE};
use koinon_control::call::{self, within_deadline};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use super::books::{Books, Login, apply, secret_name, uid};
use super::token::{self, Account};
use super::{Error, Whose, rbac};
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
}

impl Candidate {
    /// A cluster as a kubeconfig describes it.
    pub fn new(mut config: Config) -> Result<Candidate, Error> {
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_WITHIN);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let authority = config.root_cert.as_deref().filter(|all| !all.is_empty()).map(pem);
        let (is_insecure, server_name) = (config.accept_invalid_certs, config.tls_server_name.clone());
        let client = Client::try_from(config).map_err(|error| Error::Credentials(error.to_string()))?;
        Ok(Candidate { client, server, authority, is_insecure, server_name })
    }

    /// What the federation keeps to log in with this token.
    fn login(&self, token: &str) -> Value {
        if !self.is_insecure && self.server_name.is_none() {
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
    let books = Books::new(federation.clone());
    let own = books.uid().await?;
    let theirs =
        uid(&candidate.client).await.map_err(|error| Error::unreachable(&candidate.server, error))?;
    if own == theirs {
        return Err(Error::Itself);
    }
    let secret = secret_name(name.as_str());
    check_free(&books, name, &theirs).await?;
    check_unbound(candidate, &own, name).await?;

    books.open().await?;
    progress(&format!("cluster {name} is at {}; letting the federation in", candidate.server));
    let account = admit(candidate, &own, name).await?;
    let works = match books.secret(&secret).await? {
        Some(kept) => match Credentials::from_secret(&candidate.server, &kept) {
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
        books.keep_secret(&secret, login, &json!({})).await?;
    }
    let entered = match books.enter(name, &candidate.server, &secret, &theirs).await {
        Ok(entered) => entered,
        Err(error) => {
            if let Error::SameCluster { known } = &error {
                give_way(&books, candidate, &own, &secret, known).await?;
            }
            return Err(error);
        }
    };
    Ok(if entered || !works { Joined::New } else { Joined::Already })
}

/// Another `join` was faster and let the same cluster in under another name: what this one wrote must not get in its way.
async fn give_way(
    books: &Books,
    candidate: &Candidate,
    own: &str,
    secret: &str,
    known: &str,
) -> Result<(), Error> {
    if let Some(secret) = books.secret(secret).await? {
        books.drop_secret(&secret).await?;
    }
    // The account is one for both, and says whose it is.
    let binding = apply(&candidate.client, &rbac::binding(own, known)).await;
    binding.map(drop).map_err(|error| Error::unreachable(&candidate.server, error))
}

/// Neither the name nor the cluster may be in the federation as something else.
async fn check_free(books: &Books, name: &ClusterId, theirs: &str) -> Result<(), Error> {
    let Some(federation) = books.federation().await? else { return Ok(()) };
    match books.member_with(&federation, theirs).await? {
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
    let Some(secret) = books.secret(&entry.secret).await? else { return Ok(()) };
    if secret.annotations().contains_key(CLUSTER_UID) {
        return Err(taken());
    }
    // Nobody has written down yet which cluster it is: it can say so itself.
    let credentials = Credentials::from_secret(&entry.server, &secret).map_err(|_| taken())?;
    match see(&credentials).await {
        Ok(seen) if seen == theirs => Ok(()),
        _ => Err(taken()),
    }
}

/// The cluster may not be in another federation.
async fn check_unbound(candidate: &Candidate, own: &str, name: &ClusterId) -> Result<(), Error> {
    let api: Api<ClusterRoleBinding> = Api::all(candidate.client.clone());
    let found = within_deadline(api.get_opt(rbac::NAME)).await;
    let found =
        found.map_err(|error| Error::asked(Whose::Member(name.clone()), "read its bindings", error))?;
    let bound = found.as_ref().and_then(|binding| binding.annotations().get(rbac::FEDERATION));
    match bound {
        Some(bound) if bound != own => Err(Error::InAnother),
        _ => Ok(()),
    }
}

/// Makes the account by which the federation works in the member.
async fn admit(candidate: &Candidate, own: &str, name: &ClusterId) -> Result<Account, Error> {
    let asked = |what: &'static str| {
        let whose = Whose::Member(name.clone());
        move |error| Error::asked(whose, what, error)
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KOINON_NAMESPACE}});
    apply(&candidate.client, &namespace).await.map_err(asked("make the namespace koinon-system"))?;
    let binding = apply(&candidate.client, &rbac::binding(own, name.as_str())).await;
    let binding = binding.map_err(asked("make a ClusterRoleBinding"))?;
    let owner = rbac::owner(&binding.uid().unwrap_or_default());
    apply(&candidate.client, &rbac::role(&owner)).await.map_err(asked("make a ClusterRole"))?;
    let account =
        apply(&candidate.client, &rbac::account(&owner)).await.map_err(asked("make a ServiceAccount"))?;
    Ok(Account { name: account.name_any(), owner })
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
    let client = credentials.connect().await.map_err(|error| error.to_string())?;
    uid(&client).await.map_err(|error| said(&error))
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
        error if error.code() == Some(401) => "it refuses these credentials".into(),
        error => error.to_string(),
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
