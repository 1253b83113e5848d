//! Reads what a raw client needs from a kubeconfig: address, authority and identity.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Who to talk to, whom to trust, and who we are.
pub struct Kubeconfig {
    /// `host:port` of the server.
    pub address: String,
    /// PEM of the certificates to trust.
    pub authority: Vec<u8>,
    /// PEM of the client certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// A bearer token.
    pub token: Option<String>,
}

impl Kubeconfig {
    /// Reads the current context of the file; only inline certificates and tokens are understood.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
        let context = &named(&file, "contexts", file["current-context"].as_str())?["context"];
        let cluster = &named(&file, "clusters", context["cluster"].as_str())?["cluster"];
        let user = &named(&file, "users", context["user"].as_str())?["user"];
        let server = cluster["server"].as_str().context("the cluster has no server")?;
        let Some(address) = server.strip_prefix("https://") else {
            bail!("{server} is not an https address")
        };
        let identity = match (&user["client-certificate-data"], &user["client-key-data"]) {
            (Value::String(certificate), Value::String(key)) => {
                Some((STANDARD.decode(certificate)?, STANDARD.decode(key)?))
            }
            _ => None,
        };
        let authority = cluster["certificate-authority-data"].as_str().context("no inline authority")?;
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            authority: STANDARD.decode(authority)?,
            identity,
            token: user["token"].as_str().map(str::to_owned),
        })
    }
}

fn named<'a>(file: &'a Value, list: &str, name: Option<&str>) -> Result<&'a Value> {
    file[list]
        .as_array()
        .and_then(|entries| entries.iter().find(|entry| entry["name"].as_str() == name))
        .with_context(|| format!("the kubeconfig has no {name:?} in {list}"))
}
