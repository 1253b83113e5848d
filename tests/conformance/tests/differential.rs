//! Seeded sequences of requests go to both servers; every answer must be the same.
//!
//! `KOINON_SEQUENCES` sets how many (300), `KOINON_SEED` the first seed (0), `KOINON_DIFFERENCES` a folder
//! for the reports. With `KOINON_SUBJECT=stock` two stock servers are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use futures::stream::{self, StreamExt};
use koinon_conformance::client::{Client, Request};
use koinon_conformance::compare::{self, Difference, Outcome};
use koinon_conformance::generate;
use koinon_conformance::harness::Pair;
use koinon_conformance::sequence::{Action, Goal, Run, Step};

const AT_ONCE: usize = 8;
const SHRUNK: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_the_same() -> Result<()> {
    let pair = tokio::task::spawn_blocking(Pair::start).await??;
    let (stock, subject) = (&pair.stock.client, &pair.subject.client);
    tokio::try_join!(define(stock), define(subject))?;

    let (first, count) = (number("KOINON_SEED", 0), number("KOINON_SEQUENCES", 300));
    let outcomes: Vec<(u64, Result<Outcome>)> = stream::iter(first..first + count)
        .map(|seed| {
            let (stock, subject) = (stock.clone(), subject.clone());
            tokio::spawn(async move {
                let steps = generate::sequence(seed);
                (seed, compare::run(&stock, &subject, &format!("s{seed}"), &steps).await)
            })
        })
        .buffered(AT_ONCE)
        .map(|joined| joined.expect("a sequence does not panic"))
        .collect()
        .await;

    let mut groups: BTreeMap<String, Vec<(u64, Difference)>> = BTreeMap::new();
    let mut known = 0;
    for (seed, outcome) in outcomes {
        match outcome? {
            Outcome::Same { known: met } => known += met,
            Outcome::Different(found) => {
                groups.entry(found.signature.clone()).or_default().push((seed, *found))
            }
        }
    }
    println!("{count} sequences from seed {first}; {known} answers with a known difference");
    if groups.is_empty() {
        return Ok(());
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let report = report(Arc::new((stock.clone(), subject.clone())), groups).await?;
    if let Some(folder) = std::env::var_os("KOINON_DIFFERENCES") {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(std::path::Path::new(&folder).join("differential.txt"), &report)?;
    }
    anyhow::bail!("the servers differ\n{report}")
}

async fn report(clients: Arc<(Client, Client)>, groups: Vec<Vec<(u64, Difference)>>) -> Result<String> {
    let failing: usize = groups.iter().map(Vec::len).sum();
    let mut text = format!("{failing} sequences differ, in {} ways\n", groups.len());
    for (rank, group) in groups.into_iter().enumerate() {
        let seeds: Vec<_> = group.iter().map(|(seed, _)| seed.to_string()).collect();
        let (seed, found) =
            group.into_iter().min_by_key(|(_, found)| found.steps.len()).expect("no group is empty");
        let found = if rank < SHRUNK {
            compare::shrink(&clients.0, &clients.1, &format!("shrink-{seed}"), found).await?
        } else {
            found
        };
        writeln!(text, "\n=== {} x {} (seeds {})", seeds.len(), found.signature, seeds.join(" "))?;
        text += &found.report();
    }
    Ok(text)
}

async fn define(client: &Client) -> Result<()> {
    for definition in generate::kinds::definitions() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = client.send(&Request::json("POST", path, definition)).await?;
        anyhow::ensure!(answer.status.is_success(), "{}", answer.json());
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let wait = Step { id: 0, action: Action::Until(format!("{path}/{name}"), Goal::Established) };
        let observed = Run::new(client, "default").step(&wait).await;
        anyhow::ensure!(observed.status == 200, "{name} was not established: {observed:?}");
    }
    Ok(())
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}
