//! Times, memory and medians.

use std::time::Duration;

use anyhow::{Context, Result};
use koinon_conformance::harness::Engine;

/// Resident memory of all processes of an engine, in MiB.
pub(crate) fn resident(engine: &Engine) -> Result<f64> {
    let mut total = 0.0;
    for pid in engine.pids()? {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a process has a VmRSS")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).context("VmRSS has a value")?.parse()?;
        total += kilobytes / 1024.0;
    }
    Ok(total)
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
