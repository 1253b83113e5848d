//! The definitions on a server: what they take, what they refuse, and in which words.

use serde_json::{Value, json};

use crate::harness::{CONFIGS, POLICIES, World, config, policy};

async fn refused(world: &World, path: &str, mut object: Value, spec: Value, why: &str) {
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    let error = world.at("a").try_create(path, object).await.expect_err(why);
    assert!(error.contains(why), "{error}\n does not say: {why}");
}

#[tokio::test(start_paused = true)]
async fn what_is_out_of_bounds_is_refused_with_a_reason() {
    let world = World::bare(&["a"]).await;
    let bad_policy =
        async |spec: Value, why: &str| refused(&world, POLICIES, policy("p", 10), spec, why).await;
    bad_policy(
        json!({"trafficSplit": [{"cluster": "a", "weight": 21}]}),
        "spec.trafficSplit[0].weight: Invalid value: 21: spec.trafficSplit[0].weight in body should be less than or equal to 20",
    )
    .await;
    bad_policy(json!({"trafficSplit": [{"cluster": "a", "weight": 0}]}), "greater than or equal to 1").await;
    bad_policy(json!({"trafficSplit": [{"cluster": "a", "priority": 101}]}), "less than or equal to 100")
        .await;
    bad_policy(json!({"ttl": 86401}), "less than or equal to 86400").await;
    bad_policy(json!({"ttl": -1}), "greater than or equal to 0").await;
    bad_policy(
        json!({"healthMonitorRefs": ["x"], "healthMonitorTemplate": "y"}),
        "healthMonitorRefs and healthMonitorTemplate cannot be used together",
    )
    .await;
    bad_policy(json!({"healthMonitorRefs": [""]}), "spec.healthMonitorRefs[0]").await;
    let hash = "hashMask is needed with GSLB_ALGORITHM_CONSISTENT_HASH, and allowed with nothing else";
    let geo = "geoFallback is needed with GSLB_ALGORITHM_GEO, and allowed with nothing else";
    let algorithm = |settings: Value| json!({"poolAlgorithmSettings": settings});
    bad_policy(algorithm(json!({"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH"})), hash).await;
    bad_policy(algorithm(json!({"lbAlgorithm": "GSLB_ALGORITHM_ROUND_ROBIN", "hashMask": 3})), hash).await;
    bad_policy(algorithm(json!({"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH", "hashMask": 32})), "31")
        .await;
    bad_policy(algorithm(json!({"lbAlgorithm": "GSLB_ALGORITHM_GEO"})), geo).await;
    bad_policy(algorithm(json!({"geoFallback": {"lbAlgorithm": "GSLB_ALGORITHM_ROUND_ROBIN"}})), geo).await;
    bad_policy(
        algorithm(json!({
            "lbAlgorithm": "GSLB_ALGORITHM_GEO", "geoFallback": {"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH"},
        })),
        hash,
    )
    .await;
    bad_policy(algorithm(json!({"lbAlgorithm": "FASTEST"})), "Unsupported value").await;
    let down = |settings: Value| json!({"downResponse": settings});
    let fallback = "fallbackIP is needed with GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP";
    bad_policy(down(json!({"type": "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP"})), fallback).await;
    bad_policy(down(json!({"type": "GSLB_SERVICE_DOWN_RESPONSE_NONE", "fallbackIP": "1.2.3.4"})), fallback)
        .await;
    bad_policy(down(json!({"fallbackIP": "1.2.3.4"})), "spec.downResponse.type: Required value").await;
    bad_policy(json!({"matchRules": {"appSelector": {"label": {"": "x"}}}}), "a label needs a key").await;
    bad_policy(json!({"matchRules": {"namespaceSelector": {"label": {"x": ""}}}}), "spec.matchRules").await;
    refused(&world, CONFIGS, config("c", 1), json!({"logLevel": "LOUD"}), "Unsupported value: \"LOUD\"")
        .await;
    let mut empty = config("c", 1);
    empty.as_object_mut().unwrap().remove("spec");
    let error = world.at("a").try_create(CONFIGS, empty).await.unwrap_err();
    assert!(error.contains("spec: Required value"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_is_taken_and_defaulted() {
    let world = World::bare(&["a"]).await;
    let mut full = policy("p", 0);
    full["spec"]["trafficSplit"] = json!([{"cluster": "a"}, {"cluster": "b", "weight": 20, "priority": 0}]);
    full["spec"]["matchClusters"] = json!([{"cluster": "a", "syncVipOnly": true}]);
    full["spec"]["healthMonitorRefs"] = json!(["x", "y"]);
    full["spec"]["poolAlgorithmSettings"] = json!({
        "lbAlgorithm": "GSLB_ALGORITHM_GEO",
        "geoFallback": {"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH", "hashMask": 31},
    });
    full["spec"]["downResponse"] =
        json!({"type": "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP", "fallbackIP": "1.2.3.4"});
    for (field, value) in [
        ("sitePersistenceRef", json!("s")),
        ("pkiProfileRef", json!("k")),
        ("defaultDomain", json!("example.com")),
        ("controlPlaneHmOnly", json!(true)),
    ] {
        full["spec"][field] = value;
    }
    let made = world.at("a").create(POLICIES, full.clone()).await;
    full["spec"]["trafficSplit"][0] = json!({"cluster": "a", "weight": 1, "priority": 10});
    assert_eq!(made["spec"], full["spec"]);
    let mut all = config("c", 600);
    all["spec"]["useCustomGlobalFqdn"] = true.into();
    all["spec"]["gslbLeader"]["tenant"] = "admin".into();
    let made = world.at("a").create(CONFIGS, all.clone()).await;
    assert_eq!(made["spec"], all["spec"]);
}
