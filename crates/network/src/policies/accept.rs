//! Whose policies a member takes, as its own Federation says.
//!
//! The annotation `koinon.dev/accept-policies` on a member's Federation: `all`, `none`, or the IDs of members,
//! separated by commas. Without it, all. A member with `none` takes no part: it gives no policies either.

use std::collections::BTreeSet;

use koinon_fleet::ClusterId;

/// Whose policies a member takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Accept {
    #[default]
    All,
    /// It takes no part in policies.
    None,
    /// Its own, and those that were last changed in these members.
    From(BTreeSet<String>),
}

impl Accept {
    pub fn parse(text: Option<&str>) -> Accept {
        match text.map(str::trim) {
            None | Some("" | "all") => Accept::All,
            Some("none") => Accept::None,
            Some(names) => Accept::From(names.split(',').map(|name| name.trim().to_owned()).collect()),
        }
    }

    /// Whether the member `me` takes what a user of `origin` did.
    pub fn takes(&self, me: &ClusterId, origin: &ClusterId) -> bool {
        match self {
            Accept::All => true,
            Accept::None => me == origin,
            Accept::From(names) => me == origin || names.contains(origin.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_member_trusts() {
        let id = |name: &str| ClusterId::new(name).unwrap();
        for (text, takes) in [
            (None, "a b m"),
            (Some("all"), "a b m"),
            (Some("none"), "m"),
            (Some("a"), "a m"),
            (Some(" a, c "), "a c m"),
            (Some("unknown"), "m"),
        ] {
            let accept = Accept::parse(text);
            for name in ["a", "b", "c", "m"] {
                let expected = takes.split(' ').any(|one| one == name) || (accept == Accept::All);
                assert_eq!(accept.takes(&id("m"), &id(name)), expected, "{text:?} {name}");
            }
        }
    }
}
