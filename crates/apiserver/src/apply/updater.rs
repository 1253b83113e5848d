//! How a write moves fields between managers.

use jiff::Timestamp;
use serde_json::Value;

use super::compare::{Changes, compare};
use super::element::same;
use super::error::{ApplyError, Conflict};
use super::fields::FieldSet;
use super::managers::{Id, Managed, Owned};
use super::merge::merge;
use super::reconcile::reconcile;
use super::typed::{Misfits, field_set, remove, with_named_fields};
use super::types::Types;
use super::{Force, Kind};

/// Fields that identify an object or that the server sets: nobody owns them.
const UNOWNED: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// Moves fields between the managers of one object.
pub(super) struct Updater<'a> {
    pub(super) types: Types<'a>,
    pub(super) kind: &'a Kind<'a>,
}

impl Updater<'_> {
    /// The writer gets what it changed; nobody else keeps it.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        writer: Id,
        now: Timestamp,
    ) -> Result<Managed, Misfits> {
        let mut managed = self.reconciled(managed);
        let changes = self.changes(live, new)?;
        // Also from the writer's own entry of before, which what it writes now is added to below.
        take(&mut managed, &changes, None);
        let gained = changes
            .modified
            .union(&changes.added)
            .recursive_difference(self.kind.reset)
            .difference(&FieldSet::of(UNOWNED));
        if gained.is_empty() {
            return Ok(managed);
        }
        let api_version = self.kind.api_version.to_owned();
        let fresh = || Owned { set: FieldSet::new(), api_version, time: None };
        let entry = managed.entry(writer).or_insert_with(fresh);
        entry.set = entry.set.union(&gained);
        entry.time = Some(now);
        Ok(managed)
    }

    /// The object after the configuration was applied; none if that changed nothing.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        applier: &Id,
        force: Force,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
        let mut managed = self.reconciled(managed);
        let failed = |what: &str, why: Misfits| ApplyError::Other(format!("failed to {what}: {why}"));
        let merged = merge(&self.types, live, config).map_err(|why| failed("merge config", why))?;
        let set = field_set(&self.types, config).recursive_difference(self.kind.reset);
        let last = managed.get(applier);
        let (last_set, time) = last.map(|last| (last.set.clone(), last.time)).unwrap_or_default();
        let api_version = self.kind.api_version.to_owned();
        managed.insert(applier.clone(), Owned { set, api_version, time });
        let new = self.prune(merged, &managed, &last_set);

        let changes = self.changes(live, &new).map_err(|why| failed("compare objects", why))?;
        if force == Force::No {
            let conflicts = conflicts(&managed, &changes, applier);
            if !conflicts.is_empty() {
                return Err(ApplyError::Conflicts(conflicts));
            }
        }
        take(&mut managed, &changes, Some(applier));
        if let Some(owned) = managed.get_mut(applier) {
            owned.set = owned.set.difference(&FieldSet::of(UNOWNED));
            if owned.set.is_empty() {
                managed.remove(applier);
            }
        }
        Ok(((!same(live, &new)).then_some(new), managed))
    }

    fn changes(&self, live: &Value, new: &Value) -> Result<Changes, Misfits> {
        Ok(compare(&self.types, live, new)?.without(self.kind.reset))
    }

    /// The entries as today's schema would have them, without those of versions that are gone.
    fn reconciled(&self, managed: Managed) -> Managed {
        let known = |owned: &Owned| {
            self.kind.versions.is_empty() || self.kind.versions.contains(&owned.api_version.as_str())
        };
        let kept = managed.into_iter().filter(|(_, owned)| known(owned));
        // What another version recorded follows that version's schema, which is not at hand.
        let today = |owned: Owned| match owned.api_version == self.kind.api_version {
            true => Owned { set: reconcile(&self.types, &owned.set), ..owned },
            false => owned,
        };
        kept.map(|(id, owned)| (id, today(owned))).collect()
    }

    /// Removes what the applier applied before and no longer does, unless somebody owns it.
    fn prune(&self, merged: Value, managed: &Managed, last: &FieldSet) -> Value {
        if last.is_empty() {
            return merged;
        }
        let types = &self.types;
        let named = |set: &FieldSet| with_named_fields(types, set);
        let last = named(last);
        let merged_set = named(&field_set(types, &merged));

        // Start without all that was applied before, then let back in what has an owner …
        let pruned = remove(types, &merged, &last);
        let owned = managed.values().fold(FieldSet::new(), |all, owned| all.union(&owned.set));
        let kept = named(&field_set(types, &pruned)).union(&named(&owned));
        let pruned = remove(types, &merged, &merged_set.difference(&kept));

        // … and what went only because something above it went: that was never this applier's.
        let kept = named(&field_set(types, &pruned));
        remove(types, &merged, &merged_set.difference(&kept).intersection(&last))
    }
}

/// Takes what changed from all managers but one. Those left with nothing go.
fn take(managed: &mut Managed, changes: &Changes, except: Option<&Id>) {
    let taken = changes.modified.union(&changes.added);
    for (id, owned) in managed.iter_mut() {
        if Some(id) != except {
            owned.set = owned.set.difference(&taken).difference(&changes.removed);
        }
    }
    managed.retain(|_, owned| !owned.set.is_empty());
}

fn conflicts(managed: &Managed, changes: &Changes, applier: &Id) -> Vec<Conflict> {
    let changed = changes.modified.union(&changes.added);
    let others = managed.iter().filter(|(id, _)| *id != applier);
    others
        .flat_map(|(id, owned)| {
            let paths = owned.set.intersection(&changed).paths();
            paths.into_iter().map(|path| Conflict { manager: id.clone(), path })
        })
        .collect()
}
