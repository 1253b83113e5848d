//! EndpointSlices by name: which there should be, and the steps from those that are there. No IO, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;

use super::endpoints::{Group, Reached};
use super::model::{Family, Slice, Source};
use super::packing::{pack, short};
use super::plan::SliceStep;
use super::records::{OwnSlice, digest};
use super::view::{Member, Stance};

/// The EndpointSlices that should be there, by name.
pub(super) fn slices(key: &Key, members: &[&Member], reached: Vec<Reached>) -> BTreeMap<String, Slice> {
    let mut slices = BTreeMap::new();
    for (member, reached) in members.iter().zip(reached) {
        let source = &member.source;
        let of_member = of_member(source);
        for Group { part, family, ports, endpoints } in reached.groups {
            for (path, endpoints) in pack(endpoints) {
                let name = name(key, &of_member, &part, family, &path);
                let service = format!("{} {}", source.kind.as_str(), source.key);
                let (cluster, ports) = (source.cluster.clone(), ports.clone());
                slices.insert(name.clone(), Slice { name, cluster, service, family, ports, endpoints });
            }
        }
    }
    slices
}

/// The names of slices of which it is not known yet what should be in them, and what becomes of them until it is.
pub(super) fn unanswered(key: &Key, members: &[&Member], reached: &[Reached]) -> BTreeMap<String, Stance> {
    let mut names = BTreeMap::new();
    for (member, reached) in members.iter().zip(reached) {
        let of_member = of_member(&member.source);
        for (part, family) in &reached.unanswered {
            // What one name leads to is never so much that it is divided.
            names.insert(name(key, &of_member, part, *family, ""), member.stance);
        }
    }
    names
}

fn of_member(source: &Source) -> String {
    short(&[source.cluster.as_str(), source.kind.as_str(), &source.key.namespace, &source.key.name])
}

fn name(key: &Key, of_member: &str, part: &str, family: Family, path: &str) -> String {
    format!("{}-{}", key.name, short(&[of_member, part, family.as_str(), path]))
}

/// The steps from the slices that are there to those that should be. `fate` says what becomes of one that nobody wants, where
/// that is something else than to go.
pub(super) fn settle(
    key: &Key,
    owner: &str,
    there: &BTreeMap<String, Arc<OwnSlice>>,
    mut wanted: BTreeMap<String, Slice>,
    fate: impl Fn(&str, &OwnSlice) -> Option<Stance>,
) -> Vec<SliceStep> {
    let mut steps = Vec::new();
    let mut leftover = Vec::new();
    for (name, slice) in there {
        let (uid, version) = (slice.uid.clone(), slice.version.clone());
        match wanted.remove(name) {
            Some(wanted) if slice.digest == digest(&key.name, owner, &wanted) => {}
            Some(slice) => steps.push(SliceStep::Update { slice, owner: owner.to_owned(), uid, version }),
            None => leftover.push((name, slice)),
        }
    }
    steps.extend(wanted.into_values().map(|slice| SliceStep::Create { slice, owner: owner.to_owned() }));
    for (name, slice) in leftover {
        let (uid, version) = (slice.uid.clone(), slice.version.clone());
        match fate(name, slice) {
            // Where it came from is not known, or what it holds: it may well be as it should.
            Some(Stance::Keep) => {}
            Some(Stance::Drain) if !slice.has_ready => {}
            Some(Stance::Drain) => steps.push(SliceStep::Drain { name: name.clone(), uid, version }),
            Some(Stance::Drop) | None => steps.push(SliceStep::Delete { name: name.clone(), uid, version }),
        }
    }
    steps
}
