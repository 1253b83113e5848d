//! The watch loop against a server that is a script: what each answer makes it ask next, and what the sink hears.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::core::Status;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::attempts::Backoff;
use crate::bounds::Excess;

type Shown = kube::Result<WatchEvent<ConfigMap>>;

/// What the server does next.
enum Answer {
    Page(&'static [(&'static str, u64)], &'static str, &'static str),
    /// Shows these and ends the connection.
    Ends(Vec<Shown>),
    /// Shows these and then nothing, without an end.
    Silent(Vec<Shown>),
    Refuses(kube::Error),
    Hangs,
}

/// A server, what it was asked, and when.
#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    start: Instant,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Script {
        Script {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
            start: Instant::now(),
        }
    }

    fn next(&self, question: String) -> BoxFuture<'static, Answer> {
        self.asked.lock().push(format!("{}s {question}", self.start.elapsed().as_secs()));
        let next = self.answers.lock().pop_front();
        Box::pin(async move {
            match next {
                // The script is over: whoever asks on is not answered.
                None | Some(Answer::Hangs) => std::future::pending().await,
                Some(answer) => answer,
            }
        })
    }
}

impl Source for Script {
    type Object = ConfigMap;

    async fn list(&self, params: &ListParams) -> kube::Result<Page<ConfigMap>> {
        let (limit, token) = (params.limit.unwrap_or(0), params.continue_token.clone().unwrap_or_default());
        match self.next(format!("list {limit} {token}").trim_end().to_owned()).await {
            Answer::Page(items, version, next) => Ok(Page {
                items: items.iter().map(|(name, version)| object(name, *version)).collect(),
                version: version.into(),
                next: next.into(),
            }),
            Answer::Refuses(error) => Err(error),
            _ => panic!("the script has no page here"),
        }
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<ConfigMap>> {
        let kind = if params.send_initial_events { "stream" } else { "watch" };
        match self.next(format!("{kind} {version}").trim_end().to_owned()).await {
            Answer::Ends(events) => Ok(futures::stream::iter(events).boxed()),
            Answer::Silent(events) => {
                Ok(futures::stream::iter(events).chain(futures::stream::pending()).boxed())
            }
            Answer::Refuses(error) => Err(error),
            _ => panic!("the script has no watch here"),
        }
    }

    fn meta(object: &ConfigMap) -> Meta<'_> {
        <Api<ConfigMap> as Source>::meta(object)
    }
}

/// Writes down what it hears.
#[derive(Clone, Default)]
struct Heard {
    words: Arc<Mutex<Vec<String>>>,
    /// After so many objects there is no room for more.
    room: Option<usize>,
    held: usize,
}

impl Heard {
    fn say(&self, word: impl Into<String>) {
        self.words.lock().push(word.into());
    }
}

fn named(object: &ConfigMap) -> String {
    let meta = &object.metadata;
    format!(
        "{}={}",
        meta.name.as_deref().unwrap_or_default(),
        meta.resource_version.as_deref().unwrap_or("-")
    )
}

impl Sink<ConfigMap> for Heard {
    fn begin_list(&mut self) {
        self.say("[");
    }

    fn list(&mut self, object: ConfigMap) {
        self.held += 1;
        self.say(named(&object));
    }

    fn end_list(&mut self, version: u64) {
        self.say(format!("]{version}"));
    }

    fn drop_list(&mut self) {
        self.say("dropped");
    }

    fn apply(&mut self, object: ConfigMap) {
        self.held += 1;
        self.say(format!("+{}", named(&object)));
    }

    fn delete(&mut self, object: ConfigMap) {
        self.say(format!("-{}", named(&object)));
    }

    fn observed_up_to(&mut self, version: u64) {
        self.say(format!("@{version}"));
    }

    fn following(&mut self) {
        self.say("following");
    }

    fn cut(&mut self, cut: &Cut) {
        self.say(format!("({cut})"));
    }

    fn hold(&mut self) -> Result<(), Excess> {
        if self.room.is_some_and(|room| self.held > room) { Err(Excess::Held(1)) } else { Ok(()) }
    }
}

fn object(name: &str, version: u64) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        resource_version: (version > 0).then(|| version.to_string()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn shows(name: &str, version: u64) -> Shown {
    Ok(WatchEvent::Modified(object(name, version)))
}

fn mark(version: &str, end: bool) -> Shown {
    let annotations = if end { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    let mark = json!({"type": "BOOKMARK", "object": {
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": version, "annotations": annotations},
    }});
    Ok(serde_json::from_value(mark).unwrap())
}

fn refused(code: u16) -> kube::Error {
    kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
}

/// What was asked and heard within a time.
struct Seen {
    asked: Vec<String>,
    heard: String,
}

const PAGED: fn() -> Selection = || Selection { lists: Lists::Paged, ..Selection::default() };

async fn play(
    answers: impl IntoIterator<Item = Answer>,
    selection: Selection,
    seconds: u64,
    more: impl FnOnce(Watch<Script, Heard>) -> Watch<Script, Heard>,
) -> Seen {
    let (script, heard) = (Script::new(answers), Heard::default());
    let watch = more(Watch::new(script.clone(), heard.clone(), selection));
    let _ = timeout(Duration::from_secs(seconds), watch.run()).await;
    let asked = script.asked.lock().clone();
    let heard = heard.words.lock().join(" ");
    Seen { asked, heard }
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_the_watch_goes_on_from_it() {
    let answers = [
        Answer::Page(&[("a", 1)], "5", "more"),
        Answer::Page(&[("b", 2)], "5", ""),
        Answer::Silent(vec![shows("a", 6), Ok(WatchEvent::Deleted(object("b", 7))), mark("9", false)]),
    ];
    let seen = play(answers, PAGED(), 10, |watch| watch).await;
    assert_eq!(seen.asked, ["0s list 250", "0s list 250 more", "0s watch 5"]);
    assert_eq!(seen.heard, "[ a=1 b=2 ]5 following +a=6 -b=7 @9");
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_it_resumes_from_what_it_saw_last() {
    let answers = [
        Answer::Page(&[], "5", ""),
        Answer::Ends(vec![shows("a", 6), mark("9", false)]),
        Answer::Refuses(refused(503)),
        Answer::Silent(vec![shows("a", 10)]),
    ];
    let seen = play(answers, PAGED(), 10, |watch| watch).await;
    assert_eq!(seen.asked, ["0s list 250", "0s watch 5", "0s watch 9", "0s watch 9"]);
    assert_eq!(
        seen.heard,
        "[ ]5 following +a=6 @9 (the server ended the watch) dropped (no) following +a=10"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_there_is_listed_again() {
    for code in [400, 404, 410] {
        let answers = [
            Answer::Page(&[("a", 1)], "5", ""),
            Answer::Refuses(refused(code)),
            Answer::Page(&[("b", 8)], "8", ""),
            Answer::Silent(vec![]),
        ];
        let seen = play(answers, PAGED(), 10, |watch| watch).await;
        assert_eq!(seen.asked, ["0s list 250", "0s watch 5", "0s list 250", "0s watch 8"], "{code}");
    }
    // So it is where the server was restored from a backup, and has not come to that version yet.
    let too_large: Status = serde_json::from_value(json!({
        "status": "Failure", "code": 504, "message": "Timeout: Too large resource version: 5, current: 3",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
    }))
    .unwrap();
    let answers = [
        Answer::Page(&[("a", 1)], "5", ""),
        Answer::Refuses(kube::Error::Api(too_large.boxed())),
        Answer::Page(&[], "3", ""),
        Answer::Silent(vec![]),
    ];
    let seen = play(answers, PAGED(), 10, |watch| watch).await;
    assert_eq!(seen.asked, ["0s list 250", "0s watch 5", "0s list 250", "0s watch 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_in_silence_is_noticed_and_resumed() {
    let answers = [Answer::Page(&[], "5", ""), Answer::Silent(vec![shows("a", 6)]), Answer::Hangs];
    let seen = play(answers, PAGED(), 400, |watch| watch).await;
    // 290 s and 5 s of grace; then the resumed watch gets no answer within its deadline.
    assert_eq!(seen.asked[..3], ["0s list 250", "0s watch 5", "295s watch 6"]);
    assert!(seen.heard.contains("no answer within 295 seconds"), "{}", seen.heard);
    assert!(seen.heard.contains("no answer within 30 seconds"), "{}", seen.heard);
}

#[tokio::test(start_paused = true)]
async fn a_list_streams_where_the_server_can_and_comes_in_pages_where_it_refuses() {
    let answers = [Answer::Silent(vec![shows("a", 1), mark("5", true), shows("a", 6)])];
    let seen = play(answers, Selection::default(), 10, |watch| watch).await;
    assert_eq!(seen.asked, ["0s stream"]);
    assert_eq!(seen.heard, "[ a=1 ]5 following +a=6");

    let pages = || [Answer::Page(&[("a", 1)], "5", ""), Answer::Silent(vec![])];
    let refusing = [Answer::Refuses(refused(422))].into_iter().chain(pages());
    let seen = play(refusing, Selection::default(), 10, |watch| watch).await;
    assert_eq!(seen.asked, ["0s stream", "0s list 250", "0s watch 5"]);

    // One that does not know of it shows the objects, but never that they were all.
    let ignorant = [Answer::Silent(vec![shows("a", 1)])].into_iter().chain(pages());
    let seen = play(ignorant, Selection::default(), 30, |watch| watch).await;
    assert_eq!(seen.asked, ["0s stream", "20s list 250", "20s watch 5"]);
    assert_eq!(seen.heard, "[ a=1 dropped [ a=1 ]5 following");
}

#[tokio::test(start_paused = true)]
async fn it_lists_again_when_it_is_time_and_when_it_is_asked() {
    let pages = |version| [Answer::Page(&[], version, ""), Answer::Silent(vec![])];
    let answers = || pages("5").into_iter().chain(pages("6")).chain(pages("7"));
    let resync = |watch: Watch<Script, Heard>| {
        watch.timed(Timing { resync: Some(Duration::from_secs(60)), ..Timing::default() })
    };
    let seen = play(answers(), PAGED(), 150, resync).await;
    let twice = ["0s list 250", "0s watch 5", "60s list 250", "60s watch 6", "120s list 250", "120s watch 7"];
    assert_eq!(seen.asked, twice);

    // Neither a watch that fails nor one that does not begin holds that up.
    for trouble in [Answer::Refuses(refused(503)), Answer::Hangs] {
        let answers = [Answer::Page(&[], "5", ""), trouble].into_iter().chain(pages("6"));
        let slow = Timing {
            answer: Duration::from_secs(500),
            resync: Some(Duration::from_secs(60)),
            backoff: Backoff::new(Duration::from_secs(500), Duration::from_secs(500)),
            ..Timing::default()
        };
        let seen = play(answers, PAGED(), 100, |watch| watch.timed(slow)).await;
        assert_eq!(seen.asked, ["0s list 250", "0s watch 5", "60s list 250", "60s watch 6"]);
    }

    let relist = Arc::new(Notify::new());
    let waker = relist.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(7)).await;
        waker.notify_one();
    });
    let seen = play(answers(), PAGED(), 50, |watch| watch.relisting_on(relist)).await;
    assert_eq!(seen.asked, ["0s list 250", "0s watch 5", "7s list 250", "7s watch 6"]);
    assert!(!seen.heard.contains('('), "nothing was cut: {}", seen.heard);
}

/// What was asked, whenever that was.
fn sizes(seen: &Seen) -> Vec<&str> {
    seen.asked.iter().map(|one| one.split_once(' ').unwrap().1).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_much_are_asked_for_smaller() {
    // The deadline of a page is 30 s; no page gets smaller than 16 for that.
    let answers = [Answer::Hangs, Answer::Hangs, Answer::Hangs, Answer::Page(&[], "5", "")];
    let seen = play(answers, PAGED(), 100, |watch| watch).await;
    assert_eq!(sizes(&seen)[..4], ["list 250", "list 50", "list 16", "list 16"]);

    let long = || Answer::Refuses(kube::Error::Service(Excess::Answer(10).into()));
    let seen = play([long(), long(), long(), long(), long()], PAGED(), 20, |watch| watch).await;
    assert_eq!(sizes(&seen)[..5], ["list 250", "list 50", "list 10", "list 2", "list 1"]);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_ever_longer_up_to_a_bound() {
    let answers = (0..40).map(|_| Answer::Refuses(refused(403)));
    let seen = play(answers, PAGED(), 60, |watch| watch).await;
    // Between half a pause and a whole one: 0.2 s, 0.4, 0.8, 1.6, 3.2, then 5 s each.
    assert!((15..=26).contains(&seen.asked.len()), "{:?}", seen.asked);
    let late: Vec<u64> =
        seen.asked[8..].iter().map(|one| one.split_once('s').unwrap().0.parse().unwrap()).collect();
    assert!(late.windows(2).all(|pair| (2..=6).contains(&(pair[1] - pair[0]))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_serves_is_empty_where_that_is_agreed_and_unknown_elsewhere() {
    let answers = || [Answer::Refuses(refused(404)), Answer::Refuses(refused(404))];
    let empty = Selection { unserved: Unserved::Empty, ..PAGED() };
    let seen = play(answers(), empty, 10, |watch| watch).await;
    assert_eq!(seen.heard, "[ dropped (the server knows no such kind)");
    let seen = play(answers(), PAGED(), 10, |watch| watch).await;
    assert!(seen.heard.starts_with("[ dropped (no)"), "{}", seen.heard);
}

#[tokio::test(start_paused = true)]
async fn what_no_server_sends_is_not_taken_in_and_read_anew() {
    let name: &'static str = Box::leak("n".repeat(254).into_boxed_str());
    let answers = [
        Answer::Page(&[], "5", ""),
        Answer::Ends(vec![shows(name, 6)]),
        Answer::Page(&[], "", ""),
        Answer::Page(&[], "7", ""),
        Answer::Silent(vec![]),
    ];
    let seen = play(answers, PAGED(), 10, |watch| watch).await;
    assert_eq!(
        seen.heard,
        "[ ]5 following dropped (it sends a name of 254 characters: no API server does) \
         [ dropped (it says no version to go on from) [ ]7 following"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_more_is_read_than_may_be_held() {
    let script = Script::new([Answer::Page(&[("a", 1), ("b", 2), ("c", 3)], "5", "")]);
    let heard = Heard { room: Some(1), ..Heard::default() };
    let words = heard.words.clone();
    let watch = Watch::new(script, heard, PAGED());
    let _ = timeout(Duration::from_millis(50), watch.run()).await;
    let words = words.lock().join(" ");
    assert!(words.starts_with("[ a=1 b=2 dropped (what it sends and what is kept"), "{words}");
}
