//! The API server that a command or a role works with: which kubeconfig and context lead there, so that an error can say it.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use http::{Request, Response, StatusCode};
use koinon_control::bounds::{Bounds, limiting};
use koinon_control::client::{Keepalive, connect};
use koinon_control::proxy;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::heard;

/// How to reach an API server.
pub(crate) struct Access {
    pub(crate) config: Config,
    pub(crate) place: Place,
    /// The proxy that the kubeconfig itself names.
    pub(crate) proxy: Option<String>,
}

/// An API server, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    server: String,
    /// Where that is said, such as `context federation of /home/me/.kube/config`.
    source: String,
}

impl Place {
    pub(crate) fn server(&self) -> &str {
        &self.server
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.server, self.source)
    }
}

impl Access {
    /// As a context of a kubeconfig says: of that file, or of kubectl's.
    pub(crate) async fn of_kubeconfig(file: Option<&Path>, context: Option<&str>) -> anyhow::Result<Access> {
        let name = file.map_or_else(kubectls, |file| file.display().to_string());
        let read = match file {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let kubeconfig = read.map_err(|error| match file {
            Some(_) => unreadable(&name, &error),
            None => {
                let why = unreadable(&name, &error);
                anyhow!("{why} with --kubeconfig")
            }
        })?;
        let context = chosen(&kubeconfig, context, &name)?;
        let proxy = proxy::named(&kubeconfig, Some(&context));
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let source = format!("context {context} of {name}");
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.with_context(|| format!("the {source} cannot be used"))?;
        Access::settled(config, source, proxy)
    }

    /// The cluster that this runs in, if it runs in one.
    pub(crate) fn of_pod() -> Option<anyhow::Result<Access>> {
        let config = Config::incluster().ok()?;
        Some(Access::settled(config, "the cluster that this runs in".into(), None))
    }

    fn settled(mut config: Config, source: String, proxy: Option<String>) -> anyhow::Result<Access> {
        proxy::settle(&mut config, proxy.as_deref()).map_err(|why| anyhow!("the {source}: {why}"))?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Access { config, place: Place { server, source }, proxy })
    }

    fn bounded(self) -> anyhow::Result<Client> {
        let place = self.place;
        let client =
            connect(&self.config, Keepalive::default()).with_context(|| format!("{place} cannot be used"))?;
        // A server that sends without end must not end this process.
        Ok(limiting(client, Bounds::default()))
    }

    /// A client for what goes on while nobody answers: the log says so.
    pub(crate) fn client(self) -> anyhow::Result<Client> {
        let place = self.place.clone();
        let client = self.bounded()?;
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, place) = (client.clone(), place.clone());
            async move {
                let answer = client.send(request).await;
                heard::note(&place, &answer);
                answer
            }
        });
        Ok(Client::new(service, "default"))
    }

    /// A client whose failures say where it was sent.
    pub(crate) fn telling_client(self) -> anyhow::Result<Client> {
        let place = self.place.clone();
        let client = self.bounded()?;
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, place) = (client.clone(), place.clone());
            async move { tell(client.send(request).await, &place) }
        });
        Ok(Client::new(service, "default"))
    }
}

/// An API server that gave no answer.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place} does not answer: {why}; see that it runs and that this machine reaches it, or name another with --kubeconfig \
     and --context"
)]
struct Unanswered {
    place: Place,
    why: String,
}

fn tell(answer: kube::Result<Response<Body>>, place: &Place) -> kube::Result<Response<Body>> {
    match answer {
        Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
            let message = heard::refusal(place);
            let status = serde_json::json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                "reason": "Unauthorized", "code": 401, "message": message});
            let (head, _) = answer.into_parts();
            Ok(Response::from_parts(head, Body::from(status.to_string().into_bytes())))
        }
        Ok(answer) => Ok(answer),
        Err(error) => {
            let why = innermost(&error);
            Err(kube::Error::Service(Box::new(Unanswered { place: place.clone(), why })))
        }
    }
}

/// The context that is meant, and where it is not there, those that are.
fn chosen(kubeconfig: &Kubeconfig, wanted: Option<&str>, file: &str) -> anyhow::Result<String> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|one| one.name.as_str()).collect();
    let has = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
    let current = kubeconfig.current_context.as_deref().filter(|current| !current.is_empty());
    match wanted.or(current) {
        Some(name) if names.contains(&name) => Ok(name.to_owned()),
        Some(name) => bail!("the kubeconfig {file} has no context {name}: name another; {has}"),
        None => bail!("the kubeconfig {file} has no current context: name one with --context; {has}"),
    }
}

/// The kubeconfig that kubectl uses.
fn kubectls() -> String {
    match std::env::var("KUBECONFIG") {
        Ok(files) if !files.is_empty() => files,
        _ => {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            home.join(".kube/config").display().to_string()
        }
    }
}

pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match cause.to_string() {
        text if text == "deadline has elapsed" => "no connection in time".into(),
        text => text,
    }
}

/// What is wrong with a kubeconfig, in one sentence: what a parser shows of the file may be a password.
fn unreadable(file: &str, error: &dyn std::error::Error) -> anyhow::Error {
    let why = innermost(error);
    let why = why.lines().next().unwrap_or_default().trim_end_matches(':');
    anyhow!("cannot read the kubeconfig {file}: {why}; give the path of one that can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(server: &str, more: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: one, contexts: [{{name: one, context: {{cluster: c, \
             user: u}}}}, {{name: other, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, cluster: \
             {{server: '{server}'{more}}}}}], users: [{{name: u, user: {{token: t}}}}]}}"
        )
    }

    async fn told(text: &str, context: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        let access = Access::of_kubeconfig(Some(&file), context).await;
        let told = access.err().map_or_else(String::new, |error| format!("{error:#}"));
        told.replace(&file.display().to_string(), "FILE")
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_told_in_one_sentence() {
        let told_bad =
            told("apiVersion: v1\nkind: Config\nclusters: [\n  password: 7\nusers: }\n", None).await;
        assert!(
            told_bad.starts_with("cannot read the kubeconfig FILE") && told_bad.contains("line"),
            "{told_bad}"
        );
        assert!(!told_bad.contains('\n') && !told_bad.contains("password"), "{told_bad}");
        let good = kubeconfig("https://127.0.0.1:1", "");
        assert_eq!(
            told(&good, Some("third")).await,
            "the kubeconfig FILE has no context third: name another; it has one, other"
        );
        assert_eq!(
            told(&good.replace("current-context: one,", ""), None).await,
            "the kubeconfig FILE has no current context: name one with --context; it has one, other"
        );
        assert_eq!(
            told(&kubeconfig("https://127.0.0.1:1", ", proxy-url: 'ftp://x'"), None).await,
            "the context one of FILE: the proxy is no address: one is http://HOST:PORT or socks5://HOST:PORT"
        );
        let missing = Access::of_kubeconfig(Some(Path::new("/nowhere/config")), None).await.err().unwrap();
        assert!(format!("{missing:#}").contains("No such file"), "{missing:#}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_named_with_where_it_was_found() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Nobody listens on a port that was just given back.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, kubeconfig(&server, "")).unwrap();
        let access = Access::of_kubeconfig(Some(&file), Some("other")).await.unwrap();
        let client = access.telling_client().unwrap();
        let error = koinon_fleet::membership::list(&client, koinon_context::wall_clock())
            .await
            .unwrap_err()
            .to_string();
        let place = format!("{server} (context other of {})", file.display());
        assert!(
            error.starts_with(&format!("the federation could not be asked: {place} does not answer: ")),
            "{error}"
        );
        assert!(error.contains("refused") && error.ends_with("with --kubeconfig and --context"), "{error}");
    }
}
