//! Jobs.

use serde_json::{Value, json};

use super::{job_policies, job_status, job_update};
use crate::field::{Error, Path};
use crate::kinds::other::look::{
    Faults, default, default_empty, each, fields, flag, has, int, name, not_negative, one_of, shown, text,
    within,
};
use crate::kinds::other::rules;
use crate::kinds::{Generation, Strategy, pods, selectors};
use crate::names;

pub(super) static STRATEGY: Strategy = Strategy {
    default: default_job,
    prepare_create: generate_selector,
    validate: |job| validate(job, true),
    validate_update: job_update::validate,
    validate_status: job_status::validate,
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

pub(super) const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";

pub(super) const INDEXED: &str = "Indexed";
const LONGEST_MANAGER: usize = 63;

fn default_job(job: &mut Value) {
    let Some(spec) = fields(job).map(|fields| fields.entry("spec").or_insert_with(|| json!({}))) else {
        return;
    };
    if !has(spec, "parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let limit = if has(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replacement);
    default(spec, "manualSelector", false);
    default_nested(spec);
    // Before they are generated, the labels of the pods are not complete; see `generate_selector`.
    let complete =
        flag(spec, "manualSelector") || has(&spec["template"]["metadata"]["labels"], CONTROLLER_UID);
    if complete {
        label_as_pods(job);
    }
}

/// A job without labels has those of its pods.
fn label_as_pods(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_null() {
        default_empty(nested(job, &["metadata"]), "labels", labels);
    }
}

/// The defaults that a job has even inside the template of a cron job.
pub(super) fn default_nested(spec: &mut Value) {
    if let Some(policy) = within(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            for pattern in each(rule, "onPodConditions") {
                default_empty(pattern, "status", "True");
            }
        }
    }
    if let Some(template) = within(spec, "template") {
        pods::default_pod_template_spec(template);
    }
}

/// Labels the pods with the job's name and id, and selects them by the id.
fn generate_selector(job: &mut Value) {
    if flag(&job["spec"], "manualSelector") {
        return;
    }
    let (job_name, uid) = (name(job).to_owned(), text(&job["metadata"], "uid").to_owned());
    let Some(spec) = job.get_mut("spec") else { return };
    let labels = [
        (OLD_JOB_NAME, &job_name),
        (JOB_NAME, &job_name),
        (OLD_CONTROLLER_UID, &uid),
        (CONTROLLER_UID, &uid),
    ];
    let template = nested(spec, &["template", "metadata", "labels"]);
    for (key, value) in labels {
        default(template, key, value.as_str());
    }
    default(nested(spec, &["selector", "matchLabels"]), CONTROLLER_UID, uid);
    label_as_pods(job);
}

/// The object at the end of a path, made on the way.
fn nested<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, key| {
        default(value, key, json!({}));
        &mut value[*key]
    })
}

pub(super) fn validate(job: &Value, prefixed: bool) -> Faults {
    let spec = &job["spec"];
    let mut faults = validate_generated(job, prefixed);
    faults.extend(validate_with_selector(spec));
    if let (INDEXED, Some(completions)) = (text(spec, "completionMode"), int(spec, "completions"))
        && completions > 0
    {
        let host = format!("{}-{}", name(job), completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            faults.push(Error::invalid(&Path::new("metadata.name"), name(job), why));
        }
    }
    faults
}

/// What is wrong if labels and selector were to be generated, and are something else.
fn validate_generated(job: &Value, prefixed: bool) -> Faults {
    let spec = &job["spec"];
    if flag(spec, "manualSelector") || !has(spec, "selector") {
        return Vec::new();
    }
    let uid = text(&job["metadata"], "uid");
    let mut faults = Vec::new();
    if uid.is_empty() {
        faults.push(Error::required(&Path::new("metadata.uid"), ""));
    }
    let mut expected = vec![(OLD_CONTROLLER_UID, uid), (OLD_JOB_NAME, name(job))];
    if prefixed {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name(job))]);
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let path = Path::new("spec.template.metadata.labels");
    for (key, value) in &expected {
        let why = format!("must be '{value}'");
        match labels[*key].as_str() {
            None => faults.push(Error::required(&path.key(key), why)),
            Some(found) if found != *value => {
                faults.push(Error::invalid(&path.key(key), labels.clone(), why));
            }
            Some(_) => {}
        }
    }
    let expected: Value = expected.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    if !selectors::selects(&spec["selector"], &expected) {
        let value = selectors::show(&spec["selector"]);
        faults.push(shown(&Path::new("spec.selector"), &value, "`selector` not auto-generated"));
    }
    faults
}

pub(super) fn validate_with_selector(spec: &Value) -> Faults {
    let path = Path::new("spec");
    let mut faults = validate_spec(spec, &path);
    let labels = &spec["template"]["metadata"]["labels"];
    if has(spec, "selector") {
        faults.extend(selectors::validate_label_selector(&spec["selector"], &path.child("selector")));
    } else {
        faults.push(Error::required(&path.child("selector"), ""));
    }
    // A selector that is not there selects nothing; one that does not parse is faulty already.
    let parses = selectors::validate_label_selector(&spec["selector"], &path).is_empty();
    if parses && (!has(spec, "selector") || !selectors::selects(&spec["selector"], labels)) {
        let at = path.child("template").child("metadata").child("labels");
        faults.push(Error::invalid(&at, labels.clone(), "`selector` does not match template `labels`"));
    }
    faults
}

/// What is wrong with the spec of a job, its selector aside.
pub(super) fn validate_spec(spec: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        faults.extend(not_negative(spec, key, path));
    }
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        let why = "when maxFailedIndexes is specified";
        faults.push(Error::required(&path.child("backoffLimitPerIndex"), why));
    }
    if has(spec, "managedBy") {
        let manager = text(spec, "managedBy");
        faults.extend(rules::domain_prefixed_path(&path.child("managedBy"), manager));
        if manager.len() > LONGEST_MANAGER {
            faults.push(Error::too_long(&path.child("managedBy"), LONGEST_MANAGER));
        }
    }
    faults.extend(validate_mode(spec, path));
    if has(spec, "podFailurePolicy") {
        faults.extend(job_policies::validate_failure(spec, &path.child("podFailurePolicy")));
    }
    if has(spec, "successPolicy") {
        let at = path.child("successPolicy");
        if text(spec, "completionMode") == INDEXED {
            faults.extend(job_policies::validate_success(spec, &at));
        } else {
            let value = job_policies::show_success_policy(&spec["successPolicy"]);
            faults.push(shown(&at, &value, "requires indexed completion mode"));
        }
    }
    if has(spec, "podReplacementPolicy") {
        let policies: &[&str] =
            if has(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        let at = path.child("podReplacementPolicy");
        faults.extend(one_of(text(spec, "podReplacementPolicy"), &at, policies));
    }
    faults.extend(pods::validate_pod_template(&spec["template"], &path.child("template")));
    let at = path.child("template").child("spec").child("restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => {
            faults.push(Error::required(&at, r#"valid values: "OnFailure", "Never""#));
        }
        "OnFailure" if has(spec, "podFailurePolicy") => {
            let why = r#"only "Never" is supported when podFailurePolicy is specified"#;
            faults.push(Error::invalid(&at, "OnFailure", why));
        }
        policy => faults.extend(one_of(policy, &at, &["OnFailure", "Never"])),
    }
    faults
}

fn validate_mode(spec: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let mode = text(spec, "completionMode");
    if has(spec, "completionMode") {
        faults.extend(one_of(mode, &path.child("completionMode"), &["NonIndexed", INDEXED]));
    }
    match mode {
        INDEXED => faults.extend(validate_indexed(spec, path)),
        "" | "NonIndexed" => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = int(spec, key) {
                    faults.push(Error::invalid(&path.child(key), number, "requires indexed completion mode"));
                }
            }
        }
        _ => {}
    }
    faults
}

fn validate_indexed(spec: &Value, path: &Path) -> Faults {
    const MOST: i64 = 100_000;
    const MOST_WHEN_MANY: i64 = 10_000;
    let mut faults = Vec::new();
    let completions = int(spec, "completions");
    let above = |key: &str, most: i64, rest: &str| {
        let number = int(spec, key).filter(|number| *number > most)?;
        let why = format!("must be less than or equal to {most}{rest}");
        Some(Error::invalid(&path.child(key), number, why))
    };
    if completions.is_none() {
        faults.push(Error::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    faults.extend(above("parallelism", MOST, " when completion mode is Indexed"));
    if let (Some(failed), Some(completions)) = (int(spec, "maxFailedIndexes"), completions)
        && failed > completions
    {
        let why = "must be less than or equal to completions";
        faults.push(Error::invalid(&path.child("maxFailedIndexes"), failed, why));
    }
    faults.extend(above("maxFailedIndexes", MOST, ""));
    if completions.is_some_and(|completions| completions > MOST) && has(spec, "backoffLimitPerIndex") {
        if !has(spec, "maxFailedIndexes") {
            let why = format!("must be specified when completions is above {MOST}");
            faults.push(Error::required(&path.child("maxFailedIndexes"), why));
        }
        let rest = format!(" when completions are above {MOST} and used with backoff limit per index");
        faults.extend(above("parallelism", MOST_WHEN_MANY, &rest));
        faults.extend(above("maxFailedIndexes", MOST_WHEN_MANY, &rest));
    }
    faults
}
