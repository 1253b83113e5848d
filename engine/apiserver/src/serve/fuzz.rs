//! Hostile addresses and YAML bodies.

use std::sync::LazyLock;

use http::Method;
use proptest::prelude::*;

use super::info::Info;
use super::{route, yaml};
use crate::catalog::Catalog;
use crate::fuzz::{corpus, hostile};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::default);

fn addresses(path: &str) {
    for method in [Method::GET, Method::POST, Method::DELETE, Method::TRACE] {
        for watch in [false, true] {
            let mut info = Info::parse(&method, path, watch);
            info.select(Some(path));
            let parts =
                [&info.group, &info.version, &info.namespace, &info.resource, &info.name, &info.subresource];
            // Bytes that are no text are shown by a letter of three.
            let length: usize = parts.iter().map(|part| part.len()).sum();
            assert!(length <= 6 * path.len(), "{path}");
            assert!(info.resource_path || length == 0, "{path}");
            // Whatever the path, a user who is authorised in a namespace reaches nothing outside of namespaces.
            if let Ok(resource) = route::find(&CATALOG, &info, &method) {
                assert!(resource.namespaced || !info.below_namespace, "{method} {path}");
            }
        }
    }
}

fn bodies(body: &str) {
    if let Ok(yaml::Yaml { json, .. }) = yaml::parse(body.as_bytes()) {
        let most = 4096 * (body.len() + 1);
        assert!(format!("{json:?}").len() <= most, "{body}");
    }
}

#[test]
fn the_corpus_is_handled() {
    corpus(include_str!("../testdata/fuzz/addresses.txt")).for_each(addresses);
    // A line has no room for lines: they are written as `\n`.
    corpus(include_str!("../testdata/fuzz/yaml.txt")).for_each(|line| bodies(&line.replace("\\n", "\n")));
}

const ADDRESS: &[&str] = &[
    "/",
    "//",
    "api",
    "apis",
    "v1",
    "apps",
    "namespaces",
    "default",
    "pods",
    "watch",
    "status",
    "finalize",
    "proxy",
    "%2f",
    "%",
    "%ff",
    "%00",
    "..",
    ".",
    "?",
    "clusterrolebindings",
    "~",
    "\u{feff}",
];
const YAML: &[&str] = &[
    "a",
    ": ",
    "\n",
    "  ",
    "- ",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!!binary ",
    "|",
    ">",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "#",
    "---\n",
    "...\n",
    "? ",
    "%YAML 1.2\n",
    "~",
    "0x1",
    ".inf",
    "1e3",
    "\t",
    "*b",
    "&b ",
    "\\",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_address_is_taken_apart(path in hostile(ADDRESS)) {
        addresses(&path);
    }

    #[test]
    fn any_yaml_is_read_or_refused(body in hostile(YAML)) {
        bodies(&body);
    }
}
