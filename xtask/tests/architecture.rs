//! The invariants of ARCHITECTURE.md that a machine can hold: which crate may know which, and which modules know no IO.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ENGINE: [&str; 4] = ["koinon-apiserver", "koinon-cluster", "koinon-simulation", "koinon-conformance"];
const ROLES: [&str; 4] = ["koinon-config", "koinon-network", "koinon-sync", "koinon-workloads"];
/// What the roles and the engine stand on.
const BASE: [&str; 6] = [
    "koinon-api",
    "koinon-context",
    "koinon-control",
    "koinon-fleet",
    "koinon-podsecurity",
    "koinon-webhook",
];

/// Modules that decide: plain values in, plain values out.
const PURE: [&str; 12] = [
    "crates/api/src",
    "crates/podsecurity/src",
    "crates/workloads/src/planner",
    "crates/workloads/src/placing",
    "crates/workloads/src/rollout",
    "crates/network/src/policies/plan",
    "crates/network/src/services/plan.rs",
    "crates/network/src/services/machines/plan.rs",
    "crates/network/src/services/mcs/plan.rs",
    "crates/config/src/plan",
    "crates/sync/src/plan",
    "crates/fleet/src/membership/formation.rs",
];

#[test]
fn a_role_names_no_other_role() {
    let crates = crates();
    for role in ROLES {
        for other in ROLES.iter().filter(|other| **other != role) {
            assert!(
                !crates[role].contains(*other),
                "{role} depends on {other}: what both need goes to fleet or api"
            );
        }
    }
}

#[test]
fn the_federation_does_not_need_the_engine() {
    let crates = crates();
    for one in BASE.iter().chain(&ROLES) {
        let needs: Vec<_> = ENGINE.iter().filter(|engine| crates[*one].contains(**engine)).collect();
        assert!(needs.is_empty(), "{one} depends on {needs:?}");
    }
}

#[test]
fn the_base_names_no_role() {
    let crates = crates();
    for one in BASE {
        let named: Vec<_> = ROLES.iter().filter(|role| crates[one].contains(**role)).collect();
        assert!(named.is_empty(), "{one} depends on {named:?}");
    }
}

#[test]
fn the_api_server_knows_no_client_of_it() {
    let crates = crates();
    for library in ["kube", "k8s-openapi"] {
        assert!(!crates["koinon-apiserver"].contains(library), "koinon-apiserver depends on {library}");
    }
    for (name, library) in
        [("koinon-api", "tokio"), ("koinon-podsecurity", "tokio"), ("koinon-context", "tokio")]
    {
        assert!(!crates[name].contains(library), "{name} depends on {library}");
    }
}

#[test]
fn what_decides_knows_neither_a_client_nor_tokio() {
    for place in PURE {
        let files = sources(&root().join(place));
        assert!(!files.is_empty(), "{place} is gone: name its successor here");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for known in ["kube::Client", "kube::{Client", "tokio::", ".await", "wall_clock"] {
                    assert!(
                        !code.contains(known),
                        "{}:{}: {known} in a module that decides",
                        file.display(),
                        number + 1
                    );
                }
            }
        }
    }
}

/// What is polled first in a `select!` is fixed, or two runs of a seed differ.
#[test]
fn selects_are_biased() {
    let mut unfixed = Vec::new();
    for folder in ["crates"] {
        for file in sources(&root().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            for (number, line) in lines.iter().enumerate() {
                let opens = line.trim_end().ends_with("select! {");
                if opens && lines.get(number + 1).is_none_or(|next| next.trim() != "biased;") {
                    unfixed.push(format!("{}:{}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(unfixed.is_empty(), "select! without `biased;`: {unfixed:#?}");
}

/// Every crate of the workspace, with what it depends on outside of its tests.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]).current_dir(root());
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let named = packages.iter().map(|package| {
        let dependencies = package["dependencies"].as_array().expect("a list");
        let needed = dependencies.iter().filter(|one| one["kind"].is_null() && one["optional"] == false);
        let names = needed.filter_map(|one| one["name"].as_str()).map(str::to_owned);
        (package["name"].as_str().expect("a name").to_owned(), names.collect())
    });
    named.collect()
}

/// The Rust files below a folder, or the file itself; tests beside the code are none of it.
fn sources(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_none_or(|name| name != "tests" && name != "target"))
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .collect();
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
