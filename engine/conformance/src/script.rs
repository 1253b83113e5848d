//! Scripts of shell commands that run against both servers; every step must print the same.
//!
//! A script is a YAML list; a step is a command, or a command with what it reads from its standard input.
//! Each side has a folder of its own (home, working folder, kubeconfig with the same names) and the script
//! a namespace of its own name.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{Engine, Pair, stock_programs};
use crate::{diff, text};

/// How long one step may take, in seconds.
const LIMIT: &str = "90";

/// A step of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// A command alone.
    Command(String),
    /// A command and its standard input.
    Fed {
        /// The command.
        run: String,
        /// The input.
        #[serde(default)]
        stdin: String,
    },
}

/// What a step printed and how it ended.
#[derive(Debug, PartialEq)]
struct Printed {
    text: String,
}

/// Runs the script on both servers and describes each step that differs.
pub fn compare(pair: &Pair, name: &str, script: &str) -> Result<Vec<String>> {
    let steps: Vec<Step> = serde_saphyr::from_str(script).with_context(|| format!("the script {name}"))?;
    let (stock, subject) = std::thread::scope(|scope| {
        let stock = scope.spawn(|| run(&pair.stock, name, &steps));
        let subject = run(&pair.subject, name, &steps);
        (stock.join().expect("a script does not panic"), subject)
    });
    let mut differences = Vec::new();
    for ((step, stock), subject) in steps.iter().zip(stock?).zip(subject?) {
        if stock != subject {
            let (run, stdin) = step.parts();
            let stdin = if stdin.is_empty() { String::new() } else { format!("\n<<END\n{stdin}END") };
            let shown = diff::lines(&stock.text, &subject.text);
            differences.push(format!("$ {}{stdin}\n{shown}", run.trim_end()));
        }
    }
    Ok(differences)
}

impl Step {
    fn parts(&self) -> (&str, &str) {
        match self {
            Self::Command(run) => (run, ""),
            Self::Fed { run, stdin } => (run, stdin),
        }
    }
}

fn run(engine: &Engine, name: &str, steps: &[Step]) -> Result<Vec<Printed>> {
    let folder = engine.folder.join(format!("script-{name}"));
    std::fs::create_dir_all(&folder)?;
    let known = std::env::var_os("PATH").unwrap_or_default();
    let side = Side {
        kubeconfig: kubeconfig(engine, &folder, name)?,
        server: format!("https://127.0.0.1:{}", engine.port),
        path: std::env::join_paths(std::iter::once(stock_programs()?).chain(std::env::split_paths(&known)))?,
        folder,
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    for object in [namespace, account] {
        let printed = side.run("kubectl create -f -", &object.to_string())?;
        ensure!(printed.text.starts_with("exit code 0"), "{object}: {}", printed.text);
    }
    steps.iter().map(|step| side.run(step.parts().0, step.parts().1)).collect()
}

struct Side {
    folder: PathBuf,
    kubeconfig: PathBuf,
    server: String,
    path: OsString,
}

impl Side {
    fn run(&self, command: &str, stdin: &str) -> Result<Printed> {
        let mut child = Command::new("timeout")
            .args(["-k", "5", LIMIT, "bash", "-c", command])
            .env("PATH", &self.path)
            .env("HOME", &self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("SERVER", &self.server)
            .env("EDITOR", "false")
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().context("the command has a standard input")?;
        // A command that reads nothing closes its end early: that is its right.
        let _ = input.write_all(stdin.as_bytes());
        drop(input);
        let output = child.wait_with_output()?;
        let code = output.status.code().unwrap_or(-1);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // The order of keys means nothing, nor does indentation.
        let out = match serde_json::from_str::<Value>(&out) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => serde_json::to_string_pretty(&value)?,
            _ => out.into_owned(),
        };
        let whole =
            format!("exit code {code}\n--- stdout\n{}\n--- stderr\n{}", out.trim_end(), err.trim_end());
        Ok(Printed { text: text::normalise(&whole, &self.server, &self.folder) })
    }
}

/// The engine's kubeconfig with names that are the same on both sides.
fn kubeconfig(engine: &Engine, folder: &Path, namespace: &str) -> Result<PathBuf> {
    let original: Value = serde_saphyr::from_str(&std::fs::read_to_string(engine.kubeconfig())?)?;
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "conformance", "cluster": original["clusters"][0]["cluster"]}],
        "users": [{"name": "conformance", "user": original["users"][0]["user"]}],
        "contexts": [{"name": "conformance", "context": {"cluster": "conformance", "user": "conformance", "namespace": namespace}}],
        "current-context": "conformance",
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, content.to_string())?;
    Ok(path)
}
