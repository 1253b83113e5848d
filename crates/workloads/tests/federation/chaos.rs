//! Faults by chance, the same for the same seed: on the way to a server, on the way back, and in the middle of a watch.

use std::time::Duration;

/// Numbers that look like chance.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        // Neighbouring seeds lead to numbers that have nothing in common.
        Chance(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % most
    }
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing.
    Passes,
    /// It never arrives.
    Lost,
    /// It is done, and nobody hears of it.
    Unanswered,
    /// It takes so long.
    Late(Duration),
    /// It waits for an answer that never comes.
    Hangs,
    /// The server turns it away.
    Refused(u16),
}

impl Fate {
    /// One request in seven meets with something.
    pub(crate) fn draw(chance: &mut Chance, watches: bool) -> Fate {
        match chance.below(100) {
            0..=2 => Fate::Lost,
            3..=5 if !watches => Fate::Unanswered,
            6..=8 => Fate::Late(Duration::from_millis(chance.below(6_000))),
            9 if !watches => Fate::Hangs,
            10..=13 => {
                let codes = [409, 429, 500, 503];
                // A list or watch is never answered with a conflict.
                let from = u64::from(watches);
                let at = from + chance.below(4 - from);
                Fate::Refused(codes[usize::try_from(at).unwrap_or_default()])
            }
            _ => Fate::Passes,
        }
    }
}
