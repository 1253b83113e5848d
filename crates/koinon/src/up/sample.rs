//! `koinon up --sample`: something to look at.

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use koinon_control::call::within_deadline;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

const NAME: &str = "hello";

/// Creates a Deployment over all members, the first twice as heavy as the others, unless there is one of its name.
pub(super) async fn put(client: &Client, first: &str) -> anyhow::Result<()> {
    let preferences = json!({"rebalance": true, "clusters": {"*": {"weight": 1}, first: {"weight": 2}}});
    let labels = json!({"app": NAME});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": NAME, "annotations": {
            "federation.kubernetes.io/deployment-preferences": preferences.to_string(),
            "kubernetes.io/change-cause": "koinon up --sample",
        }},
        "spec": {"replicas": 8, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "hello", "image": "hello:1"}]},
        }},
    }))?;
    let api: Api<Deployment> = Api::namespaced(client.clone(), "default");
    match within_deadline(api.create(&PostParams::default(), &deployment)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error).context("the sample cannot be created"),
    }
}
