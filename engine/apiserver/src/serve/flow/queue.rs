//! A fair queue: users take turns, and no user has more than its share of the places.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Work of many users that waits for one of a number of places. Users with work take turns (round robin), whatever
/// the length of their queues, and each takes at most half of the places, so that one user's slow work leaves room
/// for the others'.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    places: usize,
    share: usize,
    lanes: HashMap<Arc<str>, Lane<T>>,
    /// Users that have work waiting and a place left of their share.
    turn: VecDeque<Arc<str>>,
    taken: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<T>,
    taken: usize,
    in_turn: bool,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(places: usize) -> Self {
        let places = places.max(1);
        FairQueue {
            places,
            share: places.div_ceil(2),
            lanes: HashMap::new(),
            turn: VecDeque::new(),
            taken: 0,
            waiting: 0,
        }
    }

    /// The most places that one user takes.
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    /// How much work waits.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How much work of a user waits.
    pub(crate) fn waiting_of(&self, user: &str) -> usize {
        self.lanes.get(user).map_or(0, |lane| lane.waiting.len())
    }

    pub(crate) fn push(&mut self, user: &Arc<str>, work: T) {
        let lane = self.lanes.entry(user.clone()).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            taken: 0,
            in_turn: false,
        });
        lane.waiting.push_back(work);
        self.waiting += 1;
        if !lane.in_turn && lane.taken < self.share {
            lane.in_turn = true;
            self.turn.push_back(user.clone());
        }
    }

    /// The next work to do, which takes a place; none if all are taken or nothing waits that may have one.
    pub(crate) fn next(&mut self) -> Option<(Arc<str>, T)> {
        if self.taken >= self.places {
            return None;
        }
        let user = self.turn.pop_front()?;
        let lane = self.lanes.get_mut(&user)?;
        let work = lane.waiting.pop_front()?;
        lane.taken += 1;
        self.taken += 1;
        self.waiting -= 1;
        lane.in_turn = !lane.waiting.is_empty() && lane.taken < self.share;
        if lane.in_turn {
            self.turn.push_back(user.clone());
        }
        Some((user, work))
    }

    /// A user's work is done: its place is free.
    pub(crate) fn done(&mut self, user: &Arc<str>) {
        let Some(lane) = self.lanes.get_mut(user) else { return };
        lane.taken -= 1;
        self.taken -= 1;
        if lane.waiting.is_empty() && lane.taken == 0 {
            self.lanes.remove(user);
        } else if !lane.in_turn && !lane.waiting.is_empty() {
            lane.in_turn = true;
            self.turn.push_back(user.clone());
        }
    }

    /// Gives up all work that waits.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.turn.clear();
        self.waiting = 0;
        let lanes = self.lanes.values_mut();
        lanes
            .flat_map(|lane| {
                lane.in_turn = false;
                std::mem::take(&mut lane.waiting)
            })
            .collect()
    }

    /// Takes back work of a user that waits.
    pub(crate) fn withdraw(&mut self, user: &Arc<str>, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let lane = self.lanes.get_mut(user)?;
        let at = lane.waiting.iter().position(is_it)?;
        let work = lane.waiting.remove(at);
        self.waiting -= 1;
        if lane.waiting.is_empty() {
            if lane.in_turn {
                lane.in_turn = false;
                self.turn.retain(|one| one != user);
            }
            if lane.taken == 0 {
                self.lanes.remove(user);
            }
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn users_take_turns_whatever_the_length_of_their_queues() {
        let mut queue = FairQueue::new(1);
        let (many, one) = (user("many"), user("one"));
        for work in 0..100 {
            queue.push(&many, work);
        }
        assert_eq!(queue.next(), Some((many.clone(), 0)));
        queue.push(&one, 1000);
        assert_eq!(queue.next(), None, "the only place is taken");
        queue.done(&many);
        let order: Vec<i32> = std::iter::from_fn(|| {
            let (user, work) = queue.next()?;
            queue.done(&user);
            Some(work)
        })
        .take(4)
        .collect();
        assert_eq!(order, [1000, 1, 2, 3]);
    }

    #[test]
    fn a_user_takes_half_of_the_places_at_most() {
        let mut queue = FairQueue::new(4);
        let (greedy, other) = (user("greedy"), user("other"));
        for work in 0..10 {
            queue.push(&greedy, work);
        }
        assert!(queue.next().is_some() && queue.next().is_some());
        assert_eq!(queue.next(), None, "two of four places are left for others");
        queue.push(&other, 99);
        assert_eq!(queue.next(), Some((other.clone(), 99)));
        queue.done(&greedy);
        assert_eq!(queue.next().map(|(_, work)| work), Some(2));
        assert_eq!(queue.waiting_of("greedy"), 7);
    }

    proptest! {
        /// All work is done once, in each user's order, within the limits, and nothing is left behind.
        #[test]
        fn nothing_is_lost(places in 1_usize..6, steps in prop::collection::vec((0_u8..4, 0_usize..4), 0..200)) {
            let users = [user("a"), user("b"), user("c"), user("d")];
            let mut queue = FairQueue::new(places);
            let (mut pushed, mut finished) = ([0_usize; 4], [0_usize; 4]);
            let mut running: Vec<usize> = Vec::new();
            let take = |queue: &mut FairQueue<usize>, running: &mut Vec<usize>, finished: &mut [usize; 4]| {
                let Some((user, work)) = queue.next() else { return false };
                let at = users.iter().position(|one| *one == user).unwrap();
                assert_eq!(work, finished[at]);
                finished[at] += 1;
                running.push(at);
                true
            };
            for (what, at) in steps {
                match what {
                    0 | 1 => {
                        queue.push(&users[at], pushed[at]);
                        pushed[at] += 1;
                    }
                    2 => {
                        take(&mut queue, &mut running, &mut finished);
                    }
                    _ if !running.is_empty() => {
                        let at = running.remove(at % running.len());
                        queue.done(&users[at]);
                    }
                    _ => {}
                }
                prop_assert!(running.len() <= places);
                for at in 0..4 {
                    prop_assert!(running.iter().filter(|one| **one == at).count() <= queue.share());
                }
            }
            loop {
                while take(&mut queue, &mut running, &mut finished) {}
                let Some(at) = running.pop() else { break };
                queue.done(&users[at]);
            }
            prop_assert_eq!(pushed, finished);
            prop_assert!(queue.lanes.is_empty() && queue.turn.is_empty() && queue.waiting() == 0);
        }
    }
}
