//! A barrier between writes: copies to members go first, the pages that record them wait.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Who comes so shortly after another belongs to the same column.
const GAP: Duration = Duration::from_millis(5);

/// How many copies are on their way, to all members that are led by this process.
pub(super) struct WriteBarrier {
    in_flight: watch::Sender<InFlight>,
}

#[derive(Clone, Copy, Default)]
struct InFlight {
    on_way: usize,
    /// How often somebody set out so far.
    set_out: u64,
}

/// Copies on their way, until this is dropped.
pub(super) struct Writing<'a> {
    barrier: &'a WriteBarrier,
    copies: usize,
}

impl Default for WriteBarrier {
    fn default() -> Self {
        WriteBarrier { in_flight: watch::Sender::new(InFlight::default()) }
    }
}

impl WriteBarrier {
    /// So many copies set out.
    pub(super) fn set_out(&self, copies: usize) -> Writing<'_> {
        self.in_flight.send_modify(|in_flight| {
            in_flight.on_way += copies;
            in_flight.set_out += 1;
        });
        Writing { barrier: self, copies }
    }

    /// Waits until none is on its way and none follows, but at most this long: one that takes its time holds up nobody.
    pub(super) async fn pass(&self, at_most: Duration) {
        let mut in_flight = self.in_flight.subscribe();
        let none_follows = async {
            loop {
                let Ok(InFlight { set_out, .. }) =
                    in_flight.wait_for(|in_flight| in_flight.on_way == 0).await.map(|in_flight| *in_flight)
                else {
                    return;
                };
                tokio::time::sleep(GAP).await;
                if self.in_flight.borrow().set_out == set_out {
                    return;
                }
            }
        };
        let _ = timeout(at_most, none_follows).await;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.barrier.in_flight.send_modify(|in_flight| in_flight.on_way -= self.copies);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_after_waits_but_not_for_ever() {
        let (barrier, start) = (WriteBarrier::default(), Instant::now());
        barrier.pass(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), GAP, "nothing is on its way");
        let slow = barrier.set_out(2);
        barrier.pass(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), GAP + Duration::from_secs(1));
        let arrives = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(slow);
        };
        let follows = async {
            tokio::time::sleep(Duration::from_millis(12)).await;
            drop(barrier.set_out(1));
        };
        tokio::join!(arrives, follows, barrier.pass(Duration::from_secs(1)));
        assert_eq!(start.elapsed(), Duration::from_secs(1) + Duration::from_millis(20) + GAP);
    }
}
