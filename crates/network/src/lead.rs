//! Starts every feature when a member's lease is won, and ends it when the lease is lost.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{join_all, select_all};
use koinon_control::events;
use koinon_fleet::election::{Elections, Fence};
use koinon_fleet::task::Task;
use koinon_fleet::{ClusterId, Fleet, Member};

use crate::feature::Feature;
use crate::leader_context::LeaderContext;

/// A member that left and could not be cleaned is tried again after this time.
const AGAIN: Duration = Duration::from_secs(10);

/// What runs for one member.
enum Work {
    Leading(Task),
    /// It takes part no more: what was generated there goes.
    Leaving(Task),
}

/// Does all features for every member that this process leads, for as long as it is polled.
pub async fn lead(
    fleet: Arc<Fleet>,
    elections: Arc<Elections>,
    features: Vec<Arc<dyn Feature>>,
) -> Infallible {
    let follow = select_all(features.iter().map(|feature| feature.clone().follow()));
    let arrange = async {
        let (mut elected, mut members) = (elections.changes(), fleet.changes());
        let mut running: BTreeMap<ClusterId, (Arc<Member>, Work)> = BTreeMap::new();
        loop {
            elected.borrow_and_update();
            members.borrow_and_update();
            arrange(&fleet, &elections, &features, &mut running).await;
            tokio::select! {
                biased;
                _ = elected.changed() => {}
                _ = members.changed() => {}
            }
        }
    };
    tokio::select! {
        biased;
        (never, ..) = follow => never,
        never = arrange => never,
    }
}

/// Makes what runs be what should.
async fn arrange(
    fleet: &Arc<Fleet>,
    elections: &Elections,
    features: &[Arc<dyn Feature>],
    running: &mut BTreeMap<ClusterId, (Arc<Member>, Work)>,
) {
    let members = fleet.members();
    let over = running.extract_if(.., |_, (member, work)| {
        let is_member = members.iter().any(|known| Arc::ptr_eq(known, member));
        !is_member
            || match work {
                Work::Leading(_) => !elections.leads_member(member),
                Work::Leaving(_) => !elections.has_left(member),
            }
    });
    let over: Vec<Task> = over
        .map(|(_, (_, work))| match work {
            Work::Leading(task) | Work::Leaving(task) => task,
        })
        .collect();
    join_all(over.into_iter().map(Task::end)).await;
    for member in members {
        if running.contains_key(member.name()) {
            continue;
        }
        let work = if let Some(fence) = elections.fence_of(&member).filter(Fence::holds) {
            Work::Leading(Task::spawn(serve(fleet.clone(), member.clone(), fence, features.to_vec())))
        } else if elections.has_left(&member) {
            Work::Leaving(Task::spawn(withdraw(member.clone(), features.to_vec())))
        } else {
            continue;
        };
        running.insert(member.name().clone(), (member, work));
    }
}

/// Does everything for one member, whenever writing there is right.
async fn serve(fleet: Arc<Fleet>, member: Arc<Member>, fence: Fence, features: Vec<Arc<dyn Feature>>) {
    let (recorder, writer) = events::recorder(member.client().guarded(), "koinon", fleet.clock().clone());
    let recorder = recorder.logged_of(member.name().as_str());
    let serve = async {
        loop {
            fence.held().await;
            let leader = LeaderContext::new(member.clone(), fence.clone(), fleet.clone(), recorder.clone());
            let all = select_all(features.iter().map(|feature| feature.clone().lead(leader.clone())));
            fence.guard(all.map(drop)).await;
        }
    };
    tokio::select! {
        biased;
        () = serve => {}
        () = writer.run() => {}
    }
}

/// Removes what was generated in a member that takes part no more.
async fn withdraw(member: Arc<Member>, features: Vec<Arc<dyn Feature>>) {
    for feature in features {
        while !feature.clone().withdraw(member.client().guarded()).await {
            tokio::time::sleep(AGAIN).await;
        }
    }
    tracing::info!(member = %member.name(), "what was generated in a cluster that left is removed");
}
