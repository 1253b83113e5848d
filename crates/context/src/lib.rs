//! Where time, ids and randomness come from, so that a simulation can decide all three. The machine's clock and its randomness are
//! read here and nowhere else: `clippy.toml` refuses the calls elsewhere.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};

/// Time, ids and random bytes of one server.
#[derive(Clone)]
pub struct Context {
    clock: Clock,
    random: Random,
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

impl Context {
    /// The machine's clock and its secure randomness.
    pub fn real() -> Self {
        let random = secure_random();
        Context {
            clock: Arc::new(wall_clock),
            random: Arc::new(move |bytes| random.fill(bytes).expect("the system's randomness is available")),
        }
    }

    /// A clock given from outside and random bytes that follow from `seed` alone.
    pub fn seeded(seed: u64, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let state = Mutex::new(seed);
        Context {
            clock: Arc::new(clock),
            random: Arc::new(move |bytes| {
                let mut state = state.lock();
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&splitmix(&mut state).to_le_bytes()[..chunk.len()]);
                }
            }),
        }
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Now, as `metadata.creationTimestamp` shows it: whole seconds.
    pub fn now_seconds(&self) -> String {
        rfc3339(self.now())
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        (self.random)(bytes);
    }

    /// A version 4 UUID.
    pub fn uid(&self) -> String {
        let mut b = [0u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The five characters that `generateName` appends; no vowels, so no words.
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bytes = [0u8; 5];
        self.fill(&mut bytes);
        bytes.iter().map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()] as char).collect()
    }
}

/// The machine's clock. For commands that look once, and as the default of controllers' clocks.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// The machine's secure randomness, for keys.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's randomness")]
pub fn secure_random() -> SystemRandom {
    SystemRandom::new()
}

/// A time as Kubernetes' `Time` shows it: UTC, whole seconds, `Z`.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as Kubernetes' `MicroTime` shows it.
pub fn rfc3339_micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_every_id() {
        let make = || Context::seeded(7, || Timestamp::UNIX_EPOCH);
        let (a, b) = (make(), make());
        assert_eq!(a.uid(), b.uid());
        assert_eq!(a.name_suffix(), b.name_suffix());
        assert_ne!(a.uid(), a.uid());
        assert_eq!(a.now_seconds(), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339_micro(a.now()), "1970-01-01T00:00:00.000000Z");
    }
}
