//! Seats: so many requests are served at a time, and users take turns for them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::queue::FairQueue;

/// A number of seats, and those who wait for one.
pub(crate) struct Seats(Mutex<State>);

struct State {
    queue: FairQueue<Waiter>,
    /// The most that wait, of all users.
    most_waiting: usize,
    last_waiter: u64,
}

struct Waiter {
    id: u64,
    seat: oneshot::Sender<Seat>,
}

/// A place among the requests that are served; free again when it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    user: Arc<str>,
}

impl Seats {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let queue = FairQueue::new(limit);
        Arc::new(Seats(Mutex::new(State { queue, most_waiting: 4 * limit.max(1), last_waiter: 0 })))
    }

    /// A seat, when it is the user's turn; none if too many wait already.
    pub(crate) async fn take(self: &Arc<Self>, user: &Arc<str>) -> Option<Seat> {
        let (waiting, id) = {
            let mut state = self.0.lock();
            let is_full = state.queue.waiting_of(user) >= state.queue.share()
                || state.queue.waiting() >= state.most_waiting;
            if is_full {
                return None;
            }
            state.last_waiter += 1;
            let id = state.last_waiter;
            let (seat, waiting) = oneshot::channel();
            state.queue.push(user, Waiter { id, seat });
            (waiting, id)
        };
        let _withdrawing = Withdraw { seats: self, user, id };
        self.hand_out();
        waiting.await.ok()
    }

    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some((user, waiter)) = self.0.lock().queue.next() else { return };
            // One that no longer waits gives its seat back by dropping it.
            drop(waiter.seat.send(Seat { seats: self.clone(), user }));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.0.lock().queue.done(&self.user);
        self.seats.hand_out();
    }
}

/// Leaves the queue when the request goes away.
struct Withdraw<'a> {
    seats: &'a Arc<Seats>,
    user: &'a Arc<str>,
    id: u64,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        let withdrawn = self.seats.0.lock().queue.withdraw(self.user, |waiter| waiter.id == self.id);
        drop(withdrawn);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[tokio::test]
    async fn one_user_leaves_seats_and_is_refused_when_its_queue_is_full() {
        let seats = Seats::new(4);
        let (greedy, other) = (user("greedy"), user("other"));
        let mut held = vec![seats.take(&greedy).await.unwrap(), seats.take(&greedy).await.unwrap()];
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(seats.take(&greedy))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        assert!(seats.take(&greedy).await.is_none(), "two wait already");
        let of_other = seats.take(&other).await;
        assert!(of_other.is_some());
        drop(held.pop());
        assert!(waiting.remove(0).await.is_some());
        // Whoever goes away leaves the queue.
        drop(waiting);
        let mut again = Box::pin(seats.take(&greedy));
        drop((held, of_other));
        assert!((&mut again).await.is_some());
        drop(again);
        assert_eq!(seats.0.lock().queue.waiting(), 0);
    }
}
