//! What is to be planned, from a file, from flags, or from a file with flags over it.

use std::collections::BTreeMap;
use std::fmt;

use koinon_api::preferences::{self, ANY_CLUSTER, Preferences, ScaleDown};
use koinon_workloads::planner::{Candidate, Workload};
use serde_json::{Map, Value};

use crate::args;

/// Everything that the planner asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) key: String,
    pub(super) replicas: i64,
    pub(super) preferences: Preferences,
    pub(super) candidates: BTreeMap<String, Candidate>,
    /// What is odd and still has a meaning.
    pub(super) warnings: Vec<String>,
}

/// Input that cannot be planned, as a sentence with the fix. The program then ends with 2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadInput(pub(super) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

type Result<T> = std::result::Result<T, BadInput>;

impl Input {
    /// Reads the file, then the flags, which win.
    pub(super) fn new(file: Option<&str>, args: &args::Plan) -> Result<Input> {
        let mut draft = Draft::default();
        if let Some(text) = file {
            draft.read(&parse(text)?)?;
        }
        draft.take_flags(args)?;
        draft.finish()
    }

    pub(super) fn workload(&self) -> Workload<'_> {
        Workload { key: &self.key, replicas: self.replicas, preferences: &self.preferences }
    }

    /// The same with clusters lost and weights changed.
    pub(super) fn what_if(&self, lose: &[String], weights: &[(String, i64)]) -> Result<Input> {
        let mut changed = self.clone();
        let check = |flag: &str, cluster: &str| {
            if self.candidates.contains_key(cluster) {
                return Ok(());
            }
            let known: Vec<&str> = self.candidates.keys().map(String::as_str).collect();
            bad(format!("--{flag} names {cluster:?}, which is none of the clusters {}", known.join(", ")))
        };
        for cluster in lose {
            check("lose", cluster)?;
            changed.candidates.remove(cluster);
        }
        for (cluster, weight) in weights {
            check("weight", cluster)?;
            if *weight < 0 {
                return bad(format!(
                    "--weight {cluster}={weight} is below 0: it must be a whole number from 0"
                ));
            }
            // What holds for the cluster stays, but for the weight.
            let mut entry = changed.preferences.for_cluster(cluster).copied().unwrap_or_default();
            entry.weight = *weight;
            changed.preferences.clusters.insert(cluster.clone(), entry);
        }
        Ok(changed)
    }
}

/// What was given so far.
#[derive(Debug, Default)]
struct Draft {
    key: Option<String>,
    replicas: Option<i64>,
    preferences: Preferences,
    clusters: Option<Vec<String>>,
    existing: BTreeMap<String, i64>,
    capacity: BTreeMap<String, i64>,
}

const FIELDS: &str = "key, replicas, rebalance, scaleDown, clusters, preferences, existing and capacity";

impl Draft {
    fn read(&mut self, value: &Value) -> Result<()> {
        let Value::Object(fields) = value else {
            return bad(format!("the input is {value}: it must be an object with the fields {FIELDS}"));
        };
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "key" => match value {
                    Value::String(key) => self.key = Some(key.clone()),
                    _ => return bad(format!("key is {value}: it must be text such as \"default/web\"")),
                },
                "replicas" => match value.as_i64() {
                    Some(count) => self.replicas = Some(count),
                    None => return bad(format!("replicas is {value}: it must be a whole number from 0")),
                },
                "rebalance" => match value {
                    Value::Bool(rebalance) => self.preferences.rebalance = *rebalance,
                    _ => return bad(format!("rebalance is {value}: it must be true or false")),
                },
                "scaleDown" => match value.as_str() {
                    Some("ordered") => self.preferences.scale_down = ScaleDown::Ordered,
                    Some("weighted") => self.preferences.scale_down = ScaleDown::Weighted,
                    _ => return bad(format!("scaleDown is {value}: it must be \"ordered\" or \"weighted\"")),
                },
                "clusters" => self.clusters = Some(clusters(value)?),
                "preferences" => {
                    self.preferences.clusters =
                        preferences::clusters_from_value("preferences", value).map_err(because)?;
                }
                "existing" => self.existing = counts("existing", value)?,
                "capacity" => self.capacity = counts("capacity", value)?,
                _ => return bad(format!("{name} is not known: {FIELDS} are")),
            }
        }
        Ok(())
    }

    fn take_flags(&mut self, args: &args::Plan) -> Result<()> {
        if let Some(text) = &args.preferences {
            self.preferences =
                Preferences::parse(text).map_err(|error| because(format!("--preferences: {error}")))?;
        }
        if let Some(rebalance) = args.rebalance {
            self.preferences.rebalance = rebalance;
        }
        if !args.clusters.is_empty() {
            self.clusters = Some(args.clusters.iter().map(|name| name.trim().to_owned()).collect());
        }
        if args.replicas.is_some() {
            self.replicas = args.replicas;
        }
        if args.key.is_some() {
            self.key.clone_from(&args.key);
        }
        self.existing.extend(args.existing.iter().cloned());
        self.capacity.extend(args.capacity.iter().cloned());
        Ok(())
    }

    fn finish(self) -> Result<Input> {
        let Some(replicas) = self.replicas else {
            return bad(
                "how many replicas there should be is not said: give --replicas N, or replicas in the file",
            );
        };
        if replicas < 0 {
            return bad(format!("replicas is {replicas}: it must be a whole number from 0"));
        }
        let Some(clusters) = self.clusters else {
            return bad(
                "which clusters there are is not said: give --clusters a,b,c, or clusters in the file",
            );
        };
        let mut candidates: BTreeMap<String, Candidate> = BTreeMap::new();
        for name in clusters {
            if name.is_empty() || name == ANY_CLUSTER {
                return bad(format!(
                    "{name:?} in clusters is no name of a cluster: name every cluster itself"
                ));
            }
            let candidate = Candidate {
                existing: self.existing.get(&name).copied().unwrap_or_default(),
                capacity: self.capacity.get(&name).copied(),
            };
            if candidates.insert(name.clone(), candidate).is_some() {
                return bad(format!("clusters names {name:?} twice: name each cluster once"));
            }
        }
        let stray = |field: &str, counts: &BTreeMap<String, i64>| -> Vec<String> {
            let unknown = counts.keys().filter(|name| !candidates.contains_key(*name));
            unknown
                .map(|name| format!("{field} names {name}, which is not among the clusters: that is ignored"))
                .collect()
        };
        let warnings = [stray("existing", &self.existing), stray("capacity", &self.capacity)].concat();
        let key = self.key.unwrap_or_default();
        Ok(Input { key, replicas, preferences: self.preferences, candidates, warnings })
    }
}

/// JSON where it looks like JSON, so that its faults are told in its terms; else YAML.
fn parse(text: &str) -> Result<Value> {
    if text.trim_start().starts_with(['{', '[']) {
        return serde_json::from_str(text)
            .map_err(|error| because(format!("the input is not JSON: {error}")));
    }
    if text.trim().is_empty() {
        return bad(format!("the input is empty: it must be an object with the fields {FIELDS}"));
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let words = error.to_string();
        because(format!("the input is neither JSON nor YAML: {}", words.lines().next().unwrap_or_default()))
    })
}

fn clusters(value: &Value) -> Result<Vec<String>> {
    let names = value.as_array().and_then(|names| {
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    match names {
        Some(names) => Ok(names),
        None => bad(format!("clusters is {value}: it must be a list of names such as [\"a\",\"b\"]")),
    }
}

/// Counts below zero are known from overfull clusters; the planner takes them as zero.
fn counts(field: &str, value: &Value) -> Result<BTreeMap<String, i64>> {
    let empty = Map::new();
    let entries = match value {
        Value::Object(entries) => entries,
        Value::Null => &empty,
        _ => return bad(format!("{field} is {value}: it must be an object such as {{\"a\":20}}")),
    };
    let mut read = BTreeMap::new();
    for (name, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
        match value.as_i64() {
            Some(count) => {
                read.insert(name.clone(), count);
            }
            None => return bad(format!("{field}.{name} is {value}: it must be a whole number")),
        }
    }
    Ok(read)
}

fn bad<T>(sentence: impl Into<String>) -> Result<T> {
    Err(BadInput(sentence.into()))
}

fn because(error: impl ToString) -> BadInput {
    BadInput(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Input> {
        Input::new(Some(text), &args::Plan::default())
    }

    const WHOLE: &str = r#"{"key":"a/b","replicas":50,"rebalance":true,"clusters":["A","B"],
        "preferences":{"*":{"minReplicas":0,"maxReplicas":null,"weight":1}},"existing":{"A":20},"capacity":{"B":6}}"#;

    #[test]
    fn a_file_in_json_or_yaml() {
        let input = read(WHOLE).unwrap();
        assert_eq!((input.key.as_str(), input.replicas), ("a/b", 50));
        assert_eq!(input.candidates["A"], Candidate { existing: 20, capacity: None });
        assert_eq!(input.candidates["B"], Candidate { existing: 0, capacity: Some(6) });
        let yaml = "key: a/b\nreplicas: 50\nrebalance: true\nclusters: [A, B]\npreferences:\n  \"*\": {weight: 1}\n\
                    existing: {A: 20}\ncapacity:\n  B: 6\n";
        assert_eq!(read(yaml).unwrap(), input);
    }

    #[test]
    fn flags_alone_and_over_a_file() {
        let flags = args::Plan {
            replicas: Some(9),
            clusters: vec!["A".into(), " C".into()],
            preferences: Some(r#"{"rebalance":true,"clusters":{"A":{"weight":2}}}"#.into()),
            existing: vec![("C".into(), 3)],
            ..args::Plan::default()
        };
        let alone = Input::new(None, &flags).unwrap();
        assert_eq!((alone.replicas, alone.key.as_str()), (9, ""));
        assert!(alone.preferences.rebalance);
        let over = Input::new(Some(WHOLE), &flags).unwrap();
        assert_eq!((over.replicas, over.key.as_str()), (9, "a/b"));
        assert_eq!(over.candidates["C"].existing, 3);
        assert_eq!(over.warnings, ["capacity names B, which is not among the clusters: that is ignored"]);
    }

    #[test]
    fn bad_input_gets_a_sentence() {
        for (text, sentence) in [
            (r#"{"clusters":["a"]}"#, "how many replicas there should be is not said"),
            (r#"{"replicas":1}"#, "which clusters there are is not said"),
            (r#"{"replicas":-1,"clusters":["a"]}"#, "replicas is -1: it must be a whole number from 0"),
            (r#"{"replicas":1.5,"clusters":["a"]}"#, "replicas is 1.5"),
            (r#"{"replicas":1,"clusters":"a"}"#, "clusters is \"a\": it must be a list"),
            (r#"{"replicas":1,"clusters":["a","a"]}"#, "clusters names \"a\" twice"),
            (r#"{"replicas":1,"clusters":["*"]}"#, "\"*\" in clusters is no name"),
            (r#"{"replicas":1,"clusters":["a"],"existing":{"a":"x"}}"#, "existing.a is \"x\""),
            (r#"{"replicas":1,"clusters":["a"],"capacity":[]}"#, "capacity is []"),
            (r#"{"replicas":1,"cluster":["a"]}"#, "cluster is not known: key, replicas"),
            (
                r#"{"replicas":1,"clusters":["a"],"preferences":{"a":{"minReplicas":3,"maxReplicas":1}}}"#,
                "preferences.a.minReplicas is 3, more than maxReplicas",
            ),
            (r#"{"replicas":1"#, "the input is not JSON"),
            ("a: b: c", "the input is neither JSON nor YAML"),
            ("", "the input is empty"),
            ("[]", "the input is []"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{text}: {error}");
        }
    }

    #[test]
    fn what_if() {
        let input = read(WHOLE).unwrap();
        assert!(!input.what_if(&["B".into()], &[]).unwrap().candidates.contains_key("B"));
        let heavier = input.what_if(&[], &[("A".into(), 3)]).unwrap();
        assert_eq!(heavier.preferences.for_cluster("A").unwrap().weight, 3);
        assert_eq!(heavier.preferences.for_cluster("B").unwrap().weight, 1);
        let error = input.what_if(&["x".into()], &[]).unwrap_err().to_string();
        assert_eq!(error, "--lose names \"x\", which is none of the clusters A, B");
        assert!(input.what_if(&[], &[("A".into(), -1)]).is_err());
    }
}
