//! Who is a member of what, and where it is put (N26 to N32, N34 to N36, N39).

use serde_json::{Value, json};

use crate::world::{GLOBAL, NAMESPACED, World, example, foo, typed};
use koinon_control::Key;

#[test]
fn n26_n29_a_global_service_is_in_every_cluster() {
    let mut world = example();
    world.places.insert("cluster4".into(), Default::default());
    for cluster in ["cluster1", "cluster2", "cluster3", "cluster4"] {
        assert!(world.shown(cluster, &foo()).starts_with("http:80\n"), "{cluster}");
    }
    assert_eq!(
        world.shown("cluster4", &foo()),
        "http:80\n\
         cluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2\n\
         cluster2 IPv4 http:30602 -> 172.21.0.6 172.21.0.7\n\
         cluster3 IPv4 http:80 -> 203.0.113.9"
    );
}

#[test]
fn n27_a_namespaced_service_combines_one_namespace_and_waits_for_it() {
    let mut world = World::new(&["a", "b", "c"]);
    let joins = [(NAMESPACED, "web")];
    world.at("a").service("shop/one", &joins, typed("ClusterIP")).slice("http:80", "10.1.0.1");
    world.at("b").service("other/two", &joins, typed("ClusterIP")).slice("http:80", "10.2.0.1");
    let web = Key::new("shop", "web");
    assert_eq!(world.shown("c", &web), "http:80\na IPv4 http:80 -> 10.1.0.1");
    world.at("b").lacks.push("shop".into());
    assert_eq!(world.shown("b", &web), "nothing");
    assert!(world.plan("b", &web).why.contains("namespace shop"));
    world.at("b").lacks.clear();
    assert_eq!(world.shown("b", &web), "http:80\na IPv4 http:80 -> 10.1.0.1");
}

#[test]
fn n28_both_annotations_make_a_member_of_both() {
    let mut world = World::new(&["a", "b"]);
    world
        .at("a")
        .service("shop/one", &[(NAMESPACED, "web"), (GLOBAL, "foo")], typed("ClusterIP"))
        .slice("http:80", "10.1.0.1");
    for key in [foo(), Key::new("shop", "web")] {
        assert_eq!(world.shown("b", &key), "http:80\na IPv4 http:80 -> 10.1.0.1");
    }
}

#[test]
fn n30_it_is_an_ordinary_cluster_ip_service_without_selector_and_marked() {
    let mut world = example();
    world.settle("cluster1", &foo());
    let service = &world.places["cluster1"].generated[&foo()];
    let (metadata, spec) = (&service.metadata, service.spec.as_ref().unwrap());
    assert!(metadata.annotations.as_ref().unwrap().contains_key("fed-svc.antreaplus.vmware-tanzu.com"));
    assert_eq!(
        (spec.type_.as_deref(), spec.cluster_ip.as_deref(), &spec.selector),
        (Some("ClusterIP"), None, &None)
    );
    assert_eq!(spec.ip_family_policy.as_deref(), Some("PreferDualStack"));
    // What users change of what is ours is changed back, in the same object.
    let uid = metadata.uid.clone();
    let spec = world.at("cluster1").generated.get_mut(&foo()).unwrap().spec.as_mut().unwrap();
    spec.selector = Some([("app".to_owned(), "mine".to_owned())].into());
    spec.ports.as_mut().unwrap()[0].port = 81;
    assert!(!world.plan("cluster1", &foo()).is_settled());
    world.settle("cluster1", &foo());
    let service = &world.places["cluster1"].generated[&foo()];
    assert_eq!(service.metadata.uid, uid);
    assert_eq!(service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].port, 80);
}

#[test]
fn n31_a_name_that_is_taken_is_left_alone_and_told() {
    let mut world = example();
    world.at("cluster2").service("antrea-plus-system/foo", &[], typed("ClusterIP"));
    assert_eq!(world.shown("cluster2", &foo()), "nothing");
    assert_eq!(
        world.told("cluster2", &foo()),
        ["NameTaken Service ns2/foo2", "NameTaken Service antrea-plus-system/foo"]
    );
    assert!(world.shown("cluster1", &foo()).starts_with("http:80"), "others go on");
    // A user's Service that took the name later does not get our endpoints either.
    world.at("cluster1").generated.clear();
    world.at("cluster1").service("antrea-plus-system/foo", &[], typed("ClusterIP"));
    world.settle("cluster1", &foo());
    assert!(world.places["cluster1"].own.is_empty());
}

#[test]
fn n31_a_member_of_the_very_name_stands_in() {
    let mut world = World::new(&["a", "b"]);
    world
        .at("a")
        .service("shop/web", &[(NAMESPACED, "web")], typed("ClusterIP"))
        .slice("http:8080", "10.1.0.1");
    let web = Key::new("shop", "web");
    assert_eq!(world.shown("a", &web), "nothing");
    assert_eq!(world.told("a", &web), Vec::<String>::new());
    assert_eq!(world.shown("b", &web), "http:80\na IPv4 http:8080 -> 10.1.0.1");
}

#[test]
fn n31_beside_a_stand_in_everybody_is_told_what_does_not_work() {
    let mut world = World::new(&["a", "b"]);
    let web = Key::new("shop", "web");
    world
        .at("a")
        .service("shop/web", &[(NAMESPACED, "web")], typed("ClusterIP"))
        .aged(1)
        .slice("http:8080", "10.1.0.1");
    world.at("a").service("shop/more", &[(NAMESPACED, "web")], typed("ClusterIP")).aged(3);
    assert_eq!(world.told("a", &web), ["StoodInFor Service shop/more"]);
    let other = json!({"type": "ClusterIP", "ports": [{"name": "http", "port": 8080}]});
    world.at("b").service("shop/web", &[(NAMESPACED, "web")], other).aged(0);
    assert_eq!(
        world.told("a", &web),
        ["PortConflict Service shop/more", "StoodInFor Service shop/more", "PortConflict Service shop/web"]
    );
    assert_eq!(world.told("b", &web), ["PortConflict Service shop/web"]);
}

#[test]
fn a_label_that_somebody_writes_over_is_written_again_and_nothing_goes() {
    let mut world = example();
    world.settle_all(&foo());
    let before = world.shown("cluster1", &foo());
    let service = world.at("cluster1").generated.get_mut(&foo()).unwrap();
    let managed = "app.kubernetes.io/managed-by".to_owned();
    service.metadata.labels = Some([(managed.clone(), "argocd".to_owned())].into());
    // With the marker alone it may be somebody's copy.
    assert_eq!(world.plan("cluster1", &foo()).why, "the name is taken");
    for (manager, is_ours) in [("kubectl", false), ("koinon", true)] {
        let fields = json!({"f:metadata": {"f:annotations": {"f:fed-svc.antreaplus.vmware-tanzu.com": {}}}});
        let entry = json!([{"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        let service = world.at("cluster1").generated.get_mut(&foo()).unwrap();
        service.metadata.managed_fields = serde_json::from_value(entry).unwrap();
        let plan = world.plan("cluster1", &foo());
        assert_eq!(plan.slices.is_empty(), is_ours, "{plan:#?}");
    }
    assert_eq!(world.shown("cluster1", &foo()), before);
    assert_eq!(
        world.places["cluster1"].generated[&foo()].metadata.labels.as_ref().unwrap()[&managed],
        "koinon"
    );
}

#[test]
fn n32_what_was_generated_is_never_a_member() {
    let mut world = example();
    world.settle_all(&foo());
    let service = world.at("cluster1").generated.get_mut(&foo()).unwrap();
    service.metadata.annotations.as_mut().unwrap().insert(GLOBAL.into(), "bar".into());
    assert_eq!(world.shown("cluster2", &Key::new("antrea-plus-system", "bar")), "nothing");
}

#[test]
fn n34_several_members_in_one_cluster_are_one() {
    let mut world = World::new(&["a", "b"]);
    let joins = [(GLOBAL, "foo")];
    world.at("a").service("x/one", &joins, typed("ClusterIP")).slice("http:8080", "10.1.0.1");
    world.at("a").service("y/two", &joins, typed("ClusterIP")).slice("http:9090", "10.1.0.2");
    let both = "http:80\na IPv4 http:8080 -> 10.1.0.1\na IPv4 http:9090 -> 10.1.0.2";
    assert_eq!(world.shown("b", &foo()), both);
    assert_eq!(world.shown("a", &foo()), both);
}

#[test]
fn n35_n44_an_external_name_is_ignored_and_keeps_nothing_alive() {
    let mut world = World::new(&["a", "b"]);
    let external = json!({"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]});
    world.at("a").service("x/one", &[(GLOBAL, "foo")], external);
    assert_eq!(world.shown("b", &foo()), "nothing");
    assert_eq!(world.shown("a", &foo()), "nothing");
}

#[test]
fn n36_protocols_that_differ_are_ports_that_differ() {
    let mut world = World::new(&["a", "b", "c"]);
    let spec = |protocol: &str| json!({"type": "ClusterIP", "ports": [{"name": "dns", "port": 53, "protocol": protocol}]});
    world.at("a").service("x/one", &[(GLOBAL, "foo")], spec("TCP")).aged(1).slice("dns:53", "10.1.0.1");
    world.at("b").service("x/one", &[(GLOBAL, "foo")], spec("UDP")).aged(2).slice("dns:53", "10.2.0.1");
    assert_eq!(world.shown("c", &foo()), "dns:53\na IPv4 dns:53 -> 10.1.0.1");
    assert_eq!(world.told("b", &foo()), ["PortConflict Service x/one"]);
    assert_eq!(world.told("a", &foo()), ["PortConflict Service x/one"]);
    assert_eq!(world.told("c", &foo()), Vec::<String>::new(), "nobody there has to know");
    let annotations = world.places["c"].generated[&foo()].metadata.annotations.clone().unwrap();
    assert!(annotations["koinon.dev/conflicts"].contains("Service x/one in b: port dns is UDP/53 here"));
}

#[test]
fn n39_with_the_last_member_all_goes() {
    let mut world = example();
    world.settle_all(&foo());
    for cluster in ["cluster1", "cluster2"] {
        world.at(cluster).services.clear();
        world.settle_all(&foo());
        assert!(world.shown("cluster3", &foo()).starts_with("http:80"));
    }
    world.at("cluster3").services[0].metadata.annotations = None;
    world.settle_all(&foo());
    assert!(world.places.values().all(|place| place.generated.is_empty() && place.own.is_empty()));
}

#[test]
fn ports_that_get_a_name_keep_the_old_one_until_the_service_has_the_new() {
    let mut world = World::new(&["a", "b", "c"]);
    let spec = |port: Value| json!({"type": "ClusterIP", "ports": [port]});
    world
        .at("a")
        .service("x/one", &[(GLOBAL, "foo")], spec(json!({"port": 80})))
        .aged(1)
        .slice(":8080", "10.1.0.1");
    assert_eq!(world.shown("c", &foo()), ":80\na IPv4 :8080 -> 10.1.0.1");
    world
        .at("b")
        .service("x/one", &[(GLOBAL, "foo")], spec(json!({"port": 81, "name": "more"})))
        .aged(2)
        .slice("more:81", "10.2.0.1");
    let plan = world.plan("c", &foo());
    world.apply("c", &foo(), &plan);
    let names = |world: &World| -> Vec<String> {
        let slices = world.places["c"]
            .own
            .values()
            .filter(|slice| slice.endpoints.as_ref().unwrap()[0].addresses[0] == "10.1.0.1");
        slices.flat_map(|slice| slice.ports.iter().flatten()).map(|port| port.name.clone().unwrap()).collect()
    };
    assert_eq!(names(&world), ["", "p80-tcp"]);
    world.settle("c", &foo());
    assert_eq!(names(&world), ["p80-tcp"]);
}

#[test]
fn affinity_and_distribution_come_from_the_oldest() {
    let mut world = World::new(&["a", "b", "c"]);
    let mut sticky = typed("ClusterIP");
    sticky["sessionAffinity"] = json!("ClientIP");
    sticky["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10}});
    sticky["trafficDistribution"] = json!("PreferClose");
    world.at("b").service("x/one", &[(GLOBAL, "foo")], sticky).aged(1).slice("http:80", "10.2.0.1");
    world
        .at("a")
        .service("x/one", &[(GLOBAL, "foo")], typed("ClusterIP"))
        .aged(2)
        .slice("http:80", "10.1.0.1");
    world.settle("c", &foo());
    let spec = world.places["c"].generated[&foo()].spec.clone().unwrap();
    assert_eq!(spec.session_affinity.as_deref(), Some("ClientIP"));
    assert_eq!(spec.session_affinity_config.unwrap().client_ip.unwrap().timeout_seconds, Some(10));
    assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferClose"));
}
