//! Virtual machines that are Services of their own cluster, and of the federation (N18 to N25, N37).

use koinon_api::network::virtual_machine_crd;
use koinon_control::Key;
use serde_json::{Value, json};

use crate::harness::{GLOBAL, SYSTEM, Site, World};
use crate::wire::{Fault, How};
use crate::world::foo;

const MACHINES: &str = "/apis/runtime.cloud.antrea.io/v1alpha1/namespaces/vms/virtualmachines";
const WEB: &str = "/api/v1/namespaces/vms/services/web";

async fn machine(site: &Site, name: &str, tag: &str, address: &str) {
    let body = json!({
        "apiVersion": "runtime.cloud.antrea.io/v1alpha1", "kind": "VirtualMachine",
        "metadata": {"name": name}, "spec": {},
    });
    site.create(MACHINES, body).await;
    let status = json!({"status": {
        "tags": {"svc.antreaplus.vmware.com": tag}, "state": "running",
        "networkInterfaces": [{"ips": [{"addressType": "InternalIP", "address": address}]}],
    }});
    site.patch(&format!("{MACHINES}/{name}/status"), status).await;
}

/// What a Service of machines is: its address and ports, and its endpoints.
async fn shown(site: &Site) -> String {
    let Some(service) = site.get(WEB).await else { return "nothing".into() };
    assert_eq!(service["spec"]["selector"], Value::Null);
    assert_eq!(service["metadata"]["annotations"]["vm.antreaplus.vmware-tanzu.com"], "true");
    let ports: Vec<String> = service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| port["port"].to_string())
        .collect();
    let headless = if service["spec"]["clusterIP"] == "None" { "headless" } else { "address" };
    let path = "/apis/discovery.k8s.io/v1/namespaces/vms/endpointslices?labelSelector=kubernetes.io/service-name=web";
    let slices = site.get(path).await.unwrap();
    let mut endpoints: Vec<String> = slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().unwrap().clone())
        .map(|one| {
            assert_eq!(one["targetRef"]["kind"], "VirtualMachine");
            let ready = if one["conditions"]["ready"] == true { "" } else { "!" };
            format!("{}={}{ready}", one["hostname"].as_str().unwrap(), one["addresses"][0].as_str().unwrap())
        })
        .collect();
    endpoints.sort();
    format!("{headless} {ports:?} {}", endpoints.join(" "))
}

async fn until(world: &World, wanted: &str) {
    for _ in 0..3000 {
        if shown(&world["c2"]).await == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("it is {:?} and not {wanted:?}", shown(&world["c2"]).await);
}

async fn world() -> World {
    let world = World::new(&["c1*", "c2"]).await;
    world["c2"]
        .create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", virtual_machine_crd())
        .await;
    world["c2"].namespace("vms").await;
    world
}

#[tokio::test(start_paused = true)]
async fn machines_become_a_service_with_the_first_and_none_with_the_last() {
    let world = world().await;
    machine(&world["c2"], "vm1", "web", "10.7.0.1").await;
    until(&world, "headless [] vm1=10.7.0.1").await;
    machine(&world["c2"], "vm2", "web", "10.7.0.2").await;
    until(&world, "headless [] vm1=10.7.0.1 vm2=10.7.0.2").await;
    let stopped = json!({"status": {"state": "stopped"}});
    world["c2"].patch(&format!("{MACHINES}/vm2/status"), stopped).await;
    until(&world, "headless [] vm1=10.7.0.1 vm2=10.7.0.2!").await;
    // With ports it gets an address.
    let ports = json!({"status": {"tags": {"svc.antreaplus.vmware.com": "web:80", "ports.svc.antreaplus.vmware.com": "443"}}});
    world["c2"].patch(&format!("{MACHINES}/vm1/status"), ports).await;
    until(&world, "address [\"80\", \"443\"] vm1=10.7.0.1 vm2=10.7.0.2!").await;
    world.rest().await;
    // A tag that moves takes its machine along.
    world["c2"]
        .patch(
            &format!("{MACHINES}/vm2/status"),
            json!({"status": {"tags": {"svc.antreaplus.vmware.com": "db"}}}),
        )
        .await;
    until(&world, "address [\"80\", \"443\"] vm1=10.7.0.1").await;
    world["c2"].delete(&format!("{MACHINES}/vm1")).await;
    until(&world, "nothing").await;
    assert!(world["c2"].get("/api/v1/namespaces/vms/services/db").await.is_some());
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_of_machines_can_be_a_member_and_is_told_to_external_dns() {
    let mut world = world().await;
    world.stop("c1").await;
    world.options.dns_suffix = Some("my-org.com".into());
    world.start("c1").await;
    machine(&world["c2"], "vm1", "web:80", "10.7.0.1").await;
    until(&world, "address [\"80\"] vm1=10.7.0.1").await;
    world["c2"].patch(WEB, json!({"metadata": {"annotations": {GLOBAL: "foo"}}})).await;
    world.until_shown("c1", &foo(), ":80 c2=10.7.0.1").await;
    world.until_shown("c2", &foo(), ":80 c2=10.7.0.1").await;
    world.rest().await;
    let path = format!("/api/v1/namespaces/{SYSTEM}/services/foo");
    let annotations = world["c2"].get(&path).await.unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations["external-dns.alpha.kubernetes.io/hostname"], "foo.my-org.com");
    assert_eq!(annotations["external-dns.kubernetes.io/target"], "10.7.0.1");
    let elsewhere = world["c1"].get(&path).await.unwrap()["metadata"]["annotations"].clone();
    assert_eq!(elsewhere["external-dns.alpha.kubernetes.io/hostname"], Value::Null, "there are no machines");
    // By hand it stays as it was written.
    let by_hand =
        json!({"metadata": {"annotations": {"external-dns.alpha.kubernetes.io/hostname": "by.hand.org"}}});
    world["c2"].patch(&path, by_hand).await;
    world.rest().await;
    let annotations = world["c2"].get(&path).await.unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations["external-dns.alpha.kubernetes.io/hostname"], "by.hand.org");
}

#[tokio::test(start_paused = true)]
async fn n23_machines_are_reached_by_the_addresses_that_were_asked_for() {
    let mut world = world().await;
    machine(&world["c2"], "vm1", "web", "10.7.0.1").await;
    machine(&world["c2"], "vm2", "web", "10.7.0.2").await;
    let both = json!({"status": {"networkInterfaces": [{"ips": [
        {"addressType": "InternalIP", "address": "10.7.0.1"}, {"addressType": "ExternalIP", "address": "203.0.113.1"},
    ]}]}});
    world["c2"].patch(&format!("{MACHINES}/vm1/status"), both).await;
    until(&world, "headless [] vm1=203.0.113.1 vm2=10.7.0.2").await;
    world.stop("c1").await;
    world.options.prefer = koinon_network::services::Prefer::Internal;
    world.start("c1").await;
    until(&world, "headless [] vm1=10.7.0.1 vm2=10.7.0.2").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_users_service_is_not_taken_over_for_machines() {
    let world = world().await;
    let mine = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 7}]}});
    world["c2"].create("/api/v1/namespaces/vms/services", mine).await;
    let before = world["c2"].get(WEB).await.unwrap();
    machine(&world["c2"], "vm1", "web,other", "10.7.0.1").await;
    world.until_shown("c2", &Key::new("vms", "other"), "").await;
    world.rest().await;
    assert_eq!(world["c2"].get(WEB).await.unwrap(), before);
    assert!(world["c2"].events("vms").await.contains(&"web NameTaken".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_a_service_of_machines_its_own_takes_no_endpoint_away() {
    let world = world().await;
    machine(&world["c2"], "vm1", "web:80", "10.7.0.1").await;
    until(&world, "address [\"80\"] vm1=10.7.0.1").await;
    world.rest().await;
    let before = world.log.writes().len();
    let theirs = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "argocd"}}});
    world["c2"].patch(WEB, theirs).await;
    world.rest().await;
    let labels = world["c2"].get(WEB).await.unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["app.kubernetes.io/managed-by"], "koinon");
    let writes = world.log.writes();
    assert_eq!(writes[before..].len(), 1, "{:#?}", &writes[before..]);
    assert_eq!(shown(&world["c2"]).await, "address [\"80\"] vm1=10.7.0.1");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_leader_that_has_not_seen_the_machines_yet_takes_no_name_back() {
    let mut world = world().await;
    world.stop("c1").await;
    world.options.dns_suffix = Some("my-org.com".into());
    world.start("c1").await;
    world["c2"].member("vms/one", "foo", "ClusterIP").await;
    world["c2"].endpoints("vms/one", "10.2.0.1").await;
    world.until_shown("c2", &foo(), "http:80 c2=10.2.0.1").await;
    world.rest().await;
    let path = format!("/api/v1/namespaces/{SYSTEM}/services/foo");
    let told = async |world: &World| world["c2"].get(&path).await.unwrap()["metadata"]["annotations"].clone();
    assert_eq!(told(&world).await["external-dns.kubernetes.io/hostname"], Value::Null, "no machines yet");
    machine(&world["c2"], "vm1", "", "10.7.0.1").await;
    world.rest().await;
    let before = told(&world).await;
    assert_eq!(before["external-dns.kubernetes.io/hostname"], "foo.my-org.com", "with the first machine");
    world.kill("c1").await;
    let how = How::Refused(503, "not now");
    world.faults.add(Fault { cluster: "c2", method: "GET", path: "/virtualmachines", body: "", how });
    world.start("c1").await;
    world["c2"].endpoints("vms/one", "10.2.0.2").await;
    world.until_shown("c2", &foo(), "http:80 c2=10.2.0.2").await;
    world.rest().await;
    assert_eq!(told(&world).await, before);
    world.faults.clear();
    world.rest().await;
    assert_eq!(told(&world).await["external-dns.kubernetes.io/target"], "10.2.0.2");
    world["c2"].delete(&format!("{MACHINES}/vm1")).await;
    world.rest().await;
    assert_eq!(
        told(&world).await["external-dns.kubernetes.io/hostname"],
        Value::Null,
        "nobody asks any more"
    );
}

#[tokio::test(start_paused = true)]
async fn n25_what_users_wrote_on_a_service_of_machines_stays_when_it_gains_or_loses_its_ports() {
    let mut world = world().await;
    machine(&world["c2"], "vm1", "web", "10.7.0.1").await;
    until(&world, "headless [] vm1=10.7.0.1").await;
    let mine = json!({"metadata": {"annotations": {GLOBAL: "foo"}, "labels": {"team": "shop"}}});
    world["c2"].patch(WEB, mine).await;
    let uid = world["c2"].get(WEB).await.unwrap()["metadata"]["uid"].clone();
    for (tag, wanted) in [
        ("web:80", "address [\"80\"] vm1=10.7.0.1"),
        ("web", "headless [] vm1=10.7.0.1"),
        ("web:81", "address [\"81\"] vm1=10.7.0.1"),
    ] {
        let tags = json!({"status": {"tags": {"svc.antreaplus.vmware.com": tag}}});
        // Whoever leads falls halfway: another knows only what is in the cluster.
        world.faults.add(Fault {
            cluster: "c2",
            method: "PATCH",
            path: "/services/web",
            body: "\"ClusterIP\"",
            how: How::Refused(503, "not now"),
        });
        world["c2"].patch(&format!("{MACHINES}/vm1/status"), tags).await;
        for _ in 0..100 {
            if world["c2"].get(WEB).await.unwrap()["spec"]["type"] == "ExternalName" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(world["c2"].get(WEB).await.unwrap()["spec"]["type"], "ExternalName");
        world.kill("c1").await;
        world.faults.clear();
        world.start("c1").await;
        until(&world, wanted).await;
        let metadata = world["c2"].get(WEB).await.unwrap()["metadata"].clone();
        assert_eq!(metadata["annotations"][GLOBAL], "foo", "{metadata:#}");
        assert_eq!(metadata["labels"]["team"], "shop", "{metadata:#}");
        assert_eq!(metadata["uid"], uid, "it is the very same");
    }
    world.until_shown("c1", &foo(), ":81 c2=10.7.0.1").await;
    world.rest().await;
}
