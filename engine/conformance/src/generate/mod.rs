//! Makes sequences of requests from a seed.

mod collection;
mod definition;
pub mod kinds;
mod misplaced;
mod odd;
mod reads;
mod writes;

use serde_json::Value;

use crate::client::Request;
use crate::rng::Rng;
use crate::sequence::{Action, Goal, Step};
use kinds::Kind;

/// The sequence of a seed: 20 to 40 requests about two or three kinds, and two at addresses that those have not.
pub fn sequence(seed: u64) -> Vec<Step> {
    let mut plan = Plan::new(seed);
    match seed % 20 {
        7 => definition::fill(&mut plan),
        13 => collection::fill(&mut plan),
        _ => {
            plan.fill();
            plan.misplaced();
        }
    }
    plan.steps
}

/// A sequence in the making.
struct Plan {
    rng: Rng,
    kinds: Vec<&'static Kind>,
    steps: Vec<Step>,
    /// Objects that were asked for, with the steps whose answers show them.
    objects: Vec<Object>,
}

struct Object {
    kind: &'static Kind,
    name: String,
    seen: Vec<usize>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(3);
        let kinds = (0..count).map(|_| rng.weighted(kinds::kinds(), |kind| kind.weight)).collect();
        Self { rng, kinds, steps: Vec::new(), objects: Vec::new() }
    }

    fn fill(&mut self) {
        let length = 20 + self.rng.below(21);
        self.create();
        while self.steps.len() < length {
            match self.rng.below(100) {
                0..22 => self.create(),
                22..34 => self.update(),
                34..56 => self.patch(),
                56..64 => self.subresource(),
                64..72 => self.get(),
                72..82 => self.list(),
                82..90 => self.delete(),
                90..94 => self.watch(),
                _ => self.odd(),
            }
        }
    }

    fn push(&mut self, action: Action) -> usize {
        let id = self.steps.last().map_or(0, |step| step.id + 1);
        self.steps.push(Step { id, action });
        id
    }

    fn send(&mut self, request: Request) -> usize {
        self.push(Action::Send(request))
    }

    fn kind(&mut self) -> &'static Kind {
        self.kinds[self.rng.below(self.kinds.len())]
    }

    /// An object that some step asked for, or in a few cases one that nobody did.
    fn target(&mut self) -> (&'static Kind, String, Vec<usize>) {
        if self.objects.is_empty() || self.rng.chance(6) {
            let kind = self.kind();
            return (kind, kind.name(&mut self.rng), Vec::new());
        }
        let object = &self.objects[self.rng.below(self.objects.len())];
        (object.kind, object.name.clone(), object.seen.clone())
    }

    /// Remembers that a step's answer shows an object.
    fn shown(&mut self, kind: &'static Kind, name: &str, step: usize) {
        match self.objects.iter_mut().find(|object| object.kind.plural == kind.plural && object.name == name)
        {
            Some(object) => object.seen.push(step),
            None => self.objects.push(Object { kind, name: name.to_owned(), seen: vec![step] }),
        }
    }

    /// A resource version for a write: mostly the newest known one, at times an old one, or none.
    fn version(&mut self, seen: &[usize]) -> Option<String> {
        match (self.rng.below(10), seen) {
            (0..5, [.., last]) => Some(format!("${{{last}.rv}}")),
            (5..7, [_, ..]) => Some(format!("${{{}.rv}}", self.rng.pick(seen))),
            (7, _) => Some("1".to_owned()),
            _ => None,
        }
    }

    /// Parameters that any write may carry.
    fn write_options(&mut self) -> Vec<String> {
        let mut options = Vec::new();
        if self.rng.chance(35) {
            options.push(format!(
                "fieldValidation={}",
                self.rng.pick(&["Ignore", "Warn", "Strict", "Strict", "Warn"])
            ));
        }
        if self.rng.chance(10) {
            options.push("dryRun=All".to_owned());
        }
        if self.rng.chance(20) {
            options.push(format!("fieldManager={}", self.rng.pick(&["alpha", "beta"])));
        }
        options
    }

    /// A namespace ends some time after its deletion; wait, so that both servers are in the same state.
    fn settle(&mut self, kind: &Kind, path: &str) {
        if kind.is_namespace() {
            self.push(Action::Until(path.to_owned(), Goal::Gone));
        }
    }
}

fn with_query(path: &str, options: &[String]) -> String {
    if options.is_empty() { path.to_owned() } else { format!("{path}?{}", options.join("&")) }
}

/// Percent-encodes what may not stand in a query; references stay as they are.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'$' | b'{' | b'}' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn json(method: &str, path: &str, options: &[String], body: &Value) -> Request {
    Request::json(method, with_query(path, options), body)
}
