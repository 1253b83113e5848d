//! Cron jobs.

use koinon_cron::Schedule;
use serde_json::{Value, json};

use super::job;
use crate::field::{Error, Path};
use crate::kinds::other::look::{
    Faults, default, default_empty, fields, flag, has, name, not_negative, one_of, shown, text, within,
};
use crate::kinds::{Generation, Strategy};

pub(super) static STRATEGY: Strategy = Strategy {
    default: default_cron_job,
    validate: validate_create,
    validate_update: |new, old| validate(new, Some(&old["spec"])),
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// The controller appends eleven characters to name a Job, whose name is a label of 63.
const LONGEST_NAME: usize = 52;

fn default_cron_job(object: &mut Value) {
    let Some(spec) = fields(object).map(|fields| fields.entry("spec").or_insert_with(|| json!({}))) else {
        return;
    };
    default_empty(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    if let Some(spec) = within(spec, "jobTemplate").and_then(|template| within(template, "spec")) {
        job::default_nested(spec);
    }
}

fn validate_create(object: &Value) -> Faults {
    let mut faults = validate(object, None);
    let name = name(object);
    if name.len() > LONGEST_NAME {
        let why = format!("must be no more than {LONGEST_NAME} characters");
        faults.push(Error::invalid(&Path::new("metadata.name"), name, why));
    }
    faults
}

fn validate(object: &Value, old: Option<&Value>) -> Faults {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        faults.push(Error::required(&path.child("schedule"), ""));
    } else {
        let zoned = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
        faults.extend(validate_schedule(spec, schedule, zoned, &path.child("schedule")));
    }
    faults.extend(not_negative(spec, "startingDeadlineSeconds", &path));
    if has(spec, "timeZone") && old.is_none_or(|old| old["timeZone"] != spec["timeZone"]) {
        faults.extend(validate_zone(text(spec, "timeZone"), &path.child("timeZone")));
    }
    let policy = path.child("concurrencyPolicy");
    match text(spec, "concurrencyPolicy") {
        "" => faults.push(Error::required(&policy, "")),
        given => faults.extend(one_of(given, &policy, &["Allow", "Forbid", "Replace"])),
    }
    let template = &spec["jobTemplate"]["spec"];
    let at = path.child("jobTemplate").child("spec");
    faults.extend(job::validate_spec(template, &at));
    if has(template, "selector") {
        let value = crate::kinds::selectors::show(&template["selector"]);
        faults.push(shown(&at.child("selector"), &value, "`selector` will be auto-generated"));
    }
    if flag(template, "manualSelector") {
        faults.push(Error::not_supported(&at.child("manualSelector"), true, &["nil", "false"]));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        faults.extend(not_negative(spec, key, &path));
    }
    faults
}

fn validate_schedule(spec: &Value, schedule: &str, zoned: bool, path: &Path) -> Faults {
    let mut faults: Faults =
        Schedule::parse(schedule).err().into_iter().map(|why| Error::invalid(path, schedule, why)).collect();
    if schedule.contains("TZ") {
        if !zoned {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            faults.push(Error::invalid(path, schedule, why));
        } else if has(spec, "timeZone") {
            let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            faults.push(Error::invalid(path, schedule, why));
        }
    }
    faults
}

fn validate_zone(zone: &str, path: &Path) -> Faults {
    if zone.is_empty() {
        return vec![Error::invalid(path, zone, "timeZone must be nil or non-empty string")];
    }
    let bad_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        part == "."
            || part == ".."
            || part.starts_with('-')
            || part.is_empty()
            || part.len() > 14
            || !part.bytes().all(allowed)
    };
    let unknown = || Error::invalid(path, zone, format!("unknown time zone {zone}"));
    if zone.split('/').any(bad_part) {
        return vec![unknown()];
    }
    let mut faults = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(Error::invalid(path, zone, why));
    }
    if zone != "Local" && koinon_cron::zone(zone).is_none() {
        faults.push(unknown());
    }
    faults
}
