//! Admission policies: the same policy makes of the same requests the same on both servers, and what is wrong with a
//! policy is told in the same words.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::Pair;
use koinon_conformance::sequence::Observed;
use serde::Deserialize;
use serde_json::{Value, json};

const API: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";
const MUTATING: &str = "mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings";

/// Policies that are in force together, and requests that are made meanwhile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    /// Specs of policies; those that say neither whom they match nor what happens match ConfigMaps and fail.
    #[serde(default)]
    policies: BTreeMap<String, Value>,
    /// Specs of bindings; those that name no policy bind the only one.
    #[serde(default)]
    bindings: BTreeMap<String, Value>,
    /// Specs of mutating policies, each bound by a binding of its name; those that say nothing else match ConfigMaps.
    #[serde(default)]
    mutates: BTreeMap<String, Value>,
    /// What a mutating policy's binding says besides.
    #[serde(default)]
    mutating_bindings: BTreeMap<String, Value>,
    /// Objects that are there from the start, with the path they are created at.
    #[serde(default)]
    given: Vec<Given>,
    requests: Vec<Asked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    path: String,
    body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default = "post")]
    method: String,
    path: String,
    body: Option<Value>,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
}

fn post() -> String {
    "POST".to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_decide_alike() -> Result<()> {
    let pair = tokio::task::spawn_blocking(Pair::start).await??;
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("../data/admission-policies.yaml"))?;
    let sides = [&pair.stock.client, &pair.subject.client];
    tokio::try_join!(prepare(sides[0], &cases), prepare(sides[1], &cases))?;
    let mut differences = Vec::new();
    let mut asked = 0;
    for (number, case) in cases.iter().enumerate() {
        let (stock, subject) = tokio::join!(case.run(sides[0], number), case.run(sides[1], number));
        let stock = stock.with_context(|| format!("the stock server, {}", case.what))?;
        let subject = subject.with_context(|| format!("the server under test, {}", case.what))?;
        asked += case.requests.len();
        for ((request, stock), subject) in case.requests.iter().zip(stock).zip(subject) {
            if stock != subject {
                differences.push(format!(
                    "{}: {} {} {}\n- {stock}\n+ {subject}\n",
                    case.what,
                    request.method,
                    request.path,
                    request.body.as_ref().map(Value::to_string).unwrap_or_default()
                ));
            }
        }
    }
    println!("{} policies' cases, {asked} requests", cases.len());
    ensure!(
        differences.is_empty(),
        "{} answers differ (- stock, + subject)\n{}",
        differences.len(),
        differences.join("\n")
    );
    Ok(())
}

impl Case {
    /// What one server answers: code, warnings, and all of a refusal.
    async fn run(&self, client: &Client, number: usize) -> Result<Vec<String>> {
        for (name, spec) in &self.policies {
            create(client, &format!("{API}/{POLICIES}"), &policy(name, spec)).await?;
        }
        for (name, spec) in &self.bindings {
            let mut spec = spec.clone();
            if spec["policyName"].is_null() {
                let only = self.policies.keys().next().context("a policy to bind")?;
                spec["policyName"] = only.as_str().into();
            }
            if spec["validationActions"].is_null() {
                spec["validationActions"] = json!(["Deny"]);
            }
            create(client, &format!("{API}/{BINDINGS}"), &json!({"metadata": {"name": name}, "spec": spec}))
                .await?;
        }
        for (name, spec) in &self.mutates {
            create(client, &format!("{API}/{MUTATING}"), &mutating(name, spec)).await?;
            let mut spec = self.mutating_bindings.get(name).cloned().unwrap_or_else(|| json!({}));
            spec["policyName"] = name.as_str().into();
            let binding = json!({"metadata": {"name": name}, "spec": spec});
            create(client, &format!("{API}/{MUTATING_BINDINGS}"), &binding).await?;
        }
        let sentinel =
            Sentinel { client, name: format!("sentinel-{number}"), mutates: !self.mutates.is_empty() };
        sentinel.set().await?;
        let mut answers = Vec::new();
        for request in &self.requests {
            let mut built = Request::new(&request.method, full(&request.path));
            if let Some(body) = &request.body {
                let content_type = match request.method.as_str() {
                    "PATCH" => "application/merge-patch+json",
                    _ => "application/json",
                };
                built = built.header("content-type", content_type).body(body.to_string());
            }
            built = request.user.iter().fold(built, |built, user| built.header("impersonate-user", user));
            built =
                request.groups.iter().fold(built, |built, group| built.header("impersonate-group", group));
            let mut observed = Observed::from(client.send(&built).await?);
            if self.bindings.len() > 1 {
                // A stock server goes through bindings in no order of its own.
                observed.warnings.sort();
            }
            let body = match observed.status {
                200..300 if self.mutates.is_empty() => Value::Null,
                200..300 => outcome(&observed.body),
                _ => observed.body,
            };
            answers.push(format!("{} {:?} {body}", observed.status, observed.warnings));
        }
        let all = [
            (BINDINGS, &self.bindings),
            (POLICIES, &self.policies),
            (MUTATING_BINDINGS, &self.mutates),
            (MUTATING, &self.mutates),
        ];
        for (resource, names) in all {
            for name in names.keys() {
                remove(client, &format!("{API}/{resource}/{name}")).await?;
            }
        }
        sentinel.relieve().await?;
        Ok(answers)
    }
}

fn policy(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["matchConstraints"].is_null() {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]});
        spec["matchConstraints"] = json!({"resourceRules": [rule]});
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// What mutating policies can have made of an object.
fn outcome(object: &Value) -> Value {
    let meta = &object["metadata"];
    json!({"labels": meta["labels"], "annotations": meta["annotations"], "data": object["data"], "spec": object["spec"]})
}

fn mutating(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["matchConstraints"].is_null() {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
        spec["matchConstraints"] = json!({"resourceRules": [rule]});
    }
    if spec["reinvocationPolicy"].is_null() {
        spec["reinvocationPolicy"] = "Never".into();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A policy that is made after all others and goes after them: a stock server learns of them one after another, so
/// where this one is in force or gone, so are they. It looks at what no other looks at.
struct Sentinel<'a> {
    client: &'a Client,
    name: String,
    /// Whether there is one that mutates, too: a stock server learns of those apart from the others.
    mutates: bool,
}

impl Sentinel<'_> {
    async fn set(&self) -> Result<()> {
        let name = &self.name;
        let rule = json!({"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["leases"]});
        let spec =
            json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]});
        create(self.client, &format!("{API}/{POLICIES}"), &policy(name, &spec)).await?;
        let binding =
            json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        create(self.client, &format!("{API}/{BINDINGS}"), &binding).await?;
        if self.mutates {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts"]});
            let patch =
                format!("[JSONPatch{{op: 'add', path: '/metadata/labels', value: {{'by': '{name}'}}}}]");
            let spec = json!({
                "matchConstraints": {"resourceRules": [rule]},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            });
            create(self.client, &format!("{API}/{MUTATING}"), &mutating(name, &spec)).await?;
            let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
            create(self.client, &format!("{API}/{MUTATING_BINDINGS}"), &binding).await?;
            self.until_mutates(true).await?;
        }
        self.until(|allowed| !allowed).await
    }

    async fn relieve(&self) -> Result<()> {
        remove(self.client, &format!("{API}/{BINDINGS}/{}", self.name)).await?;
        remove(self.client, &format!("{API}/{POLICIES}/{}", self.name)).await?;
        if self.mutates {
            remove(self.client, &format!("{API}/{MUTATING_BINDINGS}/{}", self.name)).await?;
            remove(self.client, &format!("{API}/{MUTATING}/{}", self.name)).await?;
            self.until_mutates(false).await?;
        }
        self.until(|allowed| allowed).await
    }

    async fn until_mutates(&self, wanted: bool) -> Result<()> {
        let path = "/api/v1/namespaces/watched/serviceaccounts?dryRun=All";
        let probe = Request::json("POST", path, &json!({"metadata": {"name": "probe"}}));
        let waiting = async {
            loop {
                let made = self.client.send(&probe).await?.json();
                if (made["metadata"]["labels"]["by"] == self.name.as_str()) == wanted {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.with_context(|| format!("{} never mutated, or never ceased to", self.name))?
    }

    async fn until(&self, reached: impl Fn(bool) -> bool) -> Result<()> {
        let path = "/apis/coordination.k8s.io/v1/namespaces/watched/leases?dryRun=All";
        let probe = Request::json("POST", path, &json!({"metadata": {"name": "probe"}}));
        let waiting = async {
            while !reached(self.client.send(&probe).await?.status.is_success()) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.with_context(|| format!("{} never took effect, or never went", self.name))?
    }
}

/// Short paths are in the namespace: `configmaps/x`.
fn full(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/api/v1/namespaces/watched/{path}") }
}

async fn create(client: &Client, path: &str, body: &Value) -> Result<()> {
    let answer = client.send(&Request::json("POST", full(path), body)).await?;
    ensure!(answer.status.is_success(), "{path}: {}", answer.json());
    Ok(())
}

async fn remove(client: &Client, path: &str) -> Result<()> {
    let answer = client.send(&Request::new("DELETE", path)).await?;
    ensure!(answer.status.is_success(), "{path}: {}", answer.json());
    Ok(())
}

/// What the cases need, made long before they need it: a stock server sees parameters and rights a moment later, and not
/// in step with its policies.
async fn prepare(client: &Client, cases: &[Case]) -> Result<()> {
    let namespace = json!({"metadata": {"name": "watched", "labels": {"team": "blue"}}});
    create(client, "/api/v1/namespaces", &namespace).await?;
    create(client, "serviceaccounts", &json!({"metadata": {"name": "default"}})).await?;
    let role = json!({"metadata": {"name": "writer"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]},
        {"nonResourceURLs": ["/special"], "verbs": ["get"]},
    ]});
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?;
    let subjects = json!([
        {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "watched"},
    ]);
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"});
    let binding = json!({"metadata": {"name": "writer"}, "roleRef": role_ref, "subjects": subjects});
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    for Given { path, body } in cases.iter().flat_map(|case| &case.given) {
        create(client, path, body).await?;
    }
    Ok(())
}
