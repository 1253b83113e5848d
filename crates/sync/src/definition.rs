//! What a CRD says of itself, and the version of it that both sides have.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use koinon_control::call;
use koinon_control::watch::{Meta, Named};
use kube::core::Version;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::access::Access;
use crate::plan::{Observed, Source};
use crate::settings::Settings;

/// A CRD on the wire, without its schemas.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wire {
    pub(crate) metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    #[serde(default)]
    versions: Vec<Served>,
}

#[derive(Clone, Debug, Deserialize)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Served {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    subresources: Option<Subresources>,
}

#[derive(Clone, Debug, Deserialize)]
struct Subresources {
    status: Option<IgnoredAny>,
}

impl Named for Wire {
    fn meta(&self) -> Meta<'_> {
        let Metadata { name, uid, resource_version, .. } = &self.metadata;
        Meta { namespace: "", name, uid, version: resource_version }
    }
}

impl Wire {
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// What matters of it to its sync: another definition is another sync.
    pub(crate) fn define(&self, settings: Settings) -> Definition {
        let mut versions: Vec<_> = self.spec.versions.iter().filter(|version| version.served).collect();
        versions.sort_by_cached_key(|version| {
            (Reverse(version.storage), Reverse(Version::parse(&version.name).priority()))
        });
        Definition {
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            group: self.spec.group.clone(),
            plural: self.spec.names.plural.clone(),
            kind: self.spec.names.kind.clone(),
            namespaced: self.spec.scope == "Namespaced",
            versions: versions
                .into_iter()
                .map(|version| {
                    let status = version
                        .subresources
                        .as_ref()
                        .is_some_and(|subresources| subresources.status.is_some());
                    (version.name.clone(), status)
                })
                .collect(),
            settings,
        }
    }
}

/// A CRD beside the syncer, as far as its sync depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Served versions, the best first, and whether their status is a subresource.
    versions: Vec<(String, bool)>,
    pub(crate) settings: Settings,
}

/// What both sides agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) version: String,
    pub(crate) robot_status: bool,
    pub(crate) cloud_status: bool,
    pub(crate) cloud_kind: String,
}

/// Why the two sides do not fit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Misfit {
    #[error("the cloud does not have {0}; create the CRD there")]
    NotInCloud(String),
    #[error("no version is served by both: the robot has {robot}, the cloud has {cloud}")]
    NoCommonVersion { robot: String, cloud: String },
    #[error("it is {robot} beside the robot and {cloud} in the cloud")]
    Scope { robot: &'static str, cloud: &'static str },
    #[error(
        "observed generations can be translated only where the status is a subresource of the original; version {0} has none"
    )]
    NoStatusToTranslate(String),
    #[error("the cloud could not be asked what it serves")]
    Unknown(#[source] call::Error),
}

impl Misfit {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Misfit::NotInCloud(_) => "NotInCloud",
            Misfit::NoCommonVersion { .. } => "NoCommonVersion",
            Misfit::Scope { .. } => "ScopeDiffers",
            Misfit::NoStatusToTranslate(_) => "NoStatusToTranslate",
            Misfit::Unknown(_) => "CloudUnreachable",
        }
    }
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
pub(crate) struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    namespaced: bool,
    kind: String,
}

impl Definition {
    /// The path under which one version is served.
    pub(crate) fn base(&self, version: &str) -> String {
        format!("/apis/{}/{version}", self.group)
    }

    /// Asks the cloud what it serves, and finds what both have.
    pub(crate) async fn agree(&self, cloud: &Access) -> Result<Agreement, Misfit> {
        let absent = || Misfit::NotInCloud(self.name.clone());
        let asked = |error: call::Error| match error.code() {
            Some(404) => absent(),
            _ => Misfit::Unknown(error),
        };
        let group: Group = cloud.get(&format!("/apis/{}", self.group)).await.map_err(asked)?;
        let mut served = BTreeMap::new();
        for GroupVersion { version } in group.versions {
            match cloud.get::<Resources>(&self.base(&version)).await {
                Ok(resources) => drop(served.insert(version, resources)),
                // It went away between the two questions.
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(Misfit::Unknown(error)),
            }
        }
        self.choose(&served)
    }

    /// The best version that both sides have.
    fn choose(&self, cloud: &BTreeMap<String, Resources>) -> Result<Agreement, Misfit> {
        let find =
            |version: &str, name: &str| cloud.get(version)?.resources.iter().find(|found| found.name == name);
        let having: Vec<&String> =
            cloud.keys().filter(|version| find(version, &self.plural).is_some()).collect();
        if having.is_empty() {
            return Err(Misfit::NotInCloud(self.name.clone()));
        }
        let common = self
            .versions
            .iter()
            .find_map(|(version, status)| Some((version, *status, find(version, &self.plural)?)));
        let Some((version, robot_status, found)) = common else {
            let robot: Vec<&str> = self.versions.iter().map(|(version, _)| version.as_str()).collect();
            let cloud: Vec<&str> = having.iter().map(|version| version.as_str()).collect();
            return Err(Misfit::NoCommonVersion { robot: robot.join(", "), cloud: cloud.join(", ") });
        };
        if found.namespaced != self.namespaced {
            let scope = |namespaced| if namespaced { "namespaced" } else { "cluster-scoped" };
            return Err(Misfit::Scope { robot: scope(self.namespaced), cloud: scope(found.namespaced) });
        }
        let cloud_status = find(version, &format!("{}/status", self.plural)).is_some();
        let above = if self.settings.source == Source::Cloud { cloud_status } else { robot_status };
        // Without the subresource every status that we write makes a new generation: there would be no end.
        if self.settings.observed == Observed::Translate && !above {
            return Err(Misfit::NoStatusToTranslate(version.clone()));
        }
        Ok(Agreement { version: version.clone(), robot_status, cloud_status, cloud_kind: found.kind.clone() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Filter;

    fn definition(versions: &[(&str, bool, bool)], observed: Observed) -> Definition {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, storage, status)| {
                let subresources = if *status { json!({"status": {}}) } else { json!({}) };
                json!({"name": name, "served": *name != "v0", "storage": storage, "subresources": subresources})
            })
            .collect();
        let crd: Wire = serde_json::from_value(json!({
            "metadata": {"name": "toys.play.io"},
            "spec": {"group": "play.io", "scope": "Namespaced", "names": {"plural": "toys", "kind": "Toy"},
                     "versions": versions},
        }))
        .unwrap();
        crd.define(Settings { source: Source::Cloud, filter: Filter::Everything, subtree: None, observed })
    }

    fn cloud(versions: &[(&str, &str)]) -> BTreeMap<String, Resources> {
        let resource = |name: &&str| json!({"name": name, "namespaced": true, "kind": "Toy"});
        versions
            .iter()
            .map(|(version, names)| {
                let resources: Vec<_> = names.split(' ').collect::<Vec<_>>().iter().map(resource).collect();
                ((*version).to_owned(), serde_json::from_value(json!({ "resources": resources })).unwrap())
            })
            .collect()
    }

    #[track_caller]
    fn check(definition: &Definition, cloud: &BTreeMap<String, Resources>, expected: &str) {
        let shown = match definition.choose(cloud) {
            Ok(agreed) => format!("{} {} {}", agreed.version, agreed.robot_status, agreed.cloud_status),
            Err(misfit) => misfit.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_storage_version_wins_then_the_most_stable_one() {
        let robot = definition(
            &[("v1", false, false), ("v2", true, true), ("v3beta1", false, true)],
            Observed::Verbatim,
        );
        check(&robot, &cloud(&[("v1", "toys"), ("v2", "toys toys/status")]), "v2 true true");
        check(&robot, &cloud(&[("v1", "toys"), ("v3beta1", "toys")]), "v1 false false");
        check(&robot, &cloud(&[("v3beta1", "toys")]), "v3beta1 true false");
    }

    #[test]
    fn what_is_missing_is_said() {
        let robot = definition(&[("v0", true, true), ("v1", false, true)], Observed::Verbatim);
        let missing = "no version is served by both: the robot has v1, the cloud has v0, v2";
        check(&robot, &cloud(&[("v0", "toys"), ("v2", "toys")]), missing);
        let nowhere = "the cloud does not have toys.play.io; create the CRD there";
        check(&robot, &cloud(&[("v1", "balls")]), nowhere);
        check(&robot, &cloud(&[]), nowhere);
    }

    #[test]
    fn generations_are_translated_only_where_status_does_not_make_new_ones() {
        let robot = definition(&[("v1", true, true)], Observed::Translate);
        check(&robot, &cloud(&[("v1", "toys toys/status")]), "v1 true true");
        let refused = "observed generations can be translated only where the status is a subresource of the original; \
                       version v1 has none";
        check(&robot, &cloud(&[("v1", "toys")]), refused);
    }
}
