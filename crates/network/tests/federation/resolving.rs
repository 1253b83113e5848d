//! Load balancers that have a name: what it leads to is asked again and again.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use crate::harness::World;
use crate::world::foo;

#[tokio::test(start_paused = true)]
async fn what_a_name_leads_to_is_followed_and_kept_while_nobody_answers() {
    let mut world = World::new(&["c1*", "c2"]).await;
    world.stop("c1").await;
    let answer: Arc<Mutex<Option<Vec<IpAddr>>>> = Arc::default();
    let says = answer.clone();
    world.options.resolve = Some(Arc::new(move |name: String| {
        assert_eq!(name, "lb.example.com");
        let answer = says.lock().clone();
        Box::pin(async move { answer })
    }));
    world.start("c1").await;
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    world["c1"].member("ns/one", "foo", "LoadBalancer").await;
    world["c1"].endpoints("ns/one", "10.1.0.1").await;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}});
    world["c1"].patch("/api/v1/namespaces/ns/services/one/status", status).await;
    // Not to know is no reason to leave out the name.
    world.until_shown("c2", &foo(), "http:80 c1=lb.example.com").await;
    world.rest().await;
    *answer.lock() = Some(vec![ip("203.0.113.7"), ip("203.0.113.9"), ip("127.0.0.1")]);
    world.until_shown("c2", &foo(), "http:80 c1=203.0.113.7,203.0.113.9,lb.example.com").await;
    *answer.lock() = Some(vec![ip("203.0.113.8")]);
    world.until_shown("c2", &foo(), "http:80 c1=203.0.113.8,lb.example.com").await;
    for silence in [None, Some(Vec::new())] {
        *answer.lock() = silence;
        world.rest().await;
        assert_eq!(world["c2"].shown(&foo()).await, "http:80 c1=203.0.113.8,lb.example.com");
    }
    *answer.lock() = Some(vec![ip("203.0.113.9")]);
    world.until_shown("c2", &foo(), "http:80 c1=203.0.113.9,lb.example.com").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_leader_that_has_no_answer_yet_takes_back_nothing() {
    let mut world = World::new(&["c1*", "c2"]).await;
    world.stop("c1").await;
    let answer = Arc::new(Mutex::new(Some(vec!["203.0.113.7".parse::<IpAddr>().unwrap()])));
    let says = answer.clone();
    world.options.resolve = Some(Arc::new(move |_| {
        let answer = says.lock().clone();
        Box::pin(async move { answer })
    }));
    world.start("c1").await;
    world["c1"].member("ns/one", "foo", "LoadBalancer").await;
    world["c1"].endpoints("ns/one", "10.1.0.1").await;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}});
    world["c1"].patch("/api/v1/namespaces/ns/services/one/status", status).await;
    let wanted = "http:80 c1=203.0.113.7,lb.example.com";
    world.until_shown("c2", &foo(), wanted).await;
    world.rest().await;
    world.kill("c1").await;
    *answer.lock() = None;
    let before = world.log.writes().len();
    world.start("c1").await;
    world.rest().await;
    assert_eq!(world["c2"].shown(&foo()).await, wanted);
    assert_eq!(world.log.writes().len(), before, "{:#?}", &world.log.writes()[before..]);
    *answer.lock() = Some(vec!["203.0.113.8".parse().unwrap()]);
    world.until_shown("c2", &foo(), "http:80 c1=203.0.113.8,lb.example.com").await;
}
