//! What may not be done to claims and Federations, said at once to the one who tries. The decision is a plain function; the
//! controller holds to the same rules where nobody was asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use koinon_api::membership::{Claims, ClusterClaim, ClusterId, Federation, FederationSpec, GROUP, VERSION};
use koinon_control::call;
use koinon_control::call::within_deadline;
use koinon_webhook::{Operation, Request, Reviewer, Verdict};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::controller::Kind;
use super::formation::choose;

/// What is there when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The Federations of all namespaces.
    pub federations: Vec<Arc<Federation>>,
    /// The claims where they count.
    pub claims: Vec<ClusterClaim>,
    /// Whether the namespace of the request goes, and all in it.
    pub namespace_ends: bool,
}

/// The writes that are looked at, as a webhook's rules.
pub fn rules() -> Value {
    json!([{
        "apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["federations", "clusterclaims"], "scope": "Namespaced",
    }])
}

/// Decides about one write, where claims and the Federation belong into `namespace`.
pub fn review(namespace: &str, request: &Request, facts: &Facts) -> Verdict {
    if request.group != GROUP || !request.subresource.is_empty() {
        return Verdict::Allow;
    }
    match request.resource.as_str() {
        "federations" => review_federation(namespace, request, facts),
        "clusterclaims" => review_claim(namespace, request, facts),
        _ => Verdict::Allow,
    }
}

fn review_federation(namespace: &str, request: &Request, facts: &Facts) -> Verdict {
    if request.operation == Operation::Create {
        if request.namespace != namespace {
            return Verdict::Refuse(format!("a Federation belongs into the namespace {namespace}"));
        }
        let other = facts.federations.iter().find(|one| {
            one.metadata.deletion_timestamp.is_none()
                && (one.namespace().as_deref(), one.name_any().as_str())
                    != (Some(&request.namespace), &request.name)
        });
        if let Some(other) = other {
            let (within, name) = (other.namespace().unwrap_or_default(), other.name_any());
            return Verdict::Refuse(format!(
                "a cluster is in one federation, and there is the Federation {within}/{name}: change that one, or delete it first"
            ));
        }
    }
    if request.operation == Operation::Delete {
        return Verdict::Allow;
    }
    let known = faults_of(&request.old);
    let (old, new): (Vec<String>, Vec<String>) =
        faults_of(&request.object).into_iter().partition(|fault| known.contains(fault));
    if !new.is_empty() {
        return Verdict::Refuse(new.join("; "));
    }
    // What was wrong before must not keep anybody from changing something else.
    if old.is_empty() { Verdict::Allow } else { Verdict::Warn(old) }
}

fn faults_of(federation: &Value) -> Vec<String> {
    // What is no Federation at all is the schema's business.
    serde_json::from_value(federation["spec"].clone()).map(|spec| faults(&spec)).unwrap_or_default()
}

/// What is wrong with the members as they are named.
fn faults(spec: &FederationSpec) -> Vec<String> {
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for member in &spec.members {
        let id = member.cluster_id.value.as_str();
        if let Err(error) = ClusterId::new(id) {
            faults.push(error.to_string());
        }
        if !seen.insert(id) {
            faults.push(format!("cluster {id} is named twice: name each cluster once"));
        }
    }
    faults
}

fn review_claim(namespace: &str, request: &Request, facts: &Facts) -> Verdict {
    if request.namespace != namespace || (request.operation == Operation::Delete && facts.namespace_ends) {
        return Verdict::Allow;
    }
    let (Some(federation), _) = choose(namespace, &facts.federations) else { return Verdict::Allow };
    let others = facts.claims.iter().filter(|claim| claim.name_any() != request.name);
    let others: Vec<ClusterClaim> = others.cloned().collect();
    // Whatever the claims are called and however many there are: what counts is the ID that comes of them.
    let with = |claim: &Value| {
        let claim = read::<ClusterClaim>(claim);
        Claims::of(others.iter().chain(&claim)).id().map(str::to_owned)
    };
    let (before, after) = (with(&request.old), with(&request.object));
    let bound = federation.status.as_ref().and_then(|status| status.cluster_id.clone());
    let Some(in_force) = bound.or_else(|| before.clone()) else { return Verdict::Allow };
    if after == before || after.as_ref() == Some(&in_force) {
        return Verdict::Allow;
    }
    let what = match after {
        Some(after) => format!("this would make it {after}"),
        None => "this would leave it without one".into(),
    };
    Verdict::Refuse(format!(
        "the cluster's ID is {in_force}, and {what} while the Federation {}/{} refers to it: delete that first",
        federation.namespace().unwrap_or_default(),
        federation.name_any(),
    ))
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    if object.is_null() { None } else { serde_json::from_value(object.clone()).ok() }
}

/// Answers for one API server, from what is there at the moment: not from a watch, which may be behind.
pub struct Doorkeeper {
    client: Client,
    namespace: String,
    kind: Kind,
}

impl Doorkeeper {
    /// For the API server of `client`, where claims and the Federation belong into `namespace`.
    pub fn new(client: Client, namespace: &str, kind: Kind) -> Doorkeeper {
        Doorkeeper { client, namespace: namespace.to_owned(), kind }
    }

    async fn facts(&self, request: &Request) -> Result<Facts, call::Error> {
        let federations: Api<Federation> = Api::all(self.client.clone());
        let claims: Api<ClusterClaim> = Api::namespaced(self.client.clone(), &self.namespace);
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let all = ListParams::default();
        let claims = async {
            match self.kind {
                Kind::Cluster => Ok(within_deadline(claims.list(&all)).await?.items),
                Kind::Federation => Ok(Vec::new()),
            }
        };
        let (federations, claims, namespace) = futures::try_join!(
            within_deadline(federations.list(&all)),
            claims,
            within_deadline(namespaces.get_opt(&request.namespace)),
        )?;
        Ok(Facts {
            federations: federations.items.into_iter().map(Arc::new).collect(),
            claims,
            namespace_ends: namespace.is_none_or(|one| one.metadata.deletion_timestamp.is_some()),
        })
    }
}

impl Reviewer for Doorkeeper {
    fn review(&self, request: Request) -> BoxFuture<'_, Verdict> {
        Box::pin(async move {
            match self.facts(&request).await {
                Ok(facts) => review(&self.namespace, &request, &facts),
                // To refuse what cannot be judged would make the cluster depend on us.
                Err(error) => Verdict::Warn(vec![format!("Koinon could not check this: {error}")]),
            }
        })
    }
}

#[cfg(test)]
mod tests;
