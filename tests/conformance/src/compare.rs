//! Runs a sequence on both servers until they differ, and makes a failing one as small as it can be.

use anyhow::Result;
use serde_json::{Value, json};

use crate::client::Client;
use crate::generate::kinds;
use crate::normal::Normaliser;
use crate::sequence::{Action, Observed, Run, Step};
use crate::{diff, known};

/// How a sequence ended.
pub enum Outcome {
    /// Both servers answered alike; how many steps met a known difference.
    Same {
        /// Known differences met on the way.
        known: usize,
    },
    /// They did not.
    Different(Box<Difference>),
}

/// Where and how two answers differ.
#[derive(Clone)]
pub struct Difference {
    /// The steps up to and with the one that shows it.
    pub steps: Vec<Step>,
    /// What groups it with others of its sort.
    pub signature: String,
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
    let mut known = 0;
    for (index, step) in steps.iter().enumerate() {
        let (stock, subject) = tokio::join!(sides.0.step(step), sides.1.step(step));
        let plain = (normalise(&mut normal.0, &stock), normalise(&mut normal.1, &subject));
        if plain.0 == plain.1 && stock.status != 0 {
            continue;
        }
        if known::reason(step, &stock, &subject).is_some() {
            known += 1;
            continue;
        }
        return Outcome::Different(Box::new(Difference {
            steps: steps[..=index].to_vec(),
            signature: signature(step, &plain),
            stock: plain.0,
            subject: plain.1,
        }));
    }
    Outcome::Same { known }
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
    let mut chunk = best.steps.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at + 1 < best.steps.len() {
            let end = (at + chunk).min(best.steps.len() - 1);
            let mut fewer = best.steps.clone();
            fewer.drain(at..end);
            attempt += 1;
            let outcome = run(stock, subject, &format!("{name}-{attempt}"), &fewer).await?;
            match outcome {
                Outcome::Different(found) if found.signature == best.signature => best = *found,
                _ => at = end,
            }
        }
        chunk /= 2;
    }
    Ok(best)
}

fn signature(step: &Step, (stock, subject): &(Value, Value)) -> String {
    let verb = match &step.action {
        Action::Send(request) | Action::Resend(request, ..) => {
            let content =
                request.headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
            format!("{} {} {}", request.method, resource(&request.path), content.join(" "))
        }
        Action::Watch(request, _) => format!("WATCH {}", resource(&request.path)),
        Action::Until(path, goal) => format!("UNTIL {goal:?} {}", resource(path)),
    };
    let place = diff::first(stock, subject).unwrap_or_default();
    format!(
        "{verb} {}/{} {}/{} at {place}",
        stock["status"], subject["status"], stock["body"]["reason"], subject["body"]["reason"]
    )
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
