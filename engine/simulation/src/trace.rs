//! What happened, in order and with its time: the proof that two runs were the same, and the story of one that failed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// A write that a party sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub from: String,
    pub to: String,
    pub method: String,
    pub path: String,
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {}: {} {}", self.from, self.to, self.method, self.path)
    }
}

/// Everything that happened in one run.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    entries: Vec<(Duration, Entry)>,
    complaints: Vec<String>,
}

enum Entry {
    Note(String),
    Write { write: Write, outcome: String },
}

/// So much of a long story is told: its end.
const TOLD: usize = 400;

impl Trace {
    pub(crate) fn note_at(&self, at: Duration, text: String) {
        self.0.lock().entries.push((at, Entry::Note(text)));
    }

    /// Takes down a write that is on its way; the outcome is told later.
    pub(crate) fn write_at(&self, at: Duration, write: Write) -> usize {
        let mut inner = self.0.lock();
        inner.entries.push((at, Entry::Write { write, outcome: "…".into() }));
        inner.entries.len() - 1
    }

    pub(crate) fn ended(&self, number: usize, said: &str) {
        if let Some((_, Entry::Write { outcome, .. })) = self.0.lock().entries.get_mut(number) {
            *outcome = said.into();
        }
    }

    pub(crate) fn complain_at(&self, at: Duration, what: String) {
        self.note_at(at, format!("!! {what}"));
        self.0.lock().complaints.push(what);
    }

    /// What witnesses complained about.
    pub fn complaints(&self) -> Vec<String> {
        self.0.lock().complaints.clone()
    }

    /// Fails if a witness complained.
    pub fn assert_kept(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "an invariant was broken: {complaints:#?}");
    }

    /// All writes so far.
    pub fn writes(&self) -> Vec<Write> {
        let inner = self.0.lock();
        let writes = inner.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Write { write, .. } => Some(write.clone()),
            Entry::Note(_) => None,
        });
        writes.collect()
    }

    /// How many writes there were so far.
    pub fn count_writes(&self) -> usize {
        let inner = self.0.lock();
        inner.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Write { .. })).count()
    }

    /// The story, a line for each thing that happened.
    pub fn timeline(&self) -> String {
        let inner = self.0.lock();
        let mut text = String::new();
        for (at, entry) in &inner.entries {
            let seconds = at.as_secs_f64();
            let _ = match entry {
                Entry::Note(note) => writeln!(text, "{seconds:>12.3}  {note}"),
                Entry::Write { write, outcome } => writeln!(text, "{seconds:>12.3}    {write} {outcome}"),
            };
        }
        text
    }

    /// The end of the story, if it is long.
    pub(crate) fn told(&self) -> String {
        let timeline = self.timeline();
        let lines: Vec<&str> = timeline.lines().collect();
        let skipped = lines.len().saturating_sub(TOLD);
        let before = if skipped > 0 { format!("({skipped} lines before)\n") } else { String::new() };
        format!("{before}{}", lines[skipped..].join("\n"))
    }
}
