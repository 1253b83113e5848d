//! Amounts of resources: what a node has, what a pod asks for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by the name of the resource: CPU in thousandths, all else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub(super) fn of(quantities: &BTreeMap<String, Quantity>) -> Amounts {
        let amount = |name: &str, quantity: &Quantity| {
            let nanos = parse(&quantity.0).unwrap_or(0);
            let unit = if name == "cpu" { 1_000_000 } else { 1_000_000_000 };
            // Always up: nobody gets less than asked for.
            i64::try_from((nanos + unit - 1).div_euclid(unit)).unwrap_or(i64::MAX)
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
    parse(text).is_some_and(|amount| amount > 0)
}

/// A quantity in billionths; none if it is not one.
fn parse(text: &str) -> Option<i128> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (base, exponent): (i128, i32) = match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => (10, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    // Billionths first, then the suffix; what is smaller than a billionth is rounded up.
    let digits = format!("{whole}{fraction}");
    let mantissa: i128 =
        digits.trim_start_matches('0').chars().take(30).collect::<String>().parse().unwrap_or(0);
    let places = i32::try_from(fraction.len()).ok()?;
    let tens = if base == 10 { 9 - places + exponent } else { 9 - places };
    let scaled = if tens >= 0 {
        mantissa.saturating_mul(10i128.saturating_pow(tens.unsigned_abs()))
    } else {
        let divisor = 10i128.saturating_pow(tens.unsigned_abs());
        mantissa.div_euclid(divisor) + i128::from(mantissa.rem_euclid(divisor) != 0)
    };
    let value = if base == 2 { scaled.saturating_mul(2i128.pow(exponent.unsigned_abs())) } else { scaled };
    Some(sign * value)
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
