//! How far a rollout may go beyond the number of replicas, and how far below.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a Deployment replaces its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Rolling,
    Recreate,
}

/// The numbers that bound a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) strategy: Strategy,
    pub(super) replicas: i32,
    pub(super) max_surge: i32,
    pub(super) max_unavailable: i32,
}

impl Limits {
    pub(super) fn of(deployment: &Deployment) -> Limits {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let strategy = spec.and_then(|spec| spec.strategy.as_ref());
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Limits { strategy: Strategy::Recreate, replicas, max_surge: 0, max_unavailable: 0 };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let max_surge = portion(surge, replicas, 99);
        let mut max_unavailable = portion(unavailable, replicas, 0);
        // A share may come to nothing; then one pod goes first, because more pods than asked for may not fit.
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        let max_unavailable = max_unavailable.min(replicas);
        Limits { strategy: Strategy::Rolling, replicas, max_surge, max_unavailable }
    }

    /// The most pods that there may be.
    pub(super) fn most(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    /// The fewest pods that have to be available.
    pub(super) fn least(&self) -> i32 {
        self.replicas - self.max_unavailable
    }
}

/// A number, or a share of `whole` in percent; `round` hundredths are enough for one more.
fn portion(value: Option<&IntOrString>, whole: i32, round: i64) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i32>().ok()).unwrap_or(0);
            let hundredths = i64::from(percent) * i64::from(whole) + round;
            (hundredths / 100).try_into().unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(replicas: i32, surge: Value, unavailable: Value, expected: (i32, i32)) {
        let strategy = json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let limits = Limits::of(&deployment(replicas, strategy));
        assert_eq!((limits.max_surge, limits.max_unavailable), expected, "{replicas} {surge} {unavailable}");
    }

    fn deployment(replicas: i32, strategy: Value) -> Deployment {
        let spec = json!({"replicas": replicas, "strategy": strategy, "selector": {}, "template": {}});
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn surge_is_rounded_up_and_unavailability_down_and_never_are_both_nothing() {
        check(10, json!("25%"), json!("25%"), (3, 2));
        check(4, json!("25%"), json!("25%"), (1, 1));
        check(3, json!("25%"), json!("25%"), (1, 0));
        check(1, json!("25%"), json!("25%"), (1, 0));
        check(2, json!(0), json!("1%"), (0, 1));
        check(2, json!("0%"), json!("0%"), (0, 1));
        check(2, json!("1%"), json!("0%"), (1, 0));
        check(10, json!(5), json!(20), (5, 10));
        check(0, json!("25%"), json!("25%"), (0, 0));
        check(0, json!(2), json!(1), (2, 0));
        check(3, json!("200%"), json!("100%"), (6, 3));
    }

    #[test]
    fn recreating_allows_neither() {
        let limits = Limits::of(&deployment(3, json!({"type": "Recreate"})));
        assert_eq!((limits.strategy, limits.most(), limits.least()), (Strategy::Recreate, 3, 3));
    }
}
