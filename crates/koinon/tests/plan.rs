//! `koinon plan` as scripts use it: what goes in, what comes out, and how it ends.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn koinon(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_koinon"))
        .arg("plan")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn the_scenarios_as_json() {
    let scenarios: Vec<Value> =
        serde_json::from_str(include_str!("../../workloads/tests/data/planner-scenarios.json")).unwrap();
    for scenario in scenarios {
        let output = koinon(&["-f", "-", "-o", "json"], &scenario["in"].to_string());
        assert_eq!(output.status.code(), Some(0), "{scenario}");
        let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let why = answer.as_object_mut().unwrap().remove("why").unwrap();
        assert_eq!(answer, scenario["out"], "{}", scenario["name"]);
        assert!(why.as_object().unwrap().values().all(|why| why.as_str().is_some_and(|why| !why.is_empty())));
    }
}

#[test]
fn flags_say_the_same_as_a_file() {
    let flags = ["--replicas", "50", "--clusters", "A,B,C", "--rebalance", "--capacity", "C=6", "-o", "json"];
    let file = "replicas: 50\nclusters: [A, B, C]\nrebalance: true\ncapacity: {C: 6}\n";
    assert_eq!(koinon(&flags, "").stdout, koinon(&["-f", "-", "-o", "json"], file).stdout);
}

#[test]
fn bad_input_ends_with_2_and_one_sentence() {
    for arguments in [
        &["--clusters", "a"][..],
        &["--replicas", "-1", "--clusters", "a"],
        &["--replicas", "1", "--clusters", "a", "--preferences", "{"],
        &["--replicas", "1", "--clusters", "a", "--lose", "x"],
        &["--replicas", "1", "--clusters", "a,a"],
    ] {
        let output = koinon(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("koinon: ") && text.lines().count() == 1, "{text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_cannot_be_done_ends_with_1() {
    let output = koinon(&["deployment/web", "--kubeconfig", "/no/such/file"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot read the kubeconfig /no/such/file"));
    assert_eq!(koinon(&["-f", "/no/such/file"], "").status.code(), Some(1));
}
