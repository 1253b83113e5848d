//! Further kinds that a user wants to be federated: what the current cluster serves of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;

use crate::call::within;
use crate::model::{Further, Kind, Sight};
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
    pub(crate) fn of(&self, further: &[Further]) -> Vec<(Kind, Sight<()>)> {
        let mut kinds: Vec<(Kind, Sight<()>)> =
            Kind::always().into_iter().map(|kind| (kind, Sight::Seen(()))).collect();
        for wanted in further {
            let (kind, sight) = self.one(wanted);
            if !kinds.iter().any(|(known, _)| known.stage == kind.stage || same(known, &kind)) {
                kinds.push((kind, sight));
            }
        }
        kinds
    }

    fn one(&self, wanted: &Further) -> (Kind, Sight<()>) {
        let named = (wanted.api_version.clone(), wanted.kind.clone());
        let (served, sight) = match self.known.get(&named) {
            None => (None, Sight::Pending),
            Some(Err(why)) => (None, Sight::Lost(why.clone())),
            Some(Ok(served)) => (Some(served), Sight::Seen(())),
        };
        let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE);
        let everywhere = namespace == "*" || served.is_some_and(|served| !served.namespaced);
        let (group, version) = wanted.api_version.split_once('/').unwrap_or(("", &wanted.api_version));
        let stage = if everywhere || namespace == NAMESPACE {
            format!("{} Federation", wanted.kind)
        } else {
            format!("{} Federation in {namespace}", wanted.kind)
        };
        let kind = Kind {
            group: group.into(),
            version: version.into(),
            kind: wanted.kind.clone(),
            plural: served.map(|served| served.plural.clone()).unwrap_or_default(),
            namespace: (!everywhere).then(|| namespace.to_owned()),
            stage,
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

fn same(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.kind == other.kind && one.namespace == other.namespace
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
