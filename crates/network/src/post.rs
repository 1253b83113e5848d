//! What a leader has.

use std::sync::Arc;

use koinon_control::Clock;
use koinon_control::events::Recorder;
use koinon_fleet::election::Fence;
use koinon_fleet::{ClusterId, Fleet, Member, MemberClient};

/// The post of one member's leader, for as long as it is held.
#[derive(Clone)]
pub struct Post {
    /// The member that is led: the only one that is written to.
    pub member: Arc<Member>,
    /// The right to write there. To be asked right before every write.
    pub fence: Fence,
    /// All members, this one included.
    pub fleet: Arc<Fleet>,
    /// Tells users of this member about objects of this member.
    pub recorder: Recorder,
}

impl Post {
    pub fn name(&self) -> &ClusterId {
        self.member.name()
    }

    /// The way to the member that is led.
    pub fn client(&self) -> &MemberClient {
        self.member.client()
    }

    pub fn clock(&self) -> &Clock {
        self.fleet.clock()
    }
}
