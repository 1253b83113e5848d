//! Leaders that fall, clusters that are cut off, and members that leave (N11 to N16).

use std::time::Duration;

use jiff::SignedDuration;
use koinon_network::services::{Stale, Stance};

use crate::harness::World;
use crate::wire::{Fault, How};
use crate::world::foo;

async fn three() -> World {
    let world = World::new(&["c1*", "c2*", "c3"]).await;
    for (cluster, number) in [("c1", 1), ("c2", 2)] {
        world[cluster].member(&format!("ns/foo{number}"), "foo", "ClusterIP").await;
        world[cluster].endpoints(&format!("ns/foo{number}"), &format!("10.{number}.0.1")).await;
    }
    world.until_shown("c3", &foo(), BOTH).await;
    world.until_as_the_model(&foo(), "in the beginning").await;
    world
}

const BOTH: &str = "http:80 c1=10.1.0.1 c2=10.2.0.1";

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_followed_and_nothing_flaps() {
    let mut world = three().await;
    let leader = world.leader("c3").await.unwrap();
    let other = if leader == "c1" { "c2" } else { "c1" };
    let before = world.log.writes().len();
    world.kill(&leader).await;
    world[other].endpoints(&format!("ns/foo{}", &other[1..]), "10.9.0.1").await;
    let wanted = BOTH.replace(&format!("10.{}.0.1", &other[1..]), "10.9.0.1");
    world.until_shown("c3", &foo(), &wanted).await;
    assert_eq!(world.leader("c3").await.as_deref(), Some(other));
    world.start(&leader).await;
    world.rest().await;
    // One slice in c3 and one at home.
    let writes = world.log.writes();
    assert_eq!(writes[before..].len(), 2, "{:#?}", &writes[before..]);
    world.until_as_the_model(&foo(), "a leader that came back").await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_in_good_order_is_followed_at_once() {
    let mut world = three().await;
    world.stop("c1").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for cluster in ["c1", "c2", "c3"] {
        assert_eq!(world.leader(cluster).await.as_deref(), Some("c2"), "{cluster}");
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_cut_off_keeps_its_endpoints_elsewhere_even_for_a_fresh_leader() {
    let mut world = three().await;
    world.isolate("c1", false);
    world["c1"].endpoints("ns/foo1", "10.1.0.7").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world["c3"].shown(&foo()).await, BOTH);
    // A leader that never saw c1 at all.
    world.kill("c2").await;
    world.start("c2").await;
    world["c2"].endpoints("ns/foo2", "10.2.0.8").await;
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.1 c2=10.2.0.8").await;
    world.rest().await;
    assert_eq!(world["c3"].shown(&foo()).await, "http:80 c1=10.1.0.1 c2=10.2.0.8");
    world.isolate("c1", true);
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.7 c2=10.2.0.8").await;
    world.until_as_the_model(&foo(), "healed").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn leader_and_member_can_both_be_gone() {
    let mut world = three().await;
    let leader = world.leader("c3").await.unwrap();
    world.isolate("c3", false);
    world.kill(&leader).await;
    world["c2"].endpoints("ns/foo2", "10.2.0.9").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world["c3"].shown(&foo()).await, BOTH);
    world.isolate("c3", true);
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.1 c2=10.2.0.9").await;
    world.start(&leader).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn stale_endpoints_are_drained_after_a_while_where_that_was_asked_for() {
    let mut world = three().await;
    let stale = Stale { stance: Stance::Drain, after: SignedDuration::from_secs(60) };
    world.options.stale = stale;
    for supervisor in ["c1", "c2"] {
        world.stop(supervisor).await;
    }
    world.start("c2").await;
    world.until_shown("c3", &foo(), BOTH).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.isolate("c1", false);
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.1! c2=10.2.0.1").await;
    world.rest().await;
    world.isolate("c1", true);
    world.until_shown("c3", &foo(), BOTH).await;
    // A fresh leader that cannot know better drains what it finds.
    world.kill("c2").await;
    world.isolate("c1", false);
    world.start("c2").await;
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.1! c2=10.2.0.1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn stale_endpoints_go_after_a_while_where_that_was_asked_for() {
    let mut world = three().await;
    world.options.stale = Stale { stance: Stance::Drop, after: SignedDuration::from_secs(60) };
    for supervisor in ["c1", "c2"] {
        world.stop(supervisor).await;
    }
    world.start("c2").await;
    world.until_shown("c3", &foo(), BOTH).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.isolate("c1", false);
    world.until_shown("c3", &foo(), "http:80 c2=10.2.0.1").await;
    world.rest().await;
    assert_eq!(world["c1"].shown(&foo()).await, "http:80 c1=10.1.0.1", "at home nothing changes");
    // A fresh leader that never saw it does not bring them back.
    world.kill("c2").await;
    world.start("c2").await;
    world.rest().await;
    assert_eq!(world["c3"].shown(&foo()).await, "http:80 c2=10.2.0.1");
    world.isolate("c1", true);
    world.until_shown("c3", &foo(), BOTH).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_there_uses_takes_no_endpoint_away_when_it_cannot_be_read() {
    let mut world = three().await;
    world.options.stale = Stale { stance: Stance::Drop, after: SignedDuration::from_secs(60) };
    for supervisor in ["c1", "c2"] {
        world.stop(supervisor).await;
    }
    world.start("c2").await;
    world.until_shown("c3", &foo(), BOTH).await;
    world.rest().await;
    let how = How::Refused(403, "no more, says a policy");
    world.faults.add(Fault { cluster: "c1", method: "GET", path: "/nativeservices", body: "", how });
    // The watch breaks, and cannot be taken up again.
    world.isolate("c1", false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.isolate("c1", true);
    world.rest().await;
    assert_eq!(world["c3"].shown(&foo()).await, BOTH);
    world["c1"].endpoints("ns/foo1", "10.1.0.4").await;
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.4 c2=10.2.0.1").await;
    // A fresh leader that never saw the kind uses what it sees, and lets nothing go that may be of what it does not.
    world.kill("c2").await;
    world.start("c2").await;
    world.rest().await;
    assert_eq!(world["c3"].shown(&foo()).await, "http:80 c1=10.1.0.4 c2=10.2.0.1");
    world["c1"].endpoints("ns/foo1", "10.1.0.5").await;
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.5 c2=10.2.0.1").await;
    world["c1"].delete("/api/v1/namespaces/ns/services/foo1").await;
    world.rest().await;
    assert_eq!(world["c3"].shown(&foo()).await, "http:80 c1=10.1.0.5 c2=10.2.0.1");
    world.faults.clear();
    world.until_shown("c3", &foo(), "http:80 c2=10.2.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_takes_everything_along_and_may_come_back() {
    let world = three().await;
    world["c3"].member("ns/foo3", "foo", "ClusterIP").await;
    world["c3"].endpoints("ns/foo3", "10.3.0.1").await;
    world.until_shown("c3", &foo(), "http:80 c3=10.3.0.1").await;
    // First it gives up its Federation: what was generated in it goes, and nobody leads it any more.
    world.leave("c3").await;
    world.until_shown("c3", &foo(), "nothing").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world["c3"].own().await.is_empty());
    // Then the others let it go, and with it its endpoints.
    for supervisor in ["c1", "c2"] {
        world.members(supervisor, &["c1", "c2"]).await;
    }
    world["c1"].delete("/api/v1/namespaces/ns/services/foo1").await;
    world.until_shown("c1", &foo(), "http:80 c2=10.2.0.1").await;
    world.rest().await;
    // It changes, and comes back.
    world["c3"].endpoints("ns/foo3", "10.3.0.5").await;
    world.rejoin("c3").await;
    for supervisor in ["c1", "c2"] {
        world.members(supervisor, &["c1", "c2", "c3"]).await;
    }
    world.until_shown("c1", &foo(), "http:80 c2=10.2.0.1 c3=10.3.0.5").await;
    world.until_shown("c3", &foo(), "http:80 c3=10.3.0.5").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_lies_harms_nobody_else() {
    let world = three().await;
    world["c3"].member("ns/evil", "foo", "ClusterIP").await;
    let thousand: Vec<String> =
        (0..900).map(|one| format!("10.66.{}.{}", one / 250, one % 250 + 1)).collect();
    world["c3"].endpoints("ns/evil", &thousand.join(" ")).await;
    world.until_as_the_model(&foo(), "many endpoints").await;
    assert!(world["c3"].own().await.iter().all(|slice| slice.endpoints.as_ref().unwrap().len() <= 100));
    world["c3"].member("ns/other", "bar", "ClusterIP").await;
    // Its own server takes no such address in an EndpointSlice, but does in an external address.
    let external = serde_json::json!({"spec": {"externalIPs": ["10.66.0.1"]}});
    world["c3"].patch("/api/v1/namespaces/ns/services/other", external).await;
    world
        .until_shown("c1", &koinon_control::Key::new("antrea-plus-system", "bar"), "http:80 c3=10.66.0.1!")
        .await;
    assert_eq!(world["c1"].shown(&foo()).await, "http:80 c1=10.1.0.1");
}
