//! Scripts of stock kubectl commands, step by step the same against both servers.
//!
//! With `KOINON_DIFFERENCES` set to a folder, what differs is also written there.

use std::path::Path;
use std::sync::OnceLock;

use koinon_conformance::harness::Pair;
use koinon_conformance::script;

fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::start().expect("both servers start"))
}

fn check(name: &str, text: &str) {
    let differences = script::compare(pair(), name, text).expect("the script runs");
    if differences.is_empty() {
        return;
    }
    let report = format!(
        "{} steps of {name} differ (- stock, + subject)\n\n{}",
        differences.len(),
        differences.join("\n")
    );
    if let Some(folder) = std::env::var_os("KOINON_DIFFERENCES") {
        std::fs::create_dir_all(&folder).expect("the folder for the reports");
        std::fs::write(Path::new(&folder).join(format!("kubectl-{name}.txt")), &report).expect("the report");
    }
    panic!("{report}");
}

macro_rules! scripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(stringify!($name), include_str!(concat!("../data/kubectl/", stringify!($name), ".yaml")));
        }
    )*};
}

scripts! { read create apply change delete discover custom }
