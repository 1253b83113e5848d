//! How far a rolling update of a DaemonSet may go.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The numbers that bound an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) surge: usize,
    pub(super) unavailable: usize,
}

pub(super) fn is_rolling(set: &DaemonSet) -> bool {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate")
}

/// Whether there may be two pods on a node.
pub(super) fn allows_surge(set: &DaemonSet) -> bool {
    of(set, 1).surge > 0
}

/// The limits for so many nodes.
pub(super) fn of(set: &DaemonSet, nodes: usize) -> Limits {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref()).filter(|_| is_rolling(set));
    let surge = portion(rolling.and_then(|rolling| rolling.max_surge.as_ref()), nodes);
    let unavailable = portion(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), nodes);
    Limits { surge, unavailable }
}

/// A number, or a share in percent, rounded up.
fn portion(value: Option<&IntOrString>, whole: usize) -> usize {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(0),
        Some(IntOrString::String(text)) => {
            let percent: usize = text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
            (percent.saturating_mul(whole)).div_ceil(100)
        }
    }
}
