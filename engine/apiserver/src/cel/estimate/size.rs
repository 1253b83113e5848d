//! Sizes within bounds, and the arithmetic of costs: neither overflows.

/// How many parts a value has, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: u64) -> Size {
        Size { min: size, max: size }
    }

    /// What the sizes of a literal's elements are joined to.
    pub(super) fn none_yet(is_empty: bool) -> Size {
        Size { min: if is_empty { 0 } else { u64::MAX }, max: 0 }
    }

    pub(super) fn union(self, other: Size) -> Size {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The most that it costs to go through a value of this size.
    pub(super) fn costs(self, factor: f64) -> u64 {
        by_factor(self.max, factor)
    }
}

/// Rounded up.
pub(super) fn by_factor(amount: u64, factor: f64) -> u64 {
    // A float that is too large for the type becomes the largest number of it.
    (amount as f64 * factor).ceil() as u64
}
