//! What a store on disk keeps over a restart.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use koinon_apiserver::context::Context;
use koinon_apiserver::store::{Expect, Key, Labels, ListAt, ListQuery, Op, Options, ReadError, Store};

fn open(dir: &Path) -> Store {
    Store::open(dir, Options::default(), &Context::real()).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("/pods", "default", name)
}

fn put(name: &str, body: &str, labels: &[(&str, &str)]) -> Op {
    Op::Put {
        key: key(name),
        expect: Expect::Any,
        body: body.as_bytes().into(),
        labels: labels.iter().copied().collect::<Labels>(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_many_writers_were_told_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut written = Vec::new();
                for turn in 0..10 {
                    let name = format!("{writer}-{turn}");
                    let committed = store.commit(vec![put(&name, &name, &[])]).await.unwrap();
                    written.push((name, committed.revisions[0]));
                }
                written
            })
        })
        .collect();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    let stats = store.stats();
    assert_eq!((stats.ops, stats.objects), (640, 640));
    assert!(stats.batches <= 640 && stats.journal_bytes > 0);
    store.close().await;

    let store = open(dir.path());
    assert_eq!(store.revision(), stats.revision);
    for (name, revision) in written {
        let entry = store.get(&key(&name)).unwrap();
        assert_eq!((entry.revision, entry.body.as_ref()), (revision, name.as_bytes()));
    }
    store.close().await;
}

#[tokio::test]
async fn no_revision_is_given_twice_even_when_nothing_is_left_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let store = open(dir.path());
        assert!(store.revision() >= last);
        let committed = store
            .commit(vec![put("a", "", &[]), Op::Delete { key: key("a"), revision: None }])
            .await
            .unwrap();
        assert!(committed.revisions[0] > last && committed.revisions[1] > committed.revisions[0]);
        last = committed.revisions[1];
        store.close().await;
    }
}

#[tokio::test]
async fn objects_labels_and_id_survive_and_the_history_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let large = "x".repeat(1_500_000);
    let labels = [("app", "web"), ("tier", ""), ("größe", "🦀")];
    store.commit(vec![put("labelled", "{}", &labels), put("large", &large, &[])]).await.unwrap();
    let (id, entries) = (store.id().to_owned(), ["labelled", "large"].map(|name| store.get(&key(name))));
    store.close().await;

    let store = open(dir.path());
    assert_eq!(store.id(), id);
    assert_eq!(["labelled", "large"].map(|name| store.get(&key(name))), entries);
    let floor = store.revision();
    for resource in ["/pods", "/never-seen"] {
        assert_eq!(store.watch(resource, floor - 1).err(), Some(ReadError::Compacted { floor }));
        let past = ListQuery { at: ListAt::Exact(floor - 1), ..ListQuery::all(resource) };
        assert_eq!(store.list(&past).err(), Some(ReadError::Compacted { floor }));
        assert!(store.watch(resource, floor).unwrap().try_next().unwrap().is_empty());
    }
    store.close().await;
}

#[tokio::test]
async fn the_folder_and_the_file_are_private_and_neighbours_are_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("deep/data");
    open(&dir).close().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("store.redb"))), (0o700, 0o600));

    let shared = parent.path().join("shared");
    std::fs::create_dir_all(shared.join("pki")).unwrap();
    std::fs::write(shared.join("kubeconfig"), "apiVersion: v1").unwrap();
    // What a crash while the file was first made leaves behind.
    std::fs::write(shared.join("store.redb.new"), "half a file").unwrap();
    open(&shared).close().await;
    let mut names: Vec<_> =
        std::fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kubeconfig", "pki", "store.redb"]);
    assert_eq!(std::fs::read_to_string(shared.join("kubeconfig")).unwrap(), "apiVersion: v1");
}
