use std::io::Read as _;

use clap::ValueEnum as _;
use flate2::read::GzDecoder;

use super::super::{Sync, What};
use super::*;

fn install(role: Option<Role>) -> Install {
    Install { what: What::Chart, role, webhook: false, sync: Sync::default() }
}

fn unpacked(install: &Install) -> BTreeMap<String, String> {
    let archive = archive(install).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(archive.as_slice()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (path, text)
    });
    entries.collect()
}

/// The objects of a file whose directives each have a line of their own.
fn objects(text: &str) -> Vec<Value> {
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with("{{")).collect();
    serde_saphyr::from_multiple(&plain.join("\n")).unwrap()
}

#[test]
fn a_chart_has_what_the_other_commands_print() {
    let chart = unpacked(&install(None));
    for role in Role::value_variants() {
        let name = parts(*role).name;
        if !parts(*role).at_home {
            assert!(!chart.contains_key(&format!("koinon/crds/{name}.yaml")), "they belong elsewhere");
            continue;
        }
        if !crds(*role).is_empty() {
            assert_eq!(objects(&chart[&format!("koinon/crds/{name}.yaml")]), crds(*role));
        }
        let mut wanted = rbac(*role, false, &Sync::default()).unwrap();
        wanted.retain(|object| object["kind"] != "Namespace" && object["metadata"]["name"] != READER);
        assert_eq!(objects(&chart[&format!("koinon/templates/{name}-rbac.yaml")]), wanted);
    }
    let spaces = &chart["koinon/templates/namespaces.yaml"];
    let spaces = objects(&spaces.replace("{{ . }}", "restricted"));
    let names: Vec<&str> = spaces.iter().filter_map(|space| space["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["antrea-plus-system", "koinon-system"]);
    assert!(spaces.iter().all(|space| space["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"));
    let enforced = |space: &Value| space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone();
    assert!(spaces.iter().all(|space| enforced(space) == "restricted"), "{spaces:#?}");
}

#[test]
fn what_is_asked_for_is_on_and_nothing_else_is_there() {
    let switch = |chart: &BTreeMap<String, String>, role: &str, key: &str| {
        objects(&chart["koinon/values.yaml"])[0][role][key].clone()
    };
    let all = unpacked(&install(None));
    assert_eq!(switch(&all, "network", "enabled"), false);
    let asked = Install { webhook: true, ..install(Some(Role::Network)) };
    let one = unpacked(&asked);
    assert_eq!(switch(&one, "network", "enabled"), true);
    assert_eq!(switch(&one, "network", "webhook"), true);
    assert_eq!(switch(&one, "config", "enabled"), Value::Null);
    assert!(!one.values().any(|text| text.contains(".Values.config")), "{one:#?}");
    assert_eq!(archive(&asked).unwrap(), archive(&asked).unwrap(), "the same in every run");
}

#[test]
fn the_account_of_a_role_is_where_its_deployment_looks_for_it() {
    for role in Role::value_variants() {
        let Parts { name, template, .. } = parts(*role);
        let account = format!("koinon-{name}");
        let objects = rbac(*role, false, &Sync::default()).unwrap();
        let found = objects.iter().find(|object| {
            object["kind"] == "ServiceAccount" && object["metadata"]["name"] == account.as_str()
        });
        let home = found.and_then(|account| account["metadata"]["namespace"].as_str()).unwrap();
        assert!(template.contains(&format!(r#""role" "{name}" "namespace" "{home}""#)), "{template}");
    }
}

#[test]
fn nothing_is_there_twice() {
    let chart = unpacked(&install(None));
    let mut seen = BTreeSet::new();
    for (path, text) in
        chart.iter().filter(|(path, _)| path.ends_with("-rbac.yaml") || path.ends_with("-reader.yaml"))
    {
        for object in objects(text) {
            let metadata = &object["metadata"];
            let name = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
            assert!(seen.insert(name.clone()), "{path}: {name}");
        }
    }
    assert!(seen.iter().any(|name| name.contains(READER)), "{seen:#?}");
}

#[test]
fn a_role_is_bounded_and_closed_unless_it_is_told_otherwise() {
    let chart = unpacked(&install(None));
    let values = &objects(&chart["koinon/values.yaml"])[0];
    assert_eq!(values["networkPolicy"]["enabled"], true);
    assert_eq!(values["networkPolicy"]["metricsFrom"], json!([]));
    assert_eq!(values["podDisruptionBudget"], true);
    assert_eq!(values["podSecurity"], "restricted");
    assert!(values["resources"]["limits"]["memory"].is_string(), "{values:#}");
    assert_eq!(values["image"]["digest"], "");
    let template = &chart["koinon/templates/_role.tpl"];
    for part in [
        "kind: NetworkPolicy",
        "kind: PodDisruptionBudget",
        "{{ with $values.image.digest }}@{{ . }}{{ end }}",
    ] {
        assert!(template.contains(part), "{part}");
    }
}

#[test]
fn the_cloud_runs_no_sync() {
    let sync = Sync { side: Side::Cloud, ..Sync::default() };
    let why = archive(&Install { sync, ..install(Some(Role::Sync)) }).unwrap_err().to_string();
    assert!(why.contains("--side cloud"), "{why}");
}
