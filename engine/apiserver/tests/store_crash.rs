//! A store killed while it writes has everything it acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use koinon_apiserver::context::Context;
use koinon_apiserver::store::{Expect, Key, Labels, Op, Options, Store};

const DIR: &str = "KOINON_TEST_STORE_CRASH_DIR";
const WRITERS: usize = 8;
const ROUNDS: usize = 10;

fn open(dir: &Path) -> Store {
    Store::open(dir, Options::default(), &Context::real()).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("/pods", "default", name)
}

/// Not a test of its own: the process that is killed. It writes until then, and tells what was acknowledged.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let store = open(&dir);
    runtime.block_on(async {
        let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

async fn write(store: Store, writer: usize) {
    for turn in 0u64.. {
        let name = format!("{writer}-{}", turn % 7);
        // Deleted in every fifth turn, so that the absence of something is acknowledged, too.
        let (ops, body) = if turn % 5 == 4 && store.get(&key(&name)).is_some() {
            (vec![Op::Delete { key: key(&name), revision: None }], "-".to_owned())
        } else {
            let body = format!("{writer}/{turn}/{}", "x".repeat(usize::try_from(turn % 900).unwrap()));
            let put = |name: &str| Op::Put {
                key: key(name),
                expect: Expect::Any,
                body: body.as_bytes().into(),
                labels: Labels::default(),
            };
            (vec![put(&name), put(&format!("{name}-twin"))], body)
        };
        let committed = store.commit(ops).await.unwrap();
        let line = format!("ack {name} {} {body}\n", committed.revisions[0]);
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// What the victim was told last about each name: the revision, and the body unless it deleted it.
type Acknowledged = BTreeMap<String, (u64, String)>;

/// Lets a victim write for a number of acknowledgements, then kills it.
fn run_victim(dir: &Path, acknowledgements: usize, acknowledged: &mut Acknowledged) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(victim.stdout.take().unwrap());
    let mut told = String::new();
    for _ in 0..acknowledgements {
        assert_ne!(out.read_line(&mut told).unwrap(), 0, "the victim ended by itself: {told}");
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    out.read_to_string(&mut told).unwrap();
    for line in told.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if let ["ack", name, revision, body] = line.trim_end().split(' ').collect::<Vec<_>>()[..] {
            let revision = revision.parse().unwrap();
            let earlier = acknowledged.insert(name.to_owned(), (revision, body.to_owned()));
            assert!(earlier.is_none_or(|(earlier, _)| earlier < revision), "a revision was given twice");
        }
    }
}

/// All that was acknowledged is there, but for the one operation of each writer that was on its way: that may
/// have happened or not. Takes what it finds as what the next victim starts from.
fn check(store: &Store, acknowledged: &mut Acknowledged) {
    let mut under_way: BTreeMap<String, usize> = BTreeMap::new();
    for (name, told) in acknowledged {
        assert!(store.revision() >= told.0);
        let found = store.get(&key(name));
        let twin = store.get(&key(&format!("{name}-twin"))).expect("a twin is never deleted");
        if let Some(entry) = &found {
            let half = "half a transaction happened";
            assert_eq!((entry.revision + 1, &entry.body), (twin.revision, &twin.body), "{half}");
        }
        let found = match found {
            Some(entry) => (entry.revision, String::from_utf8(entry.body.to_vec()).unwrap()),
            None if told.1 == "-" => continue,
            None => (store.revision(), "-".to_owned()),
        };
        if found != *told {
            assert!(found.0 > told.0, "{name} was {told:?} and is {found:?}");
            *under_way.entry(name.split('-').next().unwrap().to_owned()).or_default() += 1;
            *told = found;
        }
    }
    assert!(under_way.values().all(|count| *count == 1), "more is lost than was under way: {under_way:?}");
}

#[test]
fn every_acknowledged_write_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut acknowledged = Acknowledged::new();
    for round in 0..ROUNDS {
        run_victim(dir.path(), 40 + 37 * round, &mut acknowledged);
        // In every other round the next victim itself has to recover what this one left.
        let copy = tempfile::tempdir().unwrap();
        let recovering = if round % 2 == 0 { dir.path() } else { copy.path() };
        if round % 2 == 1 {
            std::fs::copy(dir.path().join("store.redb"), copy.path().join("store.redb")).unwrap();
        }
        let store = open(recovering);
        check(&store, &mut acknowledged);
        runtime.block_on(store.close());
    }
    assert!(acknowledged.len() >= WRITERS);
}
