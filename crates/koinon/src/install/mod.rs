//! `koinon install`: what a real cluster needs before a role can work beside it.

mod chart;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum as _;
use koinon_api::rights::{self, Account, rule};
use koinon_sync::manifests::{self, Grant};
use serde_json::{Value, json};

/// The ClusterRole of those who read the metrics of any role.
const READER: &str = "koinon-metrics-reader";

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
#[derive(Debug, clap::Args)]
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
    /// In the cloud: the admission policy that binds each robot to its own objects; false only for a cloud without
    /// ValidatingAdmissionPolicies, where one robot can then write another's objects
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    admission: bool,
}

impl Default for Sync {
    fn default() -> Self {
        Sync { side: Side::default(), robot_name: None, crds: None, admission: true }
    }
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
                let name = crd["metadata"]["name"].as_str().unwrap_or("without a name");
                let grant = Grant::of(&crd);
                grants.extend(grant.with_context(|| format!("the CRD {name} in {}", file.display()))?);
            }
        }
        Ok(grants)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum What {
    /// The definitions of custom resources
    Crds,
    /// Service accounts, roles and bindings; for workloads also the policy that warns of kinds that are not carried
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

impl Role {
    /// As `koinon run` is told.
    fn name(self) -> &'static str {
        match self {
            Role::Config => "config",
            Role::Network => "network",
            Role::Sync => "sync",
            Role::Workloads => "workloads",
        }
    }
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
    let mut all = rights_of(role, webhook, sync)?;
    // In the cloud no role runs whose metrics could be read.
    let account = all.iter().find(|object| {
        object["kind"] == "ServiceAccount" && object["metadata"]["name"] == format!("koinon-{}", role.name())
    });
    if let Some(account) = account.cloned() {
        let part = |key: &str| account["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (part("namespace"), part("name"));
        all.extend(metrics_rbac(Account { namespace: &namespace, name: &name }));
    }
    Ok(all)
}

/// What a role needs to find out who reads its metrics, and the role that lets somebody do so.
pub(crate) fn metrics_rbac(account: Account<'_>) -> Vec<Value> {
    let reviews = [
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ];
    let readers = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
    let name = format!("{}-metrics", account.name);
    vec![
        rights::role(&name, None, &reviews),
        account.bind(&name, None, &name),
        rights::role(READER, None, &[readers]),
    ]
}

fn rights_of(role: Role, webhook: bool, sync: &Sync) -> anyhow::Result<Vec<Value>> {
    Ok(match role {
        Role::Config => koinon_config::rbac(),
        Role::Network if webhook => [koinon_network::rbac(), koinon_network::webhook_rbac()].concat(),
        Role::Network => koinon_network::rbac(),
        Role::Sync => sync.rbac()?,
        Role::Workloads => [koinon_workloads::rbac(webhook), koinon_workloads::warnings()].concat(),
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
    use serde_json::json;

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
    fn in_kube_system_a_role_may_touch_its_own_lease_and_nothing_else() {
        for (role, lease) in [
            (Role::Config, "koinon-config"),
            (Role::Network, "koinon-network"),
            (Role::Sync, "koinon-sync"),
            (Role::Workloads, "koinon-workloads"),
        ] {
            let all = rbac(role, true, &Sync::default()).unwrap();
            let there = |object: &&Value| {
                object["kind"] == "Role" && object["metadata"]["namespace"] == "kube-system"
            };
            let rules: Vec<&Value> =
                all.iter().filter(there).flat_map(|role| role["rules"].as_array().unwrap()).collect();
            assert!(!rules.is_empty(), "{role:?}");
            for rule in rules {
                assert_eq!(rule["resources"], json!(["leases"]), "{role:?}");
                // Of a creation the name is not known when RBAC is asked.
                let is_named = rule["resourceNames"] == json!([lease]);
                assert!(is_named || rule["verbs"] == json!(["create"]), "{role:?}: {rule}");
            }
        }
    }

    #[test]
    fn a_syncer_changes_the_definitions_of_what_it_syncs_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let crds = folder.path().join("crds.json");
        let synced = json!({
            "metadata": {"name": "toys.play.io", "annotations": {"cr-syncer.cloudrobotics.com/spec-source": "cloud"}},
            "spec": {"group": "play.io", "names": {"plural": "toys"}, "versions": [{"name": "v1"}]},
        });
        let mut other = synced.clone();
        other["metadata"] = json!({"name": "others.play.io"});
        std::fs::write(&crds, json!({"kind": "List", "items": [synced, other]}).to_string()).unwrap();
        let changed = |sync: Sync| {
            let all = sync.rbac().unwrap();
            let rules = all.iter().flat_map(|object| object["rules"].as_array().cloned().unwrap_or_default());
            let about = |rule: &Value| {
                rule["resources"] == json!(["customresourcedefinitions"])
                    && rule["verbs"].as_array().unwrap().contains(&json!("patch"))
            };
            rules.filter(about).map(|rule| rule["resourceNames"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(changed(Sync { crds: Some(crds), ..Sync::default() }), [json!(["toys.play.io"])]);
        assert_eq!(changed(Sync::default()), Vec::<Value>::new());
    }

    #[test]
    fn robots_are_kept_apart_unless_it_is_asked_otherwise() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            install: Install,
        }
        for (flags, expected) in [
            (&[][..], true),
            (&["--admission", "--webhook"], true),
            (&["--admission=true"], true),
            (&["--admission=false"], false),
        ] {
            let asked = ["install", "rbac", "--role", "sync", "--side", "cloud"].iter().chain(flags);
            let all = objects(&Command::parse_from(asked).install).unwrap();
            let is_policy = |object: &Value| object["kind"] == "ValidatingAdmissionPolicy";
            assert_eq!(all.iter().any(is_policy), expected, "{flags:?}");
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
