//! `koinon lab`: what happens when a cluster is lost, tried on a running `up`.

pub(crate) mod serve;
pub(crate) mod words;

use std::path::Path;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use self::words::{Answer, Order};
use crate::{args, folder};

/// Tells a running `up` what to do, and prints what became of it.
pub(crate) async fn run(args: args::Lab) -> anyhow::Result<()> {
    let folder = match args.data {
        Some(folder) => folder,
        None => folder::default("up")?,
    };
    let order = match args.order {
        args::LabOrder::Stop { name } => Order::Stop { member: name },
        args::LabOrder::Start { name } => Order::Start { member: name },
        args::LabOrder::Cut { name } => Order::Cut { member: name },
        args::LabOrder::Heal { name } => Order::Heal { member: name },
        args::LabOrder::Delay { name, delay } => Order::Delay { member: name, delay },
        args::LabOrder::Show => Order::Show,
    };
    match ask(&folder, &order).await? {
        Answer::Done(said) => println!("{said}"),
        Answer::Failed(why) => bail!(why),
    }
    Ok(())
}

async fn ask(folder: &Path, order: &Order) -> anyhow::Result<Answer> {
    let nobody = || {
        format!(
            "no `koinon up` runs with the data folder {}: start it, or name its folder with --data",
            folder.display()
        )
    };
    // The other side knows its folder by its full path.
    let folder = std::fs::canonicalize(folder).with_context(nobody)?;
    let mut stream = UnixStream::connect(words::socket(&folder)?).await.with_context(nobody)?;
    let mut line = serde_json::to_string(order)?;
    line.push('\n');
    let ended = || {
        format!(
            "the `koinon up` with the data folder {} ended before it answered: start it again",
            folder.display()
        )
    };
    stream.write_all(line.as_bytes()).await.with_context(ended)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await.with_context(ended)?;
    serde_json::from_str(&answer).with_context(ended)
}

/// Names for a sentence; of many only the first.
pub(crate) fn several(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        0..=SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}
