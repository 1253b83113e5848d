//! Decides what one cluster should have of one import, and what its own export says. No IO, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use koinon_control::Key;
use koinon_fleet::ClusterId;
use serde_json::{Value, json};

use super::conditions::{conditions, conflict, export};
use super::lead::Lead;
use super::record::{Derived, Export, Import, Offer, Type};
use super::written::Written;
use crate::services::endpoints::{Names, Reached, Resolved, at_home, from_elsewhere, judged};
use crate::services::model::{Joining, Kind, Reach, Source};
use crate::services::packing::short;
use crate::services::plan::SliceStep;
use crate::services::ports::{self, Decided};
use crate::services::records::{OwnSlice, Shape, SourceSlice};
use crate::services::slices::{settle as settle_slices, slices};
use crate::services::view::{Cluster, Member, Stance};

/// One cluster's export.
#[derive(Clone, Debug)]
pub struct Exporter {
    pub cluster: ClusterId,
    pub export: Arc<Export>,
    /// The Service of its name, if there is one.
    pub offer: Option<Arc<Offer>>,
    pub slices: Vec<(String, Arc<SourceSlice>)>,
    /// What becomes of its endpoints.
    pub stance: Stance,
    /// Whether it counts: a cluster may bring no more than so much.
    pub counts: bool,
}

/// What a plan looks at.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub exporters: Vec<Exporter>,
    /// Members of which it is not known whether they export, and what becomes of endpoints that came from them.
    pub unknown: BTreeMap<ClusterId, Stance>,
    pub namespace: bool,
    pub import: Option<Arc<Import>>,
    pub derived: Option<Arc<Derived>>,
    /// Whether somebody else's Service has the name of the one behind it.
    pub taken: bool,
    pub slices: BTreeMap<String, Arc<OwnSlice>>,
    /// Values of `trafficDistribution` that this cluster's Services cannot have.
    pub unsupported: BTreeSet<String>,
}

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportPlan {
    pub slices: Vec<SliceStep>,
    pub derived: Option<DerivedStep>,
    pub import: Option<ImportStep>,
    pub import_status: Option<Value>,
    /// What this cluster's own export says from now on.
    pub export: Option<Status>,
}

/// What to do about the Service behind an import.
#[derive(Clone, Debug, PartialEq)]
pub enum DerivedStep {
    Create { shape: Shape, headless: bool },
    Update { uid: String, version: String, shape: Shape },
    Delete { uid: String, version: String },
}

/// What to do about the import.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportStep {
    Create { content: Value },
    Update { version: String, content: Value },
    Delete { uid: String, version: String },
}

/// Conditions of an export, for this very version of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub version: String,
    pub conditions: Vec<Condition>,
}

impl DerivedStep {
    /// How the Service should distribute its traffic, where it is to be written.
    pub fn traffic_distribution(&self) -> Option<&str> {
        match self {
            DerivedStep::Create { shape, .. } | DerivedStep::Update { shape, .. } => {
                shape.traffic_distribution.as_deref()
            }
            DerivedStep::Delete { .. } => None,
        }
    }
}

impl ImportPlan {
    pub fn is_settled(&self) -> bool {
        *self == ImportPlan::default()
    }
}

const BEHIND: &str = "import-";

/// The name of the Service behind an import; no two imports of a namespace share one.
pub fn derived_key(key: &Key) -> Key {
    Key::new(key.namespace.as_str(), format!("{BEHIND}{}", short(&[&key.name])))
}

/// Whether a name is of the form that Services behind imports have. Everybody can tell what it will be for an import, and could
/// be there first.
pub fn is_behind_an_import(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix(BEHIND).is_some_and(|rest| rest.len() == short(&[]).len() && rest.bytes().all(is_digit))
}

/// Decides what the cluster `here` should have of the import `key`.
pub fn plan(now: Timestamp, here: &ClusterId, key: &Key, input: &Input) -> ImportPlan {
    if !input.namespace {
        return ImportPlan::default();
    }
    let mut exporters: Vec<(&Exporter, &Offer)> = input
        .exporters
        .iter()
        .filter(|one| one.counts)
        .filter_map(|one| Some((one, one.offer.as_deref()?)))
        .filter(|(_, offer)| offer.kind != Type::External)
        .collect();
    exporters.sort_by(|(one, _), (other, _)| {
        (one.export.created, &one.cluster).cmp(&(other.export.created, &other.cluster))
    });
    let offered: Vec<_> = exporters.iter().map(|(_, offer)| offer.ports.as_slice()).collect();
    let published = input.derived.as_deref().filter(|_| !input.unknown.is_empty());
    let decided = ports::decide(published.map(|derived| derived.shape.ports.as_slice()), &offered);
    let conflict = conflict(&exporters, &decided);
    let mut plan =
        ImportPlan { export: export(now, here, input, conflict.as_ref()), ..ImportPlan::default() };
    let Some((oldest, offer)) = exporters.first() else {
        // Only who is known to export nothing any more lets it go; what came from such a one is over.
        match input.derived.as_deref().filter(|derived| !derived.going) {
            _ if input.unknown.is_empty() => remove(input, &mut plan),
            Some(derived) => plan.slices = settle(here, key, derived, &[], &decided, input),
            None => {}
        }
        return plan;
    };
    if input.import.as_ref().is_some_and(|import| !import.ours) {
        return plan;
    }
    let lead = match input.unknown.is_empty() {
        true => Lead::of(oldest, offer),
        // The oldest of all may be among those that are not known: what it decided stays.
        false => Lead::of(oldest, offer).kept(input),
    };
    let headless = lead.headless;
    let shape = Shape {
        ports: decided.ports.clone(),
        affinity: lead.affinity,
        traffic_distribution: lead
            .traffic_distribution
            .clone()
            .filter(|one| !input.unsupported.contains(one)),
        conflicts: None,
        is_plain: true,
    };
    match input.derived.as_deref() {
        None if shape.ports.is_empty() && !headless => {}
        None => plan.derived = Some(DerivedStep::Create { shape, headless }),
        Some(derived) if derived.going => {}
        // Whether a Service has an address cannot be changed: it is made anew.
        Some(derived) if derived.headless != headless => plan.derived = Some(delete(derived)),
        Some(derived) => {
            if derived.shape != shape && !shape.ports.is_empty() {
                let (uid, version) = (derived.uid.clone(), derived.version.clone());
                plan.derived = Some(DerivedStep::Update { uid, version, shape });
            }
            plan.slices = settle(here, key, derived, &exporters, &decided, input);
        }
    }
    let content = lead.content(&decided, input.derived.as_deref().filter(|one| one.headless == headless));
    import(now, input, &exporters, content, &mut plan);
    plan
}

fn import(
    now: Timestamp,
    input: &Input,
    exporters: &[(&Exporter, &Offer)],
    mut content: Value,
    plan: &mut ImportPlan,
) {
    let Some(import) = &input.import else {
        plan.import = Some(ImportStep::Create { content });
        return;
    };
    Written::read(import).take_back(&mut content["metadata"]);
    // Those that should be there are, and those that should not are not.
    let kept = |wanted: &Value, found: &BTreeMap<String, String>| {
        wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| found.get(key).map(String::as_str) == value.as_str())
    };
    let same = [
        "type",
        "ports",
        "ips",
        "ipFamilies",
        "sessionAffinity",
        "sessionAffinityConfig",
        "internalTrafficPolicy",
        "trafficDistribution",
    ]
    .iter()
    .all(|field| content["spec"][field] == import.spec[field]);
    let metadata = &content["metadata"];
    if !same
        || !kept(&metadata["labels"], &import.labels)
        || !kept(&metadata["annotations"], &import.annotations)
    {
        plan.import = Some(ImportStep::Update { version: import.version.clone(), content });
        return;
    }
    let mut clusters: Vec<String> = exporters.iter().map(|(one, _)| one.cluster.to_string()).collect();
    // Who is not known still exports what it exported.
    clusters.extend(input.unknown.keys().map(ClusterId::to_string).filter(|id| import.clusters.contains(id)));
    clusters.sort();
    let conditions = conditions(now, import, input);
    if import.clusters != clusters || import.conditions != conditions {
        let clusters: Vec<Value> = clusters.iter().map(|id| json!({"cluster": id})).collect();
        plan.import_status = Some(json!({
            "metadata": {"resourceVersion": import.version},
            "status": {"clusters": clusters, "conditions": conditions},
        }));
    }
}

fn remove(input: &Input, plan: &mut ImportPlan) {
    plan.derived = input.derived.as_deref().filter(|derived| !derived.going).map(delete);
    plan.import = input
        .import
        .as_ref()
        .filter(|import| import.ours)
        .map(|import| ImportStep::Delete { uid: import.uid.clone(), version: import.version.clone() });
    plan.slices = input.slices.iter().map(|(name, slice)| drop_slice(name, slice)).collect();
}

fn delete(derived: &Derived) -> DerivedStep {
    DerivedStep::Delete { uid: derived.uid.clone(), version: derived.version.clone() }
}

fn drop_slice(name: &str, slice: &OwnSlice) -> SliceStep {
    SliceStep::Delete { name: name.to_owned(), uid: slice.uid.clone(), version: slice.version.clone() }
}

fn settle(
    here: &ClusterId,
    key: &Key,
    derived: &Derived,
    exporters: &[(&Exporter, &Offer)],
    decided: &Decided,
    input: &Input,
) -> Vec<SliceStep> {
    let behind = derived_key(key);
    let members: Vec<Member> = exporters.iter().map(|(one, offer)| member(key, one, offer)).collect();
    let reached = members.iter().zip(&decided.names).map(|(member, names)| {
        let names: Names = names.iter().map(|(own, name)| (own.clone(), vec![name.clone()])).collect();
        if &member.source.cluster == here {
            return at_home(member, &names);
        }
        let mut reached = from_elsewhere(member, &Cluster::default(), &names, &Resolved::new());
        judged(&mut reached.groups, member.stance);
        reached
    });
    let reached: Vec<Reached> = reached.collect();
    let wanted = slices(&behind, &members.iter().collect::<Vec<_>>(), reached);
    settle_slices(&behind, &derived.uid, &input.slices, wanted, |_, slice| {
        input.unknown.get(slice.cluster.as_ref()?).copied()
    })
}

/// An exported Service is reached by its pods, whatever its type.
fn member(key: &Key, exporter: &Exporter, offer: &Offer) -> Member {
    let joining = Joining {
        joins: vec![key.clone()],
        flaws: Vec::new(),
        uid: String::new(),
        created: exporter.export.created,
        reach: Reach::Pods,
        ports: offer.ports.clone(),
        affinity: offer.affinity,
        traffic_distribution: None,
        said: None,
    };
    let source = Source { cluster: exporter.cluster.clone(), kind: Kind::Service, key: key.clone() };
    Member { source, joining: Arc::new(joining), slices: exporter.slices.clone(), stance: exporter.stance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_behind_imports_are_told_from_others() {
        assert!(is_behind_an_import(&derived_key(&Key::new("ns", "hello")).name));
        for other in
            ["import-", "import-me", "import-0123456789abcdef012", "import-0123456789abcdef012g", "foo"]
        {
            assert!(!is_behind_an_import(other), "{other}");
        }
    }
}
