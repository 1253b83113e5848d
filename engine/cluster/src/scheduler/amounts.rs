//! Amounts of resources: what a node has, what a pod asks for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amount::Amount;

/// Amounts by the name of the resource: CPU in thousandths, all else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub(super) fn of(quantities: &BTreeMap<String, Quantity>) -> Amounts {
        let amount = |name: &str, quantity: &Quantity| {
            let unit = if name == "cpu" { 1_000_000 } else { 1_000_000_000 };
            Amount::parse(&quantity.0).unwrap_or(Amount::ZERO).in_units_of(unit)
        };
        Amounts(quantities.iter().map(|(name, quantity)| (name.clone(), amount(name, quantity))).collect())
    }

    pub(super) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(super) fn add(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(super) fn subtract(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            let rest = self.0.entry(name.clone()).or_insert(0);
            *rest = rest.saturating_sub(*amount);
        }
    }

    fn at_least(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_insert(0);
            *most = (*most).max(*amount);
        }
    }
}

/// What a pod asks for at the time when it asks for most.
pub(super) fn asked(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::default() };
    let mut together = Amounts::default();
    for container in &spec.containers {
        together.add(&of_container(container));
    }
    // Init containers run one after the other, beside the sidecars that came before them.
    let (mut sidecars, mut starting) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&own);
            starting.at_least(&sidecars);
        } else {
            let mut now = sidecars.clone();
            now.add(&own);
            starting.at_least(&now);
        }
    }
    together.add(&sidecars);
    together.at_least(&starting);
    if let Some(requests) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) {
        // What is asked for the pod as a whole stands for its containers.
        together.0.extend(Amounts::of(requests).0);
    }
    if let Some(overhead) = &spec.overhead {
        together.add(&Amounts::of(overhead));
    }
    together.0.retain(|_, amount| *amount != 0);
    together
}

fn of_container(container: &Container) -> Amounts {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.map(Amounts::of).unwrap_or_default()
}

/// Whether this is a quantity, and more than nothing.
pub fn is_positive(text: &str) -> bool {
    Amount::parse(text).is_some_and(Amount::is_positive)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_does() {
        for (text, millis) in [
            ("1", 1000),
            ("250m", 250),
            ("0.5", 500),
            (".5", 500),
            ("1.", 1000),
            ("100u", 1),
            ("1n", 1),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("2E-1", 200),
            ("-1", -1000),
            ("0", 0),
            ("nonsense", 0),
            ("", 0),
        ] {
            let amounts = Amounts::of(&BTreeMap::from([("cpu".to_owned(), Quantity(text.to_owned()))]));
            assert_eq!(amounts.get("cpu"), millis, "{text:?}");
        }
        let memory = |text: &str| {
            Amounts::of(&BTreeMap::from([("memory".to_owned(), Quantity(text.to_owned()))])).get("memory")
        };
        assert_eq!(memory("1Ei"), 1 << 60);
        assert_eq!(memory("100Ei"), i64::MAX);
        assert_eq!(memory("128974848"), 128_974_848);
        assert_eq!(memory("1m"), 1);
    }

    #[test]
    fn a_pod_asks_for_what_it_needs_at_its_hungriest() {
        let container =
            |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}});
        let sidecar = |cpu: &str| {
            let mut container = container(cpu);
            container["restartPolicy"] = "Always".into();
            container
        };
        let cpu = |spec: serde_json::Value| {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            asked(&pod).get("cpu")
        };
        assert_eq!(cpu(json!({"containers": [container("1"), container("500m")]})), 1500);
        let init = |init: serde_json::Value| json!({"containers": [container("1")], "initContainers": init});
        assert_eq!(cpu(init(json!([container("3"), container("2")]))), 3000);
        assert_eq!(cpu(init(json!([container("500m")]))), 1000);
        // A sidecar stays beside the containers, and beside init containers after it.
        assert_eq!(cpu(init(json!([sidecar("1"), container("3")]))), 4000);
        assert_eq!(cpu(init(json!([container("3"), sidecar("1")]))), 3000);
        assert_eq!(cpu(init(json!([sidecar("2")]))), 3000);
        let mut spec = json!({"containers": [container("1")], "overhead": {"cpu": "100m"}});
        assert_eq!(cpu(spec.clone()), 1100);
        spec["resources"] = json!({"requests": {"cpu": "4"}});
        assert_eq!(cpu(spec), 4100);
        assert_eq!(cpu(json!({"containers": [{"name": "c"}]})), 0);
    }
}
