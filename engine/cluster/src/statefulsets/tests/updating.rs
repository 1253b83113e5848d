//! From one revision to another.

use serde_json::json;

use super::world::World;

#[test]
fn an_update_goes_from_the_highest_ordinal_down_and_waits_for_each() {
    let mut world = World::settled(3, json!({}));
    world.image("v2");
    assert_eq!(world.round(), ["delete web-2"]);
    let status = world.status();
    assert_ne!(status.current_revision, status.update_revision);
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), None));
    assert_eq!(world.round(), ["create web-2"]);
    assert_eq!(world.images(), ["web-0=v1", "web-1=v1", "web-2=v2"]);
    assert_eq!(world.round(), [""; 0], "web-2 is not ready yet");
    world.run("web-2");
    assert_eq!(world.round(), ["delete web-1"]);
    world.settle();
    assert_eq!(world.images(), ["web-0=v2", "web-1=v2", "web-2=v2"]);
    let status = world.status();
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), Some(3)));
}

#[test]
fn a_partition_keeps_the_lower_ordinals_as_they_were() {
    let strategy = |partition: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut world = World::settled(3, strategy(2));
    world.image("v2");
    world.settle();
    assert_eq!(world.images(), ["web-0=v1", "web-1=v1", "web-2=v2"]);
    let status = world.status();
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(1)));
    assert_ne!(status.current_revision, status.update_revision);
    // One that is lost comes back as it was, below the partition, and of the new revision above it.
    world.pods.remove("web-0");
    world.settle();
    world.pods.remove("web-2");
    world.settle();
    assert_eq!(world.images(), ["web-0=v1", "web-1=v1", "web-2=v2"]);
    world.change(strategy(0));
    world.settle();
    assert_eq!(world.images(), ["web-0=v2", "web-1=v2", "web-2=v2"]);
    // A partition above all ordinals holds everything.
    world.change(strategy(7));
    world.image("v3");
    world.told.clear();
    world.settle();
    assert_eq!(world.told, [""; 0]);
}

#[test]
fn on_delete_waits_for_users() {
    let mut world = World::settled(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    world.image("v2");
    world.settle();
    assert_eq!(world.told, [""; 0]);
    world.pods.remove("web-0");
    world.settle();
    assert_eq!(world.images(), ["web-0=v2", "web-1=v1"]);
    let status = world.status();
    assert_ne!(
        status.current_revision, status.update_revision,
        "it is the current one only with a rolling update"
    );
}

#[test]
fn going_back_reuses_the_revision_and_history_has_a_limit() {
    let mut world = World::settled(1, json!({}));
    let first = world.status().update_revision;
    world.image("v2");
    world.settle();
    world.image("v1");
    world.settle();
    assert_eq!(world.status().update_revision, first);
    let numbers = |world: &World| world.revisions.iter().map(|one| one.revision).collect::<Vec<_>>();
    assert_eq!(numbers(&world), [2, 3], "the first became the third");
    for image in ["v3", "v4", "v5"] {
        world.image(image);
        world.settle();
    }
    // Two beside the one that is in use.
    assert_eq!(numbers(&world), [4, 5, 6]);
    world.change(json!({"revisionHistoryLimit": 0}));
    world.settle();
    assert_eq!(numbers(&world), [6]);
}

#[test]
fn a_revision_that_pods_have_is_not_forgotten() {
    let mut world =
        World::settled(1, json!({"revisionHistoryLimit": 0, "updateStrategy": {"type": "OnDelete"}}));
    world.image("v2");
    world.settle();
    assert_eq!(world.revisions.len(), 2);
    world.pods.remove("web-0");
    world.settle();
    // The current revision of the status stays too, which OnDelete never moves.
    assert_eq!(world.revisions.len(), 2);
}

#[test]
fn several_pods_may_be_down_where_that_is_allowed() {
    let strategy = |most: serde_json::Value| {
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": most}},
            "podManagementPolicy": "Parallel", "volumeClaimTemplates": []})
    };
    for (most, first) in [
        (json!(2), vec!["delete web-4", "delete web-3"]),
        (json!("50%"), vec!["delete web-4", "delete web-3"]),
        (json!("1%"), vec!["delete web-4"]),
        (json!(10), vec!["delete web-4", "delete web-3", "delete web-2", "delete web-1"]),
    ] {
        let mut world = World::settled(5, strategy(most));
        world.image("v2");
        assert_eq!(world.round(), first);
    }
    // Those that are down already count.
    let mut world = World::settled(5, strategy(json!(2)));
    world.set_status("web-0", "Pending", 0);
    world.image("v2");
    assert_eq!(world.round(), ["delete web-4"]);
    assert_eq!(world.round(), ["create web-4"]);
}

#[test]
fn a_broken_update_of_a_parallel_set_can_be_rolled_back() {
    let mut world = World::settled(2, json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": []}));
    world.image("broken");
    assert_eq!(world.round(), ["delete web-1"]);
    world.round();
    assert_eq!(world.round(), [""; 0]);
    world.image("v1");
    assert_eq!(world.round(), ["delete web-1"], "it never was ready, and goes all the same");
    world.settle();
    assert_eq!(world.images(), ["web-0=v1", "web-1=v1"]);
}
