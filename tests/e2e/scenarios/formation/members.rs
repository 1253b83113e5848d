//! Members that come and go, supervisors that cease to be, and a child that idles.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{HURRY, object, set_members, until_federation, until_led_by, until_said};
use crate::union::{FEDERATION, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) async fn come_and_go(world: Arc<World>) -> anyhow::Result<()> {
    let mut union = Union::prepare(&world).await?;
    let supervisor = "supervisor.antreaplus.tanzu-vmware.com";
    let mut entries: [Vec<Value>; 2] = Default::default();
    for (index, entries) in entries.iter_mut().enumerate() {
        let site = &union.sites[index];
        for other in &union.sites {
            entries.push(site.entry_for(other).await?);
        }
        site.claim(supervisor, "true").await?;
        site.claim("id.k8s.io", site.name).await?;
        site.apply(&federation(&entries[..2])).await?;
    }
    // The role runs beside every cluster, but beside the child there is nothing for it to do.
    union.sites[2].claim("id.k8s.io", "c").await?;
    for index in 0..3 {
        union.start_role(index, &HURRY).await?;
    }
    for site in &union.sites[..2] {
        until_led_by(site, &["a", "b"]).await?;
    }
    let home = Room::open(union.sites[0].room.cluster.clone(), "formation-home").await?;
    serve(&home).await?;
    until_found(&union.sites[1]).await?;

    // A third cluster joins: it says who it is, and the supervisors are told of it.
    let c = &union.sites[2];
    c.apply(&federation(&[])).await?;
    for (site, entries) in union.sites.iter().zip(&entries) {
        set_members(site, entries).await?;
    }
    let first = until_led_by(c, &["a", "b"]).await?;
    until_found(c).await?;
    let child =
        until_federation(c, "it says who it is", |federation| federation["status"]["clusterID"] == "c")
            .await?;
    anyhow::ensure!(
        child["status"].get("memberStatus").is_none(),
        "a child calls nobody: {}",
        child["status"]
    );
    let lease = object(c, "lease", "c").await?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    anyhow::ensure!(holder.starts_with(&format!("{first}_")), "{holder} is no instance of {first}");

    // Two supervisors that disagree on who belongs are told so.
    set_members(&union.sites[1], &entries[1][..2]).await?;
    let differ = "the Federation of cluster b";
    until_federation(&union.sites[0], "it tells of b's other list", |federation| {
        problems(federation).contains(differ)
    })
    .await?;
    set_members(&union.sites[1], &entries[1]).await?;
    until_federation(&union.sites[0], "nobody disagrees", |federation| problems(federation).is_empty())
        .await?;

    // A supervisor that is none any more leads nobody, and the other leads all.
    let (resigned, left) = if first == "a" { (0, "b") } else { (1, "a") };
    union.sites[resigned].room.kubectl(&["delete", "clusterclaim", supervisor]).await?;
    for site in &union.sites {
        until_led_by(site, &[left]).await?;
    }
    let wanted = ["a", "b", "c"].map(|id| format!("{id}=Reachable({left})")).join(" ");
    until_said(&union.sites[1 - resigned], &wanted).await?;
    union.sites[resigned].claim(supervisor, "true").await?;

    // A cluster leaves: first it says so, and what was made in it goes; then the others forget it.
    let c = &union.sites[2];
    c.room.kubectl(&["delete", "federation", "fed"]).await?;
    until("nothing is left in c", async || {
        let holder = c.leader().await?;
        let services = c.room.kubectl(&["get", "services", "-o", "name"]).await?;
        Ok(if holder.is_empty() && !services.contains("foo") {
            Look::Found(())
        } else {
            Look::NotYet(format!("{holder:?} leads; {services}"))
        })
    })
    .await?;
    until_found(&union.sites[1]).await?;
    for (site, entries) in union.sites.iter().zip(&entries) {
        set_members(site, &entries[..2]).await?;
    }
    for site in &union.sites[..2] {
        until_federation(site, "c is forgotten", |federation| !super::said(federation).contains("c="))
            .await?;
    }
    home.leave().await?;
    union.dissolve().await
}

fn federation(members: &[Value]) -> Value {
    json!({"apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": members}})
}

fn problems(federation: &Value) -> String {
    let problems = federation["status"]["problems"].as_array().into_iter().flatten();
    problems.filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

/// Makes a Service with a pod behind it, which joins `foo` of the whole federation.
pub(super) async fn serve(home: &Room) -> anyhow::Result<()> {
    let labels = json!({"app": "foo"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "foo"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }},
    });
    let annotations = json!({"svc.global.federated.antreaplus.vmware-tanzu.com": "foo"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo", "annotations": annotations},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80}]},
    });
    for object in [deployment, service] {
        home.apply(&object).await?;
    }
    Ok(())
}

/// Waits until `foo` can be used here.
async fn until_found(site: &Site) -> anyhow::Result<()> {
    until(&format!("foo is found in {}", site.name), async || {
        let selector = "kubernetes.io/service-name=foo";
        let slices = site.room.kubectl(&["get", "endpointslices", "-l", selector, "-o", "name"]).await?;
        Ok(if slices.is_empty() { Look::NotYet("it has no endpoints".into()) } else { Look::Found(()) })
    })
    .await
}
