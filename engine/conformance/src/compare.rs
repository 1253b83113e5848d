//! Runs a sequence on both servers until they differ, and makes a failing one as small as it can be.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use serde_json::{Value, json};

use crate::client::{Client, Request};
use crate::generate::kinds;
use crate::normal::Normaliser;
use crate::sequence::{Action, Observed, Run, Step};
use crate::{diff, known};

/// Differences after these in one sequence are mostly their consequences.
const ENOUGH: usize = 3;

/// How a sequence ended.
#[derive(Default)]
pub struct Outcome {
    /// Where the servers differ.
    pub differences: Vec<Difference>,
    /// How many steps met a known difference.
    pub known: usize,
}

/// Where and how two answers differ.
#[derive(Clone)]
pub struct Difference {
    /// The steps up to and with the one that shows it.
    pub steps: Vec<Step>,
    /// What tells it from others: the request's sort, the codes and the place.
    pub signature: String,
    /// What groups it with others of its sort, whatever the resource.
    pub class: String,
    /// Under what it stands in the list of open differences: method, resource, codes and place.
    pub key: String,
    /// The resource it is about.
    pub resource: String,
    /// Stock's answer, normalised.
    pub stock: Value,
    /// The other answer, normalised.
    pub subject: Value,
}

/// Runs the steps in a namespace of the given name on both servers.
pub async fn run(stock: &Client, subject: &Client, namespace: &str, steps: &[Step]) -> Result<Outcome> {
    let mut sides = (Run::new(stock, namespace), Run::new(subject, namespace));
    tokio::try_join!(sides.0.prepare(), sides.1.prepare())?;
    let outcome = compare(&mut sides, steps).await;
    let (cluster, namespaced) = kinds::collections();
    let used = |paths: Vec<String>| {
        let mentioned = |path: &String| steps.iter().any(|step| step.to_string().contains(path.as_str()));
        paths.into_iter().filter(mentioned).collect::<Vec<_>>()
    };
    let (cluster, namespaced) = (used(cluster), used(namespaced));
    tokio::try_join!(sides.0.clean(&cluster, &namespaced), sides.1.clean(&cluster, &namespaced))?;
    Ok(outcome)
}

async fn compare(sides: &mut (Run<'_>, Run<'_>), steps: &[Step]) -> Outcome {
    let mut normal = (Normaliser::default(), Normaliser::default());
    let mut outcome = Outcome::default();
    for (index, step) in steps.iter().enumerate() {
        let (stock, subject) = tokio::join!(sides.0.step(step), sides.1.step(step));
        let plain = (normalise(&mut normal.0, &stock), normalise(&mut normal.1, &subject));
        if plain.0 == plain.1 && stock.status != 0 {
            continue;
        }
        if known::reason(step, &stock, &subject).is_some() {
            outcome.known += 1;
            continue;
        }
        let found = Difference::new(&steps[..=index], plain.0, plain.1);
        // Beyond an answer of another sort, the servers are no longer in the same state.
        let apart = stock.status != subject.status || found.class.contains("resourceVersion");
        outcome.differences.push(found);
        if apart || outcome.differences.len() == ENOUGH {
            break;
        }
    }
    outcome
}

fn normalise(normal: &mut Normaliser, observed: &Observed) -> Value {
    json!({
        "status": observed.status,
        "content-type": observed.content_type,
        "warnings": observed.warnings.iter().map(|warning| normal.text(warning)).collect::<Vec<_>>(),
        "body": normal.value(&observed.body),
    })
}

/// Drops steps for as long as the same difference shows, and gives what is left.
pub async fn shrink(stock: &Client, subject: &Client, name: &str, found: Difference) -> Result<Difference> {
    let mut best = found;
    let mut attempt = 0;
    let unanswered = |found: &Difference| found.stock["status"] == 0 || found.subject["status"] == 0;
    // Each attempt would wait for the answer that does not come.
    if unanswered(&best) {
        return Ok(best);
    }
    let same = |outcome: Outcome, signature: &str| {
        outcome.differences.into_iter().find(|found| found.signature == signature)
    };
    let resource = best.resource.split("/NAME").next().unwrap_or_default().to_owned();
    let mut about = best.steps.clone();
    about.retain(|step| sort(step).1.starts_with(&resource));
    let outcome = run(stock, subject, &format!("{name}-0"), &about).await?;
    if let Some(found) = same(outcome, &best.signature) {
        best = found;
    }
    let mut chunk = best.steps.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at + 1 < best.steps.len() {
            let end = (at + chunk).min(best.steps.len() - 1);
            let mut fewer = best.steps.clone();
            fewer.drain(at..end);
            attempt += 1;
            let outcome = run(stock, subject, &format!("{name}-{attempt}"), &fewer).await?;
            match same(outcome, &best.signature) {
                Some(found) => best = found,
                None => at = end,
            }
        }
        chunk /= 2;
    }
    Ok(best)
}

/// The sort of request a step makes, and the resource it is about.
fn sort(step: &Step) -> (String, String) {
    let content = |request: &Request| {
        let values: Vec<_> = request.headers.iter().map(|(_, value)| value.as_str()).collect();
        values.join(" ")
    };
    match &step.action {
        Action::Send(request) | Action::Resend(request, ..) => {
            (format!("{} {}", request.method, content(request)), resource(&request.path))
        }
        Action::Watch(request, _) => (format!("WATCH {}", content(request)), resource(&request.path)),
        Action::Until(path, goal) => (format!("UNTIL {goal:?}"), resource(path)),
    }
}

/// A text with all that is particular to one request taken out.
fn masked(text: &str) -> String {
    static PARTICULAR: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"\\?"[^"]*"|\d+|\S*\[\S*|[A-Za-z]+(\.[a-z0-9]+)+"#).expect("well formed")
    });
    PARTICULAR.replace_all(text, "_").chars().take(160).collect()
}

/// A path without its namespace, its name and its query.
fn resource(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default().replace("/namespaces/${ns}/", "/");
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let (root, rest) = parts.split_at(parts.len().min(if path.starts_with("/apis") { 3 } else { 2 }));
    match rest {
        [plural, _, sub, ..] => format!("{}/{plural}/NAME/{sub}", root.join("/")),
        [plural, _] => format!("{}/{plural}/NAME", root.join("/")),
        [plural] => format!("{}/{plural}", root.join("/")),
        [] => path,
    }
}

impl Difference {
    fn new(steps: &[Step], stock: Value, subject: Value) -> Self {
        let (sort, resource) = steps.last().map(sort).unwrap_or_default();
        let place = diff::first(&stock, &subject).unwrap_or_default();
        let told = |answer: &Value| match place.as_str() {
            "/body/message" => masked(answer["body"]["message"].as_str().unwrap_or_default()),
            "/warnings" => masked(&answer["warnings"].to_string()),
            _ => format!("{} {}", answer["status"], answer["body"]["reason"].as_str().unwrap_or_default()),
        };
        let whereabouts: Vec<_> =
            place.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).collect();
        let class =
            format!("{sort} at {}\n    - {}\n    + {}", whereabouts.join("/"), told(&stock), told(&subject));
        let codes = format!("{}/{}", stock["status"], subject["status"]);
        let signature = format!("{sort} {resource} {codes} at {place}");
        let method = sort.split(' ').next().unwrap_or_default();
        let key = format!("{method} {resource} {codes} {}", whereabouts.join("/"));
        Self { steps: steps.to_vec(), signature, class, key, resource, stock, subject }
    }

    /// The whole story: the steps, then both answers.
    pub fn report(&self) -> String {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let steps: String = self.steps.iter().map(|step| format!("{step}\n")).collect();
        format!(
            "{steps}answers (- stock, + subject):\n{}",
            diff::lines(&pretty(&self.stock), &pretty(&self.subject))
        )
    }
}
