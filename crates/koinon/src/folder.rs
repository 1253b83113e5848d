//! The data folder: whose it is, which version wrote it, and that only one process uses it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

/// How the folder is laid out. A version that cannot read what an older one wrote raises it.
const LAYOUT: u32 = 1;
const MARK: &str = "koinon.json";

/// What a folder holds the state of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Use {
    /// A federation with its members, of `koinon up`.
    Up,
    /// One cluster, of `koinon cluster`.
    Cluster,
}

impl Use {
    fn command(self) -> &'static str {
        match self {
            Use::Up => "koinon up",
            Use::Cluster => "koinon cluster",
        }
    }
}

/// A data folder that this process, and no other, uses until it drops it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    layout: u32,
    version: String,
    r#use: Use,
    /// Who uses it, so far as it is in use.
    pid: u32,
}

impl Folder {
    /// Takes the folder for this process, and makes it where there is none.
    pub(crate) fn open(path: PathBuf, r#use: Use) -> anyhow::Result<Folder> {
        private(&path)?;
        own(&path)?;
        let file = path.join(MARK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        let held = match lock.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", file.display()));
            }
        };
        let mut text = String::new();
        lock.read_to_string(&mut text).with_context(|| format!("cannot read {}", file.display()))?;
        check(&path, &text, r#use, held)?;
        let mark = Mark {
            layout: LAYOUT,
            version: env!("CARGO_PKG_VERSION").into(),
            r#use,
            pid: std::process::id(),
        };
        lock.set_len(0)?;
        lock.rewind()?;
        serde_json::to_writer(&lock, &mark)?;
        lock.write_all(b"\n").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Folder { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether this program may use a folder with this mark.
fn check(path: &Path, text: &str, r#use: Use, held: bool) -> anyhow::Result<()> {
    let folder = path.display();
    // A folder of a newer version may say more than is understood here: first only what tells that.
    let mark: serde_json::Value = match text.trim() {
        "" if held => {
            bail!("the data folder {folder} is in use by another process: choose another with --data")
        }
        "" => return Ok(()),
        text => serde_json::from_str(text).with_context(|| {
            format!("{folder}/{MARK} is not what koinon wrote: choose another folder with --data")
        })?,
    };
    let layout = mark["layout"].as_u64().unwrap_or(u64::MAX);
    let version = mark["version"].as_str().unwrap_or("unknown").to_owned();
    if held {
        bail!(
            "the data folder {folder} is in use by another koinon, process {}: stop that one or choose another \
             folder with --data",
            mark["pid"]
        );
    }
    if layout > u64::from(LAYOUT) {
        bail!(
            "the data folder {folder} belongs to a newer version, koinon {version}; this is {}: use that version, \
             or choose another folder with --data",
            env!("CARGO_PKG_VERSION")
        );
    }
    let mark: Mark = serde_json::from_value(mark).with_context(|| {
        format!("{folder}/{MARK} is not what koinon wrote: choose another folder with --data")
    })?;
    if mark.r#use != r#use {
        bail!(
            "the data folder {folder} is one of `{}`, not of `{}`: choose another with --data",
            mark.r#use.command(),
            r#use.command()
        );
    }
    Ok(())
}

/// The folder for state when none is given: below the user's data folder.
pub(crate) fn default(name: &str) -> anyhow::Result<PathBuf> {
    let base = match std::env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => match std::env::var_os("HOME").filter(|folder| !folder.is_empty()) {
            Some(home) => PathBuf::from(home).join(".local/share"),
            None => bail!("there is no home folder to keep the state in: choose one with --data"),
        },
    };
    Ok(base.join("koinon").join(name))
}

/// Makes a folder that only its owner can read.
pub(crate) fn private(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}: choose another with --data", folder.display()))
}

/// Checks that a folder is this user's and that nobody else can write to it: who can may put keys and state of their own there.
pub(crate) fn own(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
    let seen = |what: std::io::Result<std::fs::Metadata>| {
        what.with_context(|| format!("cannot look at the folder {}", folder.display()))
    };
    let (link, real) = (seen(std::fs::symlink_metadata(folder))?, seen(std::fs::metadata(folder))?);
    // Whose this process is shows in what it makes.
    let probe = folder.join(format!(".koinon-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe);
    let made = made.and_then(|file| file.metadata());
    let removed = std::fs::remove_file(&probe);
    let us = made.with_context(|| format!("cannot write to the folder {}", folder.display()))?.uid();
    removed.with_context(|| format!("cannot remove {}", probe.display()))?;
    match fault(us, [link.uid(), real.uid()], real.mode()) {
        Some(why) => bail!("the folder {} {why}, or choose another with --data", folder.display()),
        None => Ok(()),
    }
}

/// Why a folder with these owners, of the way there and of itself, must not be used.
fn fault(us: u32, owners: [u32; 2], mode: u32) -> Option<String> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    if let Some(other) = owners.into_iter().find(|owner| *owner != us) {
        return Some(format!(
            "belongs to the user with the id {other}, who could change all that is kept in it: make it yours"
        ));
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Some("can be written to by other users: take that away with chmod go-w".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        for (mode, is_fine) in [(0o700, true), (0o755, true), (0o775, false), (0o757, false), (0o1777, false)]
        {
            let folder = place.path().join(format!("{mode:o}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            let opened = Folder::open(folder.clone(), Use::Up);
            assert_eq!(opened.is_ok(), is_fine, "{mode:o}");
            if let Err(error) = opened {
                assert!(error.to_string().contains("chmod go-w"), "{error}");
                assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left in it");
            }
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        assert_eq!(fault(1000, [1000, 1000], 0o40700), None);
        for owners in [[0, 1000], [1000, 7]] {
            assert!(fault(1000, owners, 0o40700).unwrap().contains("belongs to the user"), "{owners:?}");
        }
        assert!(
            fault(0, [1000, 1000], 0o40700).is_some(),
            "also to root: it would trust what that user put there"
        );
    }

    fn refused(folder: &Path, r#use: Use) -> String {
        Folder::open(folder.to_owned(), r#use).unwrap_err().to_string()
    }

    #[test]
    fn one_process_one_use_and_no_newer_version() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        let first = Folder::open(folder.clone(), Use::Up).unwrap();
        assert!(refused(&folder, Use::Up).contains(&format!("process {}", std::process::id())));
        drop(first);
        assert!(refused(&folder, Use::Cluster).contains("is one of `koinon up`"));
        drop(Folder::open(folder.clone(), Use::Up).unwrap());
        let newer = r#"{"layout": 9, "version": "7.0.0", "use": "moon", "more": {}}"#;
        std::fs::write(folder.join(MARK), newer).unwrap();
        assert!(refused(&folder, Use::Up).contains("newer version, koinon 7.0.0"));
        std::fs::write(folder.join(MARK), "some text").unwrap();
        assert!(refused(&folder, Use::Up).contains("not what koinon wrote"));
        // What was refused is left as it was.
        assert_eq!(std::fs::read_to_string(folder.join(MARK)).unwrap(), "some text");
    }
}
