//! What the webhook counts.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Said {
    verdict: &'static str,
}

/// The measurements of one webhook; clones share them.
#[derive(Clone, Default)]
pub struct Metrics {
    reviews: Family<Said, Counter>,
    certificate_end: Gauge,
}

impl Metrics {
    /// Makes the measurements visible under `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_webhook");
        registry.register("reviews", "Writes that were looked at, by what was said", self.reviews.clone());
        registry.register(
            "certificate_end_timestamp_seconds",
            "When the certificate that is shown ends",
            self.certificate_end.clone(),
        );
    }

    pub(crate) fn said(&self, verdict: &'static str) {
        self.reviews.get_or_create(&Said { verdict }).inc();
    }

    pub(crate) fn certificate_ends(&self, end: Timestamp) {
        self.certificate_end.set(end.as_second());
    }
}
