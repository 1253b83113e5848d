//! One budget for all clusters: what is missing already costs nothing again, and what moves have added counts.

use std::time::Duration;

use koinon_workloads::placing::Surge;
use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, World, room, updated};
use crate::rolling::{images, progressing, rolled_out, set_image, until_rolled_out, world};

pub(crate) fn rolling(unavailable: i64, surge: i64) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
}

#[tokio::test(start_paused = true)]
async fn a_first_release_that_is_broken_everywhere_can_be_fixed() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    let broken = json!({"sim.koinon.dev/ready": "never"});
    let deploy = Deploy { replicas: 9, strategy: rolling(1, 0), pods: broken, ..Deploy::default() };
    world.create_deployment(deploy).await;
    world.until_layout(DEPLOY, "a=0/3 b=0/3 c=0/3").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let fixed = json!({"metadata": {"annotations": null}, "spec": {"containers": [{"name": "web", "image": "web:2"}]}});
    world.federation.patch(DEPLOY, json!({"spec": {"template": fixed}})).await;
    until_rolled_out(&world).await;
    assert_eq!(images(&world).await, "a=web:2 b=web:2 c=web:2");
    world.rest().await;
    for site in world.members.values() {
        let there = site.get(DEPLOY).await.unwrap();
        assert_eq!(there["spec"]["strategy"], rolling(1, 0), "the user's own words in the end");
        assert_eq!(there["spec"]["paused"], Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn what_moves_have_added_is_no_part_of_the_surge() {
    let mut world = World::bare(&[("a", 110)]).await;
    let mut slow = room(110);
    slow.ready_after = Duration::from_secs(20);
    world.add("b", slow).await;
    world.start().await;
    let only = |name: &str| format!(r#"{{"rebalance":true,"clusters":{{"{name}":{{"weight":1}}}}}}"#);
    let preferences = "federation.kubernetes.io/deployment-preferences";
    let annotations = json!({preferences: only("a")});
    let deploy = Deploy { replicas: 12, annotations, strategy: rolling(6, 3), ..Deploy::default() };
    world.create_deployment(deploy).await;
    world.until_layout(DEPLOY, "a=12").await;
    world.federation.patch(DEPLOY, json!({"metadata": {"annotations": {preferences: only("*")}}})).await;
    world.until_layout(DEPLOY, "a=12 b=0/3").await;
    set_image(&world, "web:2").await;
    let (mut seen, mut samples) = (0, 0);
    loop {
        samples += 1;
        assert!(samples < 10_000, "{:#}", world.federation.get(DEPLOY).await.unwrap());
        let there = world.available(DEPLOY).await;
        assert!(there >= 6, "{there} of 12 are available");
        let a = world.members["a"].get(DEPLOY).await.unwrap();
        let pods = world.pods(DEPLOY).await;
        assert!(pods <= 15, "{pods} of 12 are there");
        let updated = a["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2";
        let rests = a["status"]["observedGeneration"] == a["metadata"]["generation"]
            && a["status"]["updatedReplicas"] == a["status"]["replicas"];
        let surge = a["spec"]["strategy"]["rollingUpdate"]["maxSurge"].as_i64().unwrap();
        let added = world.asked(DEPLOY).await - 12;
        if updated && !rests && a["spec"]["paused"] != true {
            assert!(added + surge <= 3, "{surge} may come in a, and {added} more have come by moves");
            seen += i64::from(added > 0);
        }
        if rolled_out(&world.federation.get(DEPLOY).await.unwrap()) && world.layout(DEPLOY).await == "a=6 b=6"
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(seen > 0, "it was never seen in the middle of the moves");
    world.rest().await;
}

/// Moves that begin in the middle of an update share its surge: what runs is counted, not only what is asked for.
#[tokio::test(start_paused = true)]
async fn what_moves_in_the_middle_of_an_update_is_part_of_its_surge() {
    let mut world = World::bare(&[]).await;
    for name in ["a", "b", "c"] {
        let mut slow = room(110);
        slow.ready_after = Duration::from_secs(5);
        world.add(name, slow).await;
    }
    // Nothing changes in that when the update is over.
    world.options.max_surge = Surge::Count(3);
    world.start().await;
    let preferences = "federation.kubernetes.io/deployment-preferences";
    let weights = |a: u8, b: u8, c: u8| {
        format!(
            r#"{{"rebalance":true,"clusters":{{"a":{{"weight":{a}}},"b":{{"weight":{b}}},"c":{{"weight":{c}}}}}}}"#
        )
    };
    let prefer = |text: String| json!({"metadata": {"annotations": {preferences: text}}});
    let annotations = json!({preferences: weights(4, 2, 0)});
    let deploy = Deploy { replicas: 18, annotations, strategy: rolling(2, 3), ..Deploy::default() };
    world.create_deployment(deploy).await;
    world.until_layout(DEPLOY, "a=12 b=6").await;
    world.rest_for(Duration::from_secs(65)).await;
    set_image(&world, "web:2").await;
    let (mut samples, mut most, mut turned) = (0, 0, 0);
    loop {
        samples += 1;
        let federated = world.federation.get(DEPLOY).await.unwrap();
        assert!(samples < 100_000, "{federated:#}");
        let (there, pods) = (world.available(DEPLOY).await, world.pods(DEPLOY).await);
        assert!(
            there >= 16,
            "{there} of 18 are available after {samples} samples: {}",
            world.layout(DEPLOY).await
        );
        assert!(pods <= 21, "{pods} of 18 are there after {samples} samples: {}", world.layout(DEPLOY).await);
        most = most.max(pods);
        let updated = updated(&federated);
        // The user changes their mind twice: when the surge is in use, and when some have moved.
        let moved = world.members["c"].get(DEPLOY).await.unwrap_or_default();
        let moved = moved["status"]["availableReplicas"].as_i64().unwrap_or(0);
        if (turned == 0 && updated > 2) || (turned == 1 && moved > 2) {
            let text = if turned == 0 { weights(1, 1, 4) } else { weights(1, 2, 0) };
            world.federation.patch(DEPLOY, prefer(text)).await;
            turned += 1;
        }
        if turned == 2 && rolled_out(&federated) && world.layout(DEPLOY).await == "a=6 b=12 c=0" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(most > 18, "nothing ever came first");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn members_that_count_for_themselves_have_a_budget_of_what_they_ask_for() {
    let annotations = json!({"koinon.dev/replicas": "member"});
    let deploy = Deploy { replicas: 8, annotations, strategy: rolling(1, 0), ..Deploy::default() };
    let world = world(&["a", "b"], deploy).await;
    // What autoscalers in the members would do: fewer, and then more than it began with.
    for (replicas, image, wanted) in [(2, "web:2", "a=web:2 b=web:2"), (7, "web:3", "a=web:3 b=web:3")] {
        for site in world.members.values() {
            site.patch(DEPLOY, json!({"spec": {"replicas": replicas}})).await;
        }
        world.until_layout(DEPLOY, &format!("a={replicas} b={replicas}")).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        set_image(&world, image).await;
        let complete = |one: &Value| {
            one["status"]["observedGeneration"] == one["metadata"]["generation"]
                && one["status"]["updatedReplicas"] == 2 * replicas
                && progressing(one)["reason"] == "NewReplicaSetAvailable"
        };
        let (mut least, mut samples) = (2 * replicas, 0);
        let found = loop {
            samples += 1;
            assert!(samples < 10_000, "{:#}", world.federation.get(DEPLOY).await.unwrap());
            least = least.min(world.available(DEPLOY).await);
            let found = world.federation.get(DEPLOY).await.unwrap();
            if complete(&found) {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(least, 2 * replicas - 1);
        assert_eq!(images(&world).await, wanted);
        let available = found["status"]["conditions"].as_array().unwrap().iter();
        let available = available.filter(|one| one["type"] == "Available").collect::<Vec<_>>();
        assert_eq!(available[0]["status"], "True", "{found:#}");
        assert_eq!(found["status"]["unavailableReplicas"].as_i64().unwrap_or(0), 0);
        // What members ask for in all is what it says itself, or `kubectl rollout status` would wait for ever.
        assert_eq!(found["spec"]["replicas"], 2 * replicas);
        assert!(rolled_out(&found), "{found:#}");
        assert_eq!(world.layout(DEPLOY).await, format!("a={replicas} b={replicas}"));
    }
    world.rest().await;
}
