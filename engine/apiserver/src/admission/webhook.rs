//! Admission webhooks: which of them see a request, what they are asked, and what their answers mean.
//!
//! The calls themselves are made by a function that the caller gives.

mod review;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::matching::{Criteria, Seen, seen_as};
use super::policy::{self, ConditionsOutcome};
use super::{Attributes, Lookup, about};
use crate::cel::request::Facts;
use crate::kinds::walk::{get, list, text};
use crate::status::{Error, GroupResource, Result};

/// Where a webhook is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the webhook, for logs.
    pub name: String,
    pub endpoint: Endpoint,
    /// PEM, empty for the system's own trust.
    pub ca_bundle: Vec<u8>,
    pub timeout: Duration,
}

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Url(String),
    /// A Service of this cluster: `https://NAME.NAMESPACE.svc:PORT/PATH`.
    Service {
        namespace: String,
        name: String,
        path: String,
        port: u16,
    },
}

/// What webhooks say. What one refuses, others may have warned of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Why the request is not to go on.
    pub refusal: Option<Error>,
    /// For the `Warning` headers of the response.
    pub warnings: Vec<String>,
    /// Under the name of the webhook: `webhook.example.com/key`.
    pub audit_annotations: BTreeMap<String, String>,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.warnings.extend(other.warnings);
        self.audit_annotations.extend(other.audit_annotations);
        self.refusal = self.refusal.take().or(other.refusal);
    }

    fn refused(why: Error) -> Outcome {
        Outcome { refusal: Some(why), ..Outcome::default() }
    }
}

/// A call that is to be made.
#[derive(Debug, Clone)]
struct Invocation {
    target: Target,
    /// Whether the request goes on when the call fails.
    fails_open: bool,
    uid: String,
    version: review::Version,
    body: Vec<u8>,
}

/// Asks all validating webhooks that match, at once; the first refusal in their order counts.
///
/// `configurations` are ValidatingWebhookConfigurations. `call` posts a body and gives the body of the
/// answer, or why there is none.
pub fn validate<Call, Answer>(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    configurations: &[Value],
    lookup: &dyn Lookup,
    call: Call,
) -> impl Future<Output = Outcome> + use<Call, Answer>
where
    Call: Fn(Target, Vec<u8>) -> Answer,
    Answer: Future<Output = Result<Vec<u8>, String>>,
{
    let calls = invocations(request, object, old, configurations, lookup);
    async move {
        let calls = match calls {
            Ok(calls) => calls,
            Err(error) => return Outcome::refused(error),
        };
        let answers = calls.iter().map(|one| call(one.target.clone(), one.body.clone()));
        let answers = join_all(answers).await;
        let mut outcome = Outcome::default();
        for (invocation, answer) in calls.iter().zip(answers) {
            outcome.add(judge(invocation, answer, review::Purpose::Validate).0);
        }
        outcome
    }
}

/// Asks all mutating webhooks that match, one after the other, and applies their patches.
///
/// What a patch leaves goes through `again`, to be decoded and defaulted, before the next one sees it.
pub async fn mutate<Call, Answer>(
    request: &Attributes<'_>,
    object: Value,
    old: Option<&Value>,
    configurations: &[Value],
    lookup: &(dyn Lookup + Sync),
    call: Call,
    again: impl Fn(Value) -> Result<Value>,
) -> (Value, Outcome)
where
    Call: Fn(Target, Vec<u8>) -> Answer,
    Answer: Future<Output = Result<Vec<u8>, String>>,
{
    let mut object = object;
    let mut outcome = Outcome::default();
    for webhook in webhooks(configurations) {
        let invocation = match invocation(request, Some(&object), old, webhook, lookup) {
            Ok(Some(invocation)) => invocation,
            Ok(None) => continue,
            Err(error) => {
                outcome.add(Outcome::refused(error));
                break;
            }
        };
        let answer = call(invocation.target.clone(), invocation.body.clone()).await;
        let (said, patch) = judge(&invocation, answer, review::Purpose::Mutate);
        outcome.add(said);
        if let Some(patch) = patch {
            let patched = json_patch::patch(&mut object, &patch).map_err(Error::internal);
            match patched.and_then(|()| again(object.clone())) {
                Ok(changed) => object = changed,
                Err(error) => outcome.add(Outcome::refused(error)),
            }
        }
        if outcome.refusal.is_some() {
            break;
        }
    }
    (object, outcome)
}

/// All webhooks: configurations by name, and in each as they are listed.
fn webhooks(configurations: &[Value]) -> impl Iterator<Item = &Value> {
    let mut sorted: Vec<&Value> = configurations.iter().collect();
    sorted.sort_by_key(|configuration| text(get(configuration, &["metadata"]), "name"));
    sorted.into_iter().flat_map(|configuration| list(&configuration["webhooks"]))
}

fn invocations(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    configurations: &[Value],
    lookup: &dyn Lookup,
) -> Result<Vec<Invocation>> {
    let found = webhooks(configurations).map(|webhook| invocation(request, object, old, webhook, lookup));
    found.filter_map(Result::transpose).collect()
}

/// The call to make, if the webhook sees this request.
fn invocation(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    webhook: &Value,
    lookup: &dyn Lookup,
) -> Result<Option<Invocation>> {
    let Some(seen) = seen_as(request, object, old, Criteria::of_webhook(webhook), lookup)? else {
        return Ok(None);
    };
    let name = text(webhook, "name");
    if request.dry_run && !matches!(text(webhook, "sideEffects"), "None" | "NoneOnDryRun") {
        return Err(Error::bad_request(format!("admission webhook {name:?} does not support dry run")));
    }
    let fails_open = text(webhook, "failurePolicy") == "Ignore";
    match conditions(request, object, old, webhook, &seen) {
        ConditionsOutcome::Holds => {}
        ConditionsOutcome::Unknown(why) if !fails_open => {
            let resource = GroupResource::new(request.group, request.resource);
            return Err(Error::forbidden(&resource, request.name, &why));
        }
        ConditionsOutcome::Fails | ConditionsOutcome::Unknown(_) => return Ok(None),
    }
    let Some(version) = review::version(webhook) else {
        let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return if fails_open { Ok(None) } else { Err(failed(name, why)) };
    };
    let uid = request.context.uid();
    let body = review::request(&uid, version, request, &seen, object, old).to_string().into_bytes();
    Ok(Some(Invocation { target: target(webhook), fails_open, uid, version, body }))
}

/// Whether the conditions that a webhook has in CEL hold.
fn conditions(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    webhook: &Value,
    seen: &Seen,
) -> ConditionsOutcome {
    if list(&webhook["matchConditions"]).is_empty() {
        return ConditionsOutcome::Holds;
    }
    let shown = |object: Option<&Value>| object.map(|object| about::shown(object, seen));
    let (object, old) = (shown(object), shown(old));
    let facts = Facts {
        request: &about::request(request, seen, request.name),
        object: object.as_ref(),
        old: old.as_ref(),
        namespace: None,
        params: None,
        authority: request.authority,
    };
    policy::of_webhook(webhook, &facts)
}

fn target(webhook: &Value) -> Target {
    use base64::Engine as _;
    let config = get(webhook, &["clientConfig"]);
    let endpoint = match config["url"].as_str() {
        Some(url) => Endpoint::Url(url.to_owned()),
        None => {
            let service = get(config, &["service"]);
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            Endpoint::Service {
                namespace: text(service, "namespace").to_owned(),
                name: text(service, "name").to_owned(),
                path: text(service, "path").to_owned(),
                port: port.unwrap_or(443),
            }
        }
    };
    Target {
        name: text(webhook, "name").to_owned(),
        endpoint,
        ca_bundle: base64::engine::general_purpose::STANDARD
            .decode(text(config, "caBundle"))
            .unwrap_or_default(),
        timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
    }
}

/// What an answer means for the request: what was said, and the patch if there is one.
fn judge(
    invocation: &Invocation,
    answer: Result<Vec<u8>, String>,
    purpose: review::Purpose,
) -> (Outcome, Option<json_patch::Patch>) {
    let name = &invocation.target.name;
    let read = answer
        .map_err(|why| format!("failed to call webhook: {why}"))
        .and_then(|body| review::read(&body, &invocation.uid, invocation.version, purpose));
    match read {
        Ok(response) => {
            let annotations = response.audit_annotations.into_iter();
            let outcome = Outcome {
                refusal: response.refusal.map(|status| review::denied(name, &status)),
                warnings: response.warnings,
                audit_annotations: annotations.map(|(key, value)| (format!("{name}/{key}"), value)).collect(),
            };
            (outcome, response.patch)
        }
        Err(_) if invocation.fails_open => Default::default(),
        Err(why) => (Outcome::refused(failed(name, &why)), None),
    }
}

fn failed(name: &str, why: &str) -> Error {
    Error::internal(format!("failed calling webhook {name:?}: {why}"))
}
