//! What should be there in the end, and what a syncer may never do on the way.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use koinon_simulation::{Network, Site, Write};
use koinon_sync::names::LEDGER;
use serde_json::{Value, json};

use super::schedule::{Kind, Meddling};
use crate::world::{Cluster, ROBOT, TOYS, Toys, made, toy};

/// The name of an object, by its number.
fn name_of(number: usize) -> String {
    format!("toy-{number:05}")
}

pub(super) struct Model {
    pub(super) above: Cluster,
    below: Cluster,
    kind: Kind,
    pub(super) toys: Toys,
    specs: BTreeMap<String, Value>,
    /// The last status that was reported, and by which copy.
    reported: BTreeMap<String, (Value, Value)>,
}

impl Model {
    pub(super) fn new(above: Cluster, below: Cluster, kind: Kind, toys: Toys) -> Model {
        Model { above, below, kind, toys, specs: BTreeMap::new(), reported: BTreeMap::new() }
    }

    /// Sees that originals get nothing but status, and that no copy goes whose original lives.
    pub(super) fn watch(&self, network: &Network) {
        let (above, below) = (self.above.clone(), self.below.clone());
        let status = if self.toys.status { "/status" } else { "" };
        network.before_each_write(move |write| {
            let (above, below) = (above.clone(), below.clone());
            async move {
                let name = write.path.strip_prefix(&format!("{TOYS}/"))?.to_owned();
                if write.to == above.name() {
                    let allowed = write.method == "PATCH" && name.ends_with(status);
                    return (!allowed).then(|| "an original is written".to_owned());
                }
                if write.method != "DELETE" {
                    return None;
                }
                wrongly_deleted(&above, &below, &write).await
            }
            .boxed()
        });
    }

    /// Makes an original, or changes it.
    pub(super) async fn write(&mut self, name: usize, step: usize) {
        let (name, spec) = (name_of(name), json!({"step": step}));
        if self.above.get(&toy(&name)).await.is_some() {
            self.above.patch(&toy(&name), json!({"spec": spec})).await;
        } else {
            let labels = json!({"labels": {ROBOT: "r1"}});
            self.above.create(TOYS, made(&name, labels, spec.clone())).await;
        }
        self.specs.insert(name, spec);
    }

    pub(super) async fn erase(&mut self, name: usize) {
        let name = name_of(name);
        if self.above.get(&toy(&name)).await.is_some() {
            self.above.delete(&toy(&name)).await;
        }
        self.specs.remove(&name);
        self.reported.remove(&name);
    }

    /// A controller downstream reports.
    pub(super) async fn report(&mut self, name: usize, step: usize) {
        let name = name_of(name);
        let Some(copy) = self.below.get(&toy(&name)).await else { return };
        let status = json!({"seen": step});
        let path = if self.toys.status { format!("{}/status", toy(&name)) } else { toy(&name) };
        self.below.patch(&path, json!({"status": status})).await;
        if self.specs.contains_key(&name) {
            self.reported.insert(name, (copy["metadata"]["uid"].clone(), status));
        }
    }

    /// Somebody downstream does what is not theirs to do.
    pub(super) async fn meddle(&self, name: usize, what: Meddling) {
        let path = toy(&name_of(name));
        if self.below.get(&path).await.is_none() {
            return;
        }
        let patch = match what {
            Meddling::Delete => return self.below.delete(&path).await,
            Meddling::ChangeSpec => json!({"spec": {"meddled": true}}),
            Meddling::AddLabel => json!({"metadata": {"labels": {"theirs": "x"}}}),
            // In the cloud a robot could not see it any more.
            Meddling::TakeLabelOff if self.kind == Kind::FromRobot => return,
            Meddling::TakeLabelOff => json!({"metadata": {"labels": {ROBOT: null}}}),
        };
        self.below.patch(&path, patch).await;
    }

    /// Both sides agree, and on what was asked for.
    pub(super) async fn check(&self) {
        let (originals, copies) = (by_name(&self.above).await, by_name(&self.below).await);
        let wanted: Vec<&str> = self.specs.keys().map(String::as_str).collect();
        assert_eq!(originals.keys().collect::<Vec<_>>(), wanted, "originals");
        // A copy whose label was taken off while its original was deleted is nobody's: it may stay.
        let ours: Vec<&String> = copies
            .iter()
            .filter(|(name, copy)| originals.contains_key(*name) || copy["metadata"]["labels"][ROBOT] == "r1")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(ours, wanted, "copies");
        for (name, spec) in &self.specs {
            let (original, copy) = (&originals[name], &copies[name]);
            assert_eq!(&original["spec"], spec, "the original {name}");
            assert_eq!(&copy["spec"], spec, "the copy {name}");
            assert_eq!(copy["metadata"]["labels"][ROBOT], "r1", "the copy {name}");
            for object in [original, copy] {
                assert_eq!(object["metadata"].get("finalizers"), None, "{name}");
            }
            if let Some(status) = copy.get("status") {
                assert_eq!(original.get("status"), Some(status), "the status of {name}");
            }
            if let Some((uid, status)) = self.reported.get(name)
                && *uid == copy["metadata"]["uid"]
            {
                assert_eq!(copy.get("status"), Some(status), "the status of the copy {name}");
            }
        }
    }
}

/// A copy goes with its original, and an original that lives cannot have been made again under the same UID.
async fn wrongly_deleted(above: &Site, below: &Site, write: &Write) -> Option<String> {
    let copy = below.get(&write.path).await?;
    let ledger = copy["metadata"]["annotations"][LEDGER].as_str()?;
    let ledger: Value = serde_json::from_str(ledger).expect("a ledger is JSON");
    let original = above.get(&write.path).await?["metadata"].clone();
    let lives = original["uid"] == ledger["uid"] && original.get("deletionTimestamp").is_none();
    lives.then(|| "a copy goes, and its original lives".to_owned())
}

async fn by_name(site: &Site) -> BTreeMap<String, Value> {
    let items = site.items(TOYS).await.into_iter();
    items.map(|item| (item["metadata"]["name"].as_str().expect("a name").to_owned(), item)).collect()
}
