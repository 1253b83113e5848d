//! Whole numbers of any size, with the few operations quantities need.

use std::cmp::Ordering;
use std::fmt;

/// Each limb holds nine decimal digits.
const BASE: u64 = 1_000_000_000;

/// A whole number: limbs from the least, without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digits(Vec<u32>);

impl Digits {
    pub(super) fn zero() -> Self {
        Digits(Vec::new())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut limbs = Vec::with_capacity(text.len() / 9 + 1);
        let mut end = text.len();
        while end > 0 {
            let start = end.saturating_sub(9);
            limbs.push(text.get(start..end)?.parse().ok()?);
            end = start;
        }
        Some(Digits(limbs).trimmed())
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// How many decimal digits it has; none for zero.
    pub(super) fn len(&self) -> usize {
        match self.0.split_last() {
            Some((first, rest)) => first.ilog10() as usize + 1 + 9 * rest.len(),
            None => 0,
        }
    }

    pub(super) fn to_u64(&self) -> Option<u64> {
        self.0.iter().rev().try_fold(0u64, |sum, limb| sum.checked_mul(BASE)?.checked_add(u64::from(*limb)))
    }

    pub(super) fn times(&self, factor: u32) -> Self {
        let mut carry = 0;
        let mut limbs: Vec<u32> = Vec::with_capacity(self.0.len() + 1);
        for limb in &self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            limbs.push((product % BASE) as u32);
            carry = product / BASE;
        }
        limbs.push(carry as u32);
        Digits(limbs).trimmed()
    }

    /// Times ten to the power of `tens`.
    pub(super) fn shifted(&self, tens: u64) -> Self {
        if self.is_zero() {
            return Self::zero();
        }
        let mut limbs = vec![0; (tens / 9) as usize];
        limbs.extend_from_slice(&self.0);
        (0..tens % 9).fold(Digits(limbs), |number, _| number.times(10))
    }

    fn divided(&self, divisor: u32) -> (Self, u32) {
        let mut limbs = vec![0; self.0.len()];
        let mut rest = 0;
        for (at, limb) in self.0.iter().enumerate().rev() {
            let part = rest * BASE + u64::from(*limb);
            limbs[at] = (part / u64::from(divisor)) as u32;
            rest = part % u64::from(divisor);
        }
        (Digits(limbs).trimmed(), rest as u32)
    }

    /// Divided by ten to the power of `tens`, rounded up; and whether nothing was lost.
    ///
    /// Whole limbs are dropped at once: a fraction may be as long as a request.
    pub(super) fn rounded_up(&self, tens: u64) -> (Self, bool) {
        let dropped = usize::try_from(tens / 9).map_or(self.0.len(), |limbs| limbs.min(self.0.len()));
        let (lost, kept) = self.0.split_at(dropped);
        let (number, rest) = Digits(kept.to_vec()).divided(10u32.pow((tens % 9) as u32));
        let exact = rest == 0 && lost.iter().all(|limb| *limb == 0);
        if exact { (number, true) } else { (number.plus(&Digits::from(1)), false) }
    }

    /// The number in units of ten to the power of `to`, when its own unit is `from`; rounded up where that is coarser.
    pub(super) fn rescaled(&self, from: i64, to: i64) -> Self {
        match from >= to {
            true => self.shifted(from.abs_diff(to)),
            false => self.rounded_up(from.abs_diff(to)).0,
        }
    }

    /// Without all factors ten, and how many there were.
    pub(super) fn without_tens(&self) -> (Self, i64) {
        let zeros = self.0.iter().take_while(|limb| **limb == 0).count();
        let (number, tens) = Digits(self.0[zeros..].to_vec()).without_factor(10);
        (number, tens + 9 * zeros as i64)
    }

    /// Without all factors `factor`, and how many there were: for numbers of few digits, since each is a division.
    pub(super) fn without_factor(&self, factor: u32) -> (Self, i64) {
        let mut number = self.clone();
        let mut times = 0;
        while !number.is_zero() {
            match number.divided(factor) {
                (quotient, 0) => {
                    number = quotient;
                    times += 1;
                }
                _ => break,
            }
        }
        (number, times)
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut limbs = Vec::new();
        for at in 0..self.0.len().max(other.0.len()) {
            let sum = self.limb(at) + other.limb(at) + carry;
            limbs.push((sum % BASE) as u32);
            carry = sum / BASE;
        }
        limbs.push(carry as u32);
        Digits(limbs).trimmed()
    }

    /// The difference to a number that is not larger.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut borrow = 0;
        let mut limbs = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            let taken = other.limb(at) + borrow;
            let have = self.limb(at);
            borrow = u64::from(have < taken);
            limbs.push((have + borrow * BASE - taken) as u32);
        }
        Digits(limbs).trimmed()
    }

    /// Compares two numbers that are each scaled by a power of ten.
    pub(super) fn cmp_scaled(&self, scale: i64, other: &Self, other_scale: i64) -> Ordering {
        if self.is_zero() || other.is_zero() {
            return other.is_zero().cmp(&self.is_zero());
        }
        // Sizes first: an exponent may be huge.
        let size = self.len() as i64 + scale;
        let other_size = other.len() as i64 + other_scale;
        size.cmp(&other_size).then_with(|| {
            let least = scale.min(other_scale);
            let left = self.shifted((scale - least) as u64);
            left.cmp(&other.shifted((other_scale - least) as u64))
        })
    }

    fn limb(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |limb| u64::from(*limb))
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}

impl From<u64> for Digits {
    fn from(number: u64) -> Self {
        let limbs = [number % BASE, number / BASE % BASE, number / BASE / BASE];
        Digits(limbs.iter().map(|limb| *limb as u32).collect()).trimmed()
    }
}

impl Ord for Digits {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_last() else { return f.write_str("0") };
        write!(f, "{first}")?;
        rest.iter().rev().try_for_each(|limb| write!(f, "{limb:09}"))
    }
}
