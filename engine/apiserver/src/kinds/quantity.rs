//! Amounts as they stand in objects, where what is absent or no amount at all counts as nothing.

use std::fmt;

use serde_json::Value;

use crate::quantity;

/// An amount such as `500m` or `2Gi`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(quantity::Quantity);

impl Quantity {
    pub(crate) fn zero() -> Self {
        Quantity(quantity::Quantity::zero())
    }

    /// Reads an amount; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        quantity::Quantity::parse(text).ok().map(Quantity)
    }

    /// Reads an amount as it stands in an object; zero if there is none.
    pub(crate) fn of(value: &Value) -> Self {
        let read = match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        };
        read.unwrap_or_else(Self::zero)
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.0.is_negative()
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    pub(crate) fn is_positive(&self) -> bool {
        !self.is_zero() && !self.is_negative()
    }

    /// The amount in whole units.
    pub(crate) fn value(&self) -> i64 {
        self.0.value()
    }

    /// The amount in thousandths.
    pub(crate) fn milli_value(&self) -> i64 {
        self.0.milli_value()
    }

    /// Rounded up to thousandths, where it is finer than that: nothing finer is stored.
    pub(crate) fn rounded_to_milli(&self) -> Option<Self> {
        // What has more thousandths than can be counted has none that are finer.
        let milli = Some(self.milli_value()).filter(|milli| *milli > i64::MIN && *milli < i64::MAX)?;
        let rounded = Self::parse(&format!("{milli}m"))?;
        // Adding gives the canonical form.
        (rounded != *self).then(|| rounded.plus(&Self::zero()))
    }

    /// The sum, written as the first one is.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Quantity(self.0.add(&other.0))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finer_than_thousandths_is_rounded_up() {
        let rounded = |text| Quantity::parse(text).unwrap().rounded_to_milli().map(|q| q.to_string());
        assert_eq!(rounded("100u").as_deref(), Some("1m"));
        assert_eq!(rounded("1000.5m").as_deref(), Some("1001m"));
        assert_eq!(rounded("1m"), None);
        assert_eq!(rounded("2Gi"), None);
        assert_eq!(rounded("10Pi"), None);
    }
}
