//! What `up` trusts and whom it lets in: an authority for each cluster, its data folder, its names, its dashboard.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::commands::{Up, client};
use super::{Scenario, api};
use crate::engine::koinon;
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        api("a_certificate_of_one_cluster_counts_in_that_one_alone", authorities),
        api("a_data_folder_with_one_authority_for_all_goes_on", earlier),
        api("a_data_folder_that_others_can_change_is_refused", shared_folder),
        api("a_kubeconfig_leads_where_others_can_go", serve_as),
    ]
}

/// The user of one context at the server of another.
async fn crossed(config: &Kubeconfig, user: &str, server: &str) -> anyhow::Result<Client> {
    let mut config = config.clone();
    for context in config.contexts.iter_mut().filter(|one| one.name == server) {
        let context = context.context.as_mut().context("a context")?;
        context.user = Some(user.into());
    }
    let options = KubeConfigOptions { context: Some(server.into()), ..Default::default() };
    let mut config = Config::from_custom_kubeconfig(config, &options).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The code of the answer to a list of all Secrets.
async fn asks_for_secrets(client: Client) -> u16 {
    match Api::<Secret>::all(client).list(&ListParams::default()).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

async fn authorities(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let up = Up::start(place.path(), &["--members", "a,b"]).await?;
    let config = Kubeconfig::read_from(place.path().join("kubeconfig"))?;
    for user in ["federation", "a", "b"] {
        for server in ["federation", "a", "b"] {
            let code = asks_for_secrets(crossed(&config, user, server).await?).await;
            let wanted = if user == server { 200 } else { 401 };
            ensure!(code == wanted, "the administrator of {user} got {code} from {server}");
        }
    }
    // What a role would log in with is no administrator anywhere.
    let kept = [("federation", "koinon-system"), ("a", "antrea-plus-system")];
    for (cluster, namespace) in kept {
        let secrets: Api<Secret> = Api::namespaced(client(place.path(), cluster).await?, namespace);
        let secret = secrets.get("member-b").await.with_context(|| format!("in {cluster}"))?;
        let data = secret.data.unwrap_or_default();
        ensure!(!data.contains_key("kubeconfig"), "a kubeconfig in {cluster}");
        let token = String::from_utf8(data["token"].0.clone())?;
        let mut logged_in = config.clone();
        for user in &mut logged_in.auth_infos {
            let info = user.auth_info.as_mut().context("a user")?;
            (info.client_certificate_data, info.client_key_data) = (None, None);
            info.token = Some(token.clone().into());
        }
        let code = async |server: &str| {
            anyhow::Ok(asks_for_secrets(crossed(&logged_in, server, server).await?).await)
        };
        ensure!(code("b").await? == 403, "{cluster}'s login to b is {} there", code("b").await?);
        for other in ["federation", "a"] {
            ensure!(code(other).await? == 401, "{cluster}'s login to b counts in {other}");
        }
    }
    up.interrupt().await
}

/// Lays the folder out as versions did that had one authority for all.
fn as_earlier(data: &Path, members: &[&str]) -> anyhow::Result<()> {
    std::fs::rename(data.join("federation/pki"), data.join("pki"))?;
    for member in members {
        std::fs::remove_dir_all(data.join("members").join(member).join("pki"))?;
    }
    Ok(())
}

async fn earlier(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let up = Up::start(place.path(), &["--members", "a"]).await?;
    for context in ["federation", "a"] {
        let note: ConfigMap = serde_json::from_value(json!({"metadata": {"name": context}}))?;
        let notes: Api<ConfigMap> = Api::default_namespaced(client(place.path(), context).await?);
        notes.create(&PostParams::default(), &note).await?;
    }
    let before = Kubeconfig::read_from(place.path().join("kubeconfig"))?;
    up.interrupt().await?;
    as_earlier(place.path(), &["a"])?;
    let up = Up::start(place.path(), &["--members", "a"]).await?;
    let now = Kubeconfig::read_from(place.path().join("kubeconfig"))?;
    for context in ["federation", "a"] {
        let notes: Api<ConfigMap> = Api::default_namespaced(client(place.path(), context).await?);
        notes.get(context).await.with_context(|| format!("in {context}"))?;
        // The administrator of all that there was is nobody any more.
        let mut mixed = now.clone();
        mixed.auth_infos.clone_from(&before.auth_infos);
        let code = asks_for_secrets(crossed(&mixed, "federation", context).await?).await;
        ensure!(code == 401, "the earlier administrator got {code} from {context}");
    }
    ensure!(!place.path().join("pki").exists(), "the keys of the earlier authority are still there");
    up.interrupt().await
}

async fn complaint(arguments: &[&str]) -> anyhow::Result<(i32, String)> {
    let mut command = Command::new(koinon());
    let output = command.args(arguments).kill_on_drop(true).stdin(Stdio::null()).output().await?;
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned()))
}

async fn shared_folder(_: Arc<World>) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let place = TempDir::new()?;
    let data = place.path().join("data");
    std::fs::create_dir(&data)?;
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777))?;
    let path = data.to_str().context("a path")?;
    let calls: [&[&str]; 2] = [&["up"], &["cluster", "--name", "c"]];
    for call in calls {
        let (code, text) = complaint(&[call, &["--listen", "127.0.0.1:0", "--data", path]].concat()).await?;
        ensure!(code == 1 && text.contains("chmod go-w") && text.contains(path), "{code}: {text}");
    }
    Ok(())
}

async fn serve_as(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let up = Up::start(place.path(), &["--members", "a", "--serve-as", "localhost,192.0.2.7"]).await?;
    let config = Kubeconfig::read_from(place.path().join("kubeconfig"))?;
    for cluster in &config.clusters {
        let server = cluster.cluster.as_ref().and_then(|one| one.server.clone()).unwrap_or_default();
        ensure!(server.starts_with("https://localhost:"), "{server}");
    }
    let federation: Api<ConfigMap> = Api::default_namespaced(client(place.path(), "federation").await?);
    federation.list(&ListParams::default()).await.context("by the name it was given")?;
    up.interrupt().await?;
    let (code, text) = complaint(&["up", "--serve-as", "0.0.0.0"]).await?;
    ensure!(code == 2 && text.contains("all addresses of a machine"), "{code}: {text}");
    Ok(())
}
