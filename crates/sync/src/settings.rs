//! What the annotations of a CRD ask for.

use std::collections::BTreeMap;

use crate::names;
use crate::plan::{Filter, Observed, Source};

/// What a CRD asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub source: Source,
    pub filter: Filter,
    pub subtree: Option<String>,
    pub observed: Observed,
}

/// Why a CRD cannot be synced. Nothing of it is written or deleted then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("annotation {key} is {value:?}; use \"cloud\" or \"robot\"", key = names::SPEC_SOURCE)]
    Source { value: String },
    #[error("annotation {key} is {value:?}; use \"true\" or \"false\"", key = names::FILTER)]
    Filter { value: String },
    #[error("annotation {key} is {value:?}; use \"translate\", or remove it", key = names::OBSERVED_GENERATION)]
    Observed { value: String },
    #[error(
        "its objects are synced by robot name, and this robot has none; start the sync with --robot-name"
    )]
    NoRobotName,
}

impl Invalid {
    /// One word for metrics and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Invalid::Source { .. } => "InvalidSpecSource",
            Invalid::Filter { .. } => "InvalidFilter",
            Invalid::Observed { .. } => "InvalidObservedGeneration",
            Invalid::NoRobotName => "NoRobotName",
        }
    }
}

/// Reads the annotations of a CRD. `None` is a CRD that is not to be synced.
pub fn read(annotations: &BTreeMap<String, String>, robot: &str) -> Result<Option<Settings>, Invalid> {
    let get = |key: &str| annotations.get(key).map(String::as_str);
    let source = match get(names::SPEC_SOURCE) {
        None | Some("") => return Ok(None),
        Some("cloud") => Source::Cloud,
        Some("robot") => Source::Robot,
        Some(value) => return Err(Invalid::Source { value: value.into() }),
    };
    let filter = match get(names::FILTER).map(boolean) {
        None | Some(Ok(false)) => Filter::Everything,
        Some(Ok(true)) => Filter::OwnLabel,
        Some(Err(value)) => return Err(Invalid::Filter { value: value.into() }),
    };
    let observed = match get(names::OBSERVED_GENERATION) {
        None | Some("" | "verbatim") => Observed::Verbatim,
        Some("translate") => Observed::Translate,
        Some(value) => return Err(Invalid::Observed { value: value.into() }),
    };
    // A robot's own objects carry its name in the cloud, so they need one too.
    if robot.is_empty() && (filter == Filter::OwnLabel || source == Source::Robot) {
        return Err(Invalid::NoRobotName);
    }
    let subtree = get(names::SUBTREE).filter(|key| !key.is_empty()).map(str::to_owned);
    Ok(Some(Settings { source, filter, subtree, observed }))
}

/// The spellings that Go takes for a boolean: CRDs in the field use several of them.
fn boolean(text: &str) -> Result<bool, &str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(annotations: &[(&str, &str)], robot: &str, expected: &str) {
        let map = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let shown = match read(&map, robot) {
            Ok(None) => "not synced".into(),
            Ok(Some(settings)) => format!(
                "{:?} {:?} {} {:?}",
                settings.source,
                settings.filter,
                settings.subtree.unwrap_or_else(|| "-".into()),
                settings.observed
            ),
            Err(invalid) => format!("{}: {invalid}", invalid.reason()),
        };
        assert_eq!(shown, expected, "{annotations:?}");
    }

    #[test]
    fn annotations_say_what_is_synced() {
        let (source, filter, subtree) = (names::SPEC_SOURCE, names::FILTER, names::SUBTREE);
        check(&[], "r", "not synced");
        check(&[(filter, "true")], "r", "not synced");
        check(&[(source, "")], "r", "not synced");
        check(&[(source, "cloud")], "", "Cloud Everything - Verbatim");
        check(&[(source, "robot")], "r", "Robot Everything - Verbatim");
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            check(&[(source, "cloud"), (filter, yes)], "r", "Cloud OwnLabel - Verbatim");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            check(&[(source, "cloud"), (filter, no)], "r", "Cloud Everything - Verbatim");
        }
        check(&[(source, "cloud"), (subtree, "robot")], "r", "Cloud Everything robot Verbatim");
        check(&[(source, "cloud"), (subtree, "")], "r", "Cloud Everything - Verbatim");
        let translate = (names::OBSERVED_GENERATION, "translate");
        check(&[(source, "cloud"), translate], "r", "Cloud Everything - Translate");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let (source, filter) = (names::SPEC_SOURCE, names::FILTER);
        let wrong = "InvalidSpecSource: annotation cr-syncer.cloudrobotics.com/spec-source is \"Cloud\"; \
                     use \"cloud\" or \"robot\"";
        check(&[(source, "Cloud")], "r", wrong);
        for text in ["yes", "", "tRUE", " true"] {
            let wrong = format!("InvalidFilter: annotation {filter} is {text:?}; use \"true\" or \"false\"");
            check(&[(source, "cloud"), (filter, text)], "r", &wrong);
        }
        let nameless = "NoRobotName: its objects are synced by robot name, and this robot has none; \
                        start the sync with --robot-name";
        check(&[(source, "cloud"), (filter, "true")], "", nameless);
        check(&[(source, "robot")], "", nameless);
        let wrong = "InvalidObservedGeneration: annotation koinon.dev/observed-generation is \"x\"; \
                     use \"translate\", or remove it";
        check(&[(source, "cloud"), (names::OBSERVED_GENERATION, "x")], "r", wrong);
    }
}
