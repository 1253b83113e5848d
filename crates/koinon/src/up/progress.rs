//! What `up` tells while it starts, on standard error.

use std::sync::atomic::{AtomicUsize, Ordering};

/// With more members than this, not each gets a line of its own.
const SINGLY: usize = 10;

/// How far the start has come.
pub(super) struct Progress {
    all: usize,
    ready: AtomicUsize,
}

impl Progress {
    pub(super) fn new(all: usize) -> Progress {
        Progress { all, ready: AtomicUsize::new(0) }
    }

    pub(super) fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Tells that one more member is ready.
    pub(super) fn ready(&self, name: &str) {
        let ready = self.ready.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(line) = line(name, ready, self.all) {
            self.say(&line);
        }
    }
}

fn line(name: &str, ready: usize, all: usize) -> Option<String> {
    if all <= SINGLY {
        return Some(format!("member {name} is ready"));
    }
    let tenth = |count: usize| count * 10 / all;
    (tenth(ready) > tenth(ready - 1)).then(|| format!("{ready} of {all} members are ready"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_told_by_name_and_many_in_tenths() {
        assert_eq!(line("a", 1, 3).unwrap(), "member a is ready");
        let told: Vec<_> = (1..=1000).filter_map(|ready| line("m", ready, 1000)).collect();
        assert_eq!(told.len(), 10);
        assert_eq!(told[9], "1000 of 1000 members are ready");
    }
}
