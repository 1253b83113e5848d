//! One member that means harm, among four that do not: it costs itself only.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use koinon_control::bounds::Bounds;
use koinon_control::client::{Keepalive, connect};
use koinon_fleet::{Fleet, Limits, Link, Metrics, Options, Phase, Wanted};
use koinon_simulation::{Hostile, Hostility};
use tokio::net::TcpListener;

use crate::harness::{Cluster, World, id, key, write};

const OTHERS: [&str; 4] = ["a", "b", "c", "d"];
const HELD: u64 = 2 << 20;

fn limits() -> Limits {
    Limits {
        bounds: Bounds { answer: 1 << 20, line: 1 << 20 },
        page: 1 << 20,
        held: HELD,
        ..Limits::default()
    }
}

/// Four ordinary clusters, and one that means harm under the name `evil`.
struct Den {
    world: World,
    evil: Cluster,
    hostile: Hostile,
}

impl Den {
    async fn new(does: Hostility) -> Den {
        let world = World::with(&OTHERS, Options { limits: limits(), ..Options::default() }).await;
        let evil = Cluster::new(666).await;
        let hostile = Hostile::new(evil.router());
        hostile.set(does);
        let mut wanted: BTreeMap<_, _> = OTHERS.map(|name| (id(name), world[name].wanted())).into();
        let uid = Some(evil.uid().await);
        wanted.insert(id("evil"), Wanted { link: Link::Direct(hostile.client()), uid });
        world.fleet.set(wanted).await;
        world.follow();
        Den { world, evil, hostile }
    }

    fn held(&self) -> u64 {
        self.world.fleet.metrics().held_bytes().get("evil").copied().unwrap_or(0)
    }

    /// How often it was asked for something; the next page of a list is no new question.
    fn requests(&self) -> usize {
        self.hostile.asked().iter().filter(|one| !one.contains("continue=")).count()
    }

    /// The others are written to and followed.
    async fn serves_the_others(&self, round: usize) {
        for name in OTHERS {
            let object = format!("round-{round}");
            write(&self.world, name, &object).await.unwrap();
            self.world[name].put(&object, round + 1).await;
            let there = || self.world.index.get(name, &key(&object)).is_some_and(|size| size.0 == round + 1);
            let took = self.world.until("the others are followed", there).await;
            assert!(took < Duration::from_secs(5), "{name} {took:?}");
            assert!(self.world.fleet.get(name).unwrap().is_reachable(), "{name}");
        }
    }
}

async fn the_others_are_served(does: Hostility) {
    let den = Den::new(does).await;
    den.world
        .until("the others are reachable", || {
            OTHERS.iter().all(|name| den.world.fleet.get(name).unwrap().is_reachable())
        })
        .await;
    for round in 0..12 {
        den.serves_the_others(round).await;
        let asked = den.requests();
        assert!(den.held() <= HELD, "{does:?}: {} bytes are held", den.held());
        // As a leader would, who does not know better.
        let _ = write(&den.world, "evil", &format!("round-{round}")).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let more = den.requests() - asked;
        assert!(more < 100, "{does:?}: it is asked {more} times in 20 s");
    }
    // Once it means well again, it is a member like the others.
    den.evil.put("good", 3).await;
    den.hostile.set(Hostility::None);
    den.world.until_reachable().await;
    let known = || den.world.index.get("evil", &key("good")).is_some_and(|size| size.0 == 3);
    den.world.until("it is followed like the others", known).await;
}

macro_rules! beside {
    ($($name:ident: $does:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                the_others_are_served(Hostility::$does).await;
            }
        )*

        #[test]
        fn everything_that_it_does_is_tried() {
            assert_eq!(Hostility::ALL.to_vec(), [$(Hostility::$does),*]);
        }
    };
}

beside! {
    beside_a_line_without_an_end: EndlessLine,
    beside_an_answer_without_an_end: EndlessAnswer,
    beside_a_list_without_an_end: EndlessList,
    beside_pages_without_an_end: EndlessPages,
    beside_a_drip: Drip,
    beside_packed_answers: Packed,
    beside_wrong_types: WrongTypes,
    beside_very_many_things: ManyThings,
    beside_giant_names: GiantNames,
    beside_redirects: Redirect,
    beside_another_cluster: Another,
    beside_loud_words: Loud,
    beside_loud_refusals: LoudRefusals,
}

#[tokio::test(start_paused = true)]
async fn what_it_says_of_itself_is_cut_and_cleaned() {
    let den = Den::new(Hostility::Loud).await;
    den.world.until_reachable().await;
    let state = den.world.fleet.get("evil").unwrap().state();
    let version = state.version.unwrap();
    assert!(version.starts_with("v1.36.0 [2J ]0;owned") && version.chars().count() <= 65, "{version:?}");
    assert!(!version.contains(char::is_control), "{version:?}");
    let claimed = state.claims.unwrap();
    assert!(claimed.id().is_none_or(|id| id.len() < 2048 && !id.contains(char::is_control)), "{claimed:?}");

    den.hostile.set(Hostility::LoudRefusals);
    let error = write(&den.world, "evil", "x").await.unwrap_err().to_string();
    assert!(
        error.len() < 2048 && error.contains("v1.36.0") && !error.contains(char::is_control),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_told_and_not_followed() {
    let den = Den::new(Hostility::Redirect).await;
    let told = || den.world.fleet.get("evil").unwrap().state().phase == Phase::Unreachable;
    den.world.until("it is unreachable", told).await;
    let why = den.world.fleet.get("evil").unwrap().state().why.unwrap();
    assert!(why.starts_with("it redirects to https://elsewhere.invalid/"), "{why}");
}

/// Other members list while one drips: it has two turns of the fleet's, and not for long.
#[tokio::test(start_paused = true)]
async fn a_list_that_drips_gives_its_turn_away() {
    let den = Den::new(Hostility::Drip).await;
    for _ in 0..40 {
        den.world.follow();
    }
    den.world
        .until("the others are listed", || {
            OTHERS.iter().all(|name| den.world.index.knowledge(name) == koinon_fleet::Knowledge::Complete)
        })
        .await;
    let lists = den.hostile.asked().iter().filter(|one| one.contains("/configmaps")).count();
    assert!(lists <= 2, "{lists} of its lists are on their way");
}

/// Through a socket and all of the client's own layers: nothing in between unpacks it before it is looked at.
#[tokio::test]
async fn packed_answers_are_not_unpacked_on_the_wire_either() {
    let evil = Cluster::new(1).await;
    let hostile = Hostile::new(evil.router());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = hostile.router();
    let served = tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            let stream = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(async move {
                let builder =
                    hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                let _ = builder.serve_connection(stream, service).await;
            });
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let link = Link::Direct(connect(&config, Keepalive::default()).unwrap());
    let fleet = Fleet::new(Options::default(), Metrics::default(), Default::default());
    fleet.set([(id("evil"), Wanted { link, uid: Some(evil.uid().await) })].into()).await;
    hostile.set(Hostility::Packed);
    let member = fleet.get("evil").unwrap();
    let api = member.client().namespaced::<ConfigMap>("default");
    let error = member.client().call(api.list(&Default::default())).await.unwrap_err();
    assert!(error.to_string().contains("it packed its answer (gzip)"), "{error}");
    let error = member.client().call(api.watch(&Default::default(), "0")).await.err().unwrap();
    assert!(error.to_string().contains("it packed its answer (gzip)"), "{error}");
    served.abort();
}
