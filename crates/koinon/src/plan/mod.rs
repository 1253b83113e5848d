//! `koinon plan`: where the replicas of a workload go, what moves, and why.
//!
//! Offline it needs nothing but a file or flags. Of a live workload, `deployment/NAME`, it tells what the role would decide.

mod input;
mod live;
mod output;

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use koinon_workloads::planner;

pub(crate) use input::BadInput;

use self::input::Input;
use crate::{args, host};

pub(crate) fn run(args: args::Plan) -> anyhow::Result<()> {
    if let Some(workload) = &args.workload {
        return write(&host::runtime()?.block_on(live::run(workload, &args))?);
    }
    let text = args.file.as_deref().map(read).transpose()?;
    let given = Input::new(text.as_deref(), &args)?;
    let asked = given.what_if(&args.lose, &args.weight)?;
    for warning in &given.warnings {
        eprintln!("koinon: {warning}");
    }
    let plan = planner::plan(&asked.workload(), &asked.candidates);
    let text = match args.output {
        args::Output::Json => output::json(&plan, &[])?,
        args::Output::Yaml => output::yaml(&plan, &[])?,
        args::Output::Table => {
            let hypothetical = !args.lose.is_empty() || !args.weight.is_empty();
            output::table(&plan, &output::before(&given, hypothetical), given.replicas)
        }
    };
    write(&text)
}

fn write(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the plan cannot be written"),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("the file {} cannot be read", file.display()))
}
