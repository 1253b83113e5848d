//! What commands and roles say when something is wrong: one sentence with the object, the address, where that was found, and what to
//! do next.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How a command ended, and what it said of it.
fn koinon(folder: &Path, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koinon"));
    let output = command.current_dir(folder).args(line.split(' ')).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A folder with the kubeconfig of a server at which nobody listens; and its address.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: one, contexts: [{{name: one, context: {{cluster: c, user: u}}}}, \
         {{name: other, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, cluster: {{server: '{server}'}}}}], \
         users: [{{name: u, user: {{token: t}}}}]}}"
    );
    std::fs::write(folder.path().join("dead"), text).unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    (folder, server)
}

#[test]
fn a_server_that_does_not_answer_is_named_with_its_kubeconfig_and_context() {
    let (folder, server) = folder();
    for line in [
        "members --kubeconfig dead",
        "join x --kubeconfig dead --member-kubeconfig dead",
        "unjoin x --kubeconfig dead",
        "plan deployment/web --kubeconfig dead",
        "status --kubeconfig dead",
        "status deployment/web --kubeconfig dead",
        "status policies --kubeconfig dead",
        "status robots --kubeconfig dead",
        "status services/x --kubeconfig dead",
        "status config --kubeconfig dead",
        "nodes --kubeconfig dead",
    ] {
        let (code, said) = koinon(folder.path(), line);
        let place = format!("{server} (context one of dead) does not answer: Connection refused");
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{line}: {said}");
        assert!(said.starts_with("koinon: ") && said.contains(&place), "{line}: {said}");
        assert!(said.contains("see that it runs") && said.contains("--kubeconfig"), "{line}: {said}");
    }
}

#[test]
fn what_is_wrong_with_what_was_given_is_told_with_what_to_give() {
    let (folder, _) = folder();
    for (line, code, parts) in [
        ("members --kubeconfig none", 1, &["kubeconfig none", "No such file", "give the path"][..]),
        ("members --kubeconfig dead --context x", 1, &["dead has no context x", "it has one, other"]),
        ("join x --kubeconfig dead --member-kubeconfig none", 1, &["kubeconfig none", "give the path"]),
        (
            "join x --kubeconfig dead --member-kubeconfig dead --member-context y",
            1,
            &["dead has no context y", "it has one, other"],
        ),
        ("join X_Y --kubeconfig dead --member-kubeconfig dead", 2, &["\"X_Y\" is no name", "lower-case"]),
        (
            "join x --kubeconfig dead --member-kubeconfig dead --namespaces A",
            2,
            &["\"A\" is no pattern", "'team-*,shop'"],
        ),
        ("plan -f none", 1, &["the file none", "No such file"]),
        ("plan web --kubeconfig dead", 2, &["\"web\" is no workload", "deployment/web"]),
        ("status frog/x --kubeconfig dead", 2, &["\"frog/x\" is no workload", "deployment/web"]),
        ("lab cut a --data none", 1, &["data folder none", "start it", "--data"]),
        ("install rbac --role frog", 2, &["'frog'", "config, network, sync, workloads"]),
        ("run workloads --kubeconfig none", 1, &["kubeconfig none", "give the path"]),
        ("run network --kubeconfig dead --context x", 1, &["dead has no context x", "it has one, other"]),
        ("run sync --robot-name r --cloud-kubeconfig none", 1, &["kubeconfig none", "give the path"]),
        (
            "run config --kubeconfig dead --lease-duration 5s --renew-deadline 6s",
            2,
            &["--lease-duration must be longer than --renew-deadline"],
        ),
        ("run workloads --kubeconfig dead --metrics 192.0.2.1:1", 1, &["192.0.2.1:1", "--metrics"]),
        ("cluster --name x --data file/x", 1, &["the folder file/x", "--data"]),
        ("cluster --name x --data d --listen 192.0.2.1:1", 1, &["192.0.2.1:1", "--listen"]),
        ("up --data e --listen 192.0.2.1:1", 1, &["192.0.2.1:1", "--listen"]),
        ("up --data e --members a,a", 2, &["\"a\" is there twice"]),
    ] {
        let (ended, said) = koinon(folder.path(), line);
        assert_eq!(ended, Some(code), "{line}: {said}");
        for part in parts {
            assert!(said.contains(part), "{line} does not say {part:?}: {said}");
        }
        assert!(!said.contains("panicked") && !said.contains("Error {"), "{line}: {said}");
        if code == 1 {
            assert!(said.starts_with("koinon: ") && said.lines().count() == 1, "{line}: {said}");
        }
    }
}

/// A role tries on for ever. Without a word in the log it would look well.
#[test]
fn a_role_says_which_server_does_not_answer() {
    let (folder, server) = folder();
    for line in [
        "run workloads --kubeconfig dead",
        "run network --kubeconfig dead",
        "run config --kubeconfig dead",
        "run sync --robot-name r --cloud-kubeconfig dead --kubeconfig dead",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_koinon"));
        command.current_dir(folder.path()).args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::null());
        let mut role = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(role.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            log.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let place = format!("{server} (context one of dead) does not answer: Connection refused");
        let mut said = Vec::new();
        while !said.last().is_some_and(|last: &String| last.contains(&place)) {
            let next = lines.recv_timeout(Duration::from_secs(30));
            said.push(next.unwrap_or_else(|_| panic!("{line} says only {said:#?}")));
        }
        assert!(said.last().unwrap().contains("see that it runs"), "{line}: {said:#?}");
        role.kill().unwrap();
        role.wait().unwrap();
        reader.join().unwrap();
    }
}
