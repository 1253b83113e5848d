//! Members that refuse, objects in the way, hands that meddle, and input that makes no sense.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, PREFERENCES, SETS, WEB, World, placement, set};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const EVEN: &str = r#"{"rebalance":true}"#;

#[tokio::test(start_paused = true)]
async fn replicas_go_elsewhere_while_a_member_refuses_and_come_back() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    world.members["c"]
        .wire
        .refuse(|method, path| (method == Method::PATCH && path.contains("replicasets")).then_some(403));
    world.create_set(12, Some(EVEN)).await;
    world.until_layout(WEB, "a=6 b=6").await;
    world.until_event("Refused: cluster c: refused: a simulated fault").await;
    let web = world.until(WEB, "the failure shows", |web| !web["status"]["conditions"].is_null()).await;
    assert_eq!(web["status"]["conditions"][0]["type"], "ReplicaFailure");
    assert!(placement(&web)["clusters"]["c"]["why"].as_str().unwrap().contains("a simulated fault"));
    world.members["c"].wire.accept();
    world.until_layout(WEB, "a=4 b=4 c=4").await;
    world.until(WEB, "the failure is over", |web| web["status"]["conditions"].is_null()).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_is_overwritten_and_its_pods_stay() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    // One that selects the same pods, and one that does not.
    let mut same = set("web", 3, None);
    same["spec"]["template"]["spec"]["containers"][0]["image"] = "old:1".into();
    world.members["a"].create(SETS, same).await;
    let mut other = set("web", 2, None);
    other["spec"]["selector"]["matchLabels"] = json!({"app": "else"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "else"});
    world.members["b"].create(SETS, other).await;
    world.until_layout(WEB, "a=3 b=2").await;
    world.create_set(8, Some(EVEN)).await;
    world.until_layout(WEB, "a=4 b=4").await;
    world.until_event("Overwritten: cluster a had another ReplicaSet of this name").await;
    world
        .until_event("Overwritten: cluster b had another ReplicaSet of this name that selects other pods")
        .await;
    let pods = |site: &str, app: &str| {
        let path = format!("/api/v1/namespaces/default/pods?labelSelector=app={app}");
        let site = &world.members[site];
        async move { site.get(&path).await.unwrap()["items"].as_array().unwrap().clone() }
    };
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let adopted = pods("a", "web").await;
    assert_eq!(adopted.iter().filter(|pod| image(pod) == "old:1").count(), 3, "adopted, and not replaced");
    assert_eq!(pods("b", "else").await.len(), 2, "left to themselves");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_what_was_overwritten() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    // One that differs in no field that both have, and one that does.
    for (member, replicas) in [("a", 2), ("b", 3)] {
        let mut other = set("web", replicas, None);
        other["metadata"]["labels"] = json!({"owner": "somebody"});
        other["metadata"]["finalizers"] = json!(["tests.koinon.dev/kept"]);
        let pod = &mut other["spec"]["template"]["spec"];
        pod["containers"] =
            json!([{"name": "nginx", "image": "nginx:1", "env": [{"name": "A", "value": "1"}]}]);
        pod["hostname"] = "theirs".into();
        world.members[member].create(SETS, other.clone()).await;
        other["kind"] = "Deployment".into();
        world.members[member].create(DEPLOYMENTS, other).await;
    }
    world.create_set(4, Some(EVEN)).await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.rest().await;
    for path in [WEB, DEPLOY] {
        world.until_layout(path, "a=2 b=2").await;
        for site in world.members.values() {
            let there = site.get(path).await.unwrap();
            let pod = &there["spec"]["template"]["spec"];
            let names: Vec<&Value> =
                pod["containers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
            assert_eq!(names, ["web"], "{there:#}");
            assert_eq!(pod["hostname"], Value::Null, "{there:#}");
            assert_eq!(there["metadata"]["labels"]["owner"], Value::Null, "{there:#}");
            assert_eq!(there["metadata"]["finalizers"], json!(["tests.koinon.dev/kept"]), "{there:#}");
        }
    }
    for kind in ["ReplicaSet", "Deployment"] {
        for member in ["a", "b"] {
            let told = format!("Overwritten: cluster {member} had another {kind} of this name");
            world.until_event(&told).await;
        }
    }
    // What we stop to say goes, as in any other member.
    world.federation.patch(WEB, json!({"metadata": {"labels": {"team": null}}})).await;
    world.rest().await;
    for site in world.members.values() {
        assert_eq!(site.get(WEB).await.unwrap()["metadata"]["labels"]["team"], Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_somebody_there_is_left_alone() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    world.members["b"].create(maps, json!({"metadata": {"name": "shop"}})).await;
    let shop = world.members["b"].get(&format!("{maps}/shop")).await.unwrap();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "shop", "uid": shop["metadata"]["uid"], "controller": true});
    let mut owned = set("web", 1, None);
    owned["metadata"]["ownerReferences"] = json!([owner]);
    world.members["b"].create(SETS, owned).await;
    world.create_set(4, Some(EVEN)).await;
    world.until_event("Refused: cluster b: the object of this name there belongs to ConfigMap shop").await;
    world.until_layout(WEB, "a=4 b=1").await;
    world.members["b"].delete(WEB, "Background").await;
    world.until_layout(WEB, "a=2 b=2").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_hands_change_is_put_right_and_what_is_theirs_is_left() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(EVEN)).await;
    world.until_layout(WEB, "a=4 b=4").await;
    world.members["a"].delete(WEB, "Orphan").await;
    world.until_event("Recreated: created again in cluster a").await;
    world.until_layout(WEB, "a=4 b=4").await;

    world.members["b"].patch(WEB, json!({"spec": {"replicas": 1}})).await;
    world.until_event("Repaired: put right in cluster b").await;
    world.until_layout(WEB, "a=4 b=4").await;
    let container = json!([{"name": "web", "image": "evil:1"}]);
    world.members["b"].patch(WEB, json!({"spec": {"template": {"spec": {"containers": container}}}})).await;
    let repaired = async {
        loop {
            let found = world.members["b"].get(WEB).await.unwrap();
            if found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1" {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(600), repaired).await.unwrap();
    assert_eq!(found["metadata"]["labels"]["koinon.dev/federated"], "true");
    assert_eq!(found["metadata"]["labels"]["team"], "blue");

    world.members["b"].patch(WEB, json!({"metadata": {"annotations": {"local": "yes"}}})).await;
    world.rest().await;
    let found = world.members["b"].get(WEB).await.unwrap();
    assert_eq!(found["metadata"]["annotations"]["local"], "yes");
}

#[tokio::test(start_paused = true)]
async fn what_loses_its_pods_before_it_is_gone_was_deleted_too() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(EVEN)).await;
    world.until_layout(WEB, "a=4 b=4").await;
    let finalizers = |names: Value| json!({"metadata": {"finalizers": names}});
    world.members["a"].patch(WEB, finalizers(json!(["tests.koinon.dev/slow"]))).await;
    world.members["a"].delete(WEB, "Orphan").await;
    let emptied = |found: &Value| placement(found)["clusters"]["a"]["replicas"] == 0;
    world.until(WEB, "its pods are no longer counted", emptied).await;
    world.members["a"].patch(WEB, finalizers(Value::Null)).await;
    world.until_event("Recreated: created again in cluster a").await;
    world.until_layout(WEB, "a=4 b=4").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_created_count_as_no_room() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "6"}}});
    world.members["c"].create("/api/v1/namespaces/default/resourcequotas", quota).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.create_set(50, Some(EVEN)).await;
    world.until_layout(WEB, "a=22 b=22 c=6/8").await;
    world.rest().await;
    // The same of a Deployment, for which there is no room at all any more.
    let annotations = json!({"federation.kubernetes.io/deployment-preferences": EVEN});
    world.create_deployment(Deploy { replicas: 12, annotations, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=6 b=6 c=0/2").await;
    let failing = |one: &Value| {
        let mut conditions = one["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["type"] == "ReplicaFailure"
                && one["status"] == "True"
                && one["reason"] == "FailedCreate"
                && message.starts_with("c: ")
                && message.contains("exceeded quota: few")
        })
    };
    world.until(DEPLOY, "the failure shows", failing).await;
    world.members["c"].delete("/api/v1/namespaces/default/resourcequotas/few", "Background").await;
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    world.until(DEPLOY, "the failure is over", |one| !failing(one)).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn preferences_that_make_no_sense_change_nothing_and_are_explained() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(EVEN)).await;
    world.until_layout(WEB, "a=4 b=4").await;
    let bad = r#"{"clusters":{"a":{"weigth":1}}}"#;
    let change = json!({"metadata": {"annotations": {PREFERENCES: bad}}, "spec": {"replicas": 20}});
    world.federation.patch(WEB, change).await;
    let event = world.until_event("PreferencesMalformed: ").await;
    assert!(event.contains("clusters.a.weigth is not known"), "{event}");
    world.members["a"].delete(WEB, "Background").await;
    world.rest().await;
    world.until_layout(WEB, "a=4 b=4").await;
    let web = world.federation.get(WEB).await.unwrap();
    assert_eq!(web["status"]["conditions"][0]["type"], "PreferencesValid");
    assert_eq!(web["status"]["conditions"][0]["status"], "False");
    let good = r#"{"clusters":{"a":{"weight":1},"mars":{"weight":5}}}"#;
    world.federation.patch(WEB, json!({"metadata": {"annotations": {PREFERENCES: good}}})).await;
    world.until_layout(WEB, "a=20 b=0").await;
    let web = world.until(WEB, "the fault is gone", |web| web["status"]["conditions"].is_null()).await;
    let mars = &placement(&web)["clusters"]["mars"]["why"];
    assert!(mars.as_str().unwrap().contains("no member of the federation"), "{mars}");
}

#[tokio::test(start_paused = true)]
async fn who_is_away_while_preferences_make_no_sense_keeps_what_it_runs() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(EVEN)).await;
    world.create_deployment(Deploy { replicas: 8, ..Deploy::default() }).await;
    let preferences = [PREFERENCES, "federation.kubernetes.io/deployment-preferences"];
    for (path, name) in [WEB, DEPLOY].into_iter().zip(preferences) {
        world.until_layout(path, "a=4 b=4").await;
        world.federation.patch(path, json!({"metadata": {"annotations": {name: "{"}}})).await;
    }
    world.rest().await;
    world.members["b"].wire.cut();
    let state = |one: &Value| placement(one)["clusters"]["b"]["state"].clone();
    for path in [WEB, DEPLOY] {
        world.until(path, "it is away", |one| state(one) == "Offline").await;
    }
    world.rest().await;
    world.members["b"].wire.heal();
    for path in [WEB, DEPLOY] {
        let back = |one: &Value| state(one) == "Ready" && one["status"]["availableReplicas"] == 8;
        world.until(path, "it is back", back).await;
        assert_eq!(world.layout(path).await, "a=4 b=4");
    }
    world.rest().await;
    let to_b = world.writes().into_iter().filter(|write| write.starts_with("b ")).count();
    assert_eq!(to_b, 2, "it was written to only once for each");
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_made_and_a_members_own_count_is_left() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.federation.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let mut web = set("web", 6, Some(EVEN));
    web["metadata"]["annotations"]["koinon.dev/replicas"] = "member".into();
    world.federation.create("/apis/apps/v1/namespaces/shop/replicasets", web).await;
    let path = "/apis/apps/v1/namespaces/shop/replicasets/web";
    world.until_layout(path, "a=3 b=3").await;
    // What an autoscaler in the member would do.
    world.members["b"].patch(&format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    world.until_layout(path, "a=3 b=5").await;
    world.federation.patch(path, json!({"spec": {"minReadySeconds": 1}})).await;
    world.rest().await;
    world.until_layout(path, "a=3 b=5").await;
    let there = world.members["b"].get(path).await.unwrap();
    assert_eq!(there["spec"]["minReadySeconds"], 1);
    let web = world.until(path, "all are counted", |web| web["status"]["replicas"] == 8).await;
    assert_eq!(placement(&web)["clusters"]["b"]["desired"], 5);
    assert_eq!(placement(&web)["clusters"]["b"]["state"], "Ready");
    // However many the others have, whoever has none gets its own again.
    world.members["a"].patch(&format!("{path}/scale"), json!({"spec": {"replicas": 20}})).await;
    world.until_layout(path, "a=20 b=5").await;
    world.members["b"].delete(path, "Background").await;
    world.until_layout(path, "a=20 b=3").await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_not_seen() {
    let mut world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(EVEN)).await;
    world.create_deployment(Deploy { replicas: 6, ..Deploy::default() }).await;
    world.until(WEB, "all are available", |web| web["status"]["availableReplicas"] == 8).await;
    world.until(DEPLOY, "all are available", |web| web["status"]["availableReplicas"] == 6).await;
    world.rest().await;
    let before = (world.federation.get(WEB).await, world.federation.get(DEPLOY).await);
    world.kill().await;
    let written = world.writes().len();
    // One member answers only after a while.
    world.members["b"].wire.cut();
    world.start().await;
    for round in 0..400 {
        if round == 200 {
            world.members["b"].wire.heal();
        }
        let (web, deploy) =
            (world.federation.get(WEB).await.unwrap(), world.federation.get(DEPLOY).await.unwrap());
        assert_eq!(web["status"]["availableReplicas"], 8);
        assert_eq!(deploy["status"]["availableReplicas"], 6);
        assert_eq!(deploy["status"]["updatedReplicas"], 6);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.rest().await;
    let after = (world.federation.get(WEB).await, world.federation.get(DEPLOY).await);
    let said = |one: &Option<Value>| {
        let one = one.as_ref().unwrap();
        (one["status"].clone(), placement(one))
    };
    assert_eq!(said(&after.0), said(&before.0));
    assert_eq!(said(&after.1).1, said(&before.1).1);
    assert_eq!(world.writes().split_off(written), [""; 0], "nothing has changed, and nothing is written");
}

/// What a member's own admission adds to a template is no other template, whoever comes to look at it.
#[tokio::test(start_paused = true)]
async fn a_restart_is_not_seen_where_members_add_to_templates() {
    let mut world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 6, ..Deploy::default() }).await;
    world.until(DEPLOY, "all are available", |web| web["status"]["availableReplicas"] == 6).await;
    world.kill().await;
    // As if it had been added to what the role wrote: under its name.
    let added = json!({"spec": {"template": {"metadata": {"annotations": {"policy": "strict"}}}}});
    for site in world.members.values() {
        site.patch(&format!("{DEPLOY}?fieldManager=koinon"), added.clone()).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.start().await;
    for _ in 0..400 {
        let found = world.federation.get(DEPLOY).await.unwrap();
        assert_eq!(found["status"]["updatedReplicas"], 6, "{found:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.rest().await;
    // What a hand adds is put right.
    let image = json!([{"name": "web", "image": "web:mine"}]);
    let meddled = json!({"spec": {"template": {"spec": {"containers": image}}}});
    world.members["a"].patch(&format!("{DEPLOY}?fieldManager=hand"), meddled).await;
    world.rest().await;
    let there = world.members["a"].get(DEPLOY).await.unwrap();
    assert_eq!(there["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
}

#[tokio::test(start_paused = true)]
async fn who_quarrels_is_not_answered_for_ever() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(4, Some(EVEN)).await;
    world.until_layout(WEB, "a=2 b=2").await;
    let before = world.writes().len();
    for _ in 0..600 {
        world.members["b"].patch(WEB, json!({"metadata": {"labels": {"team": "red"}}})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let repairs =
        world.writes().split_off(before).into_iter().filter(|write| write.starts_with("b ")).count();
    assert!((5..=20).contains(&repairs), "{repairs} in two minutes");
    tokio::time::sleep(Duration::from_secs(90)).await;
    let there = world.members["b"].get(WEB).await.unwrap();
    assert_eq!(there["metadata"]["labels"]["team"], "blue", "once the other rests, it is put right");
}
