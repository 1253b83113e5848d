//! What `koinon lab` and a running `up` say to each other: one line there, one line back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something to do to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Order {
    Stop { member: String },
    Start { member: String },
    Cut { member: String },
    Heal { member: String },
    Delay { member: String, delay: Duration },
    Show,
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Done(String),
    Failed(String),
}

/// The longest path that a socket can have on every system.
const LONGEST: usize = 100;

/// Where a running `up` with this data folder listens.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    let plain = folder.join("lab.sock");
    if plain.as_os_str().len() <= LONGEST {
        return plain;
    }
    // Too long for a socket: a name in the folder for temporary files that follows from the path.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in plain.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    std::env::temp_dir().join(format!("koinon-lab-{hash:016x}.sock"))
}
