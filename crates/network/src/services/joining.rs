//! Which federated Services an object joins, by its annotations in every spelling.

use std::collections::BTreeMap;

use koinon_api::names::membership::NETWORK_NAMESPACE;
use koinon_api::names::network::{DOMAINS, GLOBAL, NAMESPACED};
use koinon_control::Key;

use super::address::{is_service_name, shown};
use super::mcs::is_behind_an_import;
use super::model::Flaw;

/// What an object's annotations ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The federated Services it joins, each by the namespace and name that it has in every member.
    pub joins: Vec<Key>,
    pub flaws: Vec<Flaw>,
}

impl Asked {
    /// Reads the annotations of an object in `namespace`; `None` if they do not speak of federated Services.
    pub fn read(namespace: &str, annotations: &BTreeMap<String, String>) -> Option<Asked> {
        let mut asked = Asked::default();
        let mut any = false;
        for (scope, place) in [(GLOBAL, NETWORK_NAMESPACE), (NAMESPACED, namespace)] {
            let Some(value) = value(scope, annotations, &mut asked.flaws) else { continue };
            any = true;
            if is_behind_an_import(value) {
                asked.flaws.push(Flaw {
                    reason: "InvalidFederatedName",
                    message: format!(
                        "{} cannot be the name of a federated Service: names like it are kept for Services behind imports",
                        shown(value)
                    ),
                });
            } else if is_service_name(value) {
                asked.joins.push(Key::new(place, value));
            } else {
                asked.flaws.push(Flaw {
                    reason: "InvalidFederatedName",
                    message: format!(
                        "{} cannot be the name of a federated Service: use lower-case letters, digits and '-', at \
                         most 63, beginning with a letter",
                        shown(value)
                    ),
                });
            }
        }
        asked.joins.sort();
        asked.joins.dedup();
        any.then_some(asked)
    }
}

/// The value of a key in the first spelling that is there.
pub(crate) fn value<'a>(
    key: &str,
    annotations: &'a BTreeMap<String, String>,
    flaws: &mut Vec<Flaw>,
) -> Option<&'a str> {
    let spelled = DOMAINS.iter().filter_map(|domain| {
        let key = format!("{key}{domain}");
        annotations.get(&key).map(|value| (key, value.as_str()))
    });
    let spelled: Vec<(String, &str)> = spelled.collect();
    let (first, value) = spelled.first()?;
    if let Some((other, differs)) = spelled.iter().find(|(_, other)| other != value) {
        flaws.push(Flaw {
            reason: "AmbiguousAnnotation",
            message: format!(
                "{first} says {} and {other} says {}: the first counts; remove the other",
                shown(value),
                shown(differs)
            ),
        });
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Option<(String, Vec<&'static str>)> {
        let annotations =
            annotations.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let asked = Asked::read("ns1", &annotations)?;
        let joins: Vec<_> = asked.joins.iter().map(Key::to_string).collect();
        Some((joins.join(" "), asked.flaws.iter().map(|flaw| flaw.reason).collect()))
    }

    #[test]
    fn every_spelling_joins() {
        for domain in DOMAINS {
            let global = format!("svc.global.federated.{domain}");
            assert_eq!(
                read(&[(&global, "foo")]),
                Some(("antrea-plus-system/foo".into(), vec![])),
                "{domain}"
            );
            let namespaced = format!("svc.federated.{domain}");
            assert_eq!(read(&[(&namespaced, "foo")]), Some(("ns1/foo".into(), vec![])), "{domain}");
        }
        assert_eq!(read(&[("svc.global.federated.example.com", "foo")]), None);
    }

    #[test]
    fn one_service_can_join_both_ways() {
        let both = [
            ("svc.global.federated.antreaplus.vmware.com", "a"),
            ("svc.federated.antreaplus.vmware.com", "b"),
        ];
        assert_eq!(read(&both), Some(("antrea-plus-system/a ns1/b".into(), vec![])));
    }

    #[test]
    fn two_spellings_that_differ_are_told_and_the_first_counts() {
        let two = [
            ("svc.global.federated.antreaplus.vmware.com", "old"),
            ("svc.global.federated.antreaplus.vmware-tanzu.com", "new"),
        ];
        assert_eq!(read(&two), Some(("antrea-plus-system/new".into(), vec!["AmbiguousAnnotation"])));
        let same = [two[0], ("svc.global.federated.antreaplus.vmware-tanzue.com", "old")];
        assert_eq!(read(&same), Some(("antrea-plus-system/old".into(), vec![])));
    }

    #[test]
    fn names_that_no_service_can_have_join_nothing() {
        for name in ["", "Foo", "1foo", "a.b", "foo/bar", &"a".repeat(64), "import-0123456789abcdef0123"] {
            let wanted = Some((String::new(), vec!["InvalidFederatedName"]));
            assert_eq!(read(&[("svc.federated.antreaplus.vmware.com", name)]), wanted, "{name}");
        }
    }
}
