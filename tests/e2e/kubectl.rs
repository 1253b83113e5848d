//! Stock kubectl, as a user would run it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::process::Command;

/// The program named by `KUBECTL`, or the one in the path.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("KUBECTL").filter(|given| !given.is_empty()) {
        return Some(given.into());
    }
    in_path()
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file())
}

/// The program in the path, if it is of another version than `first`: users have all sorts.
pub(crate) fn another(first: &Path) -> Option<PathBuf> {
    let version = |program: &Path| {
        let output = std::process::Command::new(program).args(["version", "--client"]).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    in_path().filter(|other| version(other).is_some_and(|other| Some(other) != version(first)))
}

/// How a command ended, and what it printed.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs kubectl, however it ends.
pub(crate) async fn said(
    kubectl: &Path,
    kubeconfig: &Path,
    namespace: &str,
    arguments: &[&str],
) -> anyhow::Result<Said> {
    end_of(&mut Command::new(kubectl), kubeconfig, namespace, arguments).await
}

/// Has an object edited as a user would, whose editor is `sed` with this script.
pub(crate) async fn edit(
    kubectl: &Path,
    kubeconfig: &Path,
    namespace: &str,
    (what, script): (&str, &str),
) -> anyhow::Result<()> {
    let mut command = Command::new(kubectl);
    command.env("KUBE_EDITOR", format!("sed -i -e '{script}'"));
    let said = end_of(&mut command, kubeconfig, namespace, &["edit", what]).await?;
    // An edit that changes nothing ends well.
    if said.code != Some(0) || !said.out.contains(" edited") {
        bail!("kubectl edit {what}: {}{}", said.err, said.out);
    }
    Ok(())
}

async fn end_of(
    command: &mut Command,
    kubeconfig: &Path,
    namespace: &str,
    arguments: &[&str],
) -> anyhow::Result<Said> {
    let output = command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--namespace", namespace])
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .context("kubectl cannot be started")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}

/// Runs kubectl; gives back what it printed, or fails with what it complained about.
pub(crate) async fn run(
    kubectl: &Path,
    kubeconfig: &Path,
    namespace: &str,
    arguments: &[&str],
) -> anyhow::Result<String> {
    let said = said(kubectl, kubeconfig, namespace, arguments).await?;
    if said.code != Some(0) {
        bail!("kubectl {}: {}{}", arguments.join(" "), said.err, said.out);
    }
    Ok(said.out)
}
