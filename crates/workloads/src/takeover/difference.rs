//! What of an object would change if it were made to say what the federated one does.

use serde_json::Value;

/// The paths at which `there` says something else than `said`, without the count. What only `there` says is no difference.
pub(crate) fn difference(said: &Value, there: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    for part in ["labels", "annotations"] {
        compare(&said["metadata"][part], &there["metadata"][part], &format!("metadata.{part}"), &mut paths);
    }
    for (name, value) in said["spec"].as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "replicas" | "paused") {
            compare(value, &there["spec"][name], &format!("spec.{name}"), &mut paths);
        }
    }
    paths
}

fn compare(said: &Value, there: &Value, path: &str, paths: &mut Vec<String>) {
    match (said, there) {
        (Value::Object(said), _) => {
            for (name, value) in said {
                compare(value, &there[name], &format!("{path}.{name}"), paths);
            }
        }
        (Value::Array(said), Value::Array(there)) if said.len() == there.len() => {
            for (at, (said, there)) in said.iter().zip(there).enumerate() {
                compare(said, there, &format!("{path}[{at}]"), paths);
            }
        }
        (said, there) if is_empty(said) && is_empty(there) || said == there => {}
        _ => paths.push(path.to_owned()),
    }
}

/// Servers leave out what is nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_change_is_named_by_its_path() {
        let said = json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {}},
            "spec": {"replicas": 9, "minReadySeconds": 3, "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}},
        });
        let mut there = said.clone();
        there["spec"]["replicas"] = 30.into();
        there["metadata"]["labels"]["more"] = "x".into();
        there["metadata"].as_object_mut().unwrap().remove("annotations");
        assert_eq!(difference(&said, &there), Vec::<String>::new());
        there["spec"]["template"]["spec"]["containers"][0]["image"] = "web:1".into();
        there["spec"].as_object_mut().unwrap().remove("minReadySeconds");
        assert_eq!(
            difference(&said, &there),
            ["spec.minReadySeconds", "spec.template.spec.containers[0].image"]
        );
        there["spec"]["template"]["spec"]["containers"] = json!([]);
        assert!(difference(&said, &there).contains(&"spec.template.spec.containers".to_owned()));
    }
}
