//! How many keys wait, asked when somebody looks: a number that is set now and then is one from now and then.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Queues by the name they are shown under; clones share them.
#[derive(Clone, Default)]
pub(super) struct Queues(Arc<Mutex<Vec<Queue>>>);

struct Queue {
    name: &'static str,
    /// Nothing once its owner is gone.
    waiting: Box<dyn Fn() -> Option<usize> + Send + Sync>,
}

impl Queues {
    pub(super) fn add<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        owner: &Arc<T>,
        waiting: impl Fn(&T) -> usize + Send + Sync + 'static,
    ) {
        let owner = Arc::downgrade(owner);
        let waiting = Box::new(move || owner.upgrade().map(|owner| waiting(&owner)));
        let mut queues = self.0.lock();
        // Leads come and go, also where nobody ever looks.
        queues.retain(|queue| (queue.waiting)().is_some());
        queues.push(Queue { name, waiting });
    }

    fn depths(&self) -> BTreeMap<&'static str, usize> {
        let mut depths = BTreeMap::new();
        for queue in self.0.lock().iter() {
            if let Some(waiting) = (queue.waiting)() {
                *depths.entry(queue.name).or_default() += waiting;
            }
        }
        depths
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queues").field(&self.depths()).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Keys that wait to be worked on";
        let mut family = encoder.encode_descriptor("queue_depth", help, None, MetricType::Gauge)?;
        for (queue, waiting) in self.depths() {
            let depth = ConstGauge::new(i64::try_from(waiting).unwrap_or(i64::MAX));
            depth.encode(family.encode_family(&[("queue", queue)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn queues_show_how_many_wait_at_this_moment_while_they_are_there() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let depths = text.lines().filter(|line| line.starts_with("koinon_member_queue_depth{"));
            depths.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [""; 0]);
        let [one, other, third] = [1, 2, 0].map(|count| Arc::new(Mutex::new(count)));
        for (name, queue) in [("services", &one), ("services", &other), ("workloads", &third)] {
            metrics.queue(name, queue, |queue| *queue.lock());
        }
        let both = |services, workloads| {
            [("services", services), ("workloads", workloads)].map(|(queue, depth): (&str, usize)| {
                format!("koinon_member_queue_depth{{queue=\"{queue}\"}} {depth}")
            })
        };
        assert_eq!(shown(), both(3, 0));
        *third.lock() = 7;
        drop(other);
        assert_eq!(shown(), both(1, 7));
    }
}
