//! Pods on simulated nodes: how they come up, run and end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, NODES, PODS, Parts, condition, node, pod};

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready_with_everything_that_a_kubelet_writes() {
    let cluster = Cluster::running(Parts::default()).await;
    let spec = json!({
        "initContainers": [
            {"name": "first", "image": "busybox"},
            {"name": "side", "image": "busybox", "restartPolicy": "Always"},
        ],
    });
    cluster.pod("web", json!({}), spec).await;
    let pod = cluster.until_ready("web").await;
    let status = &pod["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.244.0.2"), &json!("172.18.0.2")));
    assert_eq!(status["observedGeneration"], 1);
    for type_ in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&pod, type_), "True", "{type_}");
    }
    assert_eq!(container(&pod)["ready"], true);
    assert!(container(&pod)["containerID"].as_str().unwrap().starts_with("containerd://"));
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert!(status["initContainerStatuses"][1]["state"]["running"].is_object());
    let expected = [
        "Created",
        "Created",
        "Created",
        "Pulled",
        "Pulled",
        "Pulled",
        "Scheduled",
        "Started",
        "Started",
        "Started",
    ];
    cluster.until("/api/v1/events", |list| list.unwrap()["items"].as_array().unwrap().len() >= 10).await;
    assert_eq!(cluster.events("web").await, expected);
}

#[tokio::test(start_paused = true)]
async fn pods_come_up_in_their_time_and_never_before() {
    let cluster = Cluster::running(Parts::default()).await;
    let slow = json!({"sim.koinon.dev/start-after": "20s", "sim.koinon.dev/ready-after": "1m"});
    cluster.pod("slow", slow, json!({})).await;
    let creating =
        cluster.until(&pod("slow"), |pod| pod.unwrap()["status"]["startTime"].is_string()).await.unwrap();
    assert_eq!(container(&creating)["state"]["waiting"]["reason"], "ContainerCreating");
    let before = tokio::time::Instant::now();
    cluster.until(&pod("slow"), |pod| pod.unwrap()["status"]["phase"] == "Running").await;
    assert_eq!(before.elapsed().as_secs(), 20);
    cluster.until_ready("slow").await;
    assert_eq!(before.elapsed().as_secs(), 80);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_never_ready_runs_and_says_why() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster
        .pod("never", json!({"sim.koinon.dev/ready": "never", "sim.koinon.dev/reddy": "x"}), json!({}))
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let never = cluster.get(&pod("never")).await.unwrap();
    assert_eq!((condition(&never, "Ready"), &never["status"]["phase"]), ("False", &json!("Running")));
    let events = cluster.events("never").await;
    for reason in ["Unhealthy", "InvalidSimulation"] {
        assert_eq!(events.iter().filter(|event| *event == reason).count(), 1, "{events:?}");
    }
    // Once nothing holds it back any more, it is ready.
    cluster.patch(&pod("never"), json!({"metadata": {"annotations": {"sim.koinon.dev/ready": null}}})).await;
    cluster.until_ready("never").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_backs_off_ever_longer() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("crash", json!({"sim.koinon.dev/crash": "loop"}), json!({})).await;
    let mut times = Vec::new();
    let start = tokio::time::Instant::now();
    for restarts in 1..=8 {
        let pod = cluster
            .until(&pod("crash"), |pod| container(pod.unwrap())["restartCount"] == restarts)
            .await
            .unwrap();
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 1);
        times.push(start.elapsed().as_secs());
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // One second of running each time, and then the pause.
    assert_eq!(pauses, [11, 21, 41, 81, 161, 301, 301]);
    cluster
        .until(&pod("crash"), |pod| {
            let waiting = &container(pod.unwrap())["state"]["waiting"];
            waiting["reason"] == "CrashLoopBackOff"
                && waiting["message"].as_str().unwrap().starts_with("back-off 5m0s ")
        })
        .await;
    assert!(cluster.events("crash").await.contains(&"BackOff".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn how_pods_end_follows_their_restart_policy() {
    let cluster = Cluster::running(Parts::default()).await;
    let table = [
        ("done", json!({"sim.koinon.dev/complete-after": "5s"}), "Never", "Succeeded"),
        ("failed", json!({"sim.koinon.dev/fail-after": "5s"}), "Never", "Failed"),
        ("onfailure", json!({"sim.koinon.dev/complete-after": "5s"}), "OnFailure", "Succeeded"),
    ];
    for (name, annotations, policy, phase) in table {
        cluster.pod(name, annotations, json!({"restartPolicy": policy})).await;
        let pod = cluster.until(&pod(name), |pod| pod.unwrap()["status"]["phase"] == phase).await.unwrap();
        assert_eq!(condition(&pod, "Ready"), "False", "{name}");
    }
    cluster.pod("once", json!({"sim.koinon.dev/crash": "once"}), json!({"restartPolicy": "OnFailure"})).await;
    cluster.until(&pod("once"), |pod| container(pod.unwrap())["restartCount"] == 1).await;
    cluster.until_ready("once").await;
    let late = json!({"activeDeadlineSeconds": 30, "restartPolicy": "Always"});
    cluster.pod("late", json!({}), late).await;
    cluster.until(&pod("late"), |pod| pod.unwrap()["status"]["reason"] == "DeadlineExceeded").await;
}

#[tokio::test(start_paused = true)]
async fn deletion_takes_its_time_and_never_longer_than_its_grace() {
    let cluster = Cluster::running(Parts::default()).await;
    for (name, after, seconds) in [("quick", "3s", 3), ("slow", "5m", 30)] {
        cluster.pod(name, json!({"sim.koinon.dev/terminate-after": after}), json!({})).await;
        cluster.until_ready(name).await;
        cluster.delete(&pod(name)).await;
        let start = tokio::time::Instant::now();
        cluster.until_gone(&pod(name)).await;
        assert_eq!(start.elapsed().as_secs(), seconds, "{name}");
        assert!(cluster.events(name).await.contains(&"Killing".to_owned()));
    }
    // What waits for somebody's finalizer is told to end once, and then left alone.
    cluster.pod("held", json!({}), json!({})).await;
    cluster.patch(&pod("held"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    cluster.until_ready("held").await;
    cluster.delete(&pod("held")).await;
    let held =
        cluster.until(&pod("held"), |pod| pod.unwrap()["metadata"]["deletionGracePeriodSeconds"] == 0).await;
    assert_eq!(held.unwrap()["status"]["phase"], "Succeeded");
    let before = cluster.writes().len();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(cluster.writes().len(), before, "{:#?}", cluster.writes());
}

#[tokio::test(start_paused = true)]
async fn readiness_gates_keep_a_pod_from_being_ready() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("gated", json!({}), json!({"readinessGates": [{"conditionType": "example.com/open"}]})).await;
    let ready =
        |pod: &Value| (condition(pod, "ContainersReady").to_owned(), condition(pod, "Ready").to_owned());
    let gated =
        cluster.until(&pod("gated"), |pod| condition(pod.unwrap(), "ContainersReady") == "True").await;
    let gated = gated.unwrap();
    assert_eq!(ready(&gated), ("True".into(), "False".into()));
    let mut conditions = gated["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "example.com/open", "status": "True"}));
    cluster.patch(&format!("{}/status", pod("gated")), json!({"status": {"conditions": conditions}})).await;
    cluster.until_ready("gated").await;
}

#[tokio::test(start_paused = true)]
async fn every_pod_has_an_address_of_its_own_and_two_where_there_are_two_families() {
    let mut parts = Parts::default();
    parts.kubelet.nodes = 2;
    parts.kubelet.pod_ranges = vec!["10.1.0.0/16".parse().unwrap(), "fd00:1::/56".parse().unwrap()];
    parts.kubelet.node_ranges = vec!["172.20.0.0/16".parse().unwrap(), "fd00:2::/64".parse().unwrap()];
    let cluster = Cluster::running(parts).await;
    for number in 0..8 {
        cluster.pod(&format!("web-{number}"), json!({}), json!({})).await;
    }
    cluster.pod("host", json!({}), json!({"hostNetwork": true})).await;
    for number in 0..8 {
        cluster.until_ready(&format!("web-{number}")).await;
    }
    let mut addresses = Vec::new();
    for pod in cluster.list(PODS).await.iter().filter(|pod| pod["metadata"]["name"] != "host") {
        let ips = pod["status"]["podIPs"].as_array().unwrap();
        assert_eq!(ips.len(), 2);
        assert!(ips[0]["ip"].as_str().unwrap().starts_with("10.1."));
        addresses.extend(ips.iter().map(|ip| ip["ip"].as_str().unwrap().to_owned()));
    }
    let count = addresses.len();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), count);
    let host = cluster.until_ready("host").await;
    assert_eq!(host["status"]["podIP"], host["status"]["hostIP"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_where_it_stopped_and_writes_nothing_twice() {
    let mut cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), json!({})).await;
    cluster.pod("crash", json!({"sim.koinon.dev/crash": "loop"}), json!({})).await;
    let web = cluster.until_ready("web").await;
    cluster.until(&pod("crash"), |pod| container(pod.unwrap())["restartCount"] == 3).await;
    cluster.stop().await;
    cluster.start();
    cluster.until(&pod("crash"), |pod| container(pod.unwrap())["restartCount"] == 4).await;
    assert_eq!(cluster.get(&pod("web")).await.unwrap(), web);
    // Both kinds of addresses are still known to be taken.
    cluster.pod("next", json!({}), json!({"nodeName": web["spec"]["nodeName"]})).await;
    assert_ne!(cluster.until_ready("next").await["status"]["podIP"], web["status"]["podIP"]);
}

#[tokio::test(start_paused = true)]
async fn at_rest_there_are_only_heartbeats() {
    let cluster = Cluster::running(Parts::default()).await;
    for number in 0..6 {
        cluster.pod(&format!("web-{number}"), json!({}), json!({})).await;
    }
    for number in 0..6 {
        cluster.until_ready(&format!("web-{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (before, heartbeats) = (cluster.writes().len(), cluster.heartbeats());
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let writes = cluster.writes();
    // A lease every ten seconds and a status every five minutes from each of three nodes.
    let mut others = writes[before..].to_vec();
    others.sort();
    others.dedup();
    let expected: Vec<_> = (1..=3).map(|number| format!("PUT {NODES}/node-{number}/status")).collect();
    assert_eq!(others, expected);
    assert_eq!(writes.len() - before, 12);
    assert_eq!(cluster.heartbeats() - heartbeats, 360);
}

#[tokio::test(start_paused = true)]
async fn nodes_look_like_nodes() {
    let cluster = Cluster::running(Parts::default()).await;
    let node_2 = cluster.get(&node("node-2")).await.unwrap();
    assert_eq!(node_2["metadata"]["labels"]["kubernetes.io/hostname"], "node-2");
    assert_eq!(node_2["spec"]["podCIDRs"], json!(["10.244.1.0/24"]));
    assert_eq!(node_2["status"]["allocatable"]["pods"], "110");
    assert_eq!(node_2["status"]["addresses"][0], json!({"type": "InternalIP", "address": "172.18.0.3"}));
    assert_eq!(node_2["status"]["nodeInfo"]["kubeletVersion"], "v1.36.3");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-2";
    let lease = cluster.until(lease, |lease| lease.is_some()).await.unwrap();
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node_2["metadata"]["uid"]);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
}
