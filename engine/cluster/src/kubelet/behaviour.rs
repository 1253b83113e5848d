//! How a pod wants its simulation to go: annotations on it, in the words of users.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Settings;

/// All annotations that a pod may carry begin with this.
pub const PREFIX: &str = "sim.koinon.dev/";
/// A container that crashes by itself ends so long after it was started.
const CRASH_AFTER: Duration = Duration::from_secs(1);
/// The exit code of a container that fails.
pub(super) const FAILED: i32 = 1;

/// What becomes of the containers of a pod, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// From the pod's arrival until its containers run.
    pub start_after: Duration,
    /// From the start of the containers until they are ready; none if they never are.
    pub ready_after: Option<Duration>,
    /// How and when the containers end by themselves, if they do.
    pub ending: Option<Ending>,
    /// From the pod's deletion until its containers have ended.
    pub terminate_after: Duration,
}

/// The end of containers that nobody asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub after: Duration,
    pub exit_code: i32,
    pub how_often: HowOften,
}

/// Whether containers that were restarted end the same way again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowOften {
    Once,
    EveryTime,
}

impl Behaviour {
    /// What the annotations ask for, and a sentence for each that makes no sense: that one has no effect.
    pub fn read(
        settings: &Settings,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> (Behaviour, Vec<String>) {
        let mut behaviour = Behaviour {
            start_after: settings.start_after,
            ready_after: Some(settings.ready_after),
            ending: None,
            terminate_after: settings.terminate_after,
        };
        let mut complaints = Vec::new();
        let ours = annotations
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)));
        let (mut crash, mut never) = (None, false);
        for (key, value) in ours {
            let time = || duration(value).ok_or("a time such as 500ms, 30s, 5m or 1m30s");
            let outcome = match key {
                "start-after" => time().map(|after| behaviour.start_after = after),
                "ready-after" => time().map(|after| behaviour.ready_after = Some(after)),
                "terminate-after" => time().map(|after| behaviour.terminate_after = after),
                "fail-after" => time().map(|after| {
                    behaviour.ending =
                        Some(Ending { after, exit_code: FAILED, how_often: HowOften::EveryTime });
                }),
                // Of both, the one that fails counts: it comes later in the alphabet.
                "complete-after" => time().map(|after| {
                    behaviour.ending = Some(Ending { after, exit_code: 0, how_often: HowOften::EveryTime });
                }),
                "ready" => match value.as_str() {
                    "never" => {
                        never = true;
                        Ok(())
                    }
                    _ => Err("never; for a time, use ready-after"),
                },
                "crash" => match value.as_str() {
                    "loop" => {
                        crash = Some(HowOften::EveryTime);
                        Ok(())
                    }
                    "once" => {
                        crash = Some(HowOften::Once);
                        Ok(())
                    }
                    _ => Err("loop or once"),
                },
                _ => {
                    complaints.push(format!(
                        "annotation {PREFIX}{key} is not known and has no effect: there are start-after, ready-after, \
                         ready, fail-after, complete-after, crash and terminate-after"
                    ));
                    continue;
                }
            };
            if let Err(allowed) = outcome {
                complaints
                    .push(format!("annotation {PREFIX}{key}: {value:?} has no effect: write {allowed}"));
            }
        }
        if let Some(how_often) = crash {
            behaviour.ending = Some(Ending { after: CRASH_AFTER, exit_code: FAILED, how_often });
        }
        if never || crash == Some(HowOften::EveryTime) {
            behaviour.ready_after = None;
        }
        (behaviour, complaints)
    }
}

/// Reads a time as Go writes it: numbers with units, such as `1m30s`.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let amount: f64 = rest[..digits].parse().ok()?;
        let seconds = match &rest[digits..unit_end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(amount * seconds).ok()?)?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> (Behaviour, Vec<String>) {
        let annotations =
            annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), value.to_string()));
        Behaviour::read(&Settings::default(), Some(&annotations.collect()))
    }

    #[test]
    fn times_are_written_as_go_does() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5s", Some(5000)),
            ("250ms", Some(250)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("", None),
            ("5", None),
            ("-5s", None),
            ("5 s", None),
            ("soon", None),
            ("5d", None),
            ("s", None),
            ("1e9h", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(duration(text).map(|time| time.as_millis()), expected, "{text:?}");
        }
    }

    #[test]
    fn annotations_change_one_thing_each() {
        let (default, none) = read(&[]);
        assert_eq!(none, [""; 0]);
        let loops = Ending { after: CRASH_AFTER, exit_code: 1, how_often: HowOften::EveryTime };
        let table: [(&[(&str, &str)], Behaviour); 8] = [
            (&[("start-after", "3s")], Behaviour { start_after: Duration::from_secs(3), ..default.clone() }),
            (
                &[("ready-after", "5s")],
                Behaviour { ready_after: Some(Duration::from_secs(5)), ..default.clone() },
            ),
            (
                &[("ready", "never"), ("ready-after", "5s")],
                Behaviour { ready_after: None, ..default.clone() },
            ),
            (&[("crash", "loop")], Behaviour { ready_after: None, ending: Some(loops), ..default.clone() }),
            (
                &[("crash", "once")],
                Behaviour { ending: Some(Ending { how_often: HowOften::Once, ..loops }), ..default.clone() },
            ),
            (
                &[("fail-after", "30s"), ("complete-after", "9s")],
                Behaviour {
                    ending: Some(Ending { after: Duration::from_secs(30), ..loops }),
                    ..default.clone()
                },
            ),
            (
                &[("complete-after", "9s")],
                Behaviour {
                    ending: Some(Ending { after: Duration::from_secs(9), exit_code: 0, ..loops }),
                    ..default.clone()
                },
            ),
            (&[("terminate-after", "1m")], Behaviour { terminate_after: Duration::from_secs(60), ..default }),
        ];
        for (annotations, expected) in table {
            assert_eq!(read(annotations), (expected, Vec::new()), "{annotations:?}");
        }
    }

    #[test]
    fn nonsense_changes_nothing_and_is_answered_with_what_would_make_sense() {
        let (default, _) = read(&[]);
        for (annotation, word) in [
            (("ready", "maybe"), "never"),
            (("ready-after", "soon"), "30s"),
            (("crash", "yes"), "loop or once"),
            (("reddy", "never"), "ready-after"),
        ] {
            let (behaviour, complaints) = read(&[annotation]);
            assert_eq!(behaviour, default, "{annotation:?}");
            assert!(complaints.len() == 1 && complaints[0].contains(word), "{complaints:?}");
        }
    }
}
