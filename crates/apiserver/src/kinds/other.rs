//! Every group but core and `apps`.
use super::Strategy;

pub(super) fn strategy(_group: &str, _kind: &str) -> &'static Strategy {
    const PLAIN: &Strategy = &Strategy::PLAIN;
    PLAIN
}
