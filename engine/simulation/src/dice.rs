//! Chances that depend on nothing but a seed.

/// A stream of numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A stream of its own for a part of the whole, whatever the other parts draw.
    pub fn of(seed: u64, part: &str) -> Dice {
        // FNV-1a: all that is asked of it is that it never changes.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Dice(part.bytes().fold(0xcbf2_9ce4_8422_2325, mix) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % sides as u64).expect("it is below a usize")
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.next().is_multiple_of(u64::from(times.max(1)))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.roll(options.len())]
    }
}
