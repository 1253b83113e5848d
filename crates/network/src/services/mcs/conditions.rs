//! Conditions of exports and imports: whether they are valid, and what exports do not agree on.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use koinon_fleet::ClusterId;

use super::plan::{Exporter, Input, Status};
use super::record::{Derived, Import, Offer, Type};
use crate::services::ports::Decided;

/// What exporters do not agree on, as one word and a sentence.
pub(super) fn conflict(
    exporters: &[(&Exporter, &Offer)],
    decided: &Decided,
) -> Option<(&'static str, String)> {
    let (oldest, first) = exporters.first()?;
    let differs = |is_same: &dyn Fn(&Exporter, &Offer) -> bool| {
        exporters.iter().find(|(one, offer)| !is_same(one, offer)).map(|(one, _)| one.cluster.to_string())
    };
    let found: [(&'static str, &str, Option<String>); 7] = [
        ("TypeConflict", "whether it is headless", differs(&|_, offer| offer.kind == first.kind)),
        (
            "PortConflict",
            "its ports",
            (decided.differ || decided.left_out.iter().any(|one| !one.is_empty()))
                .then(|| differs(&|_, offer| offer.ports == first.ports))
                .flatten(),
        ),
        ("SessionAffinityConflict", "its affinity", differs(&|_, offer| offer.affinity == first.affinity)),
        (
            "InternalTrafficPolicyConflict",
            "its internal traffic",
            differs(&|_, offer| offer.internal_traffic_policy == first.internal_traffic_policy),
        ),
        (
            "TrafficDistributionConflict",
            "the distribution of its traffic",
            differs(&|_, offer| offer.traffic_distribution == first.traffic_distribution),
        ),
        ("LabelsConflict", "labels", differs(&|one, _| one.export.labels == oldest.export.labels)),
        (
            "AnnotationsConflict",
            "annotations",
            differs(&|one, _| one.export.annotations == oldest.export.annotations),
        ),
    ];
    found.into_iter().find_map(|(reason, what, other)| {
        let other = other?;
        Some((
            reason,
            format!(
                "{} and {other} differ in {what}: the oldest export, of {}, decides",
                oldest.cluster, oldest.cluster
            ),
        ))
    })
}

/// What this cluster's export should say, where that is not what it says.
pub(super) fn export(
    now: Timestamp,
    here: &ClusterId,
    input: &Input,
    conflict: Option<&(&'static str, String)>,
) -> Option<Status> {
    let exporter = input.exporters.iter().find(|one| &one.cluster == here)?;
    let mut said: Vec<(&str, bool, &str, String)> = Vec::new();
    match exporter.offer.as_deref().map(|offer| offer.kind) {
        None => said.push(("Valid", false, "NoService", "there is no Service of this name".into())),
        Some(Type::External) => {
            let why = "a Service of type ExternalName cannot be exported".to_owned();
            said.push(("Valid", false, "InvalidServiceType", why));
        }
        Some(_) => {
            let flaws = exporter.export.flaws.iter().map(|flaw| format!("; {}", flaw.message));
            let message = format!("the Service can be exported{}", flaws.collect::<String>());
            said.push(("Valid", true, "Valid", message));
            said.push(match exporter.counts {
                true => ("Ready", true, "Exported", "the Service is exported".into()),
                false => ("Ready", false, "Failed", "this cluster brings too much already".into()),
            });
            said.push(match conflict {
                Some((reason, message)) => ("Conflict", true, reason, message.clone()),
                None => ("Conflict", false, "NoConflicts", "all exports agree".into()),
            });
        }
    }
    let before = &exporter.export.conditions;
    let disputed = before.iter().find(|one| one.type_ == "Conflict" && one.status == "True");
    if let (Some(before), false, Some(said)) =
        (disputed, input.unknown.is_empty(), said.iter_mut().find(|(kind, ..)| *kind == "Conflict"))
    {
        // With whom it does not agree may be one that is not known.
        *said = ("Conflict", true, before.reason.as_str(), before.message.clone());
    }
    let conditions: Vec<Condition> = said
        .into_iter()
        .map(|(kind, status, reason, message)| {
            let status = if status { "True" } else { "False" };
            let known = before.iter().find(|one| one.type_ == kind && one.status == status);
            Condition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                observed_generation: exporter.export.generation,
                last_transition_time: known.map_or(Time(now), |one| one.last_transition_time.clone()),
            }
        })
        .collect();
    let version = exporter.export.version.clone();
    (*before != conditions).then_some(Status { version, conditions })
}

/// What an import should say of itself, beside what others say of it.
pub(super) fn conditions(now: Timestamp, import: &Import, input: &Input) -> Vec<Condition> {
    let is_usable = |one: &Derived| !one.going && (one.headless || !one.addresses.is_empty());
    let (status, reason, message) = match input.derived.as_deref() {
        Some(derived) if is_usable(derived) => ("True", "Ready", "it can be used"),
        None if input.taken => (
            "False",
            "NameTaken",
            "a Service that is not ours has the name of the one behind it: delete or rename it",
        ),
        _ => ("False", "Pending", "the Service behind it is not there yet"),
    };
    let (before, others): (Vec<&Condition>, Vec<&Condition>) =
        import.conditions.iter().partition(|one| one.type_ == "Ready");
    let since = before.iter().find(|one| one.status == status).map(|one| one.last_transition_time.clone());
    let ready = Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: import.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    };
    others.into_iter().cloned().chain([ready]).collect()
}
