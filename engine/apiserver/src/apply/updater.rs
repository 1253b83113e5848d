//! How a write moves fields between managers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::compare::{Changes, compare};
use super::element::same;
use super::error::{ApplyError, Conflict};
use super::fields::FieldSet;
use super::managers::{Id, Managed, Owned};
use super::merge::merge;
use super::reconcile::reconcile;
use super::typed::{Duplicates, Misfits, field_set, remove, validate, with_named_fields};
use super::types::Types;
use super::{Force, Kind};
use crate::schema::Schema;

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
        let mut managed = self.reconciled(live, managed)?;
        let changes = self.changes(live, new, &managed)?;
        // Also from the writer's own entry of before, which what it writes now is added to below.
        take(&mut managed, &changes, None);
        let changes = changes.here;
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
        let mut managed = self.reconciled(live, managed).map_err(|why| ApplyError::Other(why.to_string()))?;
        let failed = |what: &str, why: Misfits| ApplyError::Other(format!("failed to {what}: {why}"));
        let merged = merge(&self.types, live, config).map_err(|why| failed("merge config", why))?;
        let set = field_set(&self.types, config).recursive_difference(self.kind.reset);
        let last = managed.get(applier).cloned();
        let time = last.as_ref().and_then(|last| last.time);
        let api_version = self.kind.api_version.to_owned();
        managed.insert(applier.clone(), Owned { set, api_version, time });
        let new = match &last {
            Some(last) => self.prune(merged, &managed, last).map_err(|why| failed("prune fields", why))?,
            None => merged,
        };

        let changes = self.changes(live, &new, &managed).map_err(|why| ApplyError::Other(why.to_string()))?;
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

    /// What changed, in the version of the request and in that of each manager that wrote in another.
    fn changes(&self, live: &Value, new: &Value, managed: &Managed) -> Result<AllChanges, Misfits> {
        let compared =
            compare(&self.types, live, new).map_err(|why| why.within("failed to compare objects"))?;
        let mut all = AllChanges { here: compared.without(self.kind.reset), elsewhere: BTreeMap::new() };
        let Some(elsewhere) = self.kind.elsewhere else { return Ok(all) };
        let mut seen: BTreeMap<&str, Changes> = BTreeMap::new();
        for (id, owned) in managed.iter().filter(|(_, owned)| owned.api_version != self.kind.api_version) {
            let version = owned.api_version.as_str();
            let changes = match seen.get(version) {
                Some(changes) => changes.clone(),
                None => {
                    let old = self.shown(live, version);
                    let (schema, old) = old.map_err(|why| why.within("failed to convert old object"))?;
                    let new = self.shown(new, version);
                    let (_, new) = new.map_err(|why| why.within("failed to convert new object"))?;
                    let changes = compare(&Types::new(&schema), &old, &new)
                        .map_err(|why| why.within("failed to compare objects"))?;
                    let rest = match elsewhere.resets(version) {
                        true => changes.clone().without(self.kind.reset),
                        false => changes.clone(),
                    };
                    seen.insert(version, rest);
                    // The first manager of a version loses even what this endpoint does not set, as it does
                    // in the real server.
                    changes
                }
            };
            all.elsewhere.insert(id.clone(), changes);
        }
        Ok(all)
    }

    /// An object as a version shows it, with that version's schema, which it must fit if it was converted.
    fn shown(&self, object: &Value, version: &str) -> Result<(Schema, Value), Misfits> {
        let here = version == self.kind.api_version;
        let schema = match (here, self.kind.elsewhere) {
            (true, _) => Some(self.kind.schema.clone()),
            (false, elsewhere) => elsewhere.and_then(|elsewhere| elsewhere.schema(version)),
        };
        let schema = schema.ok_or_else(|| Misfits::one("no corresponding type"))?;
        let same = object["apiVersion"] == version;
        match self.kind.elsewhere.filter(|_| !same) {
            None => Ok((schema, object.clone())),
            Some(elsewhere) => {
                let object = elsewhere.convert(object, version);
                validate(&Types::new(&schema), &object, Duplicates::Forbidden)?;
                Ok((schema, object))
            }
        }
    }

    /// The entries as today's schema would have them, without those of versions that are gone.
    fn reconciled(&self, live: &Value, managed: Managed) -> Result<Managed, Misfits> {
        let known = |owned: &Owned| {
            self.kind.versions.is_empty() || self.kind.versions.contains(&owned.api_version.as_str())
        };
        // A custom resource cannot be shown in a version that it never had.
        let strange = managed.values().find(|owned| !known(owned)).map(|owned| &owned.api_version);
        if let (Some(version), true, true) = (strange, self.kind.elsewhere.is_some(), self.kind.is_custom()) {
            let why = format!("request to convert CR to an invalid group/version: {version}");
            return Err(Misfits::one(why));
        }
        let kept = managed.into_iter().filter(|(_, owned)| known(owned));
        let today = |owned: Owned| match (owned.api_version == self.kind.api_version, self.kind.elsewhere) {
            (true, _) => Ok(Owned { set: reconcile(&self.types, &owned.set), ..owned }),
            (false, Some(_)) => {
                let (schema, _) = self.shown(live, &owned.api_version)?;
                Ok(Owned { set: reconcile(&Types::new(&schema), &owned.set), ..owned })
            }
            (false, None) => Ok(owned),
        };
        kept.map(|(id, owned)| Ok((id, today(owned)?))).collect()
    }

    /// Removes what the applier applied before and no longer does, unless somebody owns it.
    fn prune(&self, merged: Value, managed: &Managed, last: &Owned) -> Result<Value, Misfits> {
        if last.set.is_empty() {
            return Ok(merged);
        }
        let version_of = |owned: &Owned| match self.kind.elsewhere {
            Some(_) => owned.api_version.clone(),
            None => self.kind.api_version.to_owned(),
        };
        let version = version_of(last);
        let (schema, merged) = self.shown(&merged, &version)?;
        let types = Types::new(&schema);
        let last = with_named_fields(&types, &last.set);
        // Start without all that was applied before, then let back in what has an owner …
        let mut pruned = remove(&types, &merged, &last);
        let mut owned: BTreeMap<String, FieldSet> = BTreeMap::new();
        for one in managed.values() {
            let all = owned.entry(version_of(one)).or_default();
            *all = all.union(&one.set);
        }
        if let Some(owned) = owned.remove(&version) {
            pruned = let_back(&types, &merged, &pruned, &owned);
        }
        for (version, owned) in &owned {
            let (schema, whole) = self.shown(&merged, version)?;
            let (_, there) = self.shown(&pruned, version)?;
            pruned = let_back(&Types::new(&schema), &whole, &there, owned);
        }
        // … and what went only because something above it went: that was never this applier's.
        let (_, pruned) = self.shown(&pruned, &version)?;
        let named = |object: &Value| with_named_fields(&types, &field_set(&types, object));
        let gone = named(&merged).difference(&named(&pruned));
        let pruned = remove(&types, &merged, &gone.intersection(&last));
        Ok(self.shown(&pruned, self.kind.api_version)?.1)
    }
}

/// What changed, for each manager in its own version.
struct AllChanges {
    here: Changes,
    elsewhere: BTreeMap<Id, Changes>,
}

impl AllChanges {
    fn of(&self, manager: &Id) -> &Changes {
        self.elsewhere.get(manager).unwrap_or(&self.here)
    }
}

/// The pruned object with all of the whole one that is owned.
fn let_back(types: &Types<'_>, merged: &Value, pruned: &Value, owned: &FieldSet) -> Value {
    let named = |set: &FieldSet| with_named_fields(types, set);
    let kept = named(&field_set(types, pruned)).union(&named(owned));
    remove(types, merged, &named(&field_set(types, merged)).difference(&kept))
}

/// Takes what changed from all managers but one. Those left with nothing go.
fn take(managed: &mut Managed, changes: &AllChanges, except: Option<&Id>) {
    for (id, owned) in managed.iter_mut() {
        if Some(id) != except {
            let changes = changes.of(id);
            let taken = changes.modified.union(&changes.added);
            owned.set = owned.set.difference(&taken).difference(&changes.removed);
        }
    }
    managed.retain(|_, owned| !owned.set.is_empty());
}

fn conflicts(managed: &Managed, changes: &AllChanges, applier: &Id) -> Vec<Conflict> {
    let others = managed.iter().filter(|(id, _)| *id != applier);
    others
        .flat_map(|(id, owned)| {
            let changes = changes.of(id);
            let paths = owned.set.intersection(&changes.modified.union(&changes.added)).paths();
            paths.into_iter().map(|path| Conflict { manager: id.clone(), path })
        })
        .collect()
}
