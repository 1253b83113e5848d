//! What `koinon lab` and a running `up` say to each other: one line there, one line back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::folder;

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
pub(crate) fn socket(folder: &Path) -> anyhow::Result<PathBuf> {
    place(folder, || folder::default("lab"))
}

/// In the data folder; where its path is too long for a socket, in a folder that is the user's own, under a name that
/// follows from the path. Never where other users could have put another.
fn place(folder: &Path, own: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<PathBuf> {
    let fits = |path: &Path| path.as_os_str().len() <= LONGEST;
    let plain = folder.join("lab.sock");
    if fits(&plain) {
        return Ok(plain);
    }
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in plain.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let other = own()?.join(format!("{hash:016x}.sock"));
    if !fits(&other) {
        bail!(
            "the path of the data folder {} is too long for a socket in it: choose a shorter one with --data",
            folder.display()
        );
    }
    Ok(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_in_a_folder_of_the_users_own() {
        let own = || Ok(PathBuf::from("/home/jane/.local/share/koinon/lab"));
        assert_eq!(place(Path::new("/data"), own).unwrap(), Path::new("/data/lab.sock"));
        let long = |end: &str| PathBuf::from(format!("/{}/{end}", "x".repeat(200)));
        let [one, other] = ["a", "b"].map(|end| place(&long(end), own).unwrap());
        assert!(one.starts_with("/home/jane/.local/share/koinon/lab") && one != other, "{one:?} {other:?}");
        let told = place(&long("a"), || Ok(long("home"))).unwrap_err().to_string();
        assert!(told.contains("--data"), "{told}");
    }
}
