use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use proptest::prelude::*;

use super::*;

/// Keeps how many entries a ConfigMap has; one without any is of no interest.
#[derive(PartialEq, Debug)]
struct Size(usize);

impl Record for Size {
    type Object = ConfigMap;

    fn fold(object: &ConfigMap) -> Option<Size> {
        object.data.as_ref().map(|data| Size(data.len()))
    }
}

fn map(name: &str, version: u64, size: usize) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(format!("uid-{name}")),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    let data = (0..size).map(|index| (index.to_string(), String::new())).collect();
    ConfigMap { metadata, data: (size > 0).then_some(data), ..ConfigMap::default() }
}

struct Seen {
    index: Arc<Index<Size>>,
    heard: Arc<Mutex<Vec<String>>>,
    a: ClusterId,
}

impl Seen {
    fn new() -> Seen {
        let (index, heard) = (Index::new(), Arc::new(Mutex::new(Vec::new())));
        let ears: Arc<Mutex<Vec<String>>> = heard.clone();
        index.on_change(move |news| {
            ears.lock().push(match news {
                News::Record(_, key) => key.name.clone(),
                News::Knowledge(_, Knowledge::Stale { .. }) => "stale".into(),
                News::Knowledge(_, knowledge) => format!("{knowledge:?}").to_lowercase(),
            });
        });
        Seen { index, heard, a: ClusterId::new("a").unwrap() }
    }

    fn list(&self, maps: &[ConfigMap], at: u64) {
        self.index.begin_list(&self.a);
        for map in maps {
            self.index.list(&self.a, map);
        }
        self.index.end_list(&self.a, at);
        self.index.followed(&self.a);
    }

    #[track_caller]
    fn check(&self, records: &str, heard: &str) {
        let now: Vec<_> =
            self.index.of_member("a").iter().map(|(key, size)| format!("{}={}", key.name, size.0)).collect();
        assert_eq!(now.join(" "), records);
        assert_eq!(std::mem::take(&mut *self.heard.lock()).join(" "), heard);
    }
}

#[test]
fn a_kind_that_is_not_served_is_told_from_one_that_is_empty() {
    let seen = Seen::new();
    assert!(!seen.index.is_unserved("a"), "nobody knows");
    seen.index.unserved(&seen.a);
    seen.check("", "complete");
    assert!(seen.index.is_unserved("a"));
    seen.index.unserved(&seen.a);
    seen.check("", "");
    seen.list(&[], 5);
    seen.check("", "complete");
    assert!(!seen.index.is_unserved("a"));
    seen.index.unserved(&seen.a);
    seen.check("", "complete");
}

#[test]
fn only_records_that_changed_are_told() {
    let seen = Seen::new();
    seen.list(&[map("x", 1, 2), map("y", 2, 0)], 2);
    seen.check("x=2", "x complete");
    seen.index.apply(&seen.a, &map("x", 3, 2));
    seen.check("x=2", "");
    seen.index.apply(&seen.a, &map("x", 4, 3));
    seen.check("x=3", "x");
    seen.index.apply(&seen.a, &map("y", 5, 1));
    seen.index.apply(&seen.a, &map("x", 6, 0));
    seen.check("y=1", "y x");
    seen.index.delete(&seen.a, &map("y", 7, 1));
    seen.check("", "y");
}

#[test]
fn half_a_list_changes_nothing_and_a_cut_keeps_all() {
    let seen = Seen::new();
    seen.index.begin_list(&seen.a);
    seen.index.list(&seen.a, &map("x", 1, 1));
    assert_eq!(seen.index.knowledge("a"), Knowledge::Unknown);
    seen.index.cut(&seen.a, Timestamp::UNIX_EPOCH);
    assert_eq!(seen.index.knowledge("a"), Knowledge::Unknown);
    seen.check("", "");
    seen.list(&[map("x", 1, 1), map("y", 2, 1)], 2);
    seen.check("x=1 y=1", "x y complete");
    seen.index.cut(&seen.a, Timestamp::UNIX_EPOCH);
    seen.index.begin_list(&seen.a);
    seen.index.list(&seen.a, &map("x", 1, 1));
    seen.check("x=1 y=1", "stale");
    seen.list(&[map("x", 1, 1)], 9);
    seen.check("x=1", "y complete");
}

#[test]
fn what_we_wrote_counts_at_once_and_is_not_undone_by_older_news() {
    let seen = Seen::new();
    seen.list(&[map("x", 1, 1)], 1);
    seen.index.learn(&seen.a, &map("x", 5, 2));
    seen.index.learn(&seen.a, &map("z", 6, 1));
    seen.index.apply(&seen.a, &map("x", 3, 7));
    seen.check("x=2 z=1", "x complete x z");
    seen.index.apply(&seen.a, &map("x", 5, 2));
    // It was deleted before the watch came to show it.
    seen.index.pass(&seen.a, 7);
    seen.check("x=2", "z");
}

#[test]
fn who_leaves_takes_everything_along() {
    let seen = Seen::new();
    seen.list(&[map("x", 1, 1)], 1);
    seen.check("x=1", "x complete");
    seen.index.leave(&seen.a);
    seen.check("", "x unknown");
    assert_eq!(seen.index.knowledge("a"), Knowledge::Unknown);
}

/// What happens to one of a few objects, and how the index hears of it.
#[derive(Clone, Debug)]
enum Act {
    /// Somebody writes an object with so many entries; none deletes it.
    Write { name: u8, size: usize, by_us: bool },
    /// The watch brings so many events.
    Deliver(usize),
    /// The watch is cut, and goes on where it was.
    Cut,
    /// What the watch would go on from is gone: everything is listed.
    Relist,
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0u8..4, 0usize..4, any::<bool>()).prop_map(|(name, size, by_us)| Act::Write { name, size, by_us }),
        4 => (1usize..5).prop_map(Act::Deliver),
        1 => Just(Act::Cut),
        1 => Just(Act::Relist),
    ]
}

proptest! {
    /// However events, our own writes, cuts and lists follow each other: once everything arrived the index holds
    /// what the server has, and before that never less than what we wrote ourselves.
    #[test]
    fn in_the_end_the_index_is_as_the_server(script in prop::collection::vec(acts(), 1..80)) {
        let seen = Seen::new();
        let (mut server, mut log) = (BTreeMap::<u8, ConfigMap>::new(), Vec::<(u64, u8, Option<ConfigMap>, ConfigMap)>::new());
        let (mut version, mut delivered, mut lives) = (0u64, 0usize, 0u64);
        seen.list(&[], 0);
        let deliver = |log: &[(u64, u8, Option<ConfigMap>, ConfigMap)], from: usize, to: usize| {
            for (at, _, after, before) in &log[from..to] {
                match after {
                    Some(after) => seen.index.apply(&seen.a, after),
                    None => {
                        let mut gone = before.clone();
                        gone.metadata.resource_version = Some(at.to_string());
                        seen.index.delete(&seen.a, &gone);
                    }
                }
            }
        };
        for act in script {
            match act {
                Act::Write { name, size, by_us } => {
                    version += 1;
                    let before = server.get(&name).cloned();
                    if size == 0 {
                        let Some(before) = before else { continue };
                        server.remove(&name);
                        log.push((version, name, None, before.clone()));
                        if by_us {
                            let uid = before.metadata.uid.clone().unwrap();
                            seen.index.forget(&seen.a, &Key::of(&before), &uid);
                        }
                        continue;
                    }
                    let mut after = map(&name.to_string(), version, size);
                    lives += u64::from(before.is_none());
                    let uid = before.and_then(|before| before.metadata.uid).unwrap_or_else(|| format!("life-{lives}"));
                    after.metadata.uid = Some(uid);
                    server.insert(name, after.clone());
                    log.push((version, name, Some(after.clone()), after.clone()));
                    if by_us {
                        seen.index.learn(&seen.a, &after);
                        prop_assert_eq!(seen.index.get("a", &Key::of(&after)).map(|size| size.0), Some(size));
                    }
                }
                Act::Deliver(count) => {
                    let to = (delivered + count).min(log.len());
                    deliver(&log, delivered, to);
                    delivered = to;
                }
                Act::Cut => {
                    seen.index.cut(&seen.a, Timestamp::UNIX_EPOCH);
                    seen.index.followed(&seen.a);
                }
                Act::Relist => {
                    let all: Vec<_> = server.values().cloned().collect();
                    seen.list(&all, version);
                    delivered = log.len();
                }
            }
        }
        deliver(&log, delivered, log.len());
        seen.index.pass(&seen.a, version);
        let held: Vec<_> = seen.index.of_member("a").into_iter().map(|(key, size)| (key.name, size.0)).collect();
        let there: Vec<_> = server.iter().map(|(name, map)| (name.to_string(), map.data.as_ref().unwrap().len())).collect();
        prop_assert_eq!(held, there);
    }
}
