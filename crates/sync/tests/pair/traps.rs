//! The traps that the cr-syncer fell into, one test for each. What it did is in the comment, what we do in the test.

use std::time::Duration;

use koinon_simulation::{Fault, Requests, Write};
use serde_json::{Value, json};

use crate::world::{CRD, Cluster, ROBOT, SYNCER, TOYS, Toys, World, made, toy};

const HOUR: Duration = Duration::from_secs(3600);
const CONFLICTS: Fault = Fault::Refuse { what: Requests::Writes, code: 409, one_in: 1 };

fn own() -> Value {
    json!({"labels": {ROBOT: "r1"}})
}

async fn fill(cluster: &Cluster, count: usize) {
    for number in 0..count {
        cluster.create(TOYS, made(&format!("toy-{number:02}"), own(), json!({"size": 1}))).await;
    }
}

async fn until_count(cluster: &Cluster, count: usize) {
    let counts =
        |list: Option<&Value>| list.is_some_and(|list| list["items"].as_array().unwrap().len() == count);
    cluster.until(TOYS, counts).await;
}

async fn until_size(cluster: &Cluster, name: &str, size: i64) {
    cluster.until(&toy(name), |toy| toy.is_some_and(|toy| toy["spec"]["size"] == size)).await;
}

fn deletions(cluster: &Cluster) -> Vec<Write> {
    let mut writes = cluster.writes();
    writes.retain(|write| write.method == "DELETE");
    writes
}

/// 1. It panicked over objects and CRDs whose end it missed while the watch was away.
#[tokio::test(start_paused = true)]
async fn ends_that_no_watch_showed() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 3).await;
    until_count(&world.robot, 3).await;
    for fault in [Fault::Cut, Fault::StallWatches, Fault::MissEvents { after: 1 }] {
        world.cloud.turn(&[fault]);
        world.robot.turn(&[fault]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.cloud.delete(&toy("toy-00")).await;
        world.robot.delete(&toy("toy-01")).await;
        tokio::time::sleep(HOUR).await;
        world.clear();
        world.robot.until_gone(&toy("toy-00")).await;
        world.robot.until_there(&toy("toy-01")).await;
        world.cloud.create(TOYS, made("toy-00", own(), json!({}))).await;
        world.robot.until_there(&toy("toy-00")).await;
    }
    // The same for the CRD itself.
    world.robot.turn(&[Fault::Cut]);
    world.robot.delete(CRD).await;
    world.robot.until_gone(CRD).await;
    tokio::time::sleep(HOUR).await;
    world.clear();
    world.rest().await;
    assert!(world.handle.as_ref().unwrap().view().crds.is_empty());
    world.robot.define(&Toys::plain()).await;
    until_count(&world.robot, 3).await;
    let mut world = world;
    world.stop().await;
}

/// 2. It tried to create a copy again whose label was taken off, forever.
#[tokio::test(start_paused = true)]
async fn a_copy_whose_label_was_taken_off() {
    let world = World::running(&Toys::filtered()).await;
    fill(&world.cloud, 1).await;
    world.robot.until_there(&toy("toy-00")).await;
    world.robot.patch(&toy("toy-00"), json!({"metadata": {"labels": {ROBOT: null}}})).await;
    let healed = |copy: Option<&Value>| copy.is_some_and(|copy| copy["metadata"]["labels"][ROBOT] == "r1");
    world.robot.until(&toy("toy-00"), healed).await;
    world.rest().await;
    assert_eq!(world.robot.writes().len(), 2, "{:#?}", world.robot.writes());
}

/// 3. It tried to create a copy where somebody had the name, forever; or took it over silently.
#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_has_downstream() {
    let world = World::with(&Toys::filtered()).await;
    world.robot.create(TOYS, made("toy-00", json!({}), json!({"size": 9}))).await;
    let mut world = world;
    world.start();
    fill(&world.cloud, 1).await;
    world.robot.until_told("NameTaken").await;
    world.rest().await;
    assert_eq!(world.robot.get(&toy("toy-00")).await.unwrap()["spec"]["size"], 9);
    assert_eq!(world.robot.writes(), [], "it is not even tried");
    // Once the name is free, it is taken.
    world.robot.delete(&toy("toy-00")).await;
    until_size(&world.robot, "toy-00", 1).await;
}

/// 4. After many conflicts it listed both sides anew, and in between an empty view stood beside a full one.
#[tokio::test(start_paused = true)]
async fn conflicts_and_new_lists_delete_nothing() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 8).await;
    until_count(&world.robot, 8).await;
    world.cloud.turn(&[CONFLICTS, Fault::Delay(Duration::from_secs(3)), Fault::CutWatches { after: 1 }]);
    world.robot.turn(&[CONFLICTS, Fault::MissEvents { after: 1 }]);
    for round in 0..20 {
        for number in 0..8 {
            let (path, status) = (toy(&format!("toy-{number:02}")), json!({"status": {"round": round}}));
            world.robot.patch(&format!("{path}/status"), status).await;
            world.cloud.patch(&path, json!({"spec": {"size": round}})).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    world.clear();
    world.rest().await;
    assert_eq!(deletions(&world.robot), []);
    let toy = world.cloud.get(&toy("toy-07")).await.unwrap();
    assert_eq!(toy["status"]["round"], 19);
}

/// 5. It waited for lists of the cloud where it should have worked for the robot.
#[tokio::test(start_paused = true)]
async fn without_a_cloud_copies_are_still_put_right() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 2).await;
    until_count(&world.robot, 2).await;
    for fault in [Fault::Hang, Fault::Cut] {
        world.cloud.turn(&[fault]);
        tokio::time::sleep(HOUR).await;
        world.robot.delete(&toy("toy-00")).await;
        world.robot.patch(&toy("toy-01"), json!({"spec": {"size": 5}})).await;
        world.robot.until_there(&toy("toy-00")).await;
        until_size(&world.robot, "toy-01", 1).await;
    }
}

/// 6. A CRD that changed while it started could end it.
#[tokio::test(start_paused = true)]
async fn a_crd_that_changes_again_and_again() {
    let mut world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 1).await;
    for number in 0..50 {
        let source = if number % 3 == 0 { Value::Null } else { "cloud".into() };
        let annotations = json!({"cr-syncer.cloudrobotics.com/spec-source": source, "n": number.to_string()});
        world.robot.patch(CRD, json!({"metadata": {"annotations": annotations}})).await;
        tokio::time::sleep(Duration::from_millis(number % 7)).await;
    }
    until_count(&world.robot, 1).await;
    world.rest().await;
    assert_eq!(deletions(&world.robot), []);
    world.stop().await;
}

/// 7. One worker for all: a write that hung held up everything for five minutes.
#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_up_no_other() {
    let world = World::with(&Toys::plain()).await;
    fill(&world.cloud, 4).await;
    fill(&world.robot, 4).await;
    world.cloud.patch(&toy("toy-00"), json!({"spec": {"size": 2}})).await;
    let hangs = |request: &Write| {
        (request.method == "PATCH" && request.path.contains("toy-00")).then_some(Fault::Hang)
    };
    world.network.single_out(SYNCER, "robot", hangs);
    world.network.single_out(SYNCER, "cloud", hangs);
    let mut world = world;
    world.start();
    for size in 3..8 {
        for name in ["toy-01", "toy-02", "toy-03"] {
            world.cloud.patch(&toy(name), json!({"spec": {"size": size}})).await;
        }
        let start = tokio::time::Instant::now();
        for name in ["toy-01", "toy-02", "toy-03"] {
            until_size(&world.robot, name, size).await;
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    world.clear();
    until_size(&world.robot, "toy-00", 2).await;
}

/// 8. An empty list was reason enough to delete everything, whoever sent it.
#[tokio::test(start_paused = true)]
async fn another_cloud_answers_while_it_runs_and_goes_again() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 3).await;
    until_count(&world.robot, 3).await;
    world.rest().await;
    let other = Cluster::open(&world.network, "cloud", 7).await;
    // Until its CRD is there, and afterwards.
    tokio::time::sleep(HOUR).await;
    other.define(&Toys::plain()).await;
    let told = world.robot.until_told("DeletionsHeld").await;
    assert!(told.contains("another cluster answers than before"), "{told}");
    tokio::time::sleep(HOUR).await;
    until_count(&world.robot, 3).await;
    world.network.serve("cloud", world.cloud.router());
    world.rest().await;
    world.cloud.patch(&toy("toy-00"), json!({"spec": {"size": 4}})).await;
    until_size(&world.robot, "toy-00", 4).await;
    assert_eq!(deletions(&world.robot), []);
    // It is the cloud again, and what it deletes goes.
    world.cloud.delete(&toy("toy-00")).await;
    until_count(&world.robot, 2).await;
}

/// 9. A copy that was going got the spec of its successor, and told its old status to the new original.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_going_while_its_original_came_back() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 1).await;
    world.robot.until_there(&toy("toy-00")).await;
    let status = format!("{}/status", toy("toy-00"));
    world.robot.patch(&toy("toy-00"), json!({"metadata": {"finalizers": ["play.io/slow"]}})).await;
    world.robot.patch(&status, json!({"status": {"phase": "Old"}})).await;
    world.cloud.until(&toy("toy-00"), |toy| toy.is_some_and(|toy| toy["status"]["phase"] == "Old")).await;
    // Unseen, the original goes and comes back, and somebody deletes the copy, which takes its time.
    world.cloud.turn(&[Fault::Cut]);
    world.cloud.delete(&toy("toy-00")).await;
    world.cloud.create(TOYS, made("toy-00", own(), json!({"size": 2}))).await;
    world.robot.delete(&toy("toy-00")).await;
    world.robot.patch(&status, json!({"status": {"phase": "Going"}})).await;
    tokio::time::sleep(HOUR).await;
    world.clear();
    world.rest().await;
    assert_eq!(world.cloud.get(&toy("toy-00")).await.unwrap().get("status"), None);
    assert_eq!(world.robot.get(&toy("toy-00")).await.unwrap()["spec"]["size"], 1);
    world.robot.patch(&toy("toy-00"), json!({"metadata": {"finalizers": null}})).await;
    until_size(&world.robot, "toy-00", 2).await;
    world.rest().await;
    assert_eq!(world.cloud.get(&toy("toy-00")).await.unwrap().get("status"), None);
}

/// 10. A label that names another robot: the first may not keep the copy, the second has to get it.
#[tokio::test(start_paused = true)]
async fn an_object_is_handed_to_another_robot() {
    let first = World::running(&Toys::filtered()).await;
    let mut second = first.beside(&Toys::filtered()).await;
    second.options.robot = "r2".into();
    second.start();
    fill(&first.cloud, 2).await;
    until_count(&first.robot, 2).await;
    for (robot, gives, takes) in [("r2", &first.robot, &second.robot), ("r1", &second.robot, &first.robot)] {
        first.cloud.patch(&toy("toy-00"), json!({"metadata": {"labels": {ROBOT: robot}}})).await;
        gives.until_gone(&toy("toy-00")).await;
        takes.until_there(&toy("toy-00")).await;
        // Now only this one's status counts.
        let status = json!({"status": {"by": robot}});
        takes.patch(&format!("{}/status", toy("toy-00")), status).await;
        first.cloud.until(&toy("toy-00"), |toy| toy.is_some_and(|toy| toy["status"]["by"] == robot)).await;
        first.rest().await;
    }
}

/// 11. Two syncers with one name did not notice each other.
#[tokio::test(start_paused = true)]
async fn a_second_syncer_with_the_same_name() {
    let first = World::running(&Toys::filtered()).await;
    fill(&first.cloud, 1).await;
    first.robot.until_there(&toy("toy-00")).await;
    let mut second = first.beside(&Toys::filtered()).await;
    second.start();
    second.robot.until_told("RobotNameTaken").await;
    second.rest().await;
    assert_eq!(second.robot.writes(), []);
    assert!(first.handle.as_ref().unwrap().view().rival.is_some());
    // While the first is cut off from the cloud for long, the second takes over.
    first.cloud.turn(&[Fault::Cut]);
    second.robot.until_there(&toy("toy-00")).await;
    // When it is back, it is the first that waits, and what it has stays as it is.
    first.clear();
    first.robot.until_told("RobotNameTaken").await;
    assert!(first.robot.get(&toy("toy-00")).await.is_some());
}
