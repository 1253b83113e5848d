//! Federated policies: an edit on its way to all members, beside the bare writes that it cannot do without.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use axum::Router;
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_control::Clock;
use koinon_fleet::election::{Elections, Timing};
use koinon_fleet::membership::{Formation, Part};
use koinon_fleet::{ClusterId, Fleet, Link, Metrics, Wanted};
use koinon_network::lead::lead;
use koinon_network::policies::key::Kind;
use koinon_network::policies::{self, Policies};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::measure::median;

/// Everything must have arrived by then, or something is broken.
const PATIENCE: Duration = Duration::from_secs(600);
const ANTREA: &str = include_str!("../../crates/network/data/antrea.json");
const MARK: &str = "federated.anp.antreaplus.vmware.com";
/// So many policies are made at once.
const AT_ONCE: usize = 16;

struct Site {
    id: ClusterId,
    /// What users do and see.
    client: Client,
    /// What leaders write to it, but for leases and events.
    writes: Arc<AtomicUsize>,
    router: Router,
}

/// Measures and gives the table.
pub(crate) async fn run(members: usize, policies: usize, rounds: usize) -> Result<String> {
    let mut sites = Vec::new();
    for number in 0..members {
        sites.push(Site::open(&format!("m{number:03}")).await?);
    }
    let first = sites.first().context("there is a member")?;
    for site in &sites {
        site.acnps().create(&PostParams::default(), &policy("bare", 1, false)?).await?;
    }
    let made = stream::iter(0..policies).map(|number| async move {
        first.acnps().create(&PostParams::default(), &policy(&format!("p{number}"), 1, true)?).await?;
        Ok::<_, anyhow::Error>(())
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let begun = Instant::now();
    let leading = tokio::spawn(supervise(&sites).await?);
    for site in &sites {
        site.until_has(policies + 1).await?;
    }
    let filled = begun.elapsed().as_secs_f64();
    let (mut bare, mut federated, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a noisy moment of the machine meets both.
    for round in 0..rounds {
        let says = i64::try_from(round)? + 2;
        until_quiet(&sites).await;
        let writes = try_join_all(sites.iter().map(|site| site.rewrite("bare", says))).await?;
        bare.push(everywhere(&sites, "bare", says, try_join_all(writes)).await?);
        until_quiet(&sites).await;
        let before = written(&sites);
        federated.push(everywhere(&sites, "p0", says, first.edit("p0", says)).await?);
        until_quiet(&sites).await;
        counted.push((written(&sites) - before) as f64);
    }
    leading.abort();
    let (bare, federated, counted) = (median(bare), median(federated), median(counted));
    let ledger = first.ledger().await?;
    let mut table = format!(
        "# Federated policies beside bare writes\n\n{policies} policies in {members} members, in memory in one process. Medians of {rounds} \
         rounds in turns.\nMade by `cargo run --release -p koinon-benches -- policies`.\n\n| | |\n|---|---:|\n"
    );
    writeln!(table, "| one edit in all members, bare writes at once | {bare:.1} ms |")?;
    writeln!(table, "| one edit in one member until all have it | {federated:.1} ms |")?;
    writeln!(table, "| beside bare writes | {:.2} |", federated / bare)?;
    writeln!(table, "| writes of leaders for one edit, ledgers included | {counted:.0} |")?;
    writeln!(table, "| ledger of one member | {:.0} KiB |", ledger as f64 / 1024.0)?;
    writeln!(table, "| all policies in all members, from the start of the supervisor | {filled:.1} s |")?;
    Ok(table)
}

impl Site {
    async fn open(name: &str) -> Result<Site> {
        let context = Context::real();
        let authority = Authority::in_memory(&context)?;
        let server = Server::open(Options::default(), &authority, context).await?;
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        let client = Client::new(router.clone(), "default");
        let site = Site { id: ClusterId::new(name)?, client, writes: Arc::default(), router };
        let definitions: Vec<Value> = serde_json::from_str(ANTREA)?;
        for definition in definitions.into_iter().chain(koinon_api::membership::crds()) {
            site.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "antrea-plus-system"}});
        site.create("/api/v1/namespaces", &namespace).await?;
        let federation = json!({
            "apiVersion": "federation.antreaplus.tanzu.vmware.com/v1alpha1", "kind": "Federation",
            "metadata": {"name": "federation"}, "spec": {},
        });
        let path =
            "/apis/federation.antreaplus.tanzu.vmware.com/v1alpha1/namespaces/antrea-plus-system/federations";
        let begun = Instant::now();
        // New definitions are served after a moment.
        while let Err(error) = site.create(path, &federation).await {
            ensure!(begun.elapsed() < PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(site)
    }

    async fn create(&self, path: &str, body: &Value) -> Result<()> {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(body)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    fn acnps(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Kind::Cluster.resource())
    }

    /// The way that the supervisor takes.
    fn link(&self) -> Client {
        let (router, writes) = (self.router.clone(), self.writes.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path();
            let counts = !path.contains("/leases") && !path.contains("/events");
            if request.method() != http::Method::GET && counts {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            router.clone().oneshot(request)
        });
        Client::new(service, "default")
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
            ensure!(begun.elapsed() < PATIENCE, "{} does not get its policies", self.id);
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

/// What a supervisor beside the first member does for all of them.
async fn supervise(sites: &[Site]) -> Result<impl Future<Output = ()> + Send + 'static> {
    let fleet = Fleet::new(koinon_fleet::Options::default(), Metrics::default(), Clock::default());
    let wanted: BTreeMap<_, _> = sites
        .iter()
        .map(|site| (site.id.clone(), Wanted { link: Link::Direct(site.link()), uid: None }))
        .collect();
    let me = sites.first().context("there is a member")?.id.clone();
    fleet.set(wanted).await;
    let formation = Formation {
        part: Part::Supervisor(me),
        federation: None,
        members: BTreeMap::new(),
        ignored: Vec::new(),
        problems: Vec::new(),
    };
    Ok(async move {
        let (_formed, formed) = watch::channel(Some(Arc::new(formation)));
        let elections = Elections::new(fleet.clone(), "bench", Timing::default());
        let policies =
            Policies::new(fleet.clone(), policies::Options::default(), policies::Metrics::default());
        tokio::select! {
            _ = elections.run(formed) => {}
            _ = lead(fleet, elections.clone(), vec![policies]) => {}
        }
    })
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
    sites.iter().map(|site| site.writes.load(Ordering::Relaxed)).sum()
}

/// Waits until leaders have not written for a moment.
async fn until_quiet(sites: &[Site]) {
    let mut before = written(sites);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = written(sites);
        if now == before {
            return;
        }
        before = now;
    }
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
