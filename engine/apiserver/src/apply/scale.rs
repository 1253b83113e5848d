//! Entries of an object seen through its `/scale` subresource, and back.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{FieldSet, Path};
use super::managers::{self, Managed, Owned, Unreadable, decode};

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: &str = "spec.replicas";

/// Where the number of replicas is in each version of a kind; none for a version without scale.
pub type ReplicaPaths = BTreeMap<String, Option<Path>>;

/// Gives a Scale the entries of its parent that own the number of replicas.
pub fn scale_fields(parent: &Value, paths: &ReplicaPaths, scale: &mut Value) -> Result<(), Unreadable> {
    let owns = |owned: &Owned| {
        let path = paths.get(&owned.api_version)?.as_ref()?;
        owned.set.contains(path).then_some(())
    };
    let seen: Managed = decode(parent)?
        .into_iter()
        .filter(|(_, owned)| owns(owned).is_some())
        .map(|(id, owned)| {
            let (set, api_version) = (FieldSet::of(&[SCALE_REPLICAS]), SCALE_VERSION.to_owned());
            (id, Owned { set, api_version, ..owned })
        })
        .collect();
    managers::encode(&seen, scale);
    Ok(())
}

/// Brings what a write to the Scale changed in its entries home to the parent, whose version is given.
pub fn scale_fields_to_parent(
    parent: &mut Value,
    api_version: &str,
    scale: &Value,
    paths: &ReplicaPaths,
) -> Result<(), Unreadable> {
    let before = decode(parent)?;
    let mut of_scale = decode(scale)?;
    let mut after = Managed::new();
    for (id, owned) in &before {
        let Some(path) = paths.get(&owned.api_version) else { continue };
        let mut owned = owned.clone();
        if let Some(path) = path.as_ref().filter(|path| owned.set.contains(path))
            && of_scale.remove(id).is_none()
        {
            let mut replicas = FieldSet::new();
            replicas.insert(path);
            owned.set = owned.set.difference(&replicas);
        }
        if !owned.set.is_empty() {
            after.insert(id.clone(), owned);
        }
    }
    let here = paths.get(api_version).cloned().flatten();
    let scale_path = FieldSet::of(&[SCALE_REPLICAS]);
    for (id, owned) in of_scale {
        let (Some(path), false) = (&here, owned.set.intersection(&scale_path).is_empty()) else { continue };
        let mut set = FieldSet::new();
        set.insert(path);
        let time = before.get(&id).and_then(|owned| owned.time);
        after.insert(id, Owned { set, api_version: api_version.to_owned(), time });
    }
    managers::encode(&after, parent);
    Ok(())
}
