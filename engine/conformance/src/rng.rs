//! A small seeded generator of random numbers: the same seed gives the same sequence on every machine.

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// True in `percent` of a hundred calls.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the options.
    pub fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len())]
    }

    /// One of the options, each as likely as its weight is high.
    pub fn weighted<'a, T>(&mut self, options: &'a [T], weight: impl Fn(&T) -> usize) -> &'a T {
        let mut left = self.below(options.iter().map(&weight).sum());
        for option in options {
            match left.checked_sub(weight(option)) {
                None => return option,
                Some(rest) => left = rest,
            }
        }
        unreachable!("the weights add up to more than the number drawn")
    }
}
