//! What the leader of one member works with: the member, the fence, and the fleet to read from.

use std::sync::Arc;

use koinon_control::Clock;
use koinon_control::events::Recorder;
use koinon_fleet::election::Fence;
use koinon_fleet::{ClusterId, Fleet, Member, MemberClient};

/// The context of one member's leader, for as long as its lease is held.
#[derive(Clone)]
pub struct LeaderContext {
    /// The member that is led: the only one that is written to.
    pub member: Arc<Member>,
    /// The right to write there. To be asked right before every write.
    pub fence: Fence,
    /// The way there, by which nothing is written without that right.
    client: MemberClient,
    /// All members, this one included.
    pub fleet: Arc<Fleet>,
    /// Tells users of this member about objects of this member.
    pub recorder: Recorder,
}

impl LeaderContext {
    pub fn new(member: Arc<Member>, fence: Fence, fleet: Arc<Fleet>, recorder: Recorder) -> LeaderContext {
        let client = member.client().under(&fence);
        LeaderContext { member, fence, client, fleet, recorder }
    }

    pub fn name(&self) -> &ClusterId {
        self.member.name()
    }

    /// The way to the member that is led.
    pub fn client(&self) -> &MemberClient {
        &self.client
    }

    pub fn clock(&self) -> &Clock {
        self.fleet.clock()
    }
}
