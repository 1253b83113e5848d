//! That clients are told what a stock kube-apiserver tells them.
//!
//! `testdata/recorded.json` has objects as they were stored, what they were before, and the `Warning`
//! headers that came with the answer.

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Write {
    /// The object as the client sent it, where that matters.
    sent: Option<Value>,
    old: Option<Value>,
    stored: Value,
    part: Option<String>,
    warnings: Vec<String>,
    /// The real server went through a map.
    #[serde(default)]
    unordered: bool,
}

fn told(write: &Write) -> Vec<String> {
    let version = text(&write.stored, "apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = text(&write.stored, "kind");
    let (new, old) = (&write.stored, write.old.as_ref());
    let mut told: Vec<String> = deprecation(group, version, kind).map(str::to_owned).into_iter().collect();
    told.extend(write.sent.as_ref().map(|sent| early_warnings(group, kind, sent)).unwrap_or_default());
    told.extend(match (group, write.part.as_deref()) {
        ("warnings.example.com", None) => custom_warnings(new, old),
        (_, None) => warnings(group, kind, new, old),
        (_, Some(_)) => status_warnings(group, kind, new),
    });
    // The same is said once.
    let mut seen = Vec::new();
    told.retain(|one| {
        !seen.contains(one) && {
            seen.push(one.clone());
            true
        }
    });
    told
}

#[test]
fn warnings_are_the_real_servers() {
    let writes: Vec<Write> = serde_json::from_str(include_str!("testdata/recorded.json")).unwrap();
    let mut wrong = Vec::new();
    for mut write in writes {
        let mut ours = told(&write);
        if write.unordered {
            ours.sort();
            write.warnings.sort();
        }
        if ours != write.warnings {
            wrong.push(format!("{}\n  real: {:#?}\n  ours: {ours:#?}", write.stored, write.warnings));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Values that may be stored from before today's rules, as an update shows them again.
#[test]
fn addresses_in_unusual_form_are_told() {
    #[track_caller]
    fn check(find: impl Fn(&At<'_>) -> Vec<String>, value: &str, expected: &[&str]) {
        let value = json!(value);
        assert_eq!(find(&At::new(&value, Path::new("ip"))), expected);
    }
    let address = |at: &At<'_>| addresses::address(at).into_iter().collect();
    check(address, "1.2.3.4", &[]);
    check(address, "none", &[]);
    check(address, "01.2.3.4", &[r#"ip: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4""#]);
    check(
        address,
        "::ffff:1.2.3.4",
        &[r#"ip: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4""#],
    );
    check(addresses::range, "10.0.0.0/8", &[]);
    check(
        addresses::range,
        "10.1.2.3/8",
        &[
            r#"ip: CIDR value "10.1.2.3/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.1.2.3/32"?)"#,
        ],
    );
    check(
        addresses::range,
        "010.0.0.0/08",
        &[r#"ip: non-standard CIDR value "010.0.0.0/08" is invalid: use "10.0.0.0/8""#],
    );
    check(
        addresses::range,
        "::ffff:10.0.0.1/104",
        &[
            r#"ip: CIDR value "::ffff:10.0.0.1/104" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/128"?)"#,
            r#"ip: non-standard CIDR value "::ffff:10.0.0.1/104" is invalid: use "10.0.0.0/8""#,
        ],
    );
    check(
        addresses::range,
        "2001:DB8::1/32",
        &[
            r#"ip: CIDR value "2001:DB8::1/32" is ambiguous in this context (should be "2001:db8::/32" or "2001:db8::1/128"?)"#,
        ],
    );
}

#[test]
fn schedules_with_a_time_zone_are_told_on_updates() {
    let job = json!({"metadata": {"generation": 1}, "spec": {"schedule": "TZ=UTC * * * * *"}});
    let told = warnings("batch", "CronJob", &job, Some(&job));
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead"));
}

#[test]
fn owners_are_named_once() {
    let owner = json!({"kind": "Pod", "name": "a", "uid": "1"});
    let other = json!({"kind": "Pod", "name": "b", "uid": "1"});
    let object = |owners: &[&Value]| json!({"metadata": {"ownerReferences": owners}});
    let mut twice = object(&[&owner, &other, &owner]);
    let told = deduplicate_owners(&mut twice, Seen::InRequest).unwrap();
    assert!(told.ends_with("; duplicate UID(s) observed: 1"), "{told}");
    assert_eq!(twice, object(&[&owner, &other]));
    assert_eq!(deduplicate_owners(&mut twice, Seen::AfterMutation), None);
    assert_eq!(twice, object(&[&owner, &other]));
}
