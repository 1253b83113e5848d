//! Further kinds that a user wants to be federated: what the current cluster serves of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;

use crate::call::within;
use crate::model::{Further, Kind, Observed};
use crate::names::NAMESPACE;

/// A kind by API version and name.
pub(crate) type Named = (String, String);

/// What is known of kinds.
#[derive(Default)]
pub(crate) struct Kinds {
    known: BTreeMap<Named, Result<Served, String>>,
    asked: BTreeSet<Named>,
    /// When kinds that are not served may be asked for again.
    again_at: Duration,
}

#[derive(Clone)]
pub(crate) struct Served {
    plural: String,
    namespaced: bool,
}

impl Kinds {
    /// All kinds to federate, in order, each with what is known of it.
    pub(crate) fn of(&self, further: &[Further]) -> Vec<(Kind, Observed<()>)> {
        let mut kinds: Vec<(Kind, Observed<()>)> =
            Kind::always().into_iter().map(|kind| (kind, Observed::Seen(()))).collect();
        let wanted: Vec<(Kind, Observed<()>)> = further.iter().map(|wanted| self.one(wanted)).collect();
        for (kind, sight) in &wanted {
            let everywhere = wanted.iter().any(|(other, _)| covers(other, kind));
            let twice = kinds.iter().any(|(known, _)| same(known, kind) || covers(kind, known));
            if everywhere || twice {
                continue;
            }
            let mut kind = kind.clone();
            // Conditions are told apart by their type.
            if kinds.iter().any(|(known, _)| known.stage == kind.stage) {
                kind.stage = stage(&format!("{}.{}", kind.kind, kind.group), kind.namespace.as_deref());
            }
            kinds.push((kind, sight.clone()));
        }
        kinds
    }

    fn one(&self, wanted: &Further) -> (Kind, Observed<()>) {
        let named = (wanted.api_version.clone(), wanted.kind.clone());
        let (served, sight) = match self.known.get(&named) {
            None => (None, Observed::Pending),
            Some(Err(why)) => (None, Observed::Lost(why.clone())),
            Some(Ok(served)) => (Some(served), Observed::Seen(())),
        };
        let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE);
        let everywhere = namespace == "*" || served.is_some_and(|served| !served.namespaced);
        let (group, version) = wanted.api_version.split_once('/').unwrap_or(("", &wanted.api_version));
        let namespace = (!everywhere).then(|| namespace.to_owned());
        let kind = Kind {
            group: group.into(),
            version: version.into(),
            kind: wanted.kind.clone(),
            plural: served.map(|served| served.plural.clone()).unwrap_or_default(),
            stage: stage(&wanted.kind, namespace.as_deref()),
            namespace,
            only_one: None,
        };
        (kind, sight)
    }

    /// What has to be asked for now.
    pub(crate) fn unknown(&mut self, further: &[Further], now: Duration) -> Vec<Named> {
        let due = now >= self.again_at;
        let mut asking = Vec::new();
        for wanted in further {
            let named = (wanted.api_version.clone(), wanted.kind.clone());
            let open = match self.known.get(&named) {
                None => true,
                Some(Err(_)) => due,
                Some(Ok(_)) => false,
            };
            if open && self.asked.insert(named.clone()) {
                asking.push(named);
            }
        }
        asking
    }

    pub(crate) fn answered(&mut self, named: Named, answer: Result<Served, String>, again_at: Duration) {
        self.asked.remove(&named);
        if answer.is_err() {
            self.again_at = again_at;
        }
        self.known.insert(named, answer);
    }

    /// When to ask again for what was not there.
    pub(crate) fn again_at(&self, further: &[Further]) -> Option<Duration> {
        let failed = |wanted: &Further| {
            matches!(self.known.get(&(wanted.api_version.clone(), wanted.kind.clone())), Some(Err(_)))
        };
        further.iter().any(failed).then_some(self.again_at)
    }
}

/// The type of the condition of a kind.
fn stage(kind: &str, namespace: Option<&str>) -> String {
    match namespace {
        None | Some(NAMESPACE) => format!("{kind} Federation"),
        Some(namespace) => format!("{kind} Federation in {namespace}"),
    }
}

fn same(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.kind == other.kind && one.namespace == other.namespace
}

/// Whether all objects of one are objects of another, which has more.
fn covers(more: &Kind, less: &Kind) -> bool {
    let everywhere = more.namespace.is_none() && less.namespace.is_some();
    more.group == less.group && more.kind == less.kind && everywhere
}

/// Asks the current cluster for a kind.
pub(crate) async fn discover(
    client: &Client,
    (api_version, kind): &Named,
    deadline: Duration,
) -> Result<Served, String> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !group.contains('.') || group.ends_with(".k8s.io") {
        return Err(format!("{api_version} {kind} is no custom resource, and only those are federated"));
    }
    let list = within(deadline, client.list_api_group_resources(api_version)).await;
    let list = list.map_err(|failure| match failure.code {
        Some(404) => format!("{api_version} is not served"),
        _ => failure.to_string(),
    })?;
    let found = list.resources.into_iter().find(|one| one.kind == *kind && !one.name.contains('/'));
    match found {
        Some(found) => Ok(Served { plural: found.name, namespaced: found.namespaced }),
        None => Err(format!("{api_version} {kind} is not served")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(wanted: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let further = |(api_version, kind, namespace): &(&str, &str, Option<&str>)| Further {
            api_version: (*api_version).into(),
            kind: (*kind).into(),
            namespace: namespace.map(str::to_owned),
        };
        let further: Vec<Further> = wanted.iter().map(further).collect();
        let all = Kinds::default().of(&further);
        assert_eq!(all[..2].iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>(), Kind::always());
        let told = |kind: &Kind| format!("{}: {}", kind.group, kind.stage);
        all[2..].iter().map(|(kind, _)| told(kind)).collect()
    }

    #[test]
    fn kinds_of_one_name_and_several_groups_each_have_their_stage() {
        assert_eq!(
            stages(&[
                ("one.io/v1", "Rule", None),
                ("two.io/v1", "Rule", None),
                ("two.io/v1", "Rule", Some("shop")),
                ("three.io/v1", "Rule", Some("shop")),
                ("one.io/v1", "GSLBConfig", None),
            ]),
            [
                "one.io: Rule Federation",
                "two.io: Rule.two.io Federation",
                "two.io: Rule Federation in shop",
                "three.io: Rule.three.io Federation in shop",
                "one.io: GSLBConfig.one.io Federation",
            ]
        );
    }

    #[test]
    fn what_is_named_twice_is_federated_once_and_everywhere_is_more_than_here() {
        let rule = |namespace| ("one.io/v1", "Rule", namespace);
        let everywhere = ["one.io: Rule Federation"];
        assert_eq!(stages(&[rule(None), rule(Some("avi-system"))]), everywhere);
        assert_eq!(stages(&[rule(None), rule(Some("*"))]), everywhere);
        assert_eq!(stages(&[rule(Some("shop")), rule(None), rule(Some("*"))]), everywhere);
        assert_eq!(stages(&[("one.io/v2", "Rule", None), rule(None)]), everywhere);
        // AMKO's own are federated where AMKO has them.
        let own = ("amko.vmware.com/v1alpha1", "GSLBConfig", Some("*"));
        assert_eq!(stages(&[own]), Vec::<String>::new());
    }
}
