//! The store of the federation's own objects about its members, as commands read and change them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use koinon_api::membership::{
    CLUSTER_UID, Claimed, ClusterId, FEDERATION_NAME, Federation, FederationSpec, KOINON_NAMESPACE,
    MEMBER_SECRET, MemberCluster, NETWORK_NAMESPACE, SERVER_KEY, crds,
};
use koinon_control::call::{self, within_deadline};
use kube::api::{
    DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::formation::choose;
use super::{Error, Whose};

/// New definitions are served after a moment.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const ATTEMPTS: usize = 8;

/// On a member's Secret: where it leads, so that who leaves can be logged in to once more after it was struck out.
pub(super) const SERVER: &str = "koinon.dev/server";

/// How to log in to which cluster.
pub(super) struct Login<'a> {
    pub(super) uid: &'a str,
    pub(super) server: &'a str,
    pub(super) data: &'a Value,
}

/// The name of a member's Secret, where a command made it.
pub(super) fn secret_name(member: &str) -> String {
    format!("member-{member}")
}

/// What a federation has written down about its members.
pub(super) struct FederationStore {
    client: Client,
    namespace: &'static str,
}

impl FederationStore {
    /// Those of the federation's own API server.
    pub(super) fn new(client: Client) -> FederationStore {
        FederationStore { client, namespace: KOINON_NAMESPACE }
    }

    /// Those of a cluster that takes part in a federation by its claims.
    pub(super) fn of_cluster(client: Client) -> FederationStore {
        FederationStore { client, namespace: NETWORK_NAMESPACE }
    }

    pub(super) fn namespace(&self) -> &'static str {
        self.namespace
    }

    /// The UID by which the federation's API server is known.
    pub(super) async fn uid(&self) -> Result<String, Error> {
        uid(&self.client).await.map_err(|error| Error::asked(Whose::Federation, "ask who it is", error))
    }

    /// Makes sure that members can be written down.
    pub(super) async fn open(&self) -> Result<(), Error> {
        for definition in crds() {
            apply(&self.client, &definition).await.map_err(|error| {
                Error::asked(Whose::Federation, "make the definitions of Federation and ClusterClaim", error)
            })?;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KOINON_NAMESPACE}});
        if self.namespace_is_missing().await? {
            let made = apply(&self.client, &namespace).await;
            made.map_err(|error| Error::asked(Whose::Federation, "make the namespace koinon-system", error))?;
        }
        self.listed(|error| error.is_path_unknown() || is_taken_in(error)).await.map(drop)
    }

    /// All Federations. What `passes` is waited for, though not for ever.
    async fn listed(&self, passes: impl Fn(&call::Error) -> bool) -> Result<Option<Vec<Federation>>, Error> {
        let start = tokio::time::Instant::now();
        loop {
            match within_deadline(self.federations().list(&ListParams::default())).await {
                Ok(all) => return Ok(Some(all.items)),
                Err(error) if passes(&error) && start.elapsed() < SERVED_WITHIN => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) if error.is_path_unknown() && !passes(&error) => return Ok(None),
                Err(error) => return Err(Error::asked(Whose::Federation, "list Federations", error)),
            }
        }
    }

    async fn namespace_is_missing(&self) -> Result<bool, Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = within_deadline(api.get_opt(KOINON_NAMESPACE)).await;
        found
            .map(|found| found.is_none())
            .map_err(|error| Error::asked(Whose::Federation, "read the namespace koinon-system", error))
    }

    /// The Federation that counts, if there is one; none where nobody ever joined.
    pub(super) async fn federation(&self) -> Result<Option<Federation>, Error> {
        let all = self.listed(is_taken_in).await?.unwrap_or_default();
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();
        Ok(choose(self.namespace, &all).0.map(Arc::unwrap_or_clone))
    }

    /// The Secret of each member that has one, by its name.
    pub(super) async fn secret(&self, name: &str) -> Result<Option<Secret>, Error> {
        if name.is_empty() {
            return Ok(None);
        }
        let found = within_deadline(self.secrets().get_opt(name)).await;
        found.map_err(|error| Error::asked(Whose::Federation, "read the member's Secret", error))
    }

    /// The member that a cluster is, by the UID that was written down when it joined, or when a role first saw it.
    pub(super) async fn member_with(
        &self,
        federation: &Federation,
        uid: &str,
    ) -> Result<Option<String>, Error> {
        let seen =
            federation.status.as_ref().map(|status| status.member_status.as_slice()).unwrap_or_default();
        for member in &federation.spec.members {
            let name = &member.cluster_id.value;
            let secret = self.secret(&member.secret).await?;
            let written = secret.as_ref().and_then(|secret| secret.annotations().get(CLUSTER_UID));
            let seen = || seen.iter().find(|one| one.cluster_id == *name)?.uid.as_ref();
            if written.or_else(seen).is_some_and(|written| written == uid) {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// Writes down how to log in to a member.
    pub(super) async fn keep_secret(
        &self,
        name: &str,
        login: Login<'_>,
        labels: &Value,
    ) -> Result<(), Error> {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "koinon", MEMBER_SECRET: "true"},
                "annotations": {CLUSTER_UID: login.uid, SERVER: login.server},
            },
            "stringData": login.data,
        });
        secret["stringData"][SERVER_KEY] = login.server.into();
        for (label, value) in labels.as_object().into_iter().flatten() {
            secret["metadata"]["labels"][label] = value.clone();
        }
        let secret: Secret = serde_json::from_value(secret).expect("a Secret is a Secret");
        // Written as a whole: with apply, a key of the other kind of login would stay.
        let written = match self.secret(name).await? {
            Some(before) => {
                let mut secret = secret;
                secret.metadata.resource_version = before.metadata.resource_version;
                within_deadline(self.secrets().replace(name, &PostParams::default(), &secret)).await
            }
            None => within_deadline(self.secrets().create(&PostParams::default(), &secret)).await,
        };
        written.map(drop).map_err(|error| Error::asked(Whose::Federation, "write the member's Secret", error))
    }

    pub(super) async fn drop_secret(&self, secret: &Secret) -> Result<(), Error> {
        let preconditions = Preconditions { uid: secret.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match within_deadline(self.secrets().delete(&secret.name_any(), &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_object_absent() => Ok(()),
            Err(error) => Err(Error::asked(Whose::Federation, "delete the member's Secret", error)),
        }
    }

    /// Writes a member down, or what changed about it, unless the cluster with this UID is in the federation under another
    /// name by then. Says whether anything changed.
    pub(super) async fn enter(
        &self,
        name: &ClusterId,
        server: &str,
        secret: &str,
        uid: &str,
    ) -> Result<bool, Error> {
        let entry = MemberCluster {
            cluster_id: Claimed { name: None, value: name.to_string() },
            server: server.to_owned(),
            secret: secret.to_owned(),
        };
        let change = |members: &mut Vec<MemberCluster>| {
            match members.iter_mut().find(|one| one.cluster_id.value == entry.cluster_id.value) {
                Some(known) if *known == entry => return false,
                Some(known) => *known = entry.clone(),
                None => members.push(entry.clone()),
            }
            true
        };
        // Asked of the very Federation that is written over: of two who enter at once, the second sees the first.
        let check = async |federation: &Federation| match self.member_with(federation, uid).await? {
            Some(known) if known != name.as_str() => Err(Error::SameCluster { known }),
            _ => Ok(()),
        };
        self.change_if(check, change).await
    }

    /// Strikes a member out. Says whether it was there.
    pub(super) async fn strike(&self, name: &str) -> Result<bool, Error> {
        self.change(|members| {
            let before = members.len();
            members.retain(|one| one.cluster_id.value != name);
            members.len() != before
        })
        .await
    }

    pub(super) async fn change(
        &self,
        change: impl Fn(&mut Vec<MemberCluster>) -> bool,
    ) -> Result<bool, Error> {
        self.change_if(async |_| Ok(()), change).await
    }

    /// Changes the members, and only a Federation that passes the check.
    async fn change_if(
        &self,
        check: impl AsyncFn(&Federation) -> Result<(), Error>,
        change: impl Fn(&mut Vec<MemberCluster>) -> bool,
    ) -> Result<bool, Error> {
        let params = PostParams { field_manager: Some("koinon".into()), ..PostParams::default() };
        let mut attempt = 0;
        loop {
            let known = self.federation().await?;
            let is_new = known.is_none();
            let mut federation = known.unwrap_or_else(|| Federation {
                metadata: ObjectMeta {
                    name: Some(FEDERATION_NAME.into()),
                    namespace: Some(self.namespace.into()),
                    ..ObjectMeta::default()
                },
                spec: FederationSpec::default(),
                status: None,
            });
            check(&federation).await?;
            if !change(&mut federation.spec.members) {
                return Ok(false);
            }
            let api = self.federations_here();
            let written = if is_new {
                within_deadline(api.create(&params, &federation)).await
            } else {
                within_deadline(api.replace(&federation.name_any(), &params, &federation)).await
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(Error::asked(Whose::Federation, "write the Federation", error)),
            }
        }
    }

    fn federations(&self) -> Api<Federation> {
        Api::all(self.client.clone())
    }

    fn federations_here(&self) -> Api<Federation> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }
}

/// While a server takes a new kind in it says to come back.
fn is_taken_in(error: &call::Error) -> bool {
    error.code() == Some(429)
}

pub(super) use koinon_control::writes::cluster_uid as uid;

/// Applies an object of ours as a whole. Others have no business with objects of these names, so that it wins
/// over whatever else was written to the same fields.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, call::Error> {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("what is applied is an object");
    let types = object.types.clone().unwrap_or_default();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = types.kind.to_lowercase();
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: types.api_version.clone(),
        kind: types.kind.clone(),
        plural,
    };
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("koinon").force();
    within_deadline(api.patch(&object.name_any(), &params, &Patch::Apply(&object))).await
}
