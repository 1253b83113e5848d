//! Everybody in the federation of the asked cluster, asked at once with the credentials that are in that cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::{Claims, ClusterClaim, Federation, NETWORK_NAMESPACE};
use koinon_control::{Clock, call::within_deadline};
use koinon_fleet::membership::formation::{Entry, Formation, Part, Role, Way, formation};
use koinon_fleet::{ClusterId, Fleet, Link, Member, Wanted};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::Scope;

/// A member that does not answer for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What members say, and why others do not.
pub(super) struct Answers<T> {
    /// The cluster that is asked, and whether it knows of others.
    pub(super) here: ClusterId,
    pub(super) sees: Sees,
    pub(super) known: BTreeMap<ClusterId, T>,
    pub(super) unknown: BTreeMap<ClusterId, String>,
}

/// Of whom a cluster knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// A supervisor, of all members.
    All,
    /// A child, of nobody else.
    Itself,
}

/// Asks all members. `what` is what spans them, in the plural.
pub(super) async fn ask_all<T>(
    scope: &Scope<'_>,
    what: &str,
    ask: impl AsyncFn(Arc<Member>) -> anyhow::Result<T>,
) -> anyhow::Result<Answers<T>> {
    let (id, formation) = formed(scope, what).await?;
    let sees = if matches!(formation.part, Part::Child(_)) { Sees::Itself } else { Sees::All };
    let mut answers = Answers { here: id.clone(), sees, known: BTreeMap::new(), unknown: BTreeMap::new() };
    let mut wanted = BTreeMap::new();
    for (name, Entry { way, uid, .. }) in formation.members {
        let link = match way {
            Way::Login(credentials) => Link::Login(credentials),
            Way::Local => Link::Direct(scope.client.clone()),
            Way::None(why) => {
                answers.unknown.insert(name, why);
                continue;
            }
        };
        wanted.insert(name, Wanted { link, uid });
    }
    // A child knows of nobody else, and can still say how it is itself.
    wanted.entry(id).or_insert_with(|| Wanted { link: Link::Direct(scope.client.clone()), uid: None });
    let fleet = Fleet::new(koinon_fleet::Options::default(), Default::default(), Clock::default());
    fleet.set(wanted).await;
    let members = fleet.members();
    let asked = members.iter().map(|member| async {
        let answer = async {
            member.client().admitted().await;
            ask(member.clone()).await
        };
        let asked = tokio::time::timeout(PATIENCE, answer).await;
        let late =
            || member.state().why.unwrap_or_else(|| format!("no answer within {} s", PATIENCE.as_secs()));
        (member.name().clone(), asked.unwrap_or_else(|_| Err(anyhow::Error::msg(late()))))
    });
    for (name, answer) in join_all(asked).await {
        match answer {
            Ok(member) => drop(answers.known.insert(name, member)),
            Err(why) => drop(answers.unknown.insert(name, format!("{why:#}"))),
        }
    }
    Ok(answers)
}

/// Who the asked cluster is, and who belongs to its federation.
async fn formed(scope: &Scope<'_>, what: &str) -> anyhow::Result<(ClusterId, Formation)> {
    let claims: Api<ClusterClaim> = Api::namespaced(scope.client.clone(), NETWORK_NAMESPACE);
    let federations: Api<Federation> = Api::all(scope.client.clone());
    let secrets: Api<Secret> = Api::namespaced(scope.client.clone(), NETWORK_NAMESPACE);
    let all = ListParams::default();
    let claims = within_deadline(claims.list(&all)).await;
    let claims =
        claims.context("the ClusterClaims cannot be read: is this a cluster of the network role?")?.items;
    let federations = within_deadline(federations.list(&all)).await;
    let federations: Vec<_> =
        federations.context("the Federation cannot be read")?.items.into_iter().map(Arc::new).collect();
    let secrets = within_deadline(secrets.list(&all)).await;
    let secrets =
        secrets.with_context(|| format!("the Secrets in {NETWORK_NAMESPACE} cannot be read"))?.items;
    let secrets = secrets.into_iter().map(|secret| (secret.name_any(), Arc::new(secret))).collect();
    let formation = formation(NETWORK_NAMESPACE, &Role::Cluster(Claims::of(&claims)), &federations, &secrets);
    match &formation.part {
        Part::Supervisor(id) | Part::Child(id) => Ok((id.clone(), formation)),
        Part::Alone(why) => bail!("this cluster is in no federation that has {what}: {why}"),
        Part::Federation => {
            bail!("{what} span the clusters of the network role: ask one of their supervisors")
        }
    }
}
