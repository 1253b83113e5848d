//! The store's file: the current objects and the revision, in redb.
//!
//! Every page is checked against redb's checksums when the file is opened, and every commit has two phases,
//! so damage to what was acknowledged is refused instead of taken for an unfinished commit and rolled back.
//! One bit is beyond that: the one that tells which of two commits is the last, in a file that was not closed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    TableError,
};

use super::batch::Change;
use super::state::State;
use super::{Key, OpenError, Options, record};
use crate::context::Context;

const FILE: &str = "store.redb";
/// Until it is complete, a new file has this name.
const UNFINISHED: &str = "store.redb.new";
/// How every redb file begins.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const OBJECTS: TableDefinition<(&str, &str, &str), &[u8]> = TableDefinition::new("objects");

const KIND: &str = "koinon apiserver store";
const FORMAT: u64 = 1;
/// As in etcd, where an empty store is at revision 1; in the API, 0 has a meaning of its own.
pub(super) const FIRST_REVISION: u64 = 1;

/// All objects are in memory, so redb's cache only serves the pages that the next commit touches, and a page
/// that is not in it is in the system's cache.
const CACHE_BYTES: usize = 64 << 10;

pub(super) struct Journal {
    database: Database,
    record: Vec<u8>,
}

/// What a journal had to tell.
pub(super) struct Recovered {
    pub(super) journal: Journal,
    pub(super) state: State,
    pub(super) id: String,
    pub(super) path: PathBuf,
}

struct Meta {
    revision: u64,
    id: String,
}

/// Why a file was refused, before its path is told.
enum Refusal {
    Foreign,
    Newer(u64),
    Locked,
    Damaged(Box<dyn std::error::Error + Send + Sync>),
    Io(std::io::Error),
}

impl Journal {
    /// Opens the journal of a folder, or begins one where there is none.
    pub(super) fn open(dir: &Path, options: Options, context: &Context) -> Result<Recovered, OpenError> {
        let path = dir.join(FILE);
        // redb asserts some of what it reads, so a damaged file can make it panic.
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            // Of two processes that start at once, the second shall see the finished work of the first.
            let _turn = lock_folder(dir)?;
            if !path.try_exists()? {
                create(dir, &path, &context.uid())?;
            }
            open_existing(&path, options)
        }));
        let refused = match attempt {
            Ok(Ok((journal, state, id))) => return Ok(Recovered { journal, state, id, path }),
            Ok(Err(refused)) => refused,
            Err(_) => Refusal::Damaged("its pages are inconsistent".into()),
        };
        Err(match refused {
            Refusal::Foreign => OpenError::Foreign { path },
            Refusal::Newer(found) => OpenError::Newer { path, found, supported: FORMAT },
            Refusal::Locked => OpenError::Locked { path },
            Refusal::Damaged(cause) => OpenError::Damaged { path, cause: cause.into() },
            Refusal::Io(cause) => OpenError::Io { path, cause },
        })
    }

    /// A journal on storage that a test controls.
    #[cfg(test)]
    pub(super) fn on(storage: impl redb::StorageBackend) -> Self {
        let database = builder().create_with_backend(storage).expect("new storage is usable");
        Journal { database, record: Vec::new() }
    }

    /// Makes changes durable; when it returns, they are on the disk.
    pub(super) fn write(&mut self, changes: &[Change], revision: u64) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_two_phase_commit(true);
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for Change { key, after, .. } in changes {
                let key = (key.resource.as_ref(), key.namespace.as_ref(), key.name.as_ref());
                match after {
                    Some(entry) => {
                        self.record.clear();
                        record::encode(entry, &mut self.record);
                        objects.insert(key, self.record.as_slice())?;
                    }
                    None => {
                        objects.remove(key)?;
                    }
                }
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("revision", revision.to_le_bytes().as_slice())?;
        }
        transaction.commit()?;
        // One large object must not keep its size of memory for good.
        self.record.shrink_to(64 << 10);
        Ok(())
    }
}

fn lock_folder(dir: &Path) -> Result<File, std::io::Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let folder = File::open(dir)?;
    folder.lock()?;
    Ok(folder)
}

/// Begins an empty journal under another name first: a file of the final name is always a whole one.
fn create(dir: &Path, path: &Path, id: &str) -> Result<(), Refusal> {
    let unfinished = dir.join(UNFINISHED);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let database = builder().create_file(file)?;
    let transaction = database.begin_write().map_err(redb::Error::from)?;
    {
        let mut meta = transaction.open_table(META)?;
        let (format, revision) = (FORMAT.to_le_bytes(), FIRST_REVISION.to_le_bytes());
        let values: [(&str, &[u8]); 4] =
            [("kind", KIND.as_bytes()), ("format", &format), ("revision", &revision), ("id", id.as_bytes())];
        for (name, value) in values {
            meta.insert(name, value)?;
        }
        transaction.open_table(OBJECTS)?;
    }
    transaction.commit().map_err(redb::Error::from)?;
    drop(database);
    File::open(&unfinished)?.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    // The folders above may be new as well; one that cannot be read was not made here.
    for folder in dir.canonicalize()?.ancestors().filter_map(|folder| File::open(folder).ok()) {
        folder.sync_all()?;
    }
    Ok(())
}

fn open_existing(path: &Path, options: Options) -> Result<(Journal, State, String), Refusal> {
    let mut start = [0; MAGIC.len()];
    match File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
        _ if start != MAGIC => return Err(Refusal::Foreign),
        _ => {}
    }
    // Opening for writing marks the file, so what is not ours is looked at without that. A file that was not
    // closed cannot be read before its recovery, which any redb program would do in the same way.
    match builder().open_read_only(path) {
        Ok(database) => drop(read_meta(&database)?),
        Err(DatabaseError::RepairAborted) => {}
        Err(error) => return Err(error.into()),
    }
    let recovering = Arc::new(AtomicBool::new(false));
    let seen = recovering.clone();
    let mut database =
        builder().set_repair_callback(move |_| seen.store(true, Ordering::Relaxed)).open(path)?;
    let meta = read_meta(&database)?;
    // A recovery has checked every page already. After a clean end nothing has, nor the list of free pages,
    // which this derives anew.
    if !recovering.load(Ordering::Relaxed) {
        database.check_integrity()?;
    }
    let mut state = State::new(meta.revision, options);
    load(&database, &mut state)?;
    Ok((Journal { database, record: Vec::new() }, state, meta.id))
}

fn read_meta(database: &impl ReadableDatabase) -> Result<Meta, Refusal> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let meta = match transaction.open_table(META) {
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Err(Refusal::Foreign),
        Ok(meta) => meta,
    };
    let number = |name| -> Result<u64, Refusal> {
        let value = meta.get(name)?.ok_or_else(|| incomplete(name))?;
        Ok(u64::from_le_bytes(value.value().try_into().map_err(|_| incomplete(name))?))
    };
    if meta.get("kind")?.is_none_or(|kind| kind.value() != KIND.as_bytes()) {
        return Err(Refusal::Foreign);
    }
    match number("format")? {
        FORMAT => {}
        0 => return Err(incomplete("format")),
        newer => return Err(Refusal::Newer(newer)),
    }
    let id = meta.get("id")?.ok_or_else(|| incomplete("id"))?;
    let id = String::from_utf8(id.value().to_vec()).map_err(|_| incomplete("id"))?;
    Ok(Meta { revision: number("revision")?, id })
}

fn load(database: &Database, state: &mut State) -> Result<(), Refusal> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    for record in transaction.open_table(OBJECTS)?.iter()? {
        let (key, record) = record?;
        let (resource, namespace, name) = key.value();
        let entry = record::decode(record.value()).filter(|entry| entry.revision <= state.revision);
        let entry = entry.ok_or_else(|| Refusal::Damaged(format!("{resource} {namespace}/{name}").into()))?;
        state.restore(&Key::new(resource, namespace, name), Arc::new(entry));
    }
    Ok(())
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn incomplete(name: &str) -> Refusal {
    Refusal::Damaged(format!("its {name} cannot be read").into())
}

impl From<redb::Error> for Refusal {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Refusal::Locked,
            // Reading past the end, or what redb cannot make sense of, is the file's fault, not the disk's.
            redb::Error::Io(error)
                if !matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) =>
            {
                Refusal::Io(error)
            }
            error => Refusal::Damaged(error.into()),
        }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Refusal::Io(error)
    }
}

impl From<DatabaseError> for Refusal {
    fn from(error: DatabaseError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<TableError> for Refusal {
    fn from(error: TableError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        redb::Error::from(error).into()
    }
}
