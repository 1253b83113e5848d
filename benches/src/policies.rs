//! Federated policies: an edit on its way to all members, beside the bare writes that it cannot do without.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use koinon_network::policies::key::Kind;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::league::{PATIENCE, Role};
use crate::measure::median;
use crate::sites::{Site, Sites, until_quiet};

const ANTREA: &str = include_str!("../../crates/network/data/antrea.json");
const MARK: &str = "federated.anp.antreaplus.vmware.com";
/// What leaders write.
const COUNTED: &[&str] = &["/clusternetworkpolicies", "/configmaps"];
/// So many policies are made at once.
const AT_ONCE: usize = 16;

/// Measures and gives the table.
pub(crate) async fn run(members: usize, policies: usize, rounds: usize) -> Result<String> {
    let started = Sites::start(members, serde_json::from_str(ANTREA)?, COUNTED).await?;
    let sites = &started.all[..];
    let first = sites.first().context("there is a member")?;
    for site in sites {
        site.acnps().create(&PostParams::default(), &policy("bare", 1, false)?).await?;
    }
    let made = stream::iter(0..policies).map(|number| async move {
        first.acnps().create(&PostParams::default(), &policy(&format!("p{number}"), 1, true)?).await?;
        Ok::<_, anyhow::Error>(())
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let begun = Instant::now();
    let role = Role::network(started.folder.path())?;
    for site in sites {
        site.until_has(policies + 1).await?;
    }
    let filled = begun.elapsed().as_secs_f64();
    let (mut bare, mut federated, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a noisy moment of the machine meets both.
    for round in 0..rounds {
        let says = i64::try_from(round)? + 2;
        until_quiet(sites).await;
        let writes = try_join_all(sites.iter().map(|site| site.rewrite("bare", says))).await?;
        bare.push(everywhere(sites, "bare", says, try_join_all(writes)).await?);
        until_quiet(sites).await;
        let before = written(sites);
        federated.push(everywhere(sites, "p0", says, first.edit("p0", says)).await?);
        until_quiet(sites).await;
        counted.push((written(sites) - before) as f64);
    }
    let (processor, memory) = (role.processor()?, role.resident()?);
    role.stop()?;
    let (bare, federated, counted) = (median(bare), median(federated), median(counted));
    let ledger = first.ledger().await?;
    let mut table = format!(
        "# Federated policies beside bare writes\n\n{policies} policies in {members} embedded members over HTTPS on one machine, in memory; one supervisor is a \
         process of its own and leads them all. Medians of {rounds} rounds in turns.\nMade by `cargo run --release -p koinon-benches -- policies`.\n\n| | |\n|---|---:|\n"
    );
    writeln!(table, "| one edit in all members, bare writes at once | {bare:.1} ms |")?;
    writeln!(table, "| one edit in one member until all have it | {federated:.1} ms |")?;
    writeln!(table, "| beside bare writes | {:.2} |", federated / bare)?;
    writeln!(table, "| writes of leaders for one edit, ledgers included | {counted:.0} |")?;
    writeln!(table, "| ledger of one member | {:.0} KiB |", ledger as f64 / 1024.0)?;
    writeln!(table, "| all policies in all members, from the start of the supervisor | {filled:.1} s |")?;
    writeln!(table, "| processor time of the leader until the end | {processor:.1} s |")?;
    writeln!(table, "| its resident memory | {memory:.0} MiB |")?;
    Ok(table)
}

impl Site {
    fn acnps(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Kind::Cluster.resource())
    }

    async fn edit(&self, name: &str, says: i64) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"priority": says}}));
        self.acnps().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// What a leader would send to make a policy say this, ready to be sent.
    async fn rewrite(&self, name: &str, says: i64) -> Result<impl Future<Output = Result<DynamicObject>>> {
        let before = self.acnps().get(name).await?;
        let annotations =
            json!({"bench.koinon.dev/mark": "true", "bench.koinon.dev/revision": says.to_string()});
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": before.uid()},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": before.resource_version()},
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/spec", "value": policy(name, says, false)?.data["spec"]},
        ]);
        let patch: json_patch::Patch = serde_json::from_value(patch)?;
        let (policies, name) = (self.acnps(), name.to_owned());
        Ok(
            async move { Ok(policies.patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch)).await?) },
        )
    }

    /// Waits until there are so many policies.
    async fn until_has(&self, policies: usize) -> Result<()> {
        let begun = Instant::now();
        while self.acnps().list_metadata(&ListParams::default()).await?.items.len() < policies {
            ensure!(begun.elapsed() < PATIENCE, "{} does not get its policies", self.name);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// How many bytes the ledger has.
    async fn ledger(&self) -> Result<usize> {
        let request = http::Request::get(
            "/api/v1/namespaces/antrea-plus-system/configmaps?labelSelector=koinon.dev/ledger%3Dpolicies",
        );
        let list: Value = self.client.request(request.body(Vec::new())?).await?;
        let maps = list["items"].as_array().into_iter().flatten();
        Ok(maps.filter_map(|map| map["data"]["ledger.json"].as_str()).map(str::len).sum())
    }
}

/// The milliseconds from `edit` until every member shows it.
async fn everywhere<T>(
    sites: &[Site],
    name: &str,
    says: i64,
    edit: impl Future<Output = Result<T>>,
) -> Result<f64> {
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut watches = Vec::new();
    for site in sites {
        watches.push(site.acnps().watch(&params, "0").await?.boxed());
    }
    let begun = Instant::now();
    edit.await?;
    let arrivals = watches.into_iter().map(|mut events| async move {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && object.data["spec"]["priority"] == json!(says)
            {
                return Ok(());
            }
        }
        Err(anyhow!("a watch ended before the edit came"))
    });
    tokio::time::timeout(PATIENCE, try_join_all(arrivals)).await.context("the edit does not arrive")??;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

fn written(sites: &[Site]) -> usize {
    sites.iter().map(|site| site.meter.writes()).sum()
}

fn policy(name: &str, says: i64, federated: bool) -> Result<DynamicObject> {
    let mut policy = json!({
        "apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
        "spec": {
            "priority": says,
            "appliedTo": [{"podSelector": {"matchLabels": {"app": name}}}],
            "ingress": [
                {"action": "Allow", "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"protocol": "TCP", "port": 443}]},
                {"action": "Drop", "from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]},
            ],
        },
    });
    if federated {
        policy["metadata"]["annotations"] = json!({MARK: "true"});
    }
    Ok(serde_json::from_value(policy)?)
}
