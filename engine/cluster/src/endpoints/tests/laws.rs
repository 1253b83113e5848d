//! Whatever changes: every pod exactly once, no slice too full, as few writes as possible, then rest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::endpoint::{Family, families};
use super::super::pack::CAPACITY;
use super::*;

#[derive(Clone, Debug)]
struct World {
    pods: Vec<Member>,
    dual: bool,
    labels: bool,
    hints: bool,
}

#[derive(Clone, Debug)]
struct Member {
    here: bool,
    ready: bool,
    ended: bool,
    /// Pods may mean different numbers by the same name.
    port: u16,
}

fn member() -> impl Strategy<Value = Member> {
    (prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.05), prop::bool::weighted(0.2))
        .prop_map(|(here, ready, ended, other)| Member {
            here,
            ready,
            ended,
            port: if other { 9090 } else { 8080 },
        })
}

fn world() -> impl Strategy<Value = World> {
    (prop::collection::vec(member(), 0..260), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(pods, dual, labels, hints)| World { pods, dual, labels, hints })
}

impl World {
    fn look(&self) -> Look {
        let mut service = service();
        service["spec"]["ports"][0]["targetPort"] = "http".into();
        if self.dual {
            service["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]);
        }
        if self.labels {
            service["metadata"]["labels"]["more"] = "labels".into();
        }
        if self.hints {
            service["spec"]["trafficDistribution"] = "PreferSameZone".into();
        }
        let pods = self.pods.iter().enumerate().filter(|(_, member)| member.here);
        let pods: Vec<Value> = pods.map(|(number, member)| member.pod(number)).collect();
        look(&service, &pods)
    }
}

impl Member {
    fn pod(&self, number: usize) -> Value {
        let mut pod = pod(&format!("pod-{number}"), number);
        let port = json!({"name": "http", "containerPort": self.port});
        pod["spec"]["containers"][0]["ports"] = json!([port]);
        if self.ended {
            pod["status"]["phase"] = "Succeeded".into();
        }
        if self.ready { pod } else { unready(pod) }
    }
}

fn check(look: &Look) {
    let mut expected: BTreeMap<(Family, String), (i32, bool)> = BTreeMap::new();
    for family in families(&look.service) {
        for pod in look.pods.iter().filter(|pod| super::super::endpoint::is_reachable(pod)) {
            let port = pod.spec.as_ref().unwrap().containers[0].ports.as_ref().unwrap()[0].container_port;
            expected.insert((family, pod.name_any()), (port, super::super::endpoint::is_ready(pod)));
        }
    }
    let mut found = BTreeMap::new();
    let mut families_seen = BTreeSet::new();
    for slice in &look.slices {
        let family = if slice.address_type == "IPv4" { Family::V4 } else { Family::V6 };
        families_seen.insert(family);
        let endpoints = slice.endpoints.as_ref().unwrap();
        assert!(endpoints.len() <= CAPACITY);
        assert!(!endpoints.is_empty() || slice.ports.as_ref().unwrap().is_empty(), "an empty slice stays");
        for endpoint in endpoints {
            let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
            let name = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
            let ready = endpoint.conditions.as_ref().unwrap().ready.unwrap();
            assert!(found.insert((family, name), (port, ready)).is_none(), "a pod is there twice");
        }
    }
    assert_eq!(found, expected);
    assert_eq!(families_seen, families(&look.service), "a family without any slice");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn slices_follow_any_change_and_come_to_rest(before in world(), after in world()) {
        let mut look = before.look();
        settle(&mut look);
        check(&look);
        let slices = std::mem::take(&mut look.slices);
        let mut look = Look { slices, ..after.look() };
        settle(&mut look);
        check(&look);
    }

    #[test]
    fn one_pod_is_one_write_for_each_family(world in world(), which in any::<prop::sample::Index>()) {
        prop_assume!(!world.pods.is_empty());
        let mut look = world.look();
        settle(&mut look);
        let mut changed = world.clone();
        let member = &mut changed.pods[which.index(world.pods.len())];
        if member.here { member.ready = !member.ready } else { member.here = true }
        let mut look = Look { slices: look.slices, ..changed.look() };
        let first = settle(&mut look);
        check(&look);
        prop_assert!(writes(&first) <= families(&look.service).len(), "{first:#?}");
    }
}
