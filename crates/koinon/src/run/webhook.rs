//! `--webhook`: a port at which an API server asks before it takes a write.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use futures::future::LocalBoxFuture;
use koinon_apiserver::serve::listen;
use koinon_control::Clock;
use koinon_webhook::registration::Registrar;
use koinon_webhook::{Certificates, Metrics, Place, Registration, Reviewer, router};
use kube::Client;
use serde_json::Value;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

/// Whether mistakes are refused at once, and where.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Webhook")]
pub(crate) struct WebhookFlags {
    /// Serve a validating webhook on this address, and register it: mistakes are then refused at once, not only reported
    #[arg(long, value_name = "ADDR")]
    webhook: Option<SocketAddr>,
    /// How the API server reaches it, such as `https://10.0.0.1:9443` or `https://NAME.NAMESPACE.svc` for a Service [default: the
    /// address that faces the API server]
    #[arg(long, value_name = "URL", requires = "webhook", value_parser = Place::of)]
    webhook_url: Option<Place>,
}

/// What a role has looked at, and by whom.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) webhook: &'static str,
    pub(crate) rules: Value,
    pub(crate) conditions: Value,
    pub(crate) reviewer: Arc<dyn Reviewer>,
}

/// A webhook that is served until this is dropped.
pub(crate) struct Webhook {
    registration: Registration,
    certificates: Arc<Certificates>,
    metrics: Metrics,
    serving: JoinHandle<()>,
}

impl WebhookFlags {
    /// Opens the port, if one was asked for. `server` is the URL of the API server that is to ask.
    pub(crate) async fn open(
        &self,
        server: &str,
        subject: Subject,
        clock: Clock,
        metrics: Metrics,
    ) -> anyhow::Result<Option<Webhook>> {
        let Some(address) = self.webhook else { return Ok(None) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot serve a webhook on {address}: choose another with --webhook"))?;
        let bound = listener.local_addr().context("the webhook has no address")?;
        let place = match &self.webhook_url {
            Some(place) => place.clone(),
            None => Place::Url(format!(
                "https://{}",
                SocketAddr::new(facing(bound.ip(), server).await?, bound.port())
            )),
        };
        let certificates =
            Certificates::new(&place.host(), clock).context("the webhook has no certificate")?;
        let config = certificates.server_config().context("the webhook has no TLS")?;
        let router = router(subject.reviewer, metrics.clone());
        let Subject { name, webhook, rules, conditions, .. } = subject;
        let registration = Registration { name, webhook, rules, conditions, place };
        let serving =
            tokio::spawn(
                async move { listen::serve(listener, config, router, std::future::pending()).await },
            );
        Ok(Some(Webhook { registration, certificates, metrics, serving }))
    }
}

impl Webhook {
    /// Keeps the webhook registered while `work` goes on, and takes it back when that is done. What is dropped before leaves the
    /// registration to whoever leads next.
    pub(crate) fn beside<'a>(
        this: Option<&'a Webhook>,
        client: Client,
        work: impl Future<Output = ()> + 'a,
    ) -> LocalBoxFuture<'a, ()> {
        // Boxed: what a role does is large, and would be moved as a whole into whatever waits for it.
        Box::pin(async move {
            let Some(webhook) = this else { return work.await };
            let mut registrar =
                Registrar::new(client, &webhook.registration, &webhook.certificates, &webhook.metrics);
            tokio::select! {
                biased;
                () = work => {}
                never = registrar.keep() => match never {},
            }
            registrar.withdraw().await;
        })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The address of this machine that an API server can call back: where none was chosen, the one that leads to it.
async fn facing(bound: IpAddr, server: &str) -> anyhow::Result<IpAddr> {
    if !bound.is_unspecified() {
        return Ok(bound);
    }
    let uri: http::Uri = server.parse().context("the API server has no address")?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let found = async {
        // Nothing is sent: the system only chooses a way.
        let socket = UdpSocket::bind(SocketAddr::new(bound, 0)).await?;
        socket.connect((host, uri.port_u16().unwrap_or(443))).await?;
        Ok::<_, std::io::Error>(socket.local_addr()?.ip())
    };
    found.await.with_context(|| {
        format!("no way leads to {server}: say with --webhook-url how it reaches the webhook")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_that_faces_the_server_is_used() {
        let facing =
            async |bound: &str, server| facing(bound.parse().unwrap(), server).await.unwrap().to_string();
        assert_eq!(facing("10.1.2.3", "https://127.0.0.1:6443/").await, "10.1.2.3");
        assert_eq!(facing("0.0.0.0", "https://127.0.0.1:6443/").await, "127.0.0.1");
    }
}
