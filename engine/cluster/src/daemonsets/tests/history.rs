//! Revisions of templates.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::json;

use super::*;
use crate::daemonsets::history::{Sorted, expired, hash, new};

fn revision(set: &DaemonSet, number: i64) -> Arc<ControllerRevision> {
    Arc::new(new(set, number))
}

fn image(image: &str) -> DaemonSet {
    daemons(
        json!({"revisionHistoryLimit": 1, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}),
    )
}

#[test]
fn the_current_revision_is_known_by_its_template_and_has_the_greatest_number() {
    let (v1, v2) = (image("v1"), image("v2"));
    let sorted = Sorted::of(&v1, vec![]);
    assert_eq!((sorted.keeper().cloned(), sorted.number()), (None, 1));
    let all = vec![revision(&v1, 1), revision(&v2, 2)];
    let sorted = Sorted::of(&v1, all.clone());
    assert_eq!(sorted.keeper(), Some(&all[0]));
    assert_eq!(sorted.number(), 3, "going back makes it the newest");
    let twins = Sorted::of(&v1, vec![revision(&v1, 1), revision(&v1, 4)]);
    assert_eq!(twins.keeper().map(|one| one.revision), Some(4));
    assert_ne!(hash(&all[0]), hash(&all[1]));
    assert_eq!(all[0].metadata.name.as_deref(), Some(format!("agent-{}", hash(&all[0])).as_str()));
}

#[test]
fn the_oldest_go_first_and_those_that_pods_have_stay() {
    let set = image("v9");
    let old: Vec<_> =
        ["v1", "v2", "v3"].iter().zip(1..).map(|(name, number)| revision(&image(name), number)).collect();
    let numbers = |pods: &[Arc<Pod>]| {
        expired(&set, old.clone(), pods).iter().map(|one| one.revision).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&[]), [1, 2]);
    let pod = pod("a", "n1", hash(&old[0]), json!({}));
    assert_eq!(numbers(&[pod]), [2, 3], "as many go as are too many");
}
