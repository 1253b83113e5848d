//! How the server is: health, version and metrics.

use axum::response::Response;
use http::StatusCode;
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::Inner;
use super::query::Query;
use super::respond::body;
use crate::store::Health;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u16,
}

/// What `/metrics` shows.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    objects: Gauge,
    revision: Gauge,
    journal_batches: Gauge,
    journal_operations: Gauge,
    events_kept: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and response code",
            requests.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Metrics {
            objects: gauge("koinon_store_objects", "Objects that are stored"),
            revision: gauge("koinon_store_revision", "The store's latest revision"),
            journal_batches: gauge("koinon_store_journal_batches", "Batches written to disk since the start"),
            journal_operations: gauge(
                "koinon_store_journal_operations",
                "Operations written since the start",
            ),
            events_kept: gauge("koinon_store_events_kept", "Events that watches can still resume from"),
            requests,
            registry: Mutex::new(registry),
        }
    }
}

impl Metrics {
    pub(crate) fn request(&self, verb: &str, resource: &str, code: u16) {
        let labels = RequestLabels { verb: verb.to_owned(), resource: resource.to_owned(), code };
        self.requests.get_or_create(&labels).inc();
    }

    fn text(&self, server: &Inner) -> String {
        let stats = server.store.stats();
        self.objects.set(stats.objects as i64);
        self.revision.set(stats.revision as i64);
        self.journal_batches.set(stats.batches as i64);
        self.journal_operations.set(stats.ops as i64);
        self.events_kept.set(stats.events as i64);
        let mut out = String::new();
        text::encode(&mut out, &self.registry.lock()).expect("writing to a string does not fail");
        out
    }
}

/// Answers the paths of this module; nothing for others.
pub(crate) fn serve(server: &Inner, path: &str, query: &Query) -> Option<Response> {
    let (check, single) = match path.split('/').skip(1).collect::<Vec<_>>()[..] {
        [check @ ("healthz" | "livez" | "readyz")] => (check, None),
        [check @ ("healthz" | "livez" | "readyz"), single] => (check, Some(single)),
        ["version"] => return Some(body(StatusCode::OK, "application/json", version())),
        ["metrics"] => {
            let text = server.metrics.text(server);
            return Some(body(
                StatusCode::OK,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text,
            ));
        }
        _ => return None,
    };
    const CHECKS: [&str; 2] = ["ping", "store"];
    let reason = failure(&server.store.health());
    let fault = |name: &str| if name == "store" { reason.as_deref() } else { None };
    let plain = |code, text: String| Some(body(code, "text/plain; charset=utf-8", text));
    match single {
        Some(single) if !CHECKS.contains(&single) => None,
        Some(single) => match fault(single) {
            None => plain(StatusCode::OK, "ok".to_owned()),
            Some(why) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {single} check failed: {why}\n"),
            ),
        },
        None => {
            let line = |name: &&str| match fault(name) {
                None => format!("[+]{name} ok\n"),
                Some(why) => format!("[-]{name} failed: {why}\n"),
            };
            let lines: String = CHECKS.iter().map(line).collect();
            if reason.is_some() {
                return plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{check} check failed\n"));
            }
            let said = if query.flag("verbose") {
                format!("{lines}{check} check passed\n")
            } else {
                "ok".to_owned()
            };
            plain(StatusCode::OK, said)
        }
    }
}

/// Why a store takes no writes; nothing if it does.
fn failure(health: &Health) -> Option<String> {
    match health {
        Health::Good => None,
        Health::Failed(cause) => Some(format!("its file cannot be written: {cause}")),
        Health::Closed => Some("it is closed".to_owned()),
    }
}

/// The release whose API this is, marked as ours.
fn version() -> Vec<u8> {
    let text = crate::data::read("version").expect("the data file has a version");
    let mut version: Value = serde_json::from_slice(&text).expect("the version is JSON");
    let release = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    version["gitVersion"] = format!("{release}+koinon").into();
    serde_json::to_vec(&version).expect("a value can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_takes_no_writes_has_a_reason() {
        let full: crate::store::Cause = std::sync::Arc::new(std::io::Error::other("disk full"));
        assert_eq!(failure(&Health::Failed(full)).unwrap(), "its file cannot be written: disk full");
        assert_eq!(failure(&Health::Good), None);
    }
}
