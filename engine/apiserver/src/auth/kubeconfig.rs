//! The file that tells kubectl and others how to reach a cluster, and as whom.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::files::write_private;
use super::pki::Credential;

/// A cluster and a user of it. Context, cluster and user all have the same name.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a str,
    /// The server's URL.
    pub server: &'a str,
    /// The certificate of the server's authority, as PEM.
    pub authority: &'a str,
    pub login: Login<'a>,
    /// What commands without a namespace are about; `default` unless given.
    pub namespace: Option<&'a str>,
}

/// How a user shows who they are.
#[derive(Clone, Copy)]
pub enum Login<'a> {
    Certificate(&'a Credential),
    Token(&'a str),
}

impl std::fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Login::Certificate(_) => "Certificate",
            Login::Token(_) => "Token",
        })
    }
}

/// Writes a kubeconfig that only its owner can read. `current` names the entry that is used unless told
/// otherwise.
pub fn write(path: &Path, entries: &[Entry<'_>], current: &str) -> io::Result<()> {
    write_private(path, render(entries, current).as_bytes())
}

/// The text of a kubeconfig.
pub fn render(entries: &[Entry<'_>], current: &str) -> String {
    let mut text = String::from("apiVersion: v1\nkind: Config\nclusters:");
    for Entry { name, server, authority, .. } in entries {
        text.push_str(&format!(
            "\n- name: {}\n  cluster:\n    certificate-authority-data: {}\n    server: {}",
            quoted(name),
            STANDARD.encode(authority),
            quoted(server),
        ));
    }
    text.push_str("\nusers:");
    for Entry { name, login, .. } in entries {
        let login = match login {
            Login::Certificate(credential) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                STANDARD.encode(&credential.certificate),
                STANDARD.encode(&credential.key),
            ),
            Login::Token(token) => format!("token: {}", quoted(token)),
        };
        text.push_str(&format!("\n- name: {}\n  user:\n    {login}", quoted(name)));
    }
    text.push_str("\ncontexts:");
    for Entry { name, namespace, .. } in entries {
        let name = quoted(name);
        text.push_str(&format!("\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}"));
        if let Some(namespace) = namespace {
            text.push_str(&format!("\n    namespace: {}", quoted(namespace)));
        }
    }
    text.push_str(&format!("\ncurrent-context: {}\n", quoted(current)));
    text
}

/// A JSON string is a YAML string that nothing can be mistaken for: not a number, a boolean or a null.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let credential = Credential { certificate: "certificate\n".into(), key: "key\n".into() };
        let entry = |name, login, namespace| Entry {
            name,
            server: "https://127.0.0.1:6443",
            authority: "authority\n",
            login,
            namespace,
        };
        let entries = [
            entry("east", Login::Certificate(&credential), None),
            entry("no: \"1\"", Login::Token("t:\\1"), Some("null")),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        write(&path, &entries, "no: \"1\"").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let cluster =
            json!({"certificate-authority-data": "YXV0aG9yaXR5Cg==", "server": "https://127.0.0.1:6443"});
        assert_eq!(
            read,
            json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "no: \"1\"",
                "clusters": [{"name": "east", "cluster": cluster}, {"name": "no: \"1\"", "cluster": cluster}],
                "users": [
                    {"name": "east", "user": {"client-certificate-data": "Y2VydGlmaWNhdGUK", "client-key-data": "a2V5Cg=="}},
                    {"name": "no: \"1\"", "user": {"token": "t:\\1"}},
                ],
                "contexts": [
                    {"name": "east", "context": {"cluster": "east", "user": "east"}},
                    {"name": "no: \"1\"", "context": {"cluster": "no: \"1\"", "user": "no: \"1\"", "namespace": "null"}},
                ],
            })
        );
    }
}
