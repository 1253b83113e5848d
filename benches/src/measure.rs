//! Times, memory and medians.

use std::time::Duration;

use anyhow::{Context, Result};
use koinon_conformance::harness::Engine;

/// Resident memory of all processes of an engine, in MiB.
pub(crate) fn resident(engine: &Engine) -> Result<f64> {
    engine.pids()?.into_iter().map(resident_of).sum()
}

/// Resident memory of one process, in MiB.
pub(crate) fn resident_of(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a process has a VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("VmRSS has a value")?.parse()?;
    Ok(kilobytes / 1024.0)
}

/// Processor time that a process has used, in seconds.
pub(crate) fn processor_time(pid: u32) -> Result<f64> {
    /// Of the kernel's clock, which is the same on every machine that Rust runs Linux programs on.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold anything; what follows its parenthesis does not.
    let (_, rest) = stat.rsplit_once(')').context("a process has a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| anyhow::Ok(fields.get(at).context("a process has times")?.parse::<f64>()?);
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}

/// The middle of the values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value that 99 of 100 do not pass, in milliseconds.
pub(crate) fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort();
    let at = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        let times = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(p99(times), 198.0);
    }
}
