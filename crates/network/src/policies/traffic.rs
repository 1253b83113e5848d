//! Copies on their way to members, and who lets them go first.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Who comes so shortly after another belongs to the same column.
const GAP: Duration = Duration::from_millis(5);

/// How many copies are on their way, to all members that are led by this process.
pub(super) struct Traffic {
    road: watch::Sender<Road>,
}

#[derive(Clone, Copy, Default)]
struct Road {
    on_way: usize,
    /// How often somebody set out so far.
    set_out: u64,
}

/// Copies on their way, until this is dropped.
pub(super) struct OnWay<'a> {
    traffic: &'a Traffic,
    copies: usize,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic { road: watch::Sender::new(Road::default()) }
    }
}

impl Traffic {
    /// So many copies set out.
    pub(super) fn set_out(&self, copies: usize) -> OnWay<'_> {
        self.road.send_modify(|road| {
            road.on_way += copies;
            road.set_out += 1;
        });
        OnWay { traffic: self, copies }
    }

    /// Waits until none is on its way and none follows, but at most this long: one that takes its time holds up nobody.
    pub(super) async fn pass(&self, at_most: Duration) {
        let mut road = self.road.subscribe();
        let none_follows = async {
            loop {
                let Ok(Road { set_out, .. }) = road.wait_for(|road| road.on_way == 0).await.map(|road| *road)
                else {
                    return;
                };
                tokio::time::sleep(GAP).await;
                if self.road.borrow().set_out == set_out {
                    return;
                }
            }
        };
        let _ = timeout(at_most, none_follows).await;
    }
}

impl Drop for OnWay<'_> {
    fn drop(&mut self) {
        self.traffic.road.send_modify(|road| road.on_way -= self.copies);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_after_waits_but_not_for_ever() {
        let (traffic, start) = (Traffic::default(), Instant::now());
        traffic.pass(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), GAP, "nothing is on its way");
        let slow = traffic.set_out(2);
        traffic.pass(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), GAP + Duration::from_secs(1));
        let arrives = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(slow);
        };
        let follows = async {
            tokio::time::sleep(Duration::from_millis(12)).await;
            drop(traffic.set_out(1));
        };
        tokio::join!(arrives, follows, traffic.pass(Duration::from_secs(1)));
        assert_eq!(start.elapsed(), Duration::from_secs(1) + Duration::from_millis(20) + GAP);
    }
}
