//! Leaders that are lost in every way there is: the next one follows, and there are never two.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{HURRY, address, member, members, until_federation, until_led_by};
use crate::engine::{Build, Running};
use crate::league::wire::Wire;
use crate::union::{FEDERATION, SYSTEM, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const SUPERVISORS: [&str; 3] = ["a", "b", "c"];
/// The member whose leaders are lost, a child.
const WATCHED: usize = 4;
const SOURCE: &str = "cluster.federated.antreaplus.vmware-tanzu.com";

pub(super) async fn followed(world: Arc<World>) -> anyhow::Result<()> {
    let (mut union, running) = five(&world).await?;
    let mut homes = BTreeMap::new();
    let outcome = lose(&mut union, &mut homes).await;
    // Whatever came of it: Services that stay would join whatever federation is founded next.
    for home in homes.into_values() {
        home.leave().await?;
    }
    let outcome = match outcome {
        Ok(()) => union.dissolve().await,
        failed => failed,
    };
    for one in running {
        one.stop().await;
    }
    outcome
}

async fn lose(union: &mut Union, homes: &mut BTreeMap<&'static str, Room>) -> anyhow::Result<()> {
    let wires = federate(union).await?;
    for index in 0..SUPERVISORS.len() {
        union.start_role(index, &HURRY).await?;
    }
    for site in &union.sites {
        until_led_by(site, &SUPERVISORS).await?;
    }
    let journals: Vec<Journal> = union.sites.iter().map(Journal::start).collect();
    let journal = &journals[WATCHED];
    for site in &union.sites[..2] {
        homes.insert(site.name, Room::open(site.room.cluster.clone(), "formation-leaders").await?);
    }
    members::serve(&homes["a"]).await?;
    journal.until_from(&["a"]).await?;

    // The leader is killed: all that it led are led by others.
    let killed = index_of(union, &union.sites[WATCHED].leader().await?)?;
    let role = union.sites[killed].role.take().context("it runs")?;
    role.signal("KILL").await?;
    role.stop().await;
    for site in &union.sites {
        until_led_by(site, &without(union, killed)).await?;
    }
    union.start_role(killed, &HURRY).await?;

    // The leader freezes past its lease; meanwhile its follower works.
    let frozen = index_of(union, &union.sites[WATCHED].leader().await?)?;
    let frozen_name = union.sites[frozen].name;
    for site in union.sites[..SUPERVISORS.len()].iter().filter(|site| site.name != frozen_name) {
        until_federation(site, "it knows who leads e", |federation| {
            member(federation, "e")["leader"] == frozen_name
        })
        .await?;
    }
    union.sites[frozen].role.as_ref().context("it runs")?.signal("STOP").await?;
    let leader = until_led_by(&union.sites[WATCHED], &without(union, frozen)).await?;
    members::serve(&homes["b"]).await?;
    journal.until_from(&["a", "b"]).await?;
    let written = journal.slices();
    union.sites[frozen].role.as_ref().context("it runs")?.signal("CONT").await?;
    // When it has looked around, it knows that it does not lead any more, and has undone nothing.
    until_federation(&union.sites[frozen], "it knows that another leads e", |federation| {
        let e = member(federation, "e");
        e["leader"] == leader.as_str() && e["isLeader"] == false
    })
    .await?;
    journal.until_from(&["a", "b"]).await?;
    anyhow::ensure!(journal.slices() == written, "who had lost the lead wrote: {:?}", journal.slices());

    // The leader is cut off from this one member: it goes on leading its own cluster.
    let lonely = index_of(union, &leader)?;
    let cut = &wires[&(union.sites[lonely].name, "e")];
    cut.cut();
    let next = until_led_by(&union.sites[WATCHED], &without(union, lonely)).await?;
    let own = &union.sites[lonely];
    anyhow::ensure!(SUPERVISORS.contains(&own.leader().await?.as_str()), "it is led all the time");
    until_federation(own, "it tells that e is lost to it", |federation| {
        member(federation, "e")["status"] == "Unreachable"
    })
    .await?;
    // What is not known is not gone, and what changes on this side arrives.
    homes["a"].kubectl(&["delete", "service", "foo"]).await?;
    journal.until_from(&["b"]).await?;
    cut.heal();
    until_federation(own, "it sees e again", |federation| {
        let e = member(federation, "e");
        e["status"] == "Reachable" && e["leader"] == next.as_str()
    })
    .await?;
    journal.until_from(&["b"]).await?;
    for (site, journal) in union.sites.iter().zip(&journals) {
        let terms = journal.check().with_context(|| format!("of {}", site.name))?;
        anyhow::ensure!(site.name != "e" || terms >= 3, "three leaders of e were lost, not {terms}");
    }
    Ok(())
}

/// Five clusters, of which two are only members.
async fn five(world: &Arc<World>) -> anyhow::Result<(Union, Vec<Running>)> {
    let mut union = Union::prepare(world).await?;
    let children = ["d", "e"].map(async |name| {
        let (running, cluster) = world.own_cluster(&format!("leaders-{name}"), Build::Bare).await?;
        let site = Site::furnish(Room::bare(cluster, SYSTEM).await?, name).await?;
        anyhow::Ok((running, site))
    });
    let (running, sites): (Vec<_>, Vec<_>) = try_join_all(children).await?.into_iter().unzip();
    union.sites.extend(sites);
    Ok((union, running))
}

/// Tells the clusters of each other; each supervisor has a wire of its own to each other cluster.
async fn federate(union: &Union) -> anyhow::Result<BTreeMap<(&'static str, &'static str), Wire>> {
    let mut wires = BTreeMap::new();
    for site in &union.sites {
        let mut entries = Vec::new();
        if SUPERVISORS.contains(&site.name) {
            for other in &union.sites {
                let mut entry = site.entry_for(other).await?;
                let wire = Wire::open(address(other)?).await?;
                entry["server"] = format!("https://{}", wire.address).into();
                wires.insert((site.name, other.name), wire);
                entries.push(entry);
            }
            site.claim("supervisor.antreaplus.tanzu-vmware.com", "true").await?;
        }
        site.claim("id.k8s.io", site.name).await?;
        site.apply(&json!({
            "apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": entries},
        }))
        .await?;
    }
    Ok(wires)
}

/// The supervisors but for one.
fn without(union: &Union, index: usize) -> Vec<&'static str> {
    SUPERVISORS.into_iter().filter(|name| *name != union.sites[index].name).collect()
}

fn index_of(union: &Union, name: &str) -> anyhow::Result<usize> {
    union.sites.iter().position(|site| site.name == name).with_context(|| format!("{name} is a site"))
}

/// Everything that ever happened to the lease of a member and to what its leader makes there.
struct Journal {
    seen: Arc<Mutex<Seen>>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct Seen {
    /// Holder and number of the term, after each change.
    terms: Vec<(String, i32)>,
    /// The slices of `foo` from other clusters.
    slices: BTreeMap<String, Slice>,
}

#[derive(Clone, Debug, PartialEq)]
struct Slice {
    from: String,
    ready: usize,
    version: String,
}

impl Journal {
    fn start(site: &Site) -> Journal {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let client = site.room.cluster.client.clone();
        let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", site.name));
        let known = seen.clone();
        let leases = tokio::spawn(watcher::watcher(leases, config).for_each(move |event| {
            if let Ok(Event::Apply(lease) | Event::InitApply(lease)) = event {
                let spec = lease.spec.unwrap_or_default();
                let term = (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or(0));
                known.lock().terms.push(term);
            }
            std::future::ready(())
        }));
        let slices: Api<EndpointSlice> = Api::namespaced(client, SYSTEM);
        let config = watcher::Config::default().labels("kubernetes.io/service-name=foo");
        let known = seen.clone();
        let slices = tokio::spawn(watcher::watcher(slices, config).for_each(move |event| {
            let mut seen = known.lock();
            match event {
                Ok(Event::Apply(slice) | Event::InitApply(slice)) => {
                    let is_ready =
                        |one: &&Endpoint| one.conditions.as_ref().and_then(|one| one.ready) == Some(true);
                    let known = Slice {
                        from: slice.annotations().get(SOURCE).cloned().unwrap_or_default(),
                        ready: slice.endpoints.iter().flatten().filter(is_ready).count(),
                        version: slice.resource_version().unwrap_or_default(),
                    };
                    seen.slices.insert(slice.name_any(), known);
                }
                Ok(Event::Delete(slice)) => drop(seen.slices.remove(&slice.name_any())),
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            std::future::ready(())
        }));
        Journal { seen, tasks: [leases, slices] }
    }

    fn slices(&self) -> BTreeMap<String, Slice> {
        self.seen.lock().slices.clone()
    }

    /// Waits until `foo` leads to a ready endpoint of each of these clusters, and nowhere else.
    async fn until_from(&self, clusters: &[&str]) -> anyhow::Result<()> {
        until(&format!("foo leads to {clusters:?}"), async || {
            let slices = self.slices();
            let mut from: Vec<&str> = slices.values().map(|slice| slice.from.as_str()).collect();
            from.sort_unstable();
            let are_ready = slices.values().all(|slice| slice.ready == 1);
            Ok(if from == clusters && are_ready {
                Look::Found(())
            } else {
                Look::NotYet(format!("{slices:?}"))
            })
        })
        .await
    }

    /// Each term had one holder, and a term that was over never came back. Says how many there were after the first.
    fn check(&self) -> anyhow::Result<i32> {
        let seen = self.seen.lock();
        let mut last = ("", 0);
        for (holder, term) in &seen.terms {
            let same = *term == last.1 && (holder == last.0 || holder.is_empty() || last.0.is_empty());
            anyhow::ensure!(*term > last.1 || same, "two holders of one term: {:?}", seen.terms);
            if !holder.is_empty() {
                last = (holder, *term);
            }
        }
        Ok(last.1)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
