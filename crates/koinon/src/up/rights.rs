//! The accounts that the roles of `up` work with: in each cluster those that `koinon install rbac` prints, with its rights
//! and no others.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_api::membership::{KOINON_NAMESPACE, MEMBER_SECRET, NETWORK_NAMESPACE};
use koinon_api::rights::{Account, namespace, role};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::identity::{service_account_groups, service_account_user};
use koinon_control::call::within_deadline;
use koinon_fleet::membership::{Scope, apply, rbac};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The workloads role on the federation's API server.
pub(super) const WORKLOADS: Account<'static> =
    Account { namespace: KOINON_NAMESPACE, name: koinon_workloads::NAME };
/// The same in a member. Not the account that `koinon join` makes: a member of `up` may join another federation too.
pub(super) const MEMBER: Account<'static> = Account { namespace: KOINON_NAMESPACE, name: "koinon-up" };
/// The network role beside the member that supervises the others.
pub(super) const SUPERVISOR: Account<'static> =
    Account { namespace: NETWORK_NAMESPACE, name: "koinon-network" };
/// The same in the members that it supervises.
pub(super) const SUPERVISED: Account<'static> =
    Account { namespace: NETWORK_NAMESPACE, name: "koinon-network-member" };
/// The sync role beside a robot's cluster.
pub(super) const SYNC: Account<'static> = Account { namespace: KOINON_NAMESPACE, name: "koinon-sync" };
/// The config role beside its cluster.
pub(super) const CONFIG: Account<'static> = Account { namespace: "avi-system", name: "koinon-config" };

/// Within this time a server knows a kind that was just defined.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// How long a token in a member's Secret lasts: every start puts a new one there.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// A call of this process with an account.
pub(super) fn user(account: Account<'_>) -> User {
    let Account { namespace, name } = account;
    let user = User { name: service_account_user(namespace, name), ..User::default() };
    User { groups: service_account_groups(namespace), ..user }.authenticated()
}

/// What the workloads role may do in a member of `up`.
pub(super) fn in_member() -> anyhow::Result<Vec<Value>> {
    let rules = rbac::rules(&Scope::Everywhere);
    let rules = rules.as_array().context("the rules are no list")?;
    Ok(vec![
        namespace(MEMBER.namespace),
        MEMBER.object(),
        role(MEMBER.name, None, rules),
        MEMBER.bind(MEMBER.name, None, MEMBER.name),
    ])
}

/// What the config role may do, with the namespace that it lives in.
pub(super) fn of_config() -> Vec<Value> {
    let mut all = vec![namespace(CONFIG.namespace)];
    all.extend(koinon_config::rbac());
    all
}

/// Applies objects in their order, also those whose kind was defined a moment ago.
pub(super) async fn put(
    client: &Client,
    cluster: &str,
    objects: impl IntoIterator<Item = Value>,
) -> anyhow::Result<()> {
    for mut object in objects {
        // Such a role's rules are the server's to gather: to write them would take them away for a moment.
        if object.get("aggregationRule").is_some()
            && let Some(role) = object.as_object_mut()
        {
            role.remove("rules");
        }
        served(client, &object).await.with_context(|| {
            format!("{} {} cannot be made in {cluster}", object["kind"], object["metadata"]["name"])
        })?;
    }
    Ok(())
}

async fn served(client: &Client, object: &Value) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match apply(client, object).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_path_unknown() && begun.elapsed() < SERVED_WITHIN => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes a Secret hold how to log in to a member, and nothing else: an earlier version kept an administrator's kubeconfig.
pub(super) async fn keep_login(
    client: &Client,
    namespace: &str,
    name: &str,
    login: &Value,
) -> anyhow::Result<()> {
    let failed = || format!("the Secret {namespace}/{name} cannot be written");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let before = within_deadline(secrets.get_opt(name)).await.with_context(failed)?;
    let mut secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {MEMBER_SECRET: "true"}},
        "stringData": login,
    }))?;
    let params = PostParams::default();
    match before {
        Some(before) => {
            secret.metadata.resource_version = before.metadata.resource_version;
            within_deadline(secrets.replace(name, &params, &secret)).await.with_context(failed)?;
        }
        None => drop(within_deadline(secrets.create(&params, &secret)).await.with_context(failed)?),
    }
    Ok(())
}

/// A token of an account, for somebody who runs a role by hand beside `up`.
pub(super) async fn token(client: &Client, account: Account<'_>) -> anyhow::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), account.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made =
        within_deadline(accounts.create_token_request(account.name, &PostParams::default(), &request)).await;
    let made = made.with_context(|| format!("the account {} gets no token", account.name))?;
    let token = made.status.and_then(|status| status.token);
    token.with_context(|| format!("the account {} got an empty token", account.name))
}
