//! `koinon install`: what a real cluster needs before a role can work beside it.

use serde_json::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// What to print
    what: What,
    /// For this role only
    #[arg(long)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum What {
    /// The definitions of custom resources
    Crds,
    /// Service accounts, roles and bindings
    Rbac,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Role {
    Config,
}

/// Prints YAML for `kubectl apply -f -`.
pub(crate) fn run(install: &Install) -> anyhow::Result<()> {
    print!("{}", yaml(&objects(install.what, install.role))?);
    Ok(())
}

fn objects(what: What, role: Option<Role>) -> Vec<Value> {
    let roles = role.map_or_else(|| vec![Role::Config], |role| vec![role]);
    let of = |role: Role| match (what, role) {
        (What::Crds, Role::Config) => koinon_config::crds(),
        (What::Rbac, Role::Config) => koinon_config::rbac(),
    };
    roles.into_iter().flat_map(of).collect()
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
        for what in [What::Crds, What::Rbac] {
            let wanted = objects(what, Some(Role::Config));
            let read: Vec<Value> = serde_saphyr::from_multiple(&yaml(&wanted).unwrap()).unwrap();
            assert_eq!(read, wanted);
        }
    }
}
