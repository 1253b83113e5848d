//! Files that a store must refuse, and say why.

use std::path::Path;
use std::sync::Arc;

use koinon_apiserver::context::Context;
use koinon_apiserver::store::{Entry, Expect, Key, Labels, ListQuery, Op, OpenError, Options, Store};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redb::{Database, TableDefinition};

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

fn open(dir: &Path) -> Result<Store, OpenError> {
    Store::open(dir, Options::default(), &Context::real())
}

/// A revision, and the objects at it by name.
type Content = (u64, Vec<(Arc<str>, Arc<Entry>)>);

fn objects(store: &Store) -> Content {
    let snapshot = store.list(&ListQuery::all("/pods")).unwrap();
    (snapshot.revision, snapshot.items.into_iter().map(|item| (item.name, item.entry)).collect())
}

/// Writes enough for pages of several kinds, in several commits.
async fn fill(store: &Store) {
    for turn in 0..12 {
        let ops = (0..4).map(|index| Op::Put {
            key: Key::new("/pods", "default", format!("pod-{}", (turn * 3 + index) % 24)),
            expect: Expect::Any,
            body: vec![b'a' + turn; 100 + 900 * usize::from(index)].into(),
            labels: Labels::from_iter([("turn", turn.to_string())]),
        });
        store.commit(ops.collect()).await.unwrap();
    }
    store
        .commit(vec![Op::Delete { key: Key::new("/pods", "default", "pod-3"), revision: None }])
        .await
        .unwrap();
}

/// A whole file, and what is in it.
struct Sample {
    file: Vec<u8>,
    content: Content,
}

/// A store that was closed, and one that a crash left: the file as it is between two commits.
fn samples() -> (Sample, Sample) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let store = open(dir.path()).unwrap();
        fill(&store).await;
        let content = objects(&store);
        let crashed = Sample { file: std::fs::read(&path).unwrap(), content: content.clone() };
        store.close().await;
        (Sample { file: std::fs::read(&path).unwrap(), content }, crashed)
    })
}

/// A file either opens with all that was acknowledged, or it is refused, and refused again.
fn refused_or_right(file: &[u8], sample: &Sample) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("store.redb"), file).unwrap();
    for attempt in 0..2 {
        match open(dir.path()) {
            Err(OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. }) => {}
            Err(other) => return Err(format!("attempt {attempt}: {other:?}")),
            Ok(store) => {
                let found = objects(&store);
                let close = store.close();
                tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(close);
                if found != sample.content {
                    return Err(format!("attempt {attempt}: other content at revision {}", found.0));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_flipped_bit_is_refused_or_harmless() {
    const HEADER: usize = 320;
    let (closed, crashed) = samples();
    for (sample, what) in [(closed, "closed"), (crashed, "crashed")] {
        let used: Vec<usize> = (HEADER..sample.file.len()).filter(|at| sample.file[*at] != 0).collect();
        let anywhere = prop_oneof![
            2 => 0..HEADER,
            3 => proptest::sample::select(used),
            1 => HEADER..sample.file.len(),
        ];
        let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
        TestRunner::new(config)
            .run(&(anywhere, 0..8u32), |(at, bit)| {
                // Of a file that was not closed, this bit alone tells which of two commits is the last.
                prop_assume!((what, at, bit) != ("crashed", 9, 0));
                let mut file = sample.file.clone();
                file[at] ^= 1 << bit;
                refused_or_right(&file, &sample)
                    .map_err(|why| TestCaseError::fail(format!("{what}, byte {at}, bit {bit}: {why}")))
            })
            .unwrap();
    }
}

#[test]
fn a_changed_body_is_refused() {
    let (closed, crashed) = samples();
    for mut sample in [closed, crashed] {
        let body = &sample.content.1[0].1.body;
        let starts: Vec<usize> =
            (0..sample.file.len()).filter(|at| sample.file[*at..].starts_with(body)).collect();
        assert!(!starts.is_empty());
        starts.iter().for_each(|at| sample.file[*at + 50] ^= 1);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("store.redb"), &sample.file).unwrap();
        for _ in 0..2 {
            let error = open(dir.path()).err().expect("an object is not what it was");
            assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
            assert!(error.to_string().contains("is damaged; restore it from a backup"), "{error}");
        }
    }
}

#[test]
fn a_truncated_file_is_refused_or_whole() {
    let (closed, crashed) = samples();
    for sample in [closed, crashed] {
        let length = sample.file.len();
        for cut in [0, 1, 9, 320, 4096, length / 2, length / 2 + 1, length - 4096, length - 1, length] {
            refused_or_right(&sample.file[..cut], &sample).unwrap_or_else(|why| panic!("at {cut}: {why}"));
        }
    }
}

/// Refused with these words, twice, and the file stays as it was.
fn check_refused(prepare: impl FnOnce(&Path), words: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    prepare(&path);
    let before = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        let error = open(dir.path()).err().expect("this is to be refused").to_string();
        assert!(error.contains(words) && error.contains("--data"), "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before, "a refused file is left as it was");
}

fn write_meta(path: &Path, values: &[(&str, &[u8])]) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    for (name, value) in values {
        transaction.open_table(META).unwrap().insert(name, value).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn what_is_not_ours_is_refused() {
    const FOREIGN: &str = "is not a store of this program";
    check_refused(|path| std::fs::write(path, "").unwrap(), FOREIGN);
    check_refused(|path| std::fs::write(path, "SQLite format 3\0").unwrap(), FOREIGN);
    check_refused(|path| write_meta(path, &[]), FOREIGN);
    check_refused(|path| write_meta(path, &[("kind", b"another program")]), FOREIGN);
    let other_table = |path: &Path| {
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        let table: TableDefinition<u64, u64> = TableDefinition::new("meta");
        transaction.open_table(table).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    };
    check_refused(other_table, FOREIGN);
}

#[test]
fn a_newer_format_is_refused() {
    let newer = 2u64.to_le_bytes();
    let prepare = |path: &Path| write_meta(path, &[("kind", b"koinon apiserver store"), ("format", &newer)]);
    check_refused(prepare, "was written by a newer version");
}

#[tokio::test]
async fn a_store_in_use_is_refused_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    fill(&store).await;
    for _ in 0..2 {
        let error = open(dir.path()).err().expect("the first one holds it");
        assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
        assert!(error.to_string().contains("in use by another running process"), "{error}");
    }
    fill(&store).await;
    let content = objects(&store);
    store.close().await;
    assert_eq!(objects(&open(dir.path()).unwrap()), content);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = open(&file.join("data")).err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
}
