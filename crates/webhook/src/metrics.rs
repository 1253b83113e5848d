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
    /// Without a certificate there is nothing that ends.
    certificate_end: Family<[(&'static str, &'static str); 0], Gauge>,
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
        self.certificate_end.get_or_create(&[]).set(end.as_second());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_shown_once_there_is_one() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().find(|line| line.starts_with("koinon_webhook_certificate")).map(str::to_owned)
        };
        assert_eq!(shown(), None);
        metrics.certificate_ends(Timestamp::from_second(7).unwrap());
        assert_eq!(shown().as_deref(), Some("koinon_webhook_certificate_end_timestamp_seconds{} 7"));
    }
}
