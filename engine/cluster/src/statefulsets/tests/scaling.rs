//! As many pods as asked for, in the order of their ordinals.

use serde_json::json;

use super::world::World;

#[test]
fn pods_come_one_by_one_and_each_waits_for_the_one_before() {
    let mut world = World::new(3, json!({}));
    assert_eq!(world.round(), ["claim data-web-0", "create web-0"]);
    assert_eq!(world.round(), [""; 0], "web-0 is not ready");
    world.set_status("web-0", "Pending", 0);
    assert_eq!(world.round(), [""; 0]);
    world.run("web-0");
    assert_eq!(world.round(), ["claim data-web-1", "create web-1"]);
    // One that falls ill holds up those after it.
    world.run("web-1");
    world.set_status("web-0", "Pending", 0);
    assert_eq!(world.round(), [""; 0]);
    world.run("web-0");
    assert_eq!(world.round(), ["claim data-web-2", "create web-2"]);
    world.settle();
    let status = world.status();
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (3, Some(3), Some(3)));
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), Some(3)));
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!((status.observed_generation, status.collision_count), (Some(1), Some(0)));
}

#[test]
fn a_pod_has_an_identity() {
    let mut world = World::new(1, json!({"ordinals": {"start": 5}}));
    assert_eq!(world.round(), ["claim data-web-5", "create web-5"]);
    let pod = serde_json::to_value(&world.pods["web-5"]).unwrap();
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-5");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "5");
    assert_eq!(labels["controller-revision-hash"], world.status().update_revision.unwrap());
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-5"), &json!("web")));
    assert_eq!(pod["metadata"]["generateName"], "web-");
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-5"}});
    assert_eq!(pod["spec"]["volumes"], json!([volume]));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
    let claim = serde_json::to_value(&*world.claims["data-web-5"]).unwrap();
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web"}));
}

#[test]
fn pods_go_one_by_one_from_the_highest_ordinal_down() {
    let mut world = World::settled(4, json!({}));
    world.change(json!({"replicas": 1}));
    assert_eq!(world.round(), ["delete web-3"]);
    // One that is on its way out is waited for.
    world.condemn("web-2");
    assert_eq!(world.round(), [""; 0]);
    world.pods.remove("web-2");
    // One that is not ready is not deleted before another is well, unless it is the first that is not.
    world.set_status("web-1", "Pending", 0);
    assert_eq!(world.round(), ["delete web-1"]);
    assert_eq!(world.round(), [""; 0]);
    assert_eq!(world.claims.len(), 4, "claims stay");

    let mut world = World::settled(3, json!({}));
    world.change(json!({"replicas": 1}));
    world.set_status("web-1", "Pending", 0);
    world.set_status("web-2", "Pending", 0);
    assert_eq!(world.round(), [""; 0], "web-1 comes before web-2 and is not well either");
    world.run("web-1");
    assert_eq!(world.round(), ["delete web-2"]);
    world.set_status("web-0", "Pending", 0);
    assert_eq!(world.round(), [""; 0], "no replica may be ill while others go");
}

#[test]
fn parallel_sets_make_and_delete_all_at_once() {
    let mut world = World::new(3, json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": []}));
    assert_eq!(world.round(), ["create web-0", "create web-1", "create web-2"]);
    world.settle();
    world.change(json!({"replicas": 1}));
    world.told.clear();
    world.set_status("web-1", "Pending", 0);
    world.condemn("web-2");
    assert_eq!(world.round(), ["delete web-1"]);
}

#[test]
fn pods_that_ended_are_made_again_under_the_same_name() {
    for phase in ["Failed", "Succeeded"] {
        let mut world = World::settled(2, json!({}));
        world.set_status("web-0", phase, 0);
        assert_eq!(world.round(), ["delete web-0"]);
        assert_eq!(world.round(), ["create web-0"]);
    }
    // Which happens where it is going already without another deletion.
    let mut world = World::settled(1, json!({}));
    world.set_status("web-0", "Failed", 0);
    world.condemn("web-0");
    assert_eq!(world.round(), [""; 0]);
}

#[test]
fn ordinals_that_begin_elsewhere_move_the_pods() {
    let mut world = World::settled(2, json!({}));
    world.change(json!({"ordinals": {"start": 1}}));
    world.settle();
    assert_eq!(world.told, ["claim data-web-2", "create web-2", "delete web-0"]);
}

#[test]
fn a_pod_counts_as_available_after_a_while() {
    let mut world = World::new(2, json!({"minReadySeconds": 30}));
    world.round();
    world.set_status("web-0", "Running", 10);
    assert_eq!(world.round(), [""; 0]);
    let status = world.status();
    assert_eq!((status.ready_replicas, status.available_replicas), (Some(1), Some(0)));
    assert_eq!(world.plan().look_again.map(|left| left.as_secs()), Some(20));
    world.set_status("web-0", "Running", 30);
    assert_eq!(world.round(), ["claim data-web-1", "create web-1"]);
}

#[test]
fn what_a_pod_lost_of_its_identity_is_put_back() {
    let mut world = World::settled(2, json!({}));
    let labels = world.pods.get_mut("web-1").unwrap().metadata.labels.as_mut().unwrap();
    labels.remove("statefulset.kubernetes.io/pod-name");
    assert_eq!(world.round(), ["update web-1"]);
    assert_eq!(world.round(), [""; 0]);
    // A pending pod gets the claim that somebody deleted.
    world.claims.clear();
    world.set_status("web-0", "Pending", 0);
    assert_eq!(world.round(), ["claim data-web-0"]);
}

#[test]
fn a_set_that_is_being_deleted_only_counts() {
    let mut world = World::settled(2, json!({}));
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(World::now());
    world.set.metadata.deletion_timestamp = Some(time);
    world.pods.remove("web-0");
    assert_eq!(world.round(), [""; 0]);
    assert_eq!(world.status().replicas, 1);
}
