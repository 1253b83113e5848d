//! Revisions of a policy: what it says, who said so, and what they knew. No clocks.

use std::cmp::Ordering;
use std::fmt::{self, Display};

use koinon_fleet::ClusterId;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fingerprint of what a policy says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 16]);

impl Hash {
    pub fn of(text: &[u8]) -> Hash {
        let mut short = [0; 16];
        short.copy_from_slice(&digest(&SHA256, text).as_ref()[..16]);
        Hash(short)
    }

    fn parse(text: &str) -> Option<Hash> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Hash(bytes))
    }
}

impl Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..3].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash::parse(&text).ok_or_else(|| serde::de::Error::custom("no fingerprint"))
    }
}

/// The highest number that a revision can have: what many readers of JSON understand, and nobody ever counts to. What
/// claims to be higher was not counted.
pub const HIGHEST: u64 = (1 << 53) - 1;

/// One revision of a policy. The greater of two wins: the higher number; at equal numbers what lives beats what
/// was removed, so that a policy is never lost to a coincidence; then the origin that comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub rev: u64,
    /// The revision that whoever made this one had in front of them.
    pub base: u64,
    /// The member where a user made it.
    pub origin: ClusterId,
    /// What it says; `None` says that the policy was removed.
    pub content: Option<Hash>,
}

impl Version {
    pub fn is_live(&self) -> bool {
        self.content.is_some()
    }

    /// What was changed in a cluster that was no member: it is less than any revision.
    pub fn overruled(member: &ClusterId, content: Hash) -> Version {
        Version { rev: 0, base: 0, origin: member.clone(), content: Some(content) }
    }

    pub fn is_overruled(&self) -> bool {
        self.rev == 0
    }

    /// Whether whoever made `other` did not have this one in front of them, nor anything later.
    pub fn was_unknown_to(&self, other: &Version) -> bool {
        other.base < self.rev && self.origin != other.origin
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.splitn(4, '.');
        let rev = parts.next()?.parse().ok().filter(|rev| *rev <= HIGHEST)?;
        let base = parts.next()?.parse().ok().filter(|base| *base <= HIGHEST)?;
        let content = match parts.next()? {
            "-" => None,
            text => Some(Hash::parse(text)?),
        };
        let origin = ClusterId::new(parts.next()?).ok()?;
        Some(Version { rev, base, origin, content })
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.", self.rev, self.base)?;
        match &self.content {
            Some(content) => write!(f, "{content}.{}", self.origin),
            None => write!(f, "-.{}", self.origin),
        }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let rank = |one: &Version| (one.rev, one.is_live());
        rank(self)
            .cmp(&rank(other))
            .then_with(|| other.origin.cmp(&self.origin))
            .then_with(|| other.content.cmp(&self.content))
            // Never equal unless it is the same: acknowledgements name one version.
            .then_with(|| self.base.cmp(&other.base))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        let (rev, rest) = text.split_once(' ').unwrap();
        let (origin, says) = rest.split_once(' ').unwrap();
        let content = (says != "-").then(|| Hash::of(says.as_bytes()));
        Version { rev: rev.parse().unwrap(), base: 0, origin: ClusterId::new(origin).unwrap(), content }
    }

    #[test]
    fn the_winner() {
        for (wins, loses) in [
            ("2 b x", "1 a y"),
            ("2 b -", "1 a y"),
            ("1 b x", "1 a -"),
            ("1 a x", "1 b y"),
            ("1 a -", "1 b -"),
        ] {
            assert!(version(wins) > version(loses), "{wins} beats {loses}");
            assert!(version(loses) < version(wins), "{wins} beats {loses}");
        }
    }

    #[test]
    fn a_version_reads_as_it_is_written() {
        for text in ["1 a x", "77 eu-west.prod -"] {
            let version = version(text);
            assert_eq!(Version::parse(&version.to_string()), Some(version));
        }
        for bad in ["", "1", "1.2.3.a", "1.0.-.A", "x.0.-.a", "1.0.zz.a"] {
            assert_eq!(Version::parse(bad), None, "{bad:?}");
        }
        for (rev, base, is_one) in [(HIGHEST, 0, true), (HIGHEST + 1, 0, false), (1, u64::MAX, false)] {
            assert_eq!(Version::parse(&format!("{rev}.{base}.-.a")).is_some(), is_one, "{rev} {base}");
        }
    }

    #[test]
    fn only_what_its_author_did_not_know_is_a_conflict() {
        let mine = version("2 a x");
        let mut theirs = version("3 b y");
        theirs.base = 2;
        assert!(!mine.was_unknown_to(&theirs));
        theirs.base = 1;
        assert!(mine.was_unknown_to(&theirs));
    }
}
