//! Every resource of the catalog × method × address, right and wrong, asked by an administrator and by a user with all
//! rights in one namespace: the codes of both servers are the same, one by one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::Pair;
use koinon_conformance::matrix::{self, TENANT};

/// How many requests wait for their answers at a time.
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_have_the_same_addresses_for_the_same_users() -> Result<()> {
    let pair = tokio::task::spawn_blocking(Pair::start).await??;
    let (stock, subject) = (&pair.stock.client, &pair.subject.client);
    tokio::try_join!(prepare(stock), prepare(subject))?;
    let (catalog, ours) = tokio::try_join!(matrix::catalog(stock), matrix::catalog(subject))?;
    let lacking: Vec<_> = catalog.iter().filter(|one| !ours.contains(one)).collect();
    let beyond: Vec<_> = ours.iter().filter(|one| !catalog.contains(one)).collect();
    ensure!(catalog == ours, "discovery differs: only stock has {lacking:?}, only the subject {beyond:?}");
    let mut asked = Vec::new();
    for request in catalog.iter().flat_map(matrix::requests) {
        asked.push(("admin", request.clone()));
        asked.push((TENANT, request.header("impersonate-user", TENANT)));
    }
    let count = asked.len();
    let answers = futures::stream::iter(asked).map(|(user, request)| async move {
        let (stock, subject) = tokio::try_join!(code(stock, &request), code(subject, &request))?;
        anyhow::Ok((user, request, stock, subject))
    });
    let mut answers = answers.buffered(AT_ONCE);
    let mut differences = Vec::new();
    while let Some(answer) = answers.next().await {
        let (user, request, stock, subject) = answer?;
        if stock != subject {
            differences.push(format!(
                "{user} {} {}: stock {stock}, subject {subject}",
                request.method, request.path
            ));
        }
    }
    println!("{count} requests about {} resources", catalog.len());
    ensure!(
        differences.is_empty(),
        "{} of {count} requests differ\n{}",
        differences.len(),
        differences.join("\n")
    );
    Ok(())
}

/// The code of the answer. A watch has no end: its body is left unread, at the price of the connection.
async fn code(client: &Client, request: &Request) -> Result<u16> {
    let answer = client.open(request).await?;
    let status = answer.status();
    if !(status.is_success() && request.path.contains("watch")) {
        answer.into_body().collect().await?;
    }
    Ok(status.as_u16())
}

async fn prepare(client: &Client) -> Result<()> {
    for request in matrix::preparation() {
        let answer = client.send(&request).await?;
        ensure!(answer.status.is_success(), "{}: {}", request.path, answer.json());
    }
    // Served and listed come one after the other.
    let served = async {
        while !custom_resources_are_there(client).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let served = tokio::time::timeout(Duration::from_secs(60), served).await;
    served.context("the custom resources are not served")?;
    Ok(())
}

async fn custom_resources_are_there(client: &Client) -> bool {
    for plural in matrix::CUSTOM {
        if client.get(&format!("{}/{plural}", matrix::CUSTOM_ROOT)).await.is_err() {
            return false;
        }
    }
    let Ok(catalog) = matrix::catalog(client).await else { return false };
    matrix::CUSTOM
        .iter()
        .all(|plural| catalog.iter().any(|one| one.root == matrix::CUSTOM_ROOT && one.plural == *plural))
}
