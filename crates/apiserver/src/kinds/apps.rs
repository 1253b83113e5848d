//! The group `apps`.
use super::Strategy;

pub(super) fn strategy(_kind: &str) -> &'static Strategy {
    const PLAIN: &Strategy = &Strategy::PLAIN;
    PLAIN
}
