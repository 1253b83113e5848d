//! The name by which a federation knows a cluster.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::sync::Arc;

/// A lease, a Secret and a DNS name are called by it, so it has to fit all of them.
const LONGEST: usize = 127;

/// The ID of a cluster: lower-case letters, digits, `-` and `.`, such as `eu-west.prod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(Arc<str>);

/// Why a text is no cluster ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no name for a cluster: it takes lower-case letters, digits, '-' and '.', starts and ends \
     with a letter or digit, and has at most {LONGEST} characters"
)]
pub struct InvalidId {
    text: String,
}

impl ClusterId {
    /// Reads an ID, which is a DNS subdomain.
    pub fn new(text: &str) -> Result<ClusterId, InvalidId> {
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= LONGEST && text.split('.').all(label) {
            Ok(ClusterId(text.into()))
        } else {
            Err(InvalidId { text: text.chars().take(2 * LONGEST).collect() })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for ClusterId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_dns_name() {
        for good in ["a", "eu-west.prod", "0", &"a".repeat(63)] {
            assert_eq!(ClusterId::new(good).unwrap().as_str(), good);
        }
        let long = format!("{0}.{0}", "a".repeat(63));
        assert!(ClusterId::new(&long).is_ok());
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "ä", &"a".repeat(64), &format!("{long}.a")] {
            assert!(ClusterId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            ClusterId::new("Eu").unwrap_err().to_string(),
            "\"Eu\" is no name for a cluster: it takes lower-case letters, digits, '-' and '.', starts and ends \
             with a letter or digit, and has at most 127 characters"
        );
    }
}
