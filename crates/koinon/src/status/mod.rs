//! `koinon status`: one screen of how everything is.
//!
//! Each section is one file: plain values that programs can read, a `gather` that asks the federation for them, and a pure
//! `render` for people. A new section is one more file, one more field of [`Screen`], and one more line in [`render`].

mod config;
mod members;
mod policies;
mod robots;
mod service;
mod subject;
mod union;
mod workload;
mod workloads;

pub(crate) use self::workload::{Kind, Named, get};

use self::subject::Subject;

use std::io::{ErrorKind, Write as _};

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use crate::args::Output;
use crate::members::{Federation, client};
use crate::orphans::{self, Which};

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Only this, with all that is known of it: deployment/web, replicaset/web, service/web, policies, config, robots,
    /// orphans (what members run without a federated object)
    #[arg(value_name = "KIND/NAME", value_parser = Subject::parse)]
    subject: Option<Subject>,
    #[command(flatten)]
    federation: Federation,
    /// The namespace [default: all; for one workload `default`, for one Service `antrea-plus-system`]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is asked for.
struct Scope<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    now: Timestamp,
}

/// Everything at once; as JSON and YAML it is what programs read.
#[derive(Debug, Serialize)]
struct Screen {
    members: Vec<members::Member>,
    workloads: Vec<workloads::Workload>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    robots: Vec<robots::Told>,
}

pub(crate) async fn run(args: Status) -> anyhow::Result<()> {
    let client = client(&args.federation).await?;
    let scope =
        Scope { client: &client, namespace: args.namespace.as_deref(), now: koinon_context::wall_clock() };
    let text = match &args.subject {
        Some(Subject::Workload(named)) => {
            let found = workload::gather(&scope, named).await?;
            show(args.output, &found, workload::render)?
        }
        Some(Subject::Service(name)) => {
            let found = service::gather(&scope, &args.federation, name).await?;
            show(args.output, &found, service::render)?
        }
        Some(Subject::Config) => show(args.output, &config::gather(&scope).await?, config::render)?,
        Some(Subject::Policies) => show(args.output, &policies::gather(&scope).await?, policies::render)?,
        Some(Subject::Robots) => {
            show(args.output, &robots::gather(&scope).await?, |robots| robots::render(robots))?
        }
        Some(Subject::Orphans) => {
            let which = Which { workload: None, namespace: scope.namespace };
            let found = orphans::find(&client, which).await?;
            orphans::tell_unasked(&found);
            show(args.output, &found, orphans::render)?
        }
        None => show(args.output, &screen(&scope).await?, render)?,
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the status cannot be written"),
    }
}

/// Everything at once, for programs.
pub(crate) async fn as_json(client: &Client) -> anyhow::Result<String> {
    let scope = Scope { client, namespace: None, now: koinon_context::wall_clock() };
    show(Output::Json, &screen(&scope).await?, render)
}

async fn screen(scope: &Scope<'_>) -> anyhow::Result<Screen> {
    let (members, workloads, robots) =
        tokio::try_join!(members::gather(scope), workloads::gather(scope), robots::gather(scope))?;
    Ok(Screen { members, workloads, robots })
}

fn show<T: Serialize>(output: Output, values: &T, render: fn(&T) -> String) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table => render(values),
        Output::Json => serde_json::to_string_pretty(values)? + "\n",
        Output::Yaml => serde_saphyr::to_string(values)?,
    })
}

/// The sections one below the other, each with its title.
fn render(screen: &Screen) -> String {
    let mut sections = vec![
        ("MEMBERS", members::render(&screen.members)),
        ("WORKLOADS", workloads::render(&screen.workloads)),
    ];
    if !screen.robots.is_empty() {
        sections.push(("ROBOTS", robots::render(&screen.robots)));
    }
    let parts: Vec<String> = sections.iter().map(|(title, text)| format!("{title}\n{text}")).collect();
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_titles_and_say_when_there_is_nothing() {
        let screen = Screen { members: Vec::new(), workloads: Vec::new(), robots: Vec::new() };
        assert_eq!(
            render(&screen),
            "MEMBERS\nnone; try koinon join NAME --member-kubeconfig FILE\n\nWORKLOADS\nnone\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&show(Output::Json, &screen, render).unwrap()).unwrap();
        assert_eq!(json, serde_json::json!({"members": [], "workloads": []}));
    }
}
