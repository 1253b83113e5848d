//! One ClusterProfile for each member, so that other tools find the clusters. No IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use koinon_api::membership::{
    ClusterId, ClusterProfile, PROFILE_MANAGER, Phase, ProfileSpec, ProfileStatus, Property,
};
use kube::ResourceExt as _;

use super::status::seconds;
use crate::fleet::State;

const MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// The property that tells which cluster it is, whatever it claims.
const UID: &str = "koinon.dev/cluster-uid";

/// What to do so that the profiles tell of the members.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Create(ClusterProfile),
    /// Its status is to be this, over the version that is in it.
    Status(ClusterProfile),
    Delete(Arc<ClusterProfile>),
}

/// Compares the members with the profiles that are there. Profiles that others keep are left alone.
pub fn plan(
    now: Timestamp,
    namespace: &str,
    members: &BTreeMap<ClusterId, State>,
    profiles: &[Arc<ClusterProfile>],
) -> Vec<Step> {
    let ours = |profile: &ClusterProfile| profile.spec.cluster_manager.name == PROFILE_MANAGER;
    let mut steps = Vec::new();
    for (id, state) in members {
        let known = profiles.iter().find(|profile| profile.name_any() == id.as_str());
        match known {
            None => steps.push(Step::Create(created(namespace, id))),
            Some(known) if !ours(known) => {}
            Some(known) => {
                let status = status(now, known.status.as_ref(), state);
                if known.status.as_ref() != Some(&status) {
                    steps.push(Step::Status(ClusterProfile {
                        status: Some(status),
                        ..ClusterProfile::clone(known)
                    }));
                }
            }
        }
    }
    for profile in profiles.iter().filter(|profile| ours(profile)) {
        let is_going = profile.metadata.deletion_timestamp.is_some();
        if !is_going && !members.contains_key(profile.name_any().as_str()) {
            steps.push(Step::Delete(profile.clone()));
        }
    }
    steps
}

fn created(namespace: &str, id: &ClusterId) -> ClusterProfile {
    let labels = [(MANAGER_LABEL, PROFILE_MANAGER), ("app.kubernetes.io/managed-by", "koinon")];
    let mut spec = ProfileSpec { display_name: id.to_string(), ..ProfileSpec::default() };
    spec.cluster_manager.name = PROFILE_MANAGER.into();
    ClusterProfile {
        metadata: ObjectMeta {
            name: Some(id.to_string()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn status(now: Timestamp, before: Option<&ProfileStatus>, state: &State) -> ProfileStatus {
    let before = before.cloned().unwrap_or_default();
    // Nothing is known yet: what was said before stands.
    if state.phase == Phase::Joining && !before.conditions.is_empty() {
        return before;
    }
    let why = state.why.as_deref();
    let (healthy, reason, message) = match state.phase {
        Phase::Reachable => ("True", "Reachable", "the API server answers"),
        Phase::Unreachable => ("False", "Unreachable", why.unwrap_or("the API server does not answer")),
        Phase::Joining => ("Unknown", "Joining", why.unwrap_or("the API server has not been asked yet")),
    };
    let joined = match state.uid {
        Some(_) => ("True", "Joined", "the cluster is known"),
        None => ("False", "Joining", "the cluster has not been seen yet"),
    };
    let condition = |type_: &str, (status, reason, message): (&str, &str, &str)| {
        let known = before.conditions.iter().find(|known| known.type_ == type_ && known.status == status);
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: known
                .map_or_else(|| seconds(now), |known| known.last_transition_time.clone()),
            observed_generation: None,
        }
    };
    let conditions =
        vec![condition("ControlPlaneHealthy", (healthy, reason, message)), condition("Joined", joined)];
    let property = |(name, value): (&str, &str)| Property { name: name.into(), value: value.into() };
    let mut properties: Vec<_> = match &state.claims {
        Some(claims) => {
            claims.all().into_iter().filter(|(_, value)| !value.is_empty()).map(property).collect()
        }
        // It was not asked, or did not say: what it said before stands.
        None => before.properties.into_iter().filter(|property| property.name != UID).collect(),
    };
    properties.extend(state.uid.as_deref().map(|uid| property((UID, uid))));
    let mut version = before.version;
    version.kubernetes = state.version.clone().or(version.kubernetes);
    ProfileStatus { conditions, version, properties }
}

#[cfg(test)]
mod tests {
    use koinon_api::membership::{Claims, ClusterClaim};

    use super::*;

    fn state(phase: Phase) -> State {
        State {
            phase,
            since: Timestamp::UNIX_EPOCH,
            why: (phase == Phase::Unreachable).then(|| "no answer".into()),
            version: (phase == Phase::Reachable).then(|| "v1.36.3".into()),
            uid: Some("u".into()),
            claims: None,
            last_seen: None,
            server: None,
        }
    }

    #[test]
    fn claims_become_properties_and_stay_while_nobody_hears_them() {
        let claim = |name: &str, value: &str| {
            let claim = serde_json::json!({"metadata": {"name": name}, "value": value});
            serde_json::from_value::<ClusterClaim>(claim).unwrap()
        };
        let claims = Claims::of(&[claim("region", "eu"), claim("id.k8s.io", "a")]);
        let told = |before: Option<&ProfileStatus>, claims| {
            let state = State { claims, ..state(Phase::Reachable) };
            status(Timestamp::UNIX_EPOCH, before, &state)
        };
        let shown = |status: &ProfileStatus| {
            let each = status.properties.iter().map(|one| format!("{}={}", one.name, one.value));
            each.collect::<Vec<_>>().join(" ")
        };
        let first = told(None, Some(claims));
        assert_eq!(shown(&first), "id.k8s.io=a region=eu koinon.dev/cluster-uid=u");
        assert_eq!(told(Some(&first), None), first);
        assert_eq!(shown(&told(Some(&first), Some(Claims::default()))), "koinon.dev/cluster-uid=u");
    }

    /// Does what the plan says, as an API server would.
    fn play(profiles: &mut Vec<Arc<ClusterProfile>>, steps: Vec<Step>) -> String {
        let mut done = Vec::new();
        for step in steps {
            match step {
                Step::Create(profile) => {
                    done.push(format!("+{}", profile.name_any()));
                    profiles.push(Arc::new(profile));
                }
                Step::Status(profile) => {
                    done.push(format!("~{}", profile.name_any()));
                    profiles.retain(|known| known.name_any() != profile.name_any());
                    profiles.push(Arc::new(profile));
                }
                Step::Delete(profile) => {
                    done.push(format!("-{}", profile.name_any()));
                    profiles.retain(|known| known.name_any() != profile.name_any());
                }
            }
        }
        done.join(" ")
    }

    #[test]
    fn profiles_follow_the_members_and_come_to_rest() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let members = |names: &[(&str, Phase)]| -> BTreeMap<ClusterId, State> {
            names.iter().map(|(name, phase)| (ClusterId::new(name).unwrap(), state(*phase))).collect()
        };
        let mut foreign = created("ns", &ClusterId::new("c").unwrap());
        foreign.spec.cluster_manager.name = "somebody".into();
        let mut profiles = vec![Arc::new(foreign)];
        let mut step = |second, names: &[(&str, Phase)]| {
            let steps = plan(at(second), "ns", &members(names), &profiles);
            let done = play(&mut profiles, steps);
            let health = profiles.iter().find(|profile| profile.name_any() == "a").and_then(|profile| {
                let condition = profile.status.as_ref()?.conditions.first()?.clone();
                Some(format!(" {}@{}", condition.status, condition.last_transition_time.0.as_second()))
            });
            done + &health.unwrap_or_default()
        };
        assert_eq!(step(1, &[("a", Phase::Joining), ("c", Phase::Reachable)]), "+a");
        assert_eq!(step(2, &[("a", Phase::Reachable), ("c", Phase::Reachable)]), "~a True@2");
        assert_eq!(step(3, &[("a", Phase::Reachable)]), " True@2");
        assert_eq!(step(4, &[("a", Phase::Joining)]), " True@2", "a restart is no news");
        assert_eq!(step(5, &[("a", Phase::Unreachable)]), "~a False@5");
        assert_eq!(step(6, &[("a", Phase::Unreachable)]), " False@5");
        assert_eq!(step(7, &[]), "-a");
        assert_eq!(step(8, &[]), "");
    }
}
