//! Events on the object that a user looks at: counted rather than repeated, and never in the way of the work.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;

use crate::call::{Error, within_deadline};
use crate::clock::Clock;
use crate::repeats::Repeats;

/// More than this many wait only when the server is away; then the oldest news still tells the most.
const WAITING: usize = 1000;
/// So many objects and reasons are remembered to count repetitions.
const REMEMBERED: usize = 4096;
/// From this many different messages with one reason on one object, they are told as one event.
const SIMILAR: u32 = 10;
/// Names that are tried for an event before it is given up.
const ATTEMPTS: usize = 5;
const SIMILAR_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    Normal,
    Warning,
}

impl Weight {
    fn as_str(self) -> &'static str {
        match self {
            Weight::Normal => "Normal",
            Weight::Warning => "Warning",
        }
    }
}

/// Something to tell about an object.
struct News {
    about: ObjectReference,
    host: Option<Arc<str>>,
    weight: Weight,
    reason: String,
    message: String,
    at: Timestamp,
}

/// Where a controller says what it did and what is wrong.
#[derive(Clone)]
pub struct Recorder {
    component: Arc<str>,
    host: Option<Arc<str>>,
    clock: Clock,
    news: mpsc::Sender<News>,
    /// Where what is told is logged too.
    log: Option<Log>,
}

/// How what is told is logged.
#[derive(Clone, Default)]
struct Log {
    repeats: Arc<Repeats>,
    /// The member that it is told of.
    member: Option<Arc<str>>,
}

/// Writes what a [`Recorder`] was told.
pub struct Writer {
    client: Client,
    component: Arc<str>,
    news: mpsc::Receiver<News>,
    memory: Memory,
}

/// A recorder for one component, and the task that writes what it is told.
pub fn recorder(client: Client, component: &str, clock: Clock) -> (Recorder, Writer) {
    let (sender, news) = mpsc::channel(WAITING);
    let component: Arc<str> = component.into();
    let recorder = Recorder { component: component.clone(), host: None, clock, news: sender, log: None };
    (recorder, Writer { client, component, news, memory: Memory::default() })
}

impl Recorder {
    /// A recorder for what happens on one machine.
    pub fn on_host(&self, host: &str) -> Recorder {
        Recorder { host: Some(host.into()), ..self.clone() }
    }

    /// A recorder by which everything is also a line of the log: that of a role tells what its events tell.
    #[must_use]
    pub fn logged(self) -> Recorder {
        Recorder { log: Some(Log::default()), ..self }
    }

    /// The same for what is told of objects in one member.
    #[must_use]
    pub fn logged_of(self, member: &str) -> Recorder {
        Recorder { log: Some(Log { member: Some(member.into()), ..Log::default() }), ..self }
    }

    /// A recorder for what is logged elsewhere.
    #[must_use]
    pub fn unlogged(&self) -> Recorder {
        Recorder { log: None, ..self.clone() }
    }

    /// Tells about an object; returns at once.
    pub fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        weight: Weight,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.tell_about(object.object_ref(&()), weight, reason, message.into());
    }

    /// Tells about an object that is known by reference; returns at once.
    pub fn tell_about(&self, about: ObjectReference, weight: Weight, reason: &str, message: String) {
        let news = News {
            about,
            host: self.host.clone(),
            weight,
            reason: reason.to_owned(),
            message,
            at: self.clock.now(),
        };
        if let Some(log) = &self.log {
            log.line(&news);
        }
        if let Err(mpsc::error::TrySendError::Full(news)) = self.news.try_send(news) {
            tracing::debug!(component = %self.component, reason = news.reason, "an event was dropped");
        }
    }
}

impl Log {
    /// One line, unless there is one for the same already.
    fn line(&self, news: &News) {
        let (object, what) = (Subject::of(news).object, format!("{}: {}", news.reason, news.message));
        // What is normal is a change, and the same change after another is news. What is wrong is a cause, however many there are.
        let about = match news.weight {
            Weight::Normal => object,
            Weight::Warning => format!("{object}: {what}"),
        };
        let Some(before) = self.repeats.another(about, &what, news.at) else { return };
        let repeated = (before > 0).then_some(before);
        let ObjectReference { kind, namespace, name, .. } = &news.about;
        let (kind, namespace, name) = (kind.as_deref(), namespace.as_deref(), name.as_deref());
        let (member, reason, message) = (self.member.as_deref(), &*news.reason, &*news.message);
        match news.weight {
            Weight::Normal => {
                tracing::info!(member, kind, namespace, name, reason, repeated, "{message}");
            }
            Weight::Warning => {
                tracing::warn!(member, kind, namespace, name, reason, repeated, "{message}");
            }
        }
    }
}

impl Writer {
    /// Writes until every recorder is gone.
    pub async fn run(mut self) {
        while let Some(news) = self.news.recv().await {
            let namespace = news.about.namespace.clone().unwrap_or_else(|| "default".into());
            let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
            let told = self.memory.place(&news);
            let outcome = match &told {
                Told::New { name, message } => self.create(&api, &news, name, message).await,
                Told::Again { name, count, message } => {
                    let change = json!({
                        "count": count, "lastTimestamp": Time(news.at), "message": message,
                    });
                    let params =
                        PatchParams { field_manager: Some(self.component.to_string()), ..Default::default() };
                    within_deadline(api.patch(name, &params, &Patch::Merge(change))).await.map(drop)
                }
            };
            if let Err(error) = outcome {
                // A namespace that is going takes no events; the next occurrence makes a new one.
                tracing::debug!(component = %self.component, %error, "an event was not written");
                self.memory.lost(&news);
            }
        }
    }
}

impl Writer {
    async fn create(
        &mut self,
        api: &Api<Event>,
        news: &News,
        name: &str,
        message: &str,
    ) -> Result<(), Error> {
        let params = PostParams { field_manager: Some(self.component.to_string()), ..Default::default() };
        let mut name = name.to_owned();
        let mut attempts = 0;
        loop {
            let event = event(news, &self.component, &name, message);
            attempts += 1;
            match within_deadline(api.create(&params, &event)).await {
                // Another component told of the same object in the same moment.
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    name = self.memory.rename(news, message);
                }
                outcome => return outcome.map(drop),
            }
        }
    }
}

fn event(news: &News, component: &str, name: &str, message: &str) -> Event {
    let namespace = news.about.namespace.clone().unwrap_or_else(|| "default".into());
    Event {
        metadata: ObjectMeta { name: Some(name.into()), namespace: Some(namespace), ..Default::default() },
        involved_object: news.about.clone(),
        type_: Some(news.weight.as_str().into()),
        reason: Some(news.reason.clone()),
        message: Some(message.into()),
        source: Some(EventSource {
            component: Some(component.into()),
            host: news.host.as_deref().map(str::to_owned),
        }),
        reporting_component: Some(component.into()),
        first_timestamp: Some(Time(news.at)),
        last_timestamp: Some(Time(news.at)),
        count: Some(1),
        ..Event::default()
    }
}

/// What was told before, so that it is counted and not told again.
#[derive(Default)]
struct Memory {
    subjects: BTreeMap<Subject, Recent>,
    /// The time in the name of the newest event, in nanoseconds.
    named: i128,
}

/// One object and one reason.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    object: String,
    weight: Weight,
    reason: String,
}

struct Recent {
    last: Timestamp,
    /// The event for each message.
    by_message: BTreeMap<String, Written>,
    /// The one event that stands for all further messages.
    combined: Option<Written>,
}

struct Written {
    name: String,
    count: i32,
}

#[derive(Debug, PartialEq)]
enum Told {
    New { name: String, message: String },
    Again { name: String, count: i32, message: String },
}

impl Subject {
    fn of(news: &News) -> Subject {
        let about = &news.about;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let object = [&about.kind, &about.namespace, &about.name, &about.uid, &about.field_path];
        let object = object.map(part).join("/");
        Subject { object, weight: news.weight, reason: news.reason.clone() }
    }
}

/// A name by object and time. Two events of one moment still need two names.
fn next_name(named: &mut i128, news: &News) -> String {
    *named = news.at.as_nanosecond().max(*named + 1);
    format!("{}.{named:x}", news.about.name.as_deref().unwrap_or_default())
}

impl Memory {
    fn place(&mut self, news: &News) -> Told {
        let subject = Subject::of(news);
        if self.subjects.len() >= REMEMBERED && !self.subjects.contains_key(&subject) {
            let oldest = self.subjects.iter().min_by_key(|(_, recent)| recent.last);
            if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
                self.subjects.remove(&oldest);
            }
        }
        let recent = self.subjects.entry(subject).or_insert_with(|| Recent {
            last: news.at,
            by_message: BTreeMap::new(),
            combined: None,
        });
        if news.at.duration_since(recent.last) > SIMILAR_WITHIN {
            recent.by_message.clear();
            recent.combined = None;
        }
        recent.last = news.at;
        let name = next_name(&mut self.named, news);
        if let Some(written) = recent.by_message.get_mut(&news.message) {
            written.count += 1;
            let Written { name, count } = &*written;
            return Told::Again { name: name.clone(), count: *count, message: news.message.clone() };
        }
        if (recent.by_message.len() as u32) + 1 < SIMILAR {
            recent.by_message.insert(news.message.clone(), Written { name: name.clone(), count: 1 });
            return Told::New { name, message: news.message.clone() };
        }
        let message = format!("(combined from similar events): {}", news.message);
        match &mut recent.combined {
            Some(written) => {
                written.count += 1;
                Told::Again { name: written.name.clone(), count: written.count, message }
            }
            None => {
                recent.combined = Some(Written { name: name.clone(), count: 1 });
                Told::New { name, message }
            }
        }
    }

    /// The name of the event was taken: gives another, which it is remembered by.
    fn rename(&mut self, news: &News, message: &str) -> String {
        let name = next_name(&mut self.named, news);
        if let Some(recent) = self.subjects.get_mut(&Subject::of(news)) {
            let written = if message == news.message {
                recent.by_message.get_mut(message)
            } else {
                recent.combined.as_mut()
            };
            if let Some(written) = written {
                written.name.clone_from(&name);
            }
        }
        name
    }

    /// The event could not be written, or is no longer there.
    fn lost(&mut self, news: &News) {
        self.subjects.remove(&Subject::of(news));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(message: &str, second: i64) -> News {
        News {
            about: ObjectReference { name: Some("web".into()), uid: Some("1".into()), ..Default::default() },
            host: None,
            weight: Weight::Normal,
            reason: "Scaled".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn count(told: &Told) -> (i32, &str) {
        match told {
            Told::New { message, .. } => (1, message),
            Told::Again { count, message, .. } => (*count, message),
        }
    }

    #[test]
    fn a_repetition_is_counted_on_the_first_event() {
        let mut memory = Memory::default();
        let first = memory.place(&news("a", 1));
        let again = memory.place(&news("a", 2));
        let (Told::New { name, .. }, Told::Again { name: same, count: 2, .. }) = (&first, &again) else {
            panic!("{first:?}, {again:?}")
        };
        assert_eq!(name, same);
    }

    #[test]
    fn many_similar_messages_become_one_event() {
        let mut memory = Memory::default();
        for number in 0..9 {
            assert_eq!(count(&memory.place(&news(&number.to_string(), number))).0, 1);
        }
        assert_eq!(count(&memory.place(&news("x", 20))), (1, "(combined from similar events): x"));
        assert_eq!(count(&memory.place(&news("y", 21))), (2, "(combined from similar events): y"));
        // After a quiet while they are news again.
        assert_eq!(count(&memory.place(&news("z", 21 + 601))), (1, "z"));
    }

    #[test]
    fn events_of_one_moment_have_names_of_their_own() {
        let mut memory = Memory::default();
        let told = ["a", "b"].map(|message| memory.place(&news(message, 1)));
        let [Told::New { name: first, .. }, Told::New { name: second, .. }] = &told else {
            panic!("{told:?}")
        };
        assert_ne!(first, second);
    }

    #[test]
    fn an_event_whose_name_was_taken_is_counted_under_its_new_one() {
        let mut memory = Memory::default();
        memory.place(&news("a", 1));
        let renamed = memory.rename(&news("a", 1), "a");
        let again = memory.place(&news("a", 2));
        assert_eq!(again, Told::Again { name: renamed, count: 2, message: "a".into() });
    }

    #[test]
    fn an_event_that_was_lost_is_told_anew() {
        let mut memory = Memory::default();
        memory.place(&news("a", 1));
        memory.lost(&news("a", 1));
        assert_eq!(count(&memory.place(&news("a", 2))).0, 1);
    }
}
