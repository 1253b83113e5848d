//! A Helm chart that runs roles in a cluster, with what `koinon install crds` and `rbac` print for them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use koinon_api::rights;
use serde_json::{Value, json};

use super::{Install, READER, Role, Side, crds, rbac, yaml};

/// What is written by hand of a role.
struct Parts {
    name: &'static str,
    values: &'static str,
    template: &'static str,
    notes: &'static str,
    /// Whether the cluster that it runs in is the one that it works for.
    at_home: bool,
}

macro_rules! parts {
    ($name:literal, $at_home:literal) => {
        Parts {
            name: $name,
            values: include_str!(concat!("../../../../deploy/chart/values/", $name, ".yaml")),
            template: include_str!(concat!("../../../../deploy/chart/templates/", $name, ".yaml")),
            notes: include_str!(concat!("../../../../deploy/chart/notes/", $name, ".txt")),
            at_home: $at_home,
        }
    };
}

fn parts(role: Role) -> Parts {
    match role {
        Role::Config => parts!("config", true),
        Role::Network => parts!("network", true),
        Role::Sync => parts!("sync", true),
        Role::Workloads => parts!("workloads", false),
    }
}

/// The chart as Helm takes it: an archive, the same in every run.
pub(super) fn archive(install: &Install) -> anyhow::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files(install)? {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len().try_into()?);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("koinon/{path}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish().context("the archive cannot be written")
}

fn files(install: &Install) -> anyhow::Result<BTreeMap<String, String>> {
    if install.sync.side == Side::Cloud {
        anyhow::bail!(
            "a chart runs the sync beside a robot; for the cloud, apply what `koinon install rbac --role sync --side cloud` prints"
        );
    }
    let roles = install.roles();
    let mut files = BTreeMap::new();
    let mut add = |path: &str, text: String| files.insert(path.to_owned(), text);
    add("Chart.yaml", yaml(&[description()])?);
    add("values.yaml", values(install, &roles));
    add("templates/_role.tpl", include_str!("../../../../deploy/chart/templates/_role.tpl").to_owned());
    add("templates/NOTES.txt", notes(&roles));
    let (mut readers, mut at_home) = (Vec::new(), Vec::new());
    let mut homes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for role in roles {
        let parts = parts(role);
        let name = parts.name;
        add(&format!("templates/{name}.yaml"), parts.template.to_owned());
        let (spaces, mut rights): (Vec<Value>, Vec<Value>) =
            rbac(role, false, &install.sync)?.into_iter().partition(|object| object["kind"] == "Namespace");
        for space in spaces {
            homes
                .entry(space["metadata"]["name"].as_str().unwrap_or_default().into())
                .or_default()
                .insert(name);
        }
        if !parts.at_home {
            continue;
        }
        // One for all roles: what is there twice no release can be made of.
        readers.extend(rights.extract_if(.., |object| object["metadata"]["name"] == READER));
        at_home.push(format!(" .Values.{name}.enabled"));
        add(&format!("templates/{name}-rbac.yaml"), only_if(&format!(".Values.{name}.enabled"), &rights)?);
        if role == Role::Network {
            let both = "and .Values.network.enabled .Values.network.webhook";
            add("templates/network-webhook-rbac.yaml", only_if(both, &koinon_network::webhook_rbac())?);
        }
        // Helm creates these first, and never deletes them: with them would go all that is of their kind.
        let crds = crds(role);
        if !crds.is_empty() {
            add(&format!("crds/{name}.yaml"), yaml(&crds)?);
        }
    }
    readers.dedup();
    if !readers.is_empty() {
        add("templates/metrics-reader.yaml", only_if(&format!("or{}", at_home.concat()), &readers)?);
    }
    add("templates/namespaces.yaml", namespaces(&homes)?);
    Ok(files)
}

fn description() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "apiVersion": "v2", "name": "koinon", "type": "application", "version": version, "appVersion": version,
        "description": env!("CARGO_PKG_DESCRIPTION"),
    })
}

/// Every role is off until it is switched on, but for one that was asked for by its name.
fn values(install: &Install, roles: &[Role]) -> String {
    let mut text = include_str!("../../../../deploy/chart/values.yaml").to_owned();
    text.extend(roles.iter().map(|role| parts(*role).values));
    let asked_for = [("enabled", install.role.is_some()), ("webhook", install.webhook)];
    for (key, _) in asked_for.into_iter().filter(|(_, is_asked_for)| *is_asked_for) {
        text = text.replace(&format!("{key}: false"), &format!("{key}: true"));
    }
    text
}

fn notes(roles: &[Role]) -> String {
    let parts: Vec<Parts> = roles.iter().map(|role| parts(*role)).collect();
    let any = parts.iter().map(|part| format!(" .Values.{}.enabled", part.name)).collect::<String>();
    let first = parts.first().map_or("", |part| part.name);
    let mut text = format!(
        "{{{{- if not (or{any}) }}}}\nNothing runs yet: switch a role on, as in --set {first}.enabled=true\n{{{{- end }}}}\n"
    );
    text.extend(parts.iter().map(|part| part.notes));
    text
}

/// The namespaces that roles live in. They outlive the release: what users put there is theirs.
fn namespaces(homes: &BTreeMap<String, BTreeSet<&str>>) -> anyhow::Result<String> {
    let mut text = String::new();
    for (space, roles) in homes {
        let mut object = rights::namespace(space);
        object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        let any = roles.iter().map(|role| format!(" .Values.{role}.enabled")).collect::<String>();
        let plain = only_if(&format!("and .Values.createNamespaces (or{any})"), &[object])?;
        // What a namespace may run is a value, so its labels are a template, in lines of their own.
        text.push_str(&plain.replace("\nmetadata:\n", &format!("\nmetadata:\n{LABELS}")));
    }
    Ok(text)
}

/// Pod Security admission, by the modes that it has.
const LABELS: &str = "\
{{- with .Values.podSecurity }}
  labels:
    pod-security.kubernetes.io/enforce: {{ . }}
    pod-security.kubernetes.io/audit: {{ . }}
    pod-security.kubernetes.io/warn: {{ . }}
{{- end }}
";

/// Objects that are there only under a condition; they are no templates themselves.
fn only_if(condition: &str, objects: &[Value]) -> anyhow::Result<String> {
    let objects = yaml(objects)?.replace("{{", r#"{{ "{{" }}"#);
    Ok(format!("{{{{- if {condition} }}}}\n{objects}{{{{- end }}}}\n"))
}

#[cfg(test)]
mod tests;
