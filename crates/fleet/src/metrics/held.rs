//! How many bytes are held because of each member, asked when somebody looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use koinon_control::bounds::Held;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// What is held, by member; clones share it.
#[derive(Clone, Default)]
pub(super) struct Holdings(Arc<Mutex<Vec<Holding>>>);

/// A member, and what is held because of it; nothing once all of it is gone.
type Holding = (String, Weak<Held>);

impl Holdings {
    pub(super) fn add(&self, member: &str, held: &Arc<Held>) {
        let mut all = self.0.lock();
        all.retain(|(_, held)| held.strong_count() > 0);
        all.push((member.to_owned(), Arc::downgrade(held)));
    }

    /// One that left and came back counts together with what is left of its predecessor.
    pub(super) fn bytes(&self) -> BTreeMap<String, u64> {
        let mut bytes = BTreeMap::new();
        for (member, held) in self.0.lock().iter() {
            if let Some(held) = held.upgrade() {
                *bytes.entry(member.clone()).or_default() += held.bytes();
            }
        }
        bytes
    }
}

impl fmt::Debug for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Holdings").field(&self.bytes()).finish()
    }
}

impl Collector for Holdings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help =
            "Bytes held because of the member: answers that are being read, and records of its objects";
        let mut family = encoder.encode_descriptor("held_bytes", help, None, MetricType::Gauge)?;
        for (member, bytes) in self.bytes() {
            let gauge = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("member", member.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{ClusterId, Metrics};

    #[test]
    fn what_is_held_is_shown_while_anything_of_the_member_is_there() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| line.starts_with("koinon_member_held_bytes{")).collect::<String>()
        };
        assert_eq!(shown(), "");
        let held = Held::new(100);
        metrics.held(&ClusterId::new("a").unwrap(), &held);
        let mut portion = held.portion();
        portion.set(42).unwrap();
        assert_eq!(shown(), "koinon_member_held_bytes{member=\"a\"} 42");
        drop((held, portion));
        assert_eq!(shown(), "");
    }
}
