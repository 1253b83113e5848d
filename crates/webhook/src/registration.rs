//! The object by which the API server knows the webhook, kept as it should be.

use std::convert::Infallible;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use koinon_control::call::{self, within_deadline};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::{Certificates, Metrics};

/// How long an API server waits for an answer, in seconds: a write is not to feel that nobody is there.
pub const PATIENCE: u64 = 2;
/// How often it is looked whether the object is as it was left.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// API servers hear of a new authority within this time; until then the certificate before it is shown.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
const MANAGER: &str = "koinon";

/// Which writes are looked at, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The name of the object.
    pub name: &'static str,
    /// The name of the webhook in it, which users see when they are refused: three parts or more.
    pub webhook: &'static str,
    /// As in the API: `apiGroups`, `apiVersions`, `operations`, `resources`.
    pub rules: Value,
    /// As in the API: conditions without which it need not be asked.
    pub conditions: Value,
    pub place: Place,
}

/// Where an API server finds the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Url(String),
    Service { namespace: String, name: String, port: u16 },
}

impl Place {
    /// The place that a URL names. `https://NAME.NAMESPACE.svc` is a Service: its name means nothing to an API server, which
    /// has to be told of the Service itself.
    pub fn of(url: &str) -> Result<Place, String> {
        let wrong = || format!("{url:?} is no address of a webhook: write it like https://10.0.0.1:9443");
        let uri: http::Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(wrong)?;
        if uri.query().is_some() || uri.path().len() > 1 {
            return Err(wrong());
        }
        match host.split('.').collect::<Vec<_>>().as_slice() {
            [name, namespace, "svc"] => {
                let port = uri.port_u16().unwrap_or(443);
                Ok(Place::Service { namespace: (*namespace).into(), name: (*name).into(), port })
            }
            _ => Ok(Place::Url(url.trim_end_matches('/').to_owned())),
        }
    }

    /// The name or address that the certificate has to be for.
    pub fn host(&self) -> String {
        match self {
            Place::Url(url) => {
                let uri: http::Uri = url.parse().unwrap_or_default();
                uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned()
            }
            Place::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    fn config(&self, bundle: &str) -> Value {
        let bundle = STANDARD.encode(bundle);
        match self {
            Place::Url(url) => json!({"caBundle": bundle, "url": format!("{url}/")}),
            Place::Service { namespace, name, port } => json!({
                "caBundle": bundle,
                "service": {"namespace": namespace, "name": name, "port": port, "path": "/"},
            }),
        }
    }
}

impl Registration {
    /// The object, for those who trust this bundle.
    pub fn object(&self, bundle: &str) -> Value {
        let mut webhook = json!({
            "name": self.webhook,
            "clientConfig": self.place.config(bundle),
            "rules": self.rules,
            // A cluster works without us: see the crate's words on it.
            "failurePolicy": "Ignore",
            "timeoutSeconds": PATIENCE,
            "sideEffects": "None",
            "matchPolicy": "Equivalent",
            "admissionReviewVersions": ["v1"],
        });
        if self.conditions.as_array().is_some_and(|conditions| !conditions.is_empty()) {
            webhook["matchConditions"] = self.conditions.clone();
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name, "labels": {"app.kubernetes.io/managed-by": MANAGER}},
            "webhooks": [webhook],
        })
    }

    /// What a role needs to be allowed to keep the object. Who may change such an object can have all writes of the cluster
    /// shown to somebody, so it is this one object only.
    pub fn permission(name: &str) -> Value {
        json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": [name],
            "verbs": ["get", "create", "patch", "delete"],
        })
    }
}

/// Keeps a webhook registered at one API server.
pub struct Registrar<'a> {
    registration: &'a Registration,
    certificates: &'a Certificates,
    metrics: &'a Metrics,
    api: Api<ValidatingWebhookConfiguration>,
    /// As it was left.
    written: Option<Written>,
}

struct Written {
    bundle: String,
    uid: Option<String>,
    version: Option<String>,
}

impl<'a> Registrar<'a> {
    pub fn new(
        client: Client,
        registration: &'a Registration,
        certificates: &'a Certificates,
        metrics: &'a Metrics,
    ) -> Registrar<'a> {
        Registrar { registration, certificates, metrics, api: Api::all(client), written: None }
    }

    /// Keeps the object, and the certificate fresh, for as long as it is polled.
    pub async fn keep(&mut self) -> Infallible {
        loop {
            let pause = match self.look().await {
                Ok(pause) => pause,
                Err(why) => {
                    tracing::warn!(webhook = self.registration.webhook, why, "the webhook is not registered");
                    LOOK_EVERY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One look; when the next is due.
    async fn look(&mut self) -> Result<Duration, String> {
        let until_due = self.certificates.look_ahead().map_err(|error| error.to_string())?;
        let bundle = self.certificates.bundle();
        self.settle(&bundle).await.map_err(|error| error.to_string())?;
        if self.certificates.is_waiting() {
            tokio::time::sleep(HEARD_WITHIN).await;
            self.certificates.trusted(&bundle);
            return Ok(Duration::ZERO);
        }
        self.metrics.certificate_ends(self.certificates.end());
        Ok(until_due.min(LOOK_EVERY))
    }

    /// Makes the object be as it should; writes nothing where it is.
    async fn settle(&mut self, bundle: &str) -> Result<(), call::Error> {
        let name = self.registration.name;
        if let Some(written) = self.written.as_ref().filter(|written| written.bundle == bundle) {
            let found = within_deadline(self.api.get_opt(name)).await?;
            if found.is_some_and(|found| found.resource_version() == written.version) {
                return Ok(());
            }
        }
        // By force: the object is called after us, so that nobody else has business with its fields.
        let params = PatchParams::apply(MANAGER).force();
        let object = self.registration.object(bundle);
        let object = within_deadline(self.api.patch(name, &params, &Patch::Apply(&object))).await?;
        let (uid, version) = (object.uid(), object.resource_version());
        self.written = Some(Written { bundle: bundle.to_owned(), uid, version });
        Ok(())
    }

    /// Takes the object away, if it is still as it was left: another may have taken over already.
    pub async fn withdraw(self) {
        let Some(Written { uid, version, .. }) = self.written else { return };
        let preconditions = Preconditions { uid, resource_version: version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match within_deadline(self.api.delete(self.registration.name, &params)).await {
            Ok(_) => {}
            Err(error) if error.is_object_absent() || error.is_conflict() => {}
            Err(error) => {
                tracing::warn!(webhook = self.registration.webhook, %error, "the webhook is still registered");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_url_or_a_service() {
        for (url, expected) in [
            ("https://10.0.0.1:9443", Some(("10.0.0.1", json!({"url": "https://10.0.0.1:9443/"})))),
            ("https://[::1]:9443/", Some(("::1", json!({"url": "https://[::1]:9443/"})))),
            (
                "https://hook.koinon-system.svc",
                Some((
                    "hook.koinon-system.svc",
                    json!({"service": {"namespace": "koinon-system", "name": "hook", "port": 443, "path": "/"}}),
                )),
            ),
            ("http://10.0.0.1", None),
            ("https://10.0.0.1/path", None),
            ("10.0.0.1:9443", None),
            ("", None),
        ] {
            let place = Place::of(url).ok();
            let found = place.map(|place| {
                let mut config = place.config("x");
                assert_eq!(config.as_object_mut().unwrap().remove("caBundle"), Some(json!("eA==")));
                (place.host(), config)
            });
            assert_eq!(found, expected.map(|(host, config)| (host.to_owned(), config)), "{url}");
        }
    }

    #[test]
    fn a_cluster_works_without_the_webhook() {
        let registration = Registration {
            name: "koinon-x",
            webhook: "x.koinon.dev",
            rules: json!([]),
            conditions: json!([]),
            place: Place::Url("https://h".into()),
        };
        let object = registration.object("b");
        let webhook = &object["webhooks"][0];
        assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Ignore"), &json!(2)));
        assert_eq!(webhook.get("matchConditions"), None);
        serde_json::from_value::<ValidatingWebhookConfiguration>(object).unwrap();
    }
}
