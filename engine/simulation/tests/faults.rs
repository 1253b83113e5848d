//! Each fault does what it says, and nothing else.

use std::time::Duration;

use futures::TryStreamExt as _;
use koinon_simulation::{Fault, Network, Requests, Site, Trace};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{DynamicObject, Request, WatchEvent};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct World {
    network: Network,
    site: Site,
    client: Client,
}

async fn world() -> World {
    let network = Network::new(7, &Trace::default());
    let site = Site::open(1, &network.time().clock()).await;
    network.serve("here", site.router());
    let client = network.client("me", "here");
    World { network, site, client }
}

impl World {
    fn set(&self, faults: &[Fault]) {
        self.network.set("me", "here", faults);
    }

    async fn create(&self, name: &str) -> Result<Value, kube::Error> {
        let object = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let request = http::Request::post(MAPS).header("content-type", "application/json").body(object);
        self.client.request(request.unwrap()).await
    }

    async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.client.request(http::Request::get(path).body(Vec::new()).unwrap()).await
    }

    /// What a watch shows from here on, up to its end or a silence.
    async fn shown(&self, happens: impl AsyncFnOnce()) -> Vec<String> {
        let list = self.site.get(MAPS).await.unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let request =
            Request::new(MAPS).watch(&WatchParams::default().disable_bookmarks(), &version).unwrap();
        let opened = timeout(Duration::from_secs(5), self.client.request_events::<DynamicObject>(request));
        let Ok(Ok(events)) = opened.await else { return vec!["nothing".into()] };
        happens().await;
        let mut events = std::pin::pin!(events);
        let mut shown = Vec::new();
        loop {
            shown.push(match timeout(Duration::from_secs(60), events.try_next()).await {
                Err(_) => "silence".into(),
                Ok(Err(_)) => "broken".into(),
                Ok(Ok(None)) => "end".into(),
                Ok(Ok(Some(WatchEvent::Error(status)))) => status.code.to_string(),
                Ok(Ok(Some(WatchEvent::Added(object)))) => {
                    shown.push(object.metadata.name.unwrap());
                    continue;
                }
                Ok(Ok(Some(_))) => continue,
            });
            return shown;
        }
    }

    async fn three(&self) {
        for name in ["a", "b", "c"] {
            self.site.create(MAPS, json!({"metadata": {"name": name}})).await;
        }
    }
}

fn code(answer: Result<Value, kube::Error>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_fails_and_what_hangs_does_not_even_fail() {
    let world = world().await;
    assert_eq!(code(world.create("a").await), 200);
    world.set(&[Fault::Cut]);
    assert_eq!(code(world.create("b").await), 0);
    world.set(&[Fault::Hang]);
    assert!(timeout(Duration::from_secs(3600), world.create("b")).await.is_err());
    world.set(&[Fault::Delay(Duration::from_secs(3))]);
    let start = Instant::now();
    assert_eq!(code(world.create("c").await), 200);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    world.network.heal();
    assert_eq!(code(world.get(&format!("{MAPS}/b")).await), 404);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_for_those_they_name_and_carry_nothing_out() {
    let world = world().await;
    for (what, read, write) in [
        (Requests::Any, 503, 503),
        (Requests::Reads, 503, 200),
        (Requests::Writes, 200, 503),
        (Requests::Watches, 200, 200),
    ] {
        world.set(&[Fault::Refuse { what, code: 503, one_in: 1 }]);
        assert_eq!(code(world.get(MAPS).await), read, "{what:?}");
        let name = format!("{what:?}").to_lowercase();
        assert_eq!(code(world.create(&name).await), write, "{what:?}");
        assert_eq!(world.site.get(&format!("{MAPS}/{name}")).await.is_some(), write == 200);
    }
    // Some, by chance, but by the same chance in every run.
    world.set(&[Fault::Refuse { what: Requests::Reads, code: 429, one_in: 3 }]);
    let mut refused = 0;
    for _ in 0..300 {
        refused += usize::from(code(world.get(MAPS).await) == 429);
    }
    assert!((70..130).contains(&refused), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn single_requests_can_be_singled_out() {
    let world = world().await;
    let hang = |request: &koinon_simulation::Write| request.path.ends_with("/a").then_some(Fault::Hang);
    world.network.single_out("me", "here", hang);
    assert!(timeout(Duration::from_secs(60), world.get(&format!("{MAPS}/a"))).await.is_err());
    assert_eq!(code(world.get(&format!("{MAPS}/b")).await), 404);
    world.network.heal();
    assert_eq!(code(world.get(&format!("{MAPS}/a")).await), 404);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_to_a_write_that_took_place() {
    let world = world().await;
    world.set(&[Fault::Lose { one_in: 1 }]);
    assert_eq!(code(world.create("a").await), 0);
    assert_eq!(code(world.get(&format!("{MAPS}/a")).await), 200);
    let told = world.network.trace().timeline();
    assert!(
        told.contains("me → here: POST /api/v1/namespaces/default/configmaps 201, answer lost"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_break_stall_lose_events_or_are_late() {
    for (faults, shown) in [
        (&[][..], "a b c silence"),
        (&[Fault::StallWatches], "nothing"),
        (&[Fault::Refuse { what: Requests::Watches, code: 410, one_in: 1 }], "nothing"),
        (&[Fault::CutWatches { after: 1 }], "a broken"),
        (&[Fault::MissEvents { after: 1 }], "a 410"),
        (&[Fault::Stale(Duration::from_secs(30))], "a b c silence"),
    ] {
        let world = world().await;
        world.set(faults);
        let seen = world.shown(async || world.three().await).await;
        assert_eq!(seen.join(" "), shown, "{faults:?}");
    }
    // What begins while a watch is open.
    for (fault, shown) in [
        (Fault::Cut, "broken"),
        (Fault::Hang, "silence"),
        (Fault::StallWatches, "silence"),
        (Fault::Stale(Duration::from_secs(90)), "silence"),
    ] {
        let world = world().await;
        let happens = async || {
            world.set(&[fault]);
            // The watch has heard of it before anything else happens.
            tokio::time::sleep(Duration::from_millis(1)).await;
            world.three().await;
        };
        assert_eq!(world.shown(happens).await.join(" "), shown, "{fault:?}");
    }
    // What is over before its time: nothing is lost in silence.
    let world = world().await;
    world.set(&[Fault::MissEvents { after: 2 }]);
    let happens = async || {
        world.three().await;
        let network = world.network.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            network.heal();
        });
    };
    assert_eq!(world.shown(happens).await.join(" "), "a b 410");
}

#[tokio::test(start_paused = true)]
async fn only_those_who_do_not_mind_read_what_is_old() {
    let world = world().await;
    let count = async |query: &str| {
        let list = world.get(&format!("{MAPS}{query}")).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    let before = count("?resourceVersion=0").await;
    world.set(&[Fault::Stale(Duration::from_secs(1))]);
    world.three().await;
    assert_eq!(count("?resourceVersion=0").await, before);
    assert_eq!(count("").await, before + 3);
    world.set(&[]);
    assert_eq!(count("?resourceVersion=0").await, before + 3);
}

#[tokio::test(start_paused = true)]
async fn a_list_in_a_stream_is_refused_by_itself() {
    let world = world().await;
    world.set(&[Fault::Refuse { what: Requests::Streams, code: 422, one_in: 1 }]);
    let params = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(code(world.get(&format!("{MAPS}{params}")).await), 422);
    assert_eq!(code(world.get(MAPS).await), 200);
    let list = Request::new(MAPS).list(&ListParams::default()).unwrap();
    assert!(world.client.request::<Value>(list).await.is_ok());
}
