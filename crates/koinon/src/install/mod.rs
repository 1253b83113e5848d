//! `koinon install`: what a real cluster needs before a role can work beside it.

mod chart;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum as _;
use koinon_sync::manifests::{self, Grant};
use serde_json::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// What to print
    what: What,
    /// For this role only
    #[arg(long)]
    role: Option<Role>,
    /// With the rights that --webhook of the network and workloads roles needs
    #[arg(long)]
    webhook: bool,
    #[command(flatten)]
    sync: Sync,
}

/// What the rights of the `sync` role depend on.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Sync")]
struct Sync {
    /// For the robot's own cluster, or for the cloud
    #[arg(long, value_enum, default_value_t = Side::Robot)]
    side: Side,
    /// In the cloud: also the identity of this robot
    #[arg(long, value_name = "NAME")]
    robot_name: Option<String>,
    /// The CRDs that are synced, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    crds: Option<PathBuf>,
    /// In the cloud: also an admission policy that binds each robot to its own objects
    #[arg(long)]
    admission: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, clap::ValueEnum)]
enum Side {
    #[default]
    Robot,
    Cloud,
}

impl Sync {
    fn rbac(&self) -> anyhow::Result<Vec<Value>> {
        let grants = self.grants()?;
        if self.side == Side::Robot {
            return Ok(manifests::beside_robot(&grants));
        }
        let mut all = manifests::cloud(&grants);
        all.extend(self.robot_name.iter().flat_map(|name| manifests::robot(name)));
        if self.admission {
            all.extend(manifests::admission(&grants));
        }
        Ok(all)
    }

    fn grants(&self) -> anyhow::Result<Vec<Grant>> {
        let Some(file) = &self.crds else { return Ok(Vec::new()) };
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", file.display()))?;
        let mut grants = Vec::new();
        for document in documents {
            // `kubectl get crds -o yaml` wraps them in a list.
            let items = match document.get("items").and_then(Value::as_array) {
                Some(items) => items.clone(),
                None => vec![document],
            };
            for crd in items {
                grants.extend(Grant::of(&crd).with_context(|| format!("{}", crd["metadata"]["name"]))?);
            }
        }
        Ok(grants)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum What {
    /// The definitions of custom resources
    Crds,
    /// Service accounts, roles and bindings
    Rbac,
    /// A Helm chart that runs roles, with both of the above: an archive
    Chart,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Role {
    Config,
    Network,
    Sync,
    Workloads,
}

/// Prints YAML for `kubectl apply -f -`, or a chart for `helm install`.
pub(crate) fn run(install: &Install) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let printed = match install.what {
        What::Chart if out.is_terminal() => {
            anyhow::bail!(
                "a chart is an archive: write it to a file, as in `koinon install chart > koinon.tgz`"
            )
        }
        What::Chart => chart::archive(install)?,
        What::Crds | What::Rbac => yaml(&objects(install)?)?.into_bytes(),
    };
    out.write_all(&printed)?;
    // What cannot be written is told, not cut off in silence at the end.
    Ok(out.flush()?)
}

impl Install {
    fn roles(&self) -> Vec<Role> {
        self.role.map_or_else(|| Role::value_variants().to_vec(), |role| vec![role])
    }
}

fn objects(install: &Install) -> anyhow::Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    for role in install.roles() {
        let needed = match install.what {
            What::Crds => crds(role),
            What::Rbac => rbac(role, install.webhook, &install.sync)?,
            What::Chart => Vec::new(),
        };
        // Several roles need some of it.
        for object in needed {
            if !all.contains(&object) {
                all.push(object);
            }
        }
    }
    Ok(all)
}

fn crds(role: Role) -> Vec<Value> {
    match role {
        Role::Config => koinon_config::crds(),
        Role::Network => koinon_network::crds(),
        // What it syncs is defined by others.
        Role::Sync => Vec::new(),
        Role::Workloads => koinon_workloads::crds(),
    }
}

fn rbac(role: Role, webhook: bool, sync: &Sync) -> anyhow::Result<Vec<Value>> {
    Ok(match role {
        Role::Config => koinon_config::rbac(),
        Role::Network if webhook => [koinon_network::rbac(), koinon_network::webhook_rbac()].concat(),
        Role::Network => koinon_network::rbac(),
        Role::Sync => sync.rbac()?,
        Role::Workloads => koinon_workloads::rbac(webhook),
    })
}

fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_as_what_was_meant() {
        let printed = [
            (What::Crds, Role::Config),
            (What::Rbac, Role::Config),
            (What::Crds, Role::Network),
            (What::Rbac, Role::Network),
            (What::Rbac, Role::Sync),
            (What::Crds, Role::Workloads),
            (What::Rbac, Role::Workloads),
        ];
        for (what, role) in printed {
            let sync = Sync { side: Side::Cloud, robot_name: Some("r1".into()), crds: None, admission: true };
            let wanted = objects(&Install { what, role: Some(role), webhook: true, sync }).unwrap();
            let read: Vec<Value> = serde_saphyr::from_multiple(&yaml(&wanted).unwrap()).unwrap();
            assert_eq!(read, wanted);
        }
    }

    #[test]
    fn what_several_roles_need_is_printed_once() {
        for what in [What::Crds, What::Rbac] {
            let all = objects(&Install { what, role: None, webhook: true, sync: Sync::default() }).unwrap();
            let name = |object: &Value| {
                let metadata = &object["metadata"];
                (object["kind"].to_string(), metadata["namespace"].to_string(), metadata["name"].to_string())
            };
            let names: std::collections::BTreeSet<_> = all.iter().map(name).collect();
            assert_eq!(names.len(), all.len(), "{names:#?}");
        }
    }
}
