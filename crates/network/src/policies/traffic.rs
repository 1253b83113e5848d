//! Copies on their way to members, and who lets them go first.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How many copies are on their way, to all members that are led by this process.
pub(super) struct Traffic {
    on_way: watch::Sender<usize>,
}

/// Copies on their way, until this is dropped.
pub(super) struct OnWay<'a> {
    traffic: &'a Traffic,
    copies: usize,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic { on_way: watch::Sender::new(0) }
    }
}

impl Traffic {
    /// So many copies set out.
    pub(super) fn set_out(&self, copies: usize) -> OnWay<'_> {
        self.on_way.send_modify(|on_way| *on_way += copies);
        OnWay { traffic: self, copies }
    }

    /// Waits until none is on its way, but at most this long: one that takes its time holds up nobody.
    pub(super) async fn pass(&self, at_most: Duration) {
        let mut on_way = self.on_way.subscribe();
        let _ = timeout(at_most, on_way.wait_for(|on_way| *on_way == 0)).await;
    }
}

impl Drop for OnWay<'_> {
    fn drop(&mut self) {
        self.traffic.on_way.send_modify(|on_way| *on_way -= self.copies);
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
        assert_eq!(start.elapsed(), Duration::ZERO, "nothing is on its way");
        let slow = traffic.set_out(2);
        traffic.pass(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        let arrives = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(slow);
        };
        tokio::join!(arrives, traffic.pass(Duration::from_secs(1)));
        assert_eq!(start.elapsed(), Duration::from_millis(1010));
    }
}
