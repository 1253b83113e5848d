//! How a federation fared.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// How many replicas there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) available: u64,
    /// In members that the federation reaches.
    pub(super) within_reach: u64,
    /// Asked for in all members.
    pub(super) asked: u64,
}

/// From one trouble to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Episode {
    at_seconds: u64,
    what: String,
    lowest_available: u64,
    lowest_within_reach: u64,
    /// For so long fewer than wanted were within reach.
    short_seconds: u64,
    #[serde(skip)]
    wanted: u64,
}

impl Episode {
    pub(super) fn new(at: Duration, what: String, wanted: u64) -> Episode {
        Episode {
            at_seconds: at.as_secs(),
            what,
            lowest_available: wanted,
            lowest_within_reach: wanted,
            short_seconds: 0,
            wanted,
        }
    }

    /// Takes in a look that stands for so much time.
    pub(super) fn saw(&mut self, count: &Count, time: Duration) {
        self.lowest_available = self.lowest_available.min(count.available);
        self.lowest_within_reach = self.lowest_within_reach.min(count.within_reach);
        if count.within_reach < self.wanted {
            self.short_seconds += time.as_secs();
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) seed: u64,
    members: u32,
    replicas: u64,
    #[serde(rename = "spreadAfterSeconds", serialize_with = "seconds")]
    pub(super) spread_after: Option<Duration>,
    pub(super) episodes: Vec<Episode>,
    /// After the last fault.
    #[serde(rename = "wholeAfterSeconds", serialize_with = "seconds")]
    pub(super) whole_after: Option<Duration>,
    /// Whether there was nothing more to write then.
    pub(super) quiet: bool,
    pub(super) writes: usize,
    simulated_seconds: u64,
}

fn seconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs()).serialize(to)
}

impl Report {
    pub(super) fn new(seed: u64, members: u32, replicas: u64) -> Report {
        Report {
            seed,
            members,
            replicas,
            spread_after: None,
            episodes: Vec::new(),
            whole_after: None,
            quiet: false,
            writes: 0,
            simulated_seconds: 0,
        }
    }

    /// The same, at its end.
    pub(super) fn at(self, elapsed: Duration) -> Report {
        Report { simulated_seconds: elapsed.as_secs(), ..self }
    }

    pub(super) fn ended_well(&self) -> bool {
        self.whole_after.is_some() && self.quiet
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, members, replicas, .. } = self;
        writeln!(f, "seed {seed}: {replicas} replicas over {members} members")?;
        let Some(spread) = self.spread_after else {
            return writeln!(f, "they never became available: is there room for them?");
        };
        writeln!(f, "all available after {}\n", clock(spread.as_secs()))?;
        writeln!(
            f,
            "{:>9}  {:<28} {:>9} {:>12} {:>9}",
            "TIME", "WHAT", "AVAILABLE", "WITHIN REACH", "SHORT FOR"
        )?;
        for one in &self.episodes {
            let short = if one.short_seconds == 0 { "-".into() } else { clock(one.short_seconds) };
            writeln!(
                f,
                "{:>9}  {:<28} {:>9} {:>12} {:>9}",
                clock(one.at_seconds),
                one.what,
                one.lowest_available,
                one.lowest_within_reach,
                short
            )?;
        }
        let lowest = self.episodes.iter().map(|one| one.lowest_available).min().unwrap_or(*replicas);
        let short: u64 = self.episodes.iter().map(|one| one.short_seconds).sum();
        writeln!(
            f,
            "\nat worst {lowest} of {replicas} were available; for {} fewer than wanted were within reach",
            clock(short)
        )?;
        match self.whole_after {
            Some(whole) => {
                writeln!(f, "after the last trouble all was as wanted within {}", clock(whole.as_secs()))?
            }
            None => writeln!(f, "after the last trouble it never became as wanted")?,
        }
        let rest = if self.quiet { "then nothing more was written" } else { "and it never came to rest" };
        writeln!(f, "{rest}; {} writes in {} of simulated time\n", self.writes, clock(self.simulated_seconds))
    }
}

fn clock(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_with_its_lowest_points() {
        let mut report = Report::new(7, 3, 10);
        assert!(report.to_string().contains("never became available"));
        report.spread_after = Some(Duration::from_secs(4));
        let mut episode = Episode::new(Duration::from_secs(75), "a is cut off".into(), 10);
        for (available, within_reach) in [(10, 10), (10, 7), (9, 10)] {
            episode.saw(&Count { available, within_reach, asked: 10 }, Duration::from_secs(2));
        }
        report.episodes.push(episode);
        assert!(!report.ended_well());
        report.whole_after = Some(Duration::from_secs(61));
        report.quiet = true;
        assert!(report.ended_well());
        let told = report.at(Duration::from_secs(3700)).to_string();
        assert!(
            told.contains("    1m15s  a is cut off                         9            7        2s"),
            "{told}"
        );
        assert!(told.contains("at worst 9 of 10 were available; for 2s fewer"), "{told}");
        assert!(told.contains("within 1m01s\nthen nothing more was written; 0 writes in 1h01m40s"), "{told}");
    }
}
