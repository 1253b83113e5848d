//! Fewer replicas than run, and nothing may be moved: who gives up how many.
//!
//! Left to the order, the last clusters lose everything they have and the first nothing. By weight, every
//! cluster above the share it would have gives up in proportion to how far it is above: of A=10 and B=70 with
//! equal weights, 50 remain as A=10 and B=40.

use std::cmp::Reverse;

use super::rounds::{self, Part};
use super::seat::Seat;

/// Takes what is too much from the clusters above their share. Nothing happens, and the answer is no, if
/// all that runs has its place.
pub(super) fn by_weight(seats: &mut [Seat], replicas: i64) -> bool {
    let undisturbed = undisturbed(seats);
    let surplus = undisturbed.iter().sum::<i64>() - replicas;
    if surplus <= 0 {
        return false;
    }
    let mut desired: Vec<Seat> = seats.to_vec();
    let pool = super::minimums(&mut desired, replicas);
    rounds::distribute(&mut desired, pool);

    let mut above: Vec<(i64, usize)> = (0..seats.len())
        .map(|at| (undisturbed[at] - desired[at].have, at))
        .filter(|(excess, _)| *excess > 0)
        .collect();
    above.sort_by_key(|&(excess, at)| (Reverse(excess), at));
    let weights = above.iter().map(|(excess, _)| i128::from(*excess)).sum();

    // The shares add up to no more than `replicas`, so what is above them is at least the surplus, and
    // nobody gives up more than it has above its share.
    let part = Part { pool: surplus, weights };
    let mut left = surplus;
    let mut given = vec![0; seats.len()];
    for (excess, at) in above {
        given[at] = part.of(excess).min(left);
        left -= given[at];
    }
    for ((seat, undisturbed), given) in seats.iter_mut().zip(undisturbed).zip(given) {
        seat.give_up(undisturbed, given);
    }
    true
}

/// What each cluster would have if nothing were taken away, bounded so that the sum cannot overflow.
fn undisturbed(seats: &[Seat]) -> Vec<i64> {
    let most = i64::MAX / i64::try_from(seats.len().max(1)).unwrap_or(i64::MAX);
    seats.iter().map(|seat| seat.undisturbed().min(most)).collect()
}
