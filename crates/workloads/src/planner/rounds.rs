//! Divides what is left by weight, in rounds.
//!
//! In one round every cluster is due its part, rounded up, of what the round began with; what a bound turns
//! away, and what only paid for replicas that ran already, is divided again in the next round among those
//! that are left.
//!
//! How long it takes: a visit of a cluster takes at least one replica from the pool, pays for at least one
//! that was kept, or ends that cluster's part, so with r replicas and n clusters there are at most 2 r + n
//! visits. Without kept replicas there are few rounds: if the clusters that leave a round hold the part x
//! of its weight, the next one begins with at most x of its replicas and 1 - x of its weight, so each round
//! halves the one or the other.

use super::seat::{Next, Seat};

/// Divides the pool among the seats in their order, and says how much found no place.
pub(super) fn distribute(seats: &mut [Seat], mut pool: i64) -> i64 {
    let mut live: Vec<usize> = (0..seats.len()).filter(|&at| seats[at].weight > 0).collect();
    let mut weights: i128 = seats.iter().map(|seat| i128::from(seat.weight)).sum();
    while pool > 0 && !live.is_empty() {
        let part = Part { pool, weights };
        let mut equals = (0, 0);
        live.retain(|&at| {
            if pool == 0 {
                return true;
            }
            let seat = &mut seats[at];
            // The order puts equal weights together: one division serves them all.
            if equals.0 != seat.weight {
                equals = (seat.weight, part.of(seat.weight));
            }
            let (taken, next) = seat.take_due(equals.1.min(pool));
            pool -= taken;
            if next == Next::Leaves {
                weights -= i128::from(seat.weight);
            }
            next == Next::Stays
        });
    }
    pool
}

/// What one round divides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) pool: i64,
    pub(super) weights: i128,
}

impl Part {
    /// The part of the pool for a weight, rounded up. The weight is one of those that were added up.
    pub(super) fn of(self, weight: i64) -> i64 {
        // Products of two such numbers are below 2^126; most fit 64 bits, where division is much faster.
        let narrow = (|| {
            let product = u64::try_from(self.pool).ok()?.checked_mul(u64::try_from(weight).ok()?)?;
            i64::try_from(product.div_ceil(u64::try_from(self.weights).ok()?)).ok()
        })();
        narrow.unwrap_or_else(|| {
            let product = i128::from(self.pool) * i128::from(weight);
            i64::try_from((product + self.weights - 1) / self.weights).expect("a part is not above the whole")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_rounded_up_at_any_size() {
        assert_eq!(Part { pool: 50, weights: 3 }.of(1), 17);
        assert_eq!(Part { pool: 51, weights: 3 }.of(1), 17);
        let most = i64::MAX;
        assert_eq!(Part { pool: most, weights: i128::from(most) }.of(most), most);
        assert_eq!(Part { pool: most, weights: i128::from(most) * 3 }.of(most), most.div_euclid(3) + 1);
        assert_eq!(Part { pool: 1, weights: i128::from(most) * 1000 }.of(1), 1);
    }
}
