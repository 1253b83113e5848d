//! Parties: who reaches whom, who answers, who ends when, and who sees it.

use std::time::Duration;

use futures::FutureExt as _;
use jiff::SignedDuration;
use koinon_simulation::{Fault, Network, Site, Trace};
use serde_json::{Value, json};
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(network: &Network, from: &str, to: &str, name: &str) -> bool {
    let object = json!({"metadata": {"name": name}}).to_string().into_bytes();
    let request = http::Request::post(MAPS).header("content-type", "application/json").body(object).unwrap();
    let client = network.client(from, to);
    let answer = timeout(Duration::from_secs(10), client.request::<Value>(request)).await;
    answer.is_ok_and(|answer| answer.is_ok())
}

async fn network(names: &[&str]) -> (Network, Vec<Site>) {
    let network = Network::new(1, &Trace::default());
    let mut sites = Vec::new();
    for (seed, name) in (1..).zip(names) {
        let site = Site::open(seed, &network.time().clock()).await;
        network.serve(name, site.router());
        for from in names {
            network.way(from, name);
        }
        sites.push(site);
    }
    (network, sites)
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_between_some_and_the_rest() {
    let names = ["a", "b", "c"];
    let (network, _sites) = network(&names).await;
    network.partition(&["a", "b"]);
    for from in names {
        for to in names {
            let together = (from == "c") == (to == "c");
            assert_eq!(create(&network, from, to, &format!("{from}-{to}")).await, together, "{from} {to}");
        }
    }
    network.heal();
    network.set_around("a", &[Fault::Cut]);
    assert!(!create(&network, "b", "a", "x").await && !create(&network, "a", "c", "x").await);
    assert!(create(&network, "a", "a", "x").await && create(&network, "b", "c", "x").await);
}

#[tokio::test(start_paused = true)]
async fn another_server_can_answer_to_a_name() {
    let (network, sites) = network(&["a", "b"]).await;
    assert!(create(&network, "b", "a", "first").await);
    network.serve("a", sites[1].router());
    assert!(create(&network, "b", "a", "second").await);
    assert!(sites[0].get(&format!("{MAPS}/second")).await.is_none());
    assert!(sites[1].get(&format!("{MAPS}/second")).await.is_some());
    assert!(!create(&network, "b", "nobody", "x").await);
}

#[tokio::test(start_paused = true)]
async fn a_fuse_ends_a_party_at_a_request_that_took_place() {
    let (network, sites) = network(&["a", "b"]).await;
    let fuse = network.fuse("a");
    fuse.after(2);
    assert!(create(&network, "a", "b", "one").await);
    assert!(!create(&network, "a", "b", "two").await);
    timeout(Duration::from_secs(1), fuse.blown()).await.expect("it is blown");
    assert!(sites[1].get(&format!("{MAPS}/two")).await.is_some(), "only its answer is missing");
    assert!(!create(&network, "a", "b", "three").await, "who ended asks for nothing");
    assert!(sites[1].get(&format!("{MAPS}/three")).await.is_none());
    assert!(create(&network, "b", "a", "others").await, "others go on");
    fuse.renew();
    assert!(create(&network, "a", "b", "three").await);
}

#[tokio::test(start_paused = true)]
async fn a_witness_sees_each_write_before_it_is_carried_out() {
    let (network, sites) = network(&["a", "b"]).await;
    let there = sites[1].clone();
    network.before_each_write(move |write| {
        let there = there.clone();
        async move {
            let count = there.items(MAPS).await.len();
            (count > 1).then(|| format!("{count} are there before {}", write.method))
        }
        .boxed()
    });
    // Every namespace comes with a ConfigMap or not: what matters is that the first is within the limit.
    let already = sites[1].items(MAPS).await.len();
    assert!(already < 2);
    for name in ["one", "two", "three"] {
        create(&network, "a", "b", name).await;
    }
    let complaints = network.trace().complaints();
    assert_eq!(complaints.len(), 1 + already, "{complaints:#?}");
    assert!(complaints[0].starts_with("a → b: POST"), "{complaints:#?}");
}

#[tokio::test(start_paused = true)]
async fn clocks_are_as_wrong_as_they_are_told() {
    let network = Network::new(1, &Trace::default());
    let late = Site::open(1, &network.time().skewed(SignedDuration::from_hours(-30))).await;
    let made = late.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    let at: jiff::Timestamp = made["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    let behind = network.time().clock().now().duration_since(at);
    assert!((SignedDuration::from_hours(30)..SignedDuration::from_hours(31)).contains(&behind), "{behind}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_when_nothing_was_written_for_long_enough() {
    let (network, _sites) = network(&["a", "b"]).await;
    let busy = network.clone();
    let writes = tokio::spawn(async move {
        for number in 0..5 {
            create(&busy, "a", "b", &format!("n-{number}")).await;
            tokio::time::sleep(Duration::from_secs(9)).await;
        }
    });
    network.until_quiet(Duration::from_secs(10)).await;
    assert!(writes.is_finished());
    let never = network.clone();
    let busy = tokio::spawn(async move {
        for number in 0.. {
            create(&never, "a", "b", &format!("m-{number}")).await;
            tokio::time::sleep(Duration::from_secs(9)).await;
        }
    });
    let asked = network.clone();
    let rest = tokio::spawn(async move { asked.until_quiet(Duration::from_secs(10)).await });
    assert!(rest.await.is_err_and(|error| error.is_panic()), "that never comes");
    busy.abort();
}
