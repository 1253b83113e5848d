//! Federated Services: a pod that becomes ready on its way to all members, beside the bare writes that it cannot do without;
//! what many Services cost a leader; and what a rolling restart costs everybody.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::league::{PATIENCE, Role};
use crate::measure::{median, p99};
use crate::sites::{SYSTEM, Site, Sites, WORK, until_quiet};

const JOINS: &str = "svc.global.federated.antreaplus.vmware-tanzu.com";
/// So many objects are made at a time.
const AT_ONCE: usize = 32;
/// So many endpoints are in one EndpointSlice, as Kubernetes' own controller does it.
const SLICE: usize = 100;

/// How large everything is.
pub(crate) struct Sizes {
    pub(crate) members: usize,
    pub(crate) services: usize,
    pub(crate) endpoints: usize,
    pub(crate) pods: usize,
    pub(crate) rounds: usize,
}

/// Measures and gives the table.
pub(crate) async fn run(sizes: Sizes) -> Result<String> {
    let Sizes { members, services, endpoints, pods, rounds } = sizes;
    let sites = Sites::start(members, Vec::new(), &["/services", "/endpointslices"]).await?;
    let source = sites.all.get(1).context("there are two members")?;
    source.serve("hot", &pods_of(endpoints, 0)).await?;
    for site in &sites.all {
        site.write(SYSTEM, "bare-0", "bare", &pods_of(endpoints, 0)).await?;
    }
    let role = Role::network(sites.folder.path())?;
    try_join_all(sites.all.iter().map(|site| site.until_slices("hot", 1))).await?;
    until_quiet(&sites.all).await;
    let one = one_pod(&sites.all, source, endpoints, rounds).await?;
    let restart = rolling(&sites.all, source, pods).await?;
    source.services().delete("hot", &Default::default()).await?;
    source.services().delete("many", &Default::default()).await?;
    until_quiet(&sites.all).await;
    let before = role.resident()?;
    let many = many(&sites.all, &role, services, endpoints).await?;
    let memory = role.resident()?;
    role.stop()?;
    let role = Role::network(sites.folder.path())?;
    role.until_measured("koinon_services_federated", (services * members) as f64).await?;
    let again = role.since.elapsed().as_secs_f64();
    until_quiet(&sites.all).await;
    let rewritten = sites.all.iter().map(|site| site.meter.writes()).sum::<usize>() as f64 - many.total;
    role.stop()?;

    let mut table = format!(
        "# Federated Services beside bare writes\n\n{members} embedded members over HTTPS on one machine, in memory; one supervisor is a \
         process of its own and leads them all.\nMade by `cargo run --release -p koinon-benches -- services`.\n\n| | |\n|---|---:|\n"
    );
    for (name, value) in [
        (
            format!(
                "one pod of {endpoints} becomes ready in one member, until the last member's slice shows it, p50, ms"
            ),
            one.through.0,
        ),
        ("the same, p99, ms".into(), one.through.1),
        ("the same writes by a bare client at once, p50, ms".into(), one.alone.0),
        ("the same, p99, ms".into(), one.alone.1),
        ("beside the bare client, p50".into(), one.through.0 / one.alone.0),
        (
            format!("{pods} pods restarted one by one: writes for each change and remote member"),
            restart.writes,
        ),
        ("the same, at most in one member".into(), restart.most),
        ("from the last change until the last member shows it, ms".into(), restart.last),
        (
            format!(
                "{services} Services with {endpoints} endpoints in each of {members} members: from the first annotation until all are everywhere, s"
            ),
            many.converged,
        ),
        ("writes a second meanwhile".into(), many.writes / many.converged),
        ("watches in each member".into(), many.watches),
        ("bytes read from each member, MiB".into(), many.bytes / MIB),
        ("resident memory of the leader before, MiB".into(), before),
        ("resident memory of the leader after, MiB".into(), memory),
        ("from the start of another leader until it knows all of it, s".into(), again),
        ("what that writes".into(), rewritten),
    ] {
        writeln!(table, "| {name} | {value:.2} |")?;
    }
    Ok(table)
}

const MIB: f64 = 1024.0 * 1024.0;

/// Medians and the worst of hundred, in milliseconds.
struct OnePod {
    through: (f64, f64),
    alone: (f64, f64),
}

/// One pod changes in one member: how long until all have it, through the federation and by bare writes, in turns.
async fn one_pod(sites: &[Site], source: &Site, endpoints: usize, rounds: usize) -> Result<OnePod> {
    let (mut through, mut alone) = (Vec::new(), Vec::new());
    // The first finds everything cold, on both sides.
    for round in 1..=rounds + 1 {
        let pods = pods_of(endpoints, round);
        let mark = &pods[0];
        let edit = source.write(WORK, "hot-0", "hot", &pods);
        let elsewhere: Vec<&Site> = sites.iter().filter(|site| site.name != source.name).collect();
        through.push(everywhere(&elsewhere, "hot", mark, edit).await?);
        until_quiet(sites).await;
        let writes = elsewhere.iter().map(|site| site.write(SYSTEM, "bare-0", "bare", &pods));
        alone.push(everywhere(&elsewhere, "bare", mark, try_join_all(writes)).await?);
    }
    let figures = |times: Vec<Duration>| {
        let times = times[1..].to_vec();
        let middle = median(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect());
        (middle, p99(times))
    };
    Ok(OnePod { through: figures(through), alone: figures(alone) })
}

/// The time from `edit` until an EndpointSlice of the Service shows the address in every member.
async fn everywhere<T>(
    sites: &[&Site],
    service: &str,
    address: &str,
    edit: impl Future<Output = Result<T>>,
) -> Result<Duration> {
    let params = WatchParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut watches = Vec::new();
    for site in sites {
        watches.push(site.slices(SYSTEM).watch(&params, "0").await?.boxed());
    }
    let begun = Instant::now();
    edit.await?;
    let arrivals = watches.into_iter().map(|mut events| async move {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(slice) | WatchEvent::Modified(slice) = event
                && slice.endpoints.iter().flatten().any(|one| one.addresses.iter().any(|one| one == address))
            {
                return Ok(());
            }
        }
        Err(anyhow!("a watch ended before the change came"))
    });
    tokio::time::timeout(PATIENCE, try_join_all(arrivals)).await.context("the change does not arrive")??;
    Ok(begun.elapsed())
}

struct Restart {
    /// For each change and remote member.
    writes: f64,
    most: f64,
    last: f64,
}

/// All pods of a Service are replaced, one after the other, as fast as its own cluster writes that.
async fn rolling(sites: &[Site], source: &Site, pods: usize) -> Result<Restart> {
    let elsewhere: Vec<&Site> = sites.iter().filter(|site| site.name != source.name).collect();
    let mut addresses = pods_of(pods, 0);
    source.serve("many", &addresses).await?;
    try_join_all(elsewhere.iter().map(|site| site.until_slices("many", pods.div_ceil(SLICE)))).await?;
    until_quiet(sites).await;
    let before: Vec<usize> = elsewhere.iter().map(|site| site.meter.writes()).collect();
    for pod in 0..pods - 1 {
        addresses[pod] = address(pod, 1);
        source.write_part("many", &addresses, pod / SLICE).await?;
    }
    addresses[pods - 1] = address(pods - 1, 1);
    let edit = source.write_part("many", &addresses, (pods - 1) / SLICE);
    let last = everywhere(&elsewhere, "many", &addresses[pods - 1], edit).await?;
    until_quiet(sites).await;
    let counts: Vec<f64> = elsewhere
        .iter()
        .zip(before)
        .map(|(site, before)| (site.meter.writes() - before) as f64 / pods as f64)
        .collect();
    let most = counts.iter().copied().fold(0.0, f64::max);
    ensure!(most <= 1.0, "more than one write for each change: {most:.2}");
    let writes = counts.iter().sum::<f64>() / counts.len() as f64;
    Ok(Restart { writes, most, last: last.as_secs_f64() * 1000.0 })
}

struct Many {
    converged: f64,
    writes: f64,
    /// Of all time.
    total: f64,
    watches: f64,
    bytes: f64,
}

/// Every member has a Service for every federated one.
async fn many(sites: &[Site], role: &Role, services: usize, endpoints: usize) -> Result<Many> {
    let before: usize = sites.iter().map(|site| site.meter.writes()).sum();
    let begun = Instant::now();
    let made =
        stream::iter(0..services).flat_map(|number| stream::iter(sites).map(move |site| (number, site)));
    made.map(|(number, site)| async move { site.serve(&format!("s{number}"), &pods_of(endpoints, 0)).await })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    for site in sites {
        site.until_all(services).await?;
    }
    let converged = begun.elapsed().as_secs_f64();
    until_quiet(sites).await;
    let total = sites.iter().map(|site| site.meter.writes()).sum::<usize>();
    let each = sites.len() as f64;
    let watches = sites.iter().map(|site| site.meter.watches()).sum::<usize>() as f64 / each;
    let bytes = sites.iter().map(|site| site.meter.bytes()).sum::<usize>() as f64 / each;
    ensure!(role.measured("koinon_services_federated").await? > 0.0, "the leader says what it leads");
    Ok(Many { converged, writes: (total - before) as f64, total: total as f64, watches, bytes })
}

impl Site {
    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), WORK)
    }

    fn slices(&self, namespace: &str) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A Service that joins the federated one of its name, and its pods.
    async fn serve(&self, name: &str, addresses: &[String]) -> Result<()> {
        for part in 0..addresses.len().div_ceil(SLICE) {
            self.write_part(name, addresses, part).await?;
        }
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": {JOINS: name}},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        }))?;
        self.services().create(&PostParams::default(), &service).await?;
        Ok(())
    }

    /// Writes one EndpointSlice of a Service.
    async fn write_part(&self, service: &str, addresses: &[String], part: usize) -> Result<()> {
        let addresses = &addresses[part * SLICE..((part + 1) * SLICE).min(addresses.len())];
        self.write(WORK, &format!("{service}-{part}"), service, addresses).await
    }

    async fn write(&self, namespace: &str, name: &str, service: &str, addresses: &[String]) -> Result<()> {
        // The very kind of write that the leader makes.
        let (api, slice) = (self.slices(namespace), serde_json::from_value(slice(name, service, addresses))?);
        match api.replace(name, &PostParams::default(), &slice).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                api.create(&PostParams::default(), &slice).await?;
            }
            written => drop(written?),
        }
        Ok(())
    }

    /// Waits until the federated Service has so many EndpointSlices here.
    async fn until_slices(&self, service: &str, count: usize) -> Result<()> {
        let params = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        self.until(&params, count).await
    }

    /// Waits until so many federated Services have their endpoints here.
    async fn until_all(&self, services: usize) -> Result<()> {
        let params =
            ListParams::default().labels("endpointslice.kubernetes.io/managed-by=federation.koinon.dev");
        self.until(&params, services).await
    }

    async fn until(&self, params: &ListParams, count: usize) -> Result<()> {
        let begun = Instant::now();
        while self.slices(SYSTEM).list_metadata(params).await?.items.len() < count {
            ensure!(begun.elapsed() < PATIENCE, "{} does not get its EndpointSlices", self.name);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

fn slice(name: &str, service: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "node-1"}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// Addresses of so many pods; the first is another in every round.
fn pods_of(count: usize, round: usize) -> Vec<String> {
    (0..count).map(|pod| address(pod, if pod == 0 { round } else { 0 })).collect()
}

fn address(pod: usize, round: usize) -> String {
    format!("10.{}.{}.{}", round % 200 + 1, pod / 250, pod % 250 + 1)
}
