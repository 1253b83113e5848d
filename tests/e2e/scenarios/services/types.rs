//! How members of each type are reached from elsewhere and at home (N33 to N35, N40 to N45).

use std::sync::Arc;

use serde_json::{Value, json};

use super::stage::{GLOBAL, Stage, field, http, service, shown, slice, until_told};
use crate::wait::{Look, until};
use crate::world::World;

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let stage = Stage::open(&world, "types").await?;
    by_pods(&stage).await?;
    by_external_addresses(&stage).await?;
    by_nodes(&stage).await?;
    by_load_balancer(&stage).await?;
    by_a_cloud(&stage).await?;
    by_both_families(&stage).await?;
    by_very_many(&stage).await?;
    stage.close().await
}

/// N33, N34, N35 and N40: pods' addresses, of all elsewhere and of one's own at home; headless alike; ExternalName never.
async fn by_pods(stage: &Stage) -> anyhow::Result<()> {
    let joins = [(GLOBAL, "pods")];
    let mut headless = http();
    headless["clusterIP"] = json!("None");
    let external = json!({"type": "ExternalName", "externalName": "example.com", "ports": [{"name": "http", "port": 80}]});
    stage
        .apply("a", &[service("one", &joins, http()), slice("one", "http:8080", "10.1.0.1 10.1.0.2!")])
        .await?;
    stage.apply("a", &[service("two", &joins, headless), slice("two", "http:8081", "10.1.0.3")]).await?;
    stage.apply("b", &[service("name", &joins, external)]).await?;
    let all = "http:80\na IPv4 http:8080 -> 10.1.0.1 10.1.0.2!\na IPv4 http:8081 -> 10.1.0.3";
    for cluster in ["a", "b", "c"] {
        // What only has another name is no member, not even at home.
        stage.until(cluster, "pods", all).await?;
    }
    stage.apply("c", &[service("mine", &joins, http()), slice("mine", "http:8080", "10.3.0.1!")]).await?;
    // One's own and only that, also while it is not ready.
    stage.until("c", "pods", "http:80\nc IPv4 http:8080 -> 10.3.0.1!").await?;
    stage.until("b", "pods", &format!("{all}\nc IPv4 http:8080 -> 10.3.0.1!")).await?;
    stage.room("a").kubectl(&["delete", "service", "one", "two"]).await?;
    stage.room("c").kubectl(&["delete", "service", "mine"]).await?;
    // The ExternalName does not keep it alive.
    stage.until("b", "pods", "nothing").await?;
    stage.room("b").kubectl(&["delete", "service", "name"]).await.map(drop)
}

/// N41: at its own ports; at home by its pods all the same.
async fn by_external_addresses(stage: &Stage) -> anyhow::Result<()> {
    let mut spec = http();
    spec["externalIPs"] = json!(["192.0.2.7", "192.0.2.8"]);
    stage
        .apply("a", &[service("ext", &[(GLOBAL, "ext")], spec), slice("ext", "http:8080", "10.1.1.1!")])
        .await?;
    stage.until("c", "ext", "http:80\na IPv4 http:80 -> 192.0.2.7! 192.0.2.8!").await?;
    stage.apply("a", &[slice("ext", "http:8080", "10.1.1.1")]).await?;
    stage.until("c", "ext", "http:80\na IPv4 http:80 -> 192.0.2.7 192.0.2.8").await?;
    stage.until("a", "ext", "http:80\na IPv4 http:8080 -> 10.1.1.1").await?;
    stage.room("a").kubectl(&["delete", "service", "ext"]).await?;
    stage.until("c", "ext", "nothing").await
}

/// N42: by all nodes at the node port, or by those that have a ready pod.
async fn by_nodes(stage: &Stage) -> anyhow::Result<()> {
    let path = "{range .items[*]}{.metadata.name}={.status.addresses[?(@.type=='InternalIP')].address} {end}";
    let nodes = field(stage.room("a"), "nodes", path).await?;
    let nodes: Vec<(&str, &str)> = nodes.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    anyhow::ensure!(nodes.len() > 1, "there are several nodes: {nodes:?}");
    let spec = |policy: &str| {
        json!({
            "type": "NodePort", "externalTrafficPolicy": policy,
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30602}],
        })
    };
    let joins = [(GLOBAL, "noded")];
    let on_one = slice("noded", "http:8080", &format!("10.1.2.1@{} 10.1.2.2!@{}", nodes[0].0, nodes[1].0));
    stage.apply("a", &[service("noded", &joins, spec("Cluster")), on_one]).await?;
    let mut all: Vec<&str> = nodes.iter().map(|(_, address)| *address).collect();
    all.sort_unstable();
    stage.until("c", "noded", &format!("http:80\na IPv4 http:30602 -> {}", all.join(" "))).await?;
    stage.until("a", "noded", "http:80\na IPv4 http:8080 -> 10.1.2.1 10.1.2.2!").await?;
    stage.apply("a", &[service("noded", &joins, spec("Local"))]).await?;
    stage.until("c", "noded", &format!("http:80\na IPv4 http:30602 -> {}", nodes[0].1)).await?;
    stage.room("a").kubectl(&["delete", "service", "noded"]).await?;
    stage.until("c", "noded", "nothing").await
}

/// N43: by what the load balancer says, also where that is a name; by nothing while it is pending.
async fn by_load_balancer(stage: &Stage) -> anyhow::Result<()> {
    let mut spec = http();
    spec["type"] = json!("LoadBalancer");
    stage.apply("b", &[service("lb", &[(GLOBAL, "lb")], spec), slice("lb", "http:8080", "10.2.3.1")]).await?;
    until_told(stage.room("b"), "lb", "LoadBalancerPending").await?;
    stage.until("c", "lb", "http:80").await?;
    // What leads back to whoever uses it is refused.
    let ways = [
        json!({"ip": "203.0.113.5"}),
        json!({"ip": "169.254.169.254"}),
        json!({"hostname": "lb.example.test"}),
    ];
    let status = json!({"status": {"loadBalancer": {"ingress": ways}}});
    let patch = ["patch", "service", "lb", "--subresource=status", "--type=merge", "-p", &status.to_string()];
    stage.room("b").kubectl(&patch).await?;
    let wanted = "http:80\nb FQDN http:80 -> lb.example.test\nb IPv4 http:80 -> 203.0.113.5";
    stage.until("c", "lb", wanted).await?;
    until_told(stage.room("b"), "lb", "AddressRefused").await?;
    stage.until("b", "lb", "http:80\nb IPv4 http:8080 -> 10.2.3.1").await?;
    stage.room("b").kubectl(&["delete", "service", "lb"]).await?;
    stage.until("c", "lb", "nothing").await
}

/// N45: what a cloud runs itself, by its outer addresses and else by its inner ones.
async fn by_a_cloud(stage: &Stage) -> anyhow::Result<()> {
    let native = json!({
        "apiVersion": "cloud.antreaplus.tanzu.vmware.com/v1alpha1", "kind": "NativeService",
        "metadata": {"name": "rds", "annotations": {GLOBAL: "db"}},
        "spec": {"ports": [{"name": "sql", "port": 5432}]},
    });
    stage.apply("b", &[native]).await?;
    until_told(stage.room("b"), "rds", "NoAddress").await?;
    let inner = |address: &str| json!({"addressType": "InternalIP", "address": address});
    let outer = |address: &str| json!({"addressType": "ExternalIP", "address": address});
    let status = json!({"status": {"networkInterfaces": [
        {"ips": [inner("10.2.4.1"), outer("198.51.100.4")]}, {"ips": [inner("10.2.4.2")]}, {"ips": [inner("127.0.0.1")]},
    ]}});
    let patch =
        ["patch", "nativeservice", "rds", "--subresource=status", "--type=merge", "-p", &status.to_string()];
    stage.room("b").kubectl(&patch).await?;
    for cluster in ["a", "b", "c"] {
        stage.until(cluster, "db", "sql:5432\nb IPv4 sql:5432 -> 10.2.4.2 198.51.100.4").await?;
    }
    stage.room("b").kubectl(&["delete", "nativeservice", "rds"]).await?;
    stage.until("c", "db", "nothing").await
}

/// Addresses of both families go to slices of their own. The clusters have addresses of one family for Services, so it is
/// the members' endpoints that are of two.
async fn by_both_families(stage: &Stage) -> anyhow::Result<()> {
    let joins = [(GLOBAL, "dual")];
    let four = slice("dual", "http:8080", "10.1.5.1");
    let six = slice("dual", "http:8080", "2001:db8::1");
    stage.apply("a", &[service("dual", &joins, http()), four, six]).await?;
    stage
        .until("c", "dual", "http:80\na IPv4 http:8080 -> 10.1.5.1\na IPv6 http:8080 -> 2001:db8::1")
        .await?;
    stage.apply("b", &[service("single", &joins, http()), slice("single", "http:8080", "10.2.5.1")]).await?;
    let all = "http:80\na IPv4 http:8080 -> 10.1.5.1\na IPv6 http:8080 -> 2001:db8::1\nb IPv4 http:8080 -> 10.2.5.1";
    stage.until("c", "dual", all).await?;
    stage.room("a").kubectl(&["delete", "service", "dual"]).await?;
    stage.room("b").kubectl(&["delete", "service", "single"]).await?;
    stage.until("c", "dual", "nothing").await
}

/// Slices hold at most a hundred, wherever they came from, and one endpoint that changes is one slice that changes.
async fn by_very_many(stage: &Stage) -> anyhow::Result<()> {
    let addresses = |first: &str| -> String {
        let rest = (1..250).map(|number| format!("10.1.6.{number}"));
        std::iter::once(first.to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
    };
    let many =
        [service("many", &[(GLOBAL, "many")], http()), slice("many", "http:8080", &addresses("10.1.7.1"))];
    stage.apply("a", &many).await?;
    let wait = async |wanted: &'static str| {
        until(&format!("there are 250 and {wanted} is among them"), async || {
            let now = shown(stage.system("c"), "many").await?;
            let counts: Vec<usize> =
                now.lines().skip(1).map(|line| line.split_whitespace().skip(4).count()).collect();
            let all =
                counts.iter().sum::<usize>() == 250 && now.split_whitespace().any(|word| word == wanted);
            anyhow::ensure!(counts.iter().all(|count| *count <= 100), "a slice is too large: {counts:?}");
            Ok(if all { Look::Found(()) } else { Look::NotYet(format!("{counts:?}")) })
        })
        .await
    };
    wait("10.1.7.1").await?;
    let before = versions(stage).await?;
    stage.apply("a", &[slice("many", "http:8080", &addresses("10.1.7.1!"))]).await?;
    wait("10.1.7.1!").await?;
    let after = versions(stage).await?;
    let changed: Vec<&Value> = after.iter().filter(|one| !before.contains(one)).collect();
    anyhow::ensure!(
        changed.len() == 1 && before.len() == after.len(),
        "one endpoint changed {changed:?} of {before:?}"
    );
    stage.room("a").kubectl(&["delete", "service", "many"]).await?;
    stage.until("c", "many", "nothing").await
}

/// The slices of `many` in `c`, each by name and version.
async fn versions(stage: &Stage) -> anyhow::Result<Vec<Value>> {
    let selector = "kubernetes.io/service-name=many";
    let text = stage.system("c").kubectl(&["get", "endpointslices", "-l", selector, "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(|one| json!([one["metadata"]["name"], one["metadata"]["resourceVersion"]])).collect())
}
