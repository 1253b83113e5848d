//! What ExternalDNS is told about a federated Service: a name, and the addresses that it leads to.
//!
//! ExternalDNS would publish the address of the Service itself, which leads nowhere outside the cluster; so it is told
//! the targets too. What somebody wrote by hand always wins, and stays.

use std::collections::BTreeMap;

use koinon_api::names::membership::NETWORK_NAMESPACE;
use koinon_api::names::network::EXTERNAL_DNS_WRITTEN;
use koinon_control::Key;

/// The prefix of newer releases, and that of older ones.
const PREFIXES: [&str; 2] = ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"];
/// More addresses than this make no useful answer.
const MOST_TARGETS: usize = 50;

/// What stands in a Service's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Hostname and target under each prefix, where they are there.
    values: BTreeMap<String, String>,
    /// What of it we wrote.
    written: BTreeMap<String, String>,
}

/// Addresses by which a federated Service is reached from outside every cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    All(Vec<String>),
    /// These, and maybe others that are not known now: none that was told is taken back.
    AtLeast(Vec<String>),
}

/// Changes of annotations: what each should be, or that it should go.
pub type Changes = BTreeMap<String, Option<String>>;

impl Found {
    pub fn read(annotations: &BTreeMap<String, String>, written: &str) -> Found {
        let keys =
            PREFIXES.iter().flat_map(|prefix| ["hostname", "target"].map(|key| format!("{prefix}{key}")));
        let values = keys.filter_map(|key| annotations.get(&key).map(|value| (key, value.clone())));
        let written = annotations.get(written).and_then(|text| serde_json::from_str(text).ok());
        Found { values: values.collect(), written: written.unwrap_or_default() }
    }

    /// Whether nobody has said anything to ExternalDNS here, by hand or by us.
    pub fn is_untouched(&self) -> bool {
        self.values.is_empty() && self.written.is_empty()
    }

    /// What to change for a federated Service to be found under `suffix`; without one, what to take back.
    pub fn changes(&self, key: &Key, suffix: Option<&str>, targets: &Targets) -> Changes {
        let manual = |key: &str| self.values.get(key).filter(|value| self.written.get(key) != Some(value));
        let mut wanted: BTreeMap<String, String> = BTreeMap::new();
        let has_manual_name = PREFIXES.iter().any(|prefix| manual(&format!("{prefix}hostname")).is_some());
        for prefix in PREFIXES {
            let (hostname, target) = (format!("{prefix}hostname"), format!("{prefix}target"));
            let by_hand = manual(&hostname).is_some();
            let ours = suffix.filter(|_| !has_manual_name);
            if let Some(suffix) = ours {
                wanted.insert(hostname, name(key, suffix));
            }
            let addresses = self.addresses(targets, &target);
            if (by_hand || ours.is_some()) && !addresses.is_empty() && manual(&target).is_none() {
                wanted.insert(target, addresses);
            }
        }
        let mut changes = Changes::new();
        for (key, value) in &wanted {
            if self.values.get(key) != Some(value) {
                changes.insert(key.clone(), Some(value.clone()));
            }
        }
        for (key, value) in &self.written {
            if !wanted.contains_key(key) && self.values.get(key) == Some(value) {
                changes.insert(key.clone(), None);
            }
        }
        if wanted != self.written {
            let text = serde_json::to_string(&wanted).ok().filter(|_| !wanted.is_empty());
            changes.insert(EXTERNAL_DNS_WRITTEN.to_owned(), text);
        }
        changes
    }

    /// What to tell as a target, with all that was told before where others may be out of sight.
    fn addresses(&self, targets: &Targets, key: &str) -> String {
        let told = || self.written.get(key).into_iter().flat_map(|told| told.split(','));
        let mut addresses: Vec<&str> = match targets {
            Targets::All(known) => known.iter().map(String::as_str).collect(),
            Targets::AtLeast(known) => {
                let new = known.iter().map(String::as_str).filter(|one| !told().any(|told| told == *one));
                told().chain(new).collect()
            }
        };
        addresses.truncate(MOST_TARGETS);
        addresses.sort_unstable();
        addresses.join(",")
    }
}

fn name(key: &Key, suffix: &str) -> String {
    let suffix = suffix.trim_matches('.');
    if key.namespace == NETWORK_NAMESPACE {
        return format!("{}.{suffix}", key.name);
    }
    format!("{}.{}.{suffix}", key.name, key.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "external-dns.kubernetes.io/";
    const OLD: &str = "external-dns.alpha.kubernetes.io/";

    /// Applies changes until nothing changes any more, which must be at once.
    fn settle(annotations: &mut BTreeMap<String, String>, suffix: Option<&str>, targets: &[&str]) {
        settle_to(annotations, suffix, &Targets::All(targets.iter().map(|text| text.to_string()).collect()));
    }

    fn settle_to(annotations: &mut BTreeMap<String, String>, suffix: Option<&str>, targets: &Targets) {
        let key = Key::new(NETWORK_NAMESPACE, "foo");
        for (key, value) in Found::read(annotations, EXTERNAL_DNS_WRITTEN).changes(&key, suffix, targets) {
            match value {
                Some(value) => drop(annotations.insert(key, value)),
                None => drop(annotations.remove(&key)),
            }
        }
        let again = Found::read(annotations, EXTERNAL_DNS_WRITTEN).changes(&key, suffix, targets);
        assert_eq!(again, Changes::new());
    }

    #[test]
    fn a_name_and_its_targets_are_told_under_both_prefixes_and_taken_back() {
        let mut annotations = BTreeMap::from([("mine".to_owned(), "stays".to_owned())]);
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.1", "10.0.0.2"]);
        for prefix in [NEW, OLD] {
            assert_eq!(annotations[&format!("{prefix}hostname")], "foo.my-org.com");
            assert_eq!(annotations[&format!("{prefix}target")], "10.0.0.1,10.0.0.2");
        }
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.3"]);
        assert_eq!(annotations[&format!("{NEW}target")], "10.0.0.3");
        settle(&mut annotations, None, &["10.0.0.3"]);
        assert_eq!(annotations, BTreeMap::from([("mine".to_owned(), "stays".to_owned())]));
    }

    #[test]
    fn what_is_written_by_hand_wins_and_stays() {
        let hostname = format!("{OLD}hostname");
        let mut annotations = BTreeMap::from([(hostname.clone(), "by.hand.org".to_owned())]);
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.1"]);
        assert_eq!(annotations[&hostname], "by.hand.org");
        assert!(!annotations.contains_key(&format!("{NEW}hostname")));
        assert_eq!(annotations[&format!("{OLD}target")], "10.0.0.1", "or the name would lead nowhere");
        annotations.insert(format!("{OLD}target"), "1.2.3.4".into());
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.9"]);
        assert_eq!(annotations[&format!("{OLD}target")], "1.2.3.4");
        settle(&mut annotations, None, &[]);
        assert_eq!(annotations[&hostname], "by.hand.org");
        assert_eq!(annotations[&format!("{OLD}target")], "1.2.3.4");
    }

    #[test]
    fn no_target_is_taken_back_while_others_may_be_out_of_sight() {
        let (mut annotations, target) = (BTreeMap::new(), format!("{NEW}target"));
        let at_least = |known: &[&str]| Targets::AtLeast(known.iter().map(|text| text.to_string()).collect());
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.1", "10.0.0.3"]);
        settle_to(&mut annotations, Some("my-org.com"), &at_least(&["10.0.0.2", "10.0.0.3"]));
        assert_eq!(annotations[&target], "10.0.0.1,10.0.0.2,10.0.0.3");
        settle_to(&mut annotations, Some("my-org.com"), &at_least(&[]));
        assert_eq!(annotations[&target], "10.0.0.1,10.0.0.2,10.0.0.3");
        let many: Vec<String> = (0..MOST_TARGETS).map(|number| format!("10.0.0.{number:03}")).collect();
        settle_to(&mut annotations, Some("my-org.com"), &Targets::AtLeast(many));
        assert!(annotations[&target].contains("10.0.0.1,"), "what was told goes before what is new");
        settle(&mut annotations, Some("my-org.com"), &["10.0.0.2"]);
        assert_eq!(annotations[&target], "10.0.0.2");
    }

    #[test]
    fn a_service_of_a_namespace_has_a_name_of_its_own() {
        assert_eq!(name(&Key::new("shop", "web"), ".my-org.com"), "web.shop.my-org.com");
    }
}
