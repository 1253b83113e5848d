//! How members are reached: one context each, in the kubeconfig of a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use koinon_control::bounds::{Bounds, limiting};
use koinon_control::client::{Keepalive, connect};
use koinon_control::proxy;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::DynamicObject;
use kube::{Client, Config};

use crate::call::sentence;
use crate::names::{NAMESPACE, SECRET, SECRET_KEY};

/// A server that does not even take a connection will not answer in time either.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Makes a client for one context of a kubeconfig, or says why that is not possible.
pub type Connect =
    Arc<dyn Fn(Kubeconfig, String) -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// Connects as the kubeconfig says, and retries nothing: when to try again is for the federator to decide.
pub fn by_kubeconfig() -> Connect {
    Arc::new(|kubeconfig, context| Box::pin(client(kubeconfig, context)))
}

async fn client(kubeconfig: Kubeconfig, context: String) -> Result<Client, String> {
    self_contained(&kubeconfig)?;
    let proxy = proxy::named(&kubeconfig, Some(&context));
    let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| error.to_string())?;
    config.connect_timeout = Some(CONNECT_WITHIN);
    proxy::settle(&mut config, proxy.as_deref())?;
    let client = connect(&config, Keepalive::default()).map_err(|error| sentence(&error))?;
    // One member that sends without end must not end the federator of all.
    Ok(limiting(client, Bounds::default()))
}

/// Whoever can write the Secret must not thereby run programs or read files here.
fn self_contained(kubeconfig: &Kubeconfig) -> Result<(), String> {
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let foreign =
        users
            .flat_map(|user| {
                [
                    (user.exec.is_some(), "a credential program (exec)"),
                    (user.auth_provider.is_some(), "an auth-provider"),
                    (user.token_file.is_some(), "a token file"),
                    (user.client_certificate.is_some() || user.client_key.is_some(), "certificate files"),
                ]
            })
            .chain(kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()).map(|cluster| {
                (cluster.certificate_authority.is_some(), "a file with the server's authority")
            }))
            .find(|(used, _)| *used);
    match foreign {
        None => Ok(()),
        Some((_, what)) => {
            Err(format!("it uses {what}: put the token or the certificates themselves into the kubeconfig"))
        }
    }
}

/// The contexts of the Secret's kubeconfig, each with what belongs to it alone.
#[derive(Default)]
pub(crate) struct Contexts {
    by_name: BTreeMap<String, Context>,
}

pub(crate) struct Context {
    pub(crate) kubeconfig: Kubeconfig,
    /// Equal as long as the same server is reached in the same way. It holds secrets: never shown.
    pub(crate) fingerprint: String,
}

impl Contexts {
    /// Reads the Secret; it holds one object at most.
    pub(crate) fn read(secret: Option<&DynamicObject>) -> Result<Contexts, String> {
        let place = format!("Secret {NAMESPACE}/{SECRET}");
        let secret =
            secret.ok_or_else(|| format!("{place} is not there: create it with the key {SECRET_KEY}"))?;
        let value = secret.data.pointer(&format!("/data/{SECRET_KEY}"));
        let value = value.ok_or_else(|| format!("{place} has no key {SECRET_KEY}"))?;
        let bytes: ByteString = serde_json::from_value(value.clone())
            .map_err(|_| format!("the key {SECRET_KEY} in {place} is not base64"))?;
        let text =
            String::from_utf8(bytes.0).map_err(|_| format!("the key {SECRET_KEY} in {place} is not text"))?;
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| {
            format!("the key {SECRET_KEY} in {place} is no kubeconfig{}", whereabouts(&error))
        })?;
        Ok(Contexts::of(&kubeconfig))
    }

    fn of(kubeconfig: &Kubeconfig) -> Contexts {
        let one = |named: &kube::config::NamedContext| {
            let context = named.context.clone().unwrap_or_default();
            let user = context.user.clone().unwrap_or_default();
            let alone = Kubeconfig {
                clusters: kubeconfig
                    .clusters
                    .iter()
                    .filter(|one| one.name == context.cluster)
                    .cloned()
                    .collect(),
                auth_infos: kubeconfig.auth_infos.iter().filter(|one| one.name == user).cloned().collect(),
                contexts: vec![named.clone()],
                ..Kubeconfig::default()
            };
            let fingerprint = serde_json::to_string(&alone).unwrap_or_default();
            (named.name.clone(), Context { kubeconfig: alone, fingerprint })
        };
        // The first of two with one name counts, as for kubectl.
        Contexts { by_name: kubeconfig.contexts.iter().rev().map(one).collect() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Context> {
        self.by_name.get(name)
    }
}

/// Where in the text the mistake is. The reader's own message would quote the text, which is secret.
fn whereabouts(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(location) => format!(" (line {}, column {})", location.line(), location.column()),
            None => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    fn secret(text: &str) -> DynamicObject {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
        let mut secret = DynamicObject::new(SECRET, &resource).within(NAMESPACE);
        secret.data = json!({"data": {SECRET_KEY: ByteString(text.as_bytes().to_vec())}});
        secret
    }

    const TWO: &str = "
clusters:
- {name: one, cluster: {server: 'https://one:6443'}}
- {name: two, cluster: {server: 'https://two:6443'}}
users:
- {name: u, user: {token: hidden}}
- {name: exec, user: {exec: {command: evil}}}
contexts:
- {name: a, context: {cluster: one, user: u}}
- {name: b, context: {cluster: two, user: u}}
- {name: c, context: {cluster: two, user: exec}}
";

    #[test]
    fn a_context_changes_only_with_what_belongs_to_it() {
        let before = Contexts::read(Some(&secret(TWO))).unwrap();
        let after = Contexts::read(Some(&secret(&TWO.replace("https://two", "https://elsewhere")))).unwrap();
        let same = |name: &str| before.get(name).unwrap().fingerprint == after.get(name).unwrap().fingerprint;
        assert_eq!((same("a"), same("b")), (true, false));
        let rotated = Contexts::read(Some(&secret(&TWO.replace("hidden", "another")))).unwrap();
        assert_ne!(before.get("a").unwrap().fingerprint, rotated.get("a").unwrap().fingerprint);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        let bad = "users:\n- {name: u, user: {token: hidden}\ncontexts: hidden\n";
        for (secret, said) in [
            (None, "Secret avi-system/gslb-config-secret is not there: create it with the key gslb-members"),
            (
                Some(secret(bad)),
                "the key gslb-members in Secret avi-system/gslb-config-secret is no kubeconfig",
            ),
            (
                Some(secret("just text")),
                "the key gslb-members in Secret avi-system/gslb-config-secret is no kubeconfig",
            ),
        ] {
            let error = Contexts::read(secret.as_ref()).err().expect("an error");
            assert!(error.starts_with(said) && !error.contains("hidden"), "{error}");
        }
        let mut keyless = secret("");
        keyless.data = json!({});
        assert_eq!(
            Contexts::read(Some(&keyless)).err().unwrap(),
            "Secret avi-system/gslb-config-secret has no key gslb-members"
        );
    }

    #[tokio::test]
    async fn a_kubeconfig_runs_no_programs_and_reads_no_files() {
        let contexts = Contexts::read(Some(&secret(TWO))).unwrap();
        let context = contexts.get("c").unwrap();
        let error = by_kubeconfig()(context.kubeconfig.clone(), "c".into()).await.err().unwrap();
        assert!(error.contains("a credential program"), "{error}");
    }
}
