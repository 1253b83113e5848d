//! Policies that span clusters: the revision of each, and where it is applied, pending or in conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use koinon_api::membership::{Federation, NETWORK_NAMESPACE};
use koinon_control::Key;
use koinon_fleet::{ClusterId, Member};
use koinon_network::policies::accept::Accept;
use koinon_network::policies::content::Sighting;
use koinon_network::policies::key::{Kind, PolicyKey};
use koinon_network::policies::names;
use koinon_network::policies::survey::{self, Ledger, Report, Whereabouts, survey};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde::Serialize;

use super::Scope;
use super::union::{Answers, ask_all};
use crate::table::table;

/// All of them, and who could not be asked.
#[derive(Debug, Serialize)]
pub(super) struct Policies {
    policies: Vec<Report>,
    /// Members of which nothing is known now, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, String>,
}

pub(super) async fn gather(scope: &Scope<'_>) -> anyhow::Result<Policies> {
    let Answers { known, unknown, .. } = ask_all(scope, "policies", ask).await?;
    let mut known: BTreeMap<ClusterId, Option<survey::Member>> =
        known.into_iter().map(|(name, member)| (name, Some(member))).collect();
    known.extend(unknown.keys().map(|name| (name.clone(), None)));
    let mut policies = survey(&known);
    if let Some(namespace) = scope.namespace {
        let within = format!("{}/{namespace}/", Kind::Namespaced.short());
        policies.retain(|report| report.policy.starts_with(&within));
    }
    let unknown = unknown.into_iter().map(|(name, why)| (name.as_str().to_owned(), why)).collect();
    Ok(Policies { policies, unknown })
}

/// What one member has and remembers.
async fn ask(member: Arc<Member>) -> anyhow::Result<survey::Member> {
    let client = member.client();
    let all = ListParams::default();
    let ledger = ListParams::default().labels(&format!("{}={}", names::LEDGER_LABEL, names::LEDGER_VALUE));
    let (maps, namespaces): (Api<ConfigMap>, Api<Namespace>) =
        (client.namespaced(NETWORK_NAMESPACE), client.all());
    let federations: Api<Federation> = client.namespaced(NETWORK_NAMESPACE);
    let (maps, namespaces, federations) = futures::try_join!(
        client.call(maps.list(&ledger)),
        client.call(namespaces.list_metadata(&all)),
        client.call(federations.list(&all)),
    )?;
    let mut policies = BTreeMap::new();
    for kind in Kind::ALL {
        let api: Api<DynamicObject> = client.dynamic(&kind.resource(), None);
        let found = match client.call(api.list(&all)).await {
            // Antrea is not installed there.
            Err(error) if error.code() == Some(404) => continue,
            found => found?,
        };
        for object in found {
            let key = PolicyKey::of(kind, &Key::of(&object));
            let sighting = Sighting::of(&key, &object);
            policies.insert(key, sighting);
        }
    }
    let standing = federations.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    // The oldest is the one that counts.
    let counts = standing.min_by_key(|one| (one.creation_timestamp().map(|time| time.0), one.name_any()));
    let terms = counts.and_then(|federation| federation.annotations().get(names::ACCEPT));
    let living = namespaces.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
    Ok(survey::Member {
        ledger: Ledger::of(&maps.items).context("its ledger of policies is not understood")?,
        policies,
        namespaces: living.map(|namespace| namespace.name_any()).collect::<BTreeSet<_>>(),
        accept: Accept::parse(terms.map(String::as_str)),
    })
}

pub(super) fn render(all: &Policies) -> String {
    let mut text = if all.policies.is_empty() {
        "none\n".to_owned()
    } else {
        let head =
            ["POLICY", "REVISION", "CHANGED IN", "APPLIED", "PENDING", "CONFLICT", "WHY"].map(str::to_owned);
        let rows: Vec<Vec<String>> =
            std::iter::once(head.to_vec()).chain(all.policies.iter().map(row)).collect();
        table(&rows)
    };
    for (name, why) in &all.unknown {
        text.push_str(&format!("{name} is not known: {why}\n"));
    }
    text
}

fn row(report: &Report) -> Vec<String> {
    let names = |wanted: fn(&Whereabouts) -> bool| {
        let names: Vec<&str> =
            report.members.iter().filter(|(_, place)| wanted(place)).map(|(name, _)| &**name).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(",") }
    };
    let why = report.members.iter().filter_map(|(name, place)| {
        Some(match place {
            Whereabouts::Conflict => format!("{name} has one of its own by this name"),
            Whereabouts::Refused(why) => format!("{name}: {why}"),
            Whereabouts::NoNamespace => format!("{name} has no such namespace"),
            Whereabouts::Declined => format!("{name} does not take it"),
            Whereabouts::Unknown => format!("{name} is not known"),
            Whereabouts::Applied | Whereabouts::Pending | Whereabouts::Gone => return None,
        })
    });
    let removed = report.removed.then(|| "removed, and remembered until all have heard of it".to_owned());
    vec![
        report.policy.clone(),
        report.revision.to_string(),
        report.origin.clone(),
        names(|place| *place == Whereabouts::Applied),
        names(|place| matches!(place, Whereabouts::Pending | Whereabouts::Refused(_))),
        names(|place| *place == Whereabouts::Conflict),
        removed.into_iter().chain(why).collect::<Vec<_>>().join("; "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_each_policy_is_and_why_not_elsewhere() {
        let report = |policy: &str, removed, members: &[(&str, Whereabouts)]| Report {
            policy: policy.into(),
            revision: 3,
            origin: "a".into(),
            removed,
            members: members.iter().map(|(name, place)| ((*name).to_owned(), place.clone())).collect(),
        };
        let all = Policies {
            policies: vec![
                report(
                    "acnp/web",
                    false,
                    &[
                        ("a", Whereabouts::Applied),
                        ("b", Whereabouts::Conflict),
                        ("c", Whereabouts::Refused("Tier gold does not exist".into())),
                    ],
                ),
                report("anp/prod/old", true, &[("a", Whereabouts::Gone), ("b", Whereabouts::Pending)]),
            ],
            unknown: BTreeMap::from([("d".to_owned(), "no answer".to_owned())]),
        };
        let expected = "\
POLICY         REVISION   CHANGED IN   APPLIED   PENDING   CONFLICT   WHY
acnp/web       3          a            a         c         b          b has one of its own by this name; c: Tier gold does not exist
anp/prod/old   3          a            -         b         -          removed, and remembered until all have heard of it
d is not known: no answer
";
        assert_eq!(render(&all), expected);
        assert_eq!(render(&Policies { policies: Vec::new(), unknown: BTreeMap::new() }), "none\n");
    }
}
