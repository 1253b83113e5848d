//! Leaders that are lost in every way there is: the next one follows, and there are never two.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{HURRY, address, member, members, until_federation, until_led_by};
use crate::league::wire::Wire;
use crate::union::{FEDERATION, SUPERVISORS, SYSTEM, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const SOURCE: &str = "cluster.federated.antreaplus.vmware-tanzu.com";

pub(super) async fn followed(world: Arc<World>) -> anyhow::Result<()> {
    let mut union = Union::prepare(&world).await?;
    let wires = federate(&union).await?;
    for index in 0..SUPERVISORS.len() {
        union.start_role(index, &HURRY).await?;
    }
    let leader = until_led_by(&union.sites[2], &SUPERVISORS).await?;
    let journal = Journal::start(&union.sites[2]);
    let mut homes = BTreeMap::new();
    for site in &union.sites[..2] {
        homes.insert(site.name, Room::open(site.room.cluster.clone(), "formation-leaders").await?);
    }
    members::serve(&homes["a"]).await?;
    journal.until_from(&["a"]).await?;

    // The leader is killed.
    let at = index_of(&union, &leader)?;
    let role = union.sites[at].role.take().context("it runs")?;
    role.signal("KILL").await?;
    role.stop().await;
    let next = other(&leader);
    until_led_by(&union.sites[2], &[next]).await?;
    union.start_role(at, &HURRY).await?;

    // The leader freezes past its lease; meanwhile its follower works.
    let (frozen, leader) = (next, other(next));
    let at = index_of(&union, frozen)?;
    until_federation(&union.sites[index_of(&union, leader)?], "it knows who leads c", |federation| {
        member(federation, "c")["leader"] == frozen
    })
    .await?;
    union.sites[at].role.as_ref().context("it runs")?.signal("STOP").await?;
    until_led_by(&union.sites[2], &[leader]).await?;
    members::serve(&homes["b"]).await?;
    journal.until_from(&["a", "b"]).await?;
    let written = journal.slices();
    union.sites[at].role.as_ref().context("it runs")?.signal("CONT").await?;
    // When it has looked around, it knows that it does not lead any more, and has undone nothing.
    until_federation(&union.sites[at], "it knows that another leads c", |federation| {
        let c = member(federation, "c");
        c["leader"] == leader && c["isLeader"] == false
    })
    .await?;
    journal.until_from(&["a", "b"]).await?;
    anyhow::ensure!(journal.slices() == written, "who had lost the lead wrote: {:?}", journal.slices());

    // The leader is cut off from this one member: it goes on leading its own cluster.
    let cut = &wires[&(leader, "c")];
    cut.cut();
    until_led_by(&union.sites[2], &[frozen]).await?;
    let own = &union.sites[index_of(&union, leader)?];
    anyhow::ensure!(SUPERVISORS.contains(&own.leader().await?.as_str()), "it is led all the time");
    until_federation(own, "it tells that c is lost to it", |federation| {
        member(federation, "c")["status"] == "Unreachable"
    })
    .await?;
    // What is not known is not gone, and what changes on this side arrives.
    homes["a"].kubectl(&["delete", "service", "foo"]).await?;
    journal.until_from(&["b"]).await?;
    cut.heal();
    until_federation(own, "it sees c again", |federation| {
        let c = member(federation, "c");
        c["status"] == "Reachable" && c["leader"] == frozen
    })
    .await?;
    journal.until_from(&["b"]).await?;
    journal.check()?;
    for home in homes.into_values() {
        home.leave().await?;
    }
    union.dissolve().await
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

fn other(leader: &str) -> &'static str {
    if leader == "a" { "b" } else { "a" }
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

    /// Each term had one holder, and a term that was over never came back.
    fn check(&self) -> anyhow::Result<()> {
        let seen = self.seen.lock();
        let mut last = ("", 0);
        for (holder, term) in &seen.terms {
            let same = *term == last.1 && (holder == last.0 || holder.is_empty() || last.0.is_empty());
            anyhow::ensure!(*term > last.1 || same, "two holders of one term: {:?}", seen.terms);
            if !holder.is_empty() {
                last = (holder, *term);
            }
        }
        anyhow::ensure!(last.1 >= 3, "three leaders were lost: {:?}", seen.terms);
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
