//! One rule at a time.

use super::*;

/// The endpoints of a slice as `name:ready,serving,terminating`.
fn conditions(slice: &EndpointSlice) -> Vec<String> {
    let letter =
        |flag: Option<bool>, letter: &str| if flag == Some(true) { letter.to_owned() } else { "-".into() };
    let endpoints = slice.endpoints.as_ref().unwrap().iter();
    let show = endpoints.map(|endpoint| {
        let said = endpoint.conditions.as_ref().unwrap();
        let name = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
        let flags =
            [letter(said.ready, "r"), letter(said.serving, "s"), letter(said.terminating, "t")].concat();
        format!("{name}:{flags}")
    });
    show.collect()
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    pod
}

#[test]
fn a_terminating_pod_may_still_serve_but_is_never_ready() {
    let pods =
        [pod("a", 1), unready(pod("b", 2)), terminating(pod("c", 3)), terminating(unready(pod("d", 4)))];
    let plain = settle(&mut look(&service(), &pods));
    assert_eq!(conditions(&plain.create[0]), ["a:rs-", "b:---", "c:-st", "d:--t"]);
    let mut all = service();
    all["spec"]["publishNotReadyAddresses"] = true.into();
    let published = settle(&mut look(&all, &pods));
    assert_eq!(conditions(&published.create[0]), ["a:rs-", "b:r--", "c:rst", "d:r-t"]);
}

#[test]
fn pods_that_ended_or_have_no_address_are_left_out() {
    let mut ended = pod("ended", 1);
    ended["status"]["phase"] = "Failed".into();
    let mut early = pod("early", 2);
    early["status"]["podIPs"] = json!([]);
    let made = settle(&mut look(&service(), &[ended, early])).create;
    assert_eq!(made.len(), 1);
    assert_eq!((made[0].endpoints.as_ref().unwrap().len(), made[0].ports.as_ref().unwrap().len()), (0, 0));
}

#[test]
fn a_slice_says_what_it_is_and_whose() {
    let mut service = service();
    service["metadata"]["labels"]["kubernetes.io/service-name"] = "another".into();
    let mut look = look(&service, &[pod("a", 1)]);
    look.trigger = Some("2026-01-01T00:00:01Z".parse().unwrap());
    let made = &settle(&mut look).create[0];
    let expected = json!({
        "generateName": "web-", "namespace": "default",
        "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:01Z"},
        "labels": {
            "app": "web", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-web",
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    assert_eq!(serde_json::to_value(&made.metadata).unwrap(), expected);
    let expected = json!([{
        "addresses": ["10.1.0.2"], "nodeName": "node", "zone": "zone",
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
    }]);
    assert_eq!(serde_json::to_value(&made.endpoints).unwrap(), expected);
    let expected = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    assert_eq!(serde_json::to_value(&made.ports).unwrap(), expected);
}

#[test]
fn headless_services_are_marked_and_name_their_pods() {
    let mut service = service();
    service["spec"]["clusterIP"] = "None".into();
    service["spec"]["ports"] = json!([]);
    let mut named = pod("a", 1);
    named["spec"]["hostname"] = "first".into();
    named["spec"]["subdomain"] = "web".into();
    let mut elsewhere = pod("b", 2);
    elsewhere["spec"]["hostname"] = "second".into();
    elsewhere["spec"]["subdomain"] = "other".into();
    let made = &settle(&mut look(&service, &[named, elsewhere])).create[0];
    assert_eq!(made.labels().get("service.kubernetes.io/headless"), Some(&String::new()));
    let hostnames: Vec<_> = made.endpoints.iter().flatten().map(|one| one.hostname.as_deref()).collect();
    assert_eq!(hostnames, [Some("first"), None]);
}

#[test]
fn a_port_name_means_what_each_pod_calls_so() {
    let mut service = service();
    service["spec"]["ports"][0]["targetPort"] = "http".into();
    let with = |name: &str, number: usize, ports: Value, init: Value| {
        let mut pod = pod(name, number);
        pod["spec"]["containers"][0]["ports"] = ports;
        pod["spec"]["initContainers"] = init;
        pod
    };
    let port = |number: u16, protocol: &str| json!([{"name": "http", "containerPort": number, "protocol": protocol}]);
    let container = |policy: Value| json!([{"name": "i", "restartPolicy": policy, "ports": port(70, "TCP")}]);
    let pods = [
        with("a", 1, port(8080, "TCP"), json!([])),
        with("b", 2, port(9090, "TCP"), json!([])),
        with("c", 3, port(9090, "UDP"), json!([])),
        with("d", 4, json!([]), container("Always".into())),
        with("e", 5, json!([]), container(Value::Null)),
    ];
    let made = settle(&mut look(&service, &pods)).create;
    let show = |slice: &EndpointSlice| {
        let ports: Vec<_> = slice.ports.iter().flatten().map(|port| port.port.unwrap()).collect();
        let names = slice
            .endpoints
            .iter()
            .flatten()
            .map(|one| one.target_ref.as_ref().unwrap().name.clone().unwrap());
        (ports, names.collect::<Vec<_>>().concat())
    };
    let mut shown: Vec<_> = made.iter().map(show).collect();
    shown.sort();
    // A pod without the port is there, under no port at all.
    let expected = [(vec![], "ce"), (vec![70], "d"), (vec![8080], "a"), (vec![9090], "b")];
    assert_eq!(shown, expected.map(|(ports, names)| (ports, names.to_owned())));
}

#[test]
fn each_family_has_its_own_slices() {
    let mut dual = service();
    dual["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    let mut look = look(&dual, &[pod("a", 15)]);
    let made = settle(&mut look).create;
    let show = |slice: &EndpointSlice| {
        (slice.address_type.clone(), slice.endpoints.as_ref().unwrap()[0].addresses.concat())
    };
    let shown: Vec<_> = made.iter().map(show).collect();
    assert_eq!(shown, [("IPv4".into(), "10.1.0.16".into()), ("IPv6".into(), "fd00::10".into())]);
    // A family that the Service gave up takes its slices with it.
    let single = super::look(&service(), &[pod("a", 15)]);
    let mut look = Look { slices: look.slices, ..single };
    let gone = settle(&mut look).delete;
    assert_eq!(gone.iter().map(|slice| slice.address_type.as_str()).collect::<Vec<_>>(), ["IPv6"]);
}

#[test]
fn a_pod_waits_for_its_node_unless_all_is_published() {
    let mut lost = pod("lost", 1);
    lost["spec"]["nodeName"] = "nowhere".into();
    let pods = [lost, pod("a", 2)];
    let made = plan(&look(&service(), &pods));
    assert_eq!(conditions(&made.create[0]), ["a:rs-"]);
    assert_eq!((made.waiting[0].pod.as_str(), made.waiting[0].node.as_str()), ("lost", "nowhere"));
    let mut all = service();
    all["spec"]["publishNotReadyAddresses"] = true.into();
    let made = plan(&look(&all, &pods));
    assert_eq!(conditions(&made.create[0]), ["a:rs-", "lost:rs-"]);
    assert!(made.waiting.is_empty());
}

#[test]
fn slices_are_filled_before_new_ones_come() {
    let pods: Vec<Value> = (0..150).map(|number| pod(&format!("pod-{number}"), number)).collect();
    let mut look = look(&service(), &pods);
    let sizes = |look: &Look| {
        look.slices.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect::<Vec<_>>()
    };
    settle(&mut look);
    assert_eq!(sizes(&look), [100, 50]);
    // A few go from the full one and others come: they take the places, in one write.
    let full: Vec<String> = look.slices[0]
        .endpoints
        .iter()
        .flatten()
        .map(|one| one.target_ref.clone().unwrap().name.unwrap())
        .collect();
    let mut later: Vec<Value> = pods
        .iter()
        .filter(|pod| !full[..5].contains(&pod["metadata"]["name"].as_str().unwrap().to_owned()))
        .cloned()
        .collect();
    later.extend((150..155).map(|number| pod(&format!("pod-{number}"), number)));
    let mut look = Look { slices: look.slices, ..super::look(&service(), &later) };
    assert_eq!(writes(&settle(&mut look)), 1);
    assert_eq!(sizes(&look), [100, 50]);
}

#[test]
fn a_slice_of_a_former_service_is_replaced_and_not_filled() {
    let mut look = look(&service(), &[pod("a", 1)]);
    settle(&mut look);
    let mut anew = service();
    anew["metadata"]["uid"] = "uid-anew".into();
    let mut look = Look { slices: look.slices, ..super::look(&anew, &[pod("a", 1)]) };
    let plan = settle(&mut look);
    assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), (1, 0, 1));
}

#[test]
fn the_last_pod_leaves_an_empty_slice_by_one_write() {
    let mut look = look(&service(), &[pod("a", 1)]);
    settle(&mut look);
    let name = look.slices[0].name_any();
    let mut look = Look { slices: look.slices, ..super::look(&service(), &[]) };
    let plan = settle(&mut look);
    assert_eq!(writes(&plan), 1);
    assert_eq!(plan.update[0].name_any(), name);
    // And a change of labels is one more.
    let mut labelled = service();
    labelled["metadata"]["labels"]["new"] = "yes".into();
    let mut look = Look { slices: look.slices, ..super::look(&labelled, &[]) };
    assert_eq!(settle(&mut look).update.len(), 1);
    assert_eq!(look.slices[0].labels()["new"], "yes");
}

#[test]
fn a_service_that_goes_gets_no_new_slices() {
    let mut going = service();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(is_empty(&plan(&look(&going, &[pod("a", 1)]))));
}

#[test]
fn hints_follow_the_wish_of_the_service() {
    let zone = json!([{"name": "zone"}]);
    let node = json!([{"name": "node"}]);
    let cases = [
        (json!("PreferClose"), json!({"forZones": zone})),
        (json!("PreferSameZone"), json!({"forZones": zone})),
        (json!("PreferSameNode"), json!({"forZones": zone, "forNodes": node})),
        (json!("somewhere"), Value::Null),
        (Value::Null, Value::Null),
    ];
    let mut slices = Vec::new();
    for (wish, expected) in cases {
        let mut service = service();
        service["spec"]["trafficDistribution"] = wish.clone();
        // What there was before is put right, whatever it was.
        let mut look = Look { slices, ..look(&service, &[pod("a", 1), unready(pod("b", 2))]) };
        settle(&mut look);
        let hints: Vec<Value> = look.slices[0]
            .endpoints
            .iter()
            .flatten()
            .map(|endpoint| serde_json::to_value(&endpoint.hints).unwrap())
            .collect();
        assert_eq!(hints, [expected, Value::Null], "{wish}");
        slices = look.slices;
    }
}
