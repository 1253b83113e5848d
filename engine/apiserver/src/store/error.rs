//! Why the store could not do what it was asked.

use std::path::PathBuf;
use std::sync::Arc;

use super::Entry;

/// The cause of a failure below the store.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a transaction changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// An operation's expectation does not hold; `current` is what is there instead.
    #[error("operation {index} expected another state of its object")]
    Conflict { index: usize, current: Option<Arc<Entry>> },
    /// The disk failed, now or earlier. Whether this transaction reached the disk is not known until a restart.
    #[error("the store accepts no more writes until a restart, because writing its journal failed")]
    Journal(#[source] Cause),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why the past, or the future, could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision is older than the history kept, which reaches back to `floor`.
    #[error("the requested revision is older than {floor}, the oldest one kept")]
    Compacted { floor: u64 },
    /// The revision has not been given out yet.
    #[error("the requested revision is newer than {current}, the latest one")]
    Future { current: u64 },
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher fell behind the history; `floor` is the oldest revision it could resume from.
    #[error("the watch fell behind the history, which reaches back to {floor}")]
    Compacted { floor: u64 },
    /// The store was closed, and every event before that has been delivered.
    #[error("the store is closed")]
    Closed,
}

/// The store was closed before the awaited revision came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
pub struct Closed;

/// Why a folder could not be opened as a store. No object in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is not a store of this program; move it away or choose another --data folder", .path.display())]
    Foreign { path: PathBuf },
    #[error("the store {} is damaged; restore it from a backup or choose another --data folder", .path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        cause: Cause,
    },
    #[error(
        "the store {} was written by a newer version (format {found}, this one reads {supported}); \
         run that version or choose another --data folder", .path.display()
    )]
    Newer { path: PathBuf, found: u64, supported: u64 },
    #[error(
        "the store {} is in use by another running process; stop that one or choose another --data folder",
        .path.display()
    )]
    Locked { path: PathBuf },
    #[error("cannot open the store {}; check that the folder exists and is writable", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}
