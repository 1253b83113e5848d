//! What has to be applied so that a syncer may do its work and nothing else, and so that one robot cannot touch
//! another's objects.

use koinon_api::rights::{self, Account, READ, lease, named, namespace, role, rule};
use serde_json::{Value, json};

use crate::names;
use crate::origin::object_name;
use crate::plan::{Filter, Source};
use crate::settings::{self, Invalid};

/// Where the identities of robots live in the cloud.
pub const ROBOTS: &str = "koinon-robots";
const ROLE: &str = "koinon-sync";
/// Roles with this label are added to what a syncer may do.
const AGGREGATE: &str = "koinon.dev/aggregate-to-sync";
/// Roles that were made for the cr-syncer count too.
const AGGREGATE_OLD: &str = "cr-syncer.cloudrobotics.com/aggregate-to-robot-service";

/// Whether an object is called as [`object_name`] calls what is a robot's. A name with dots, the one sign that a service
/// account may have and such an object may not, ends with a print of it.
const OWN_NAME: &str = "(variables.robot.contains('.') ? object.metadata.name.matches('^sync-' + \
    variables.robot.replace('.', '-') + '-[0-9a-f]{8}$') : object.metadata.name == 'sync-' + variables.robot)";

/// Whether an update leaves everything but the status as it was. What the server itself counts up does not matter.
const ONLY_STATUS: [&str; 2] = [
    "object.all(key, key in ['metadata', 'status'] || (key in oldObject && object[key] == oldObject[key])) && \
     oldObject.all(key, key in ['metadata', 'status'] || key in object)",
    "object.metadata.all(key, key in ['generation', 'managedFields', 'resourceVersion'] || \
     (key in oldObject.metadata && object.metadata[key] == oldObject.metadata[key])) && \
     oldObject.metadata.all(key, key in ['generation', 'managedFields', 'resourceVersion'] || key in object.metadata)",
];

/// What one synced CRD needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    name: String,
    group: String,
    plural: String,
    source: Source,
    filter: Filter,
    /// Whether the status is a subresource in every version.
    status: bool,
}

impl Grant {
    /// What a CRD needs, if it is synced at all.
    pub fn of(crd: &Value) -> Result<Option<Grant>, Invalid> {
        let text = |path: &str| crd.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let annotations = crd.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({}));
        let annotations = serde_json::from_value(annotations).unwrap_or_default();
        // The name of the robot is not known here, and does not matter.
        let Some(settings) = settings::read(&annotations, "any")? else { return Ok(None) };
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let status = |version: &Value| version.pointer("/subresources/status").is_some();
        Ok(Some(Grant {
            name: text("/metadata/name"),
            group: text("/spec/group"),
            plural: text("/spec/names/plural"),
            source: settings.source,
            filter: settings.filter,
            status: versions.is_some_and(|versions| versions.iter().all(status)),
        }))
    }

    /// The rules for the cloud: reading, and of writing only what must be.
    fn in_cloud(&self) -> Vec<Value> {
        let rule = |resource: &str, verbs: &[&str]| rule(&[&self.group], &[resource], verbs);
        let status = format!("{}/status", self.plural);
        let mut rules = vec![rule(&self.plural, &READ)];
        rules.push(match (self.source, self.status) {
            (Source::Cloud, true) => rule(&status, &["patch"]),
            // RBAC cannot tell a status from the rest of its object; the admission policy does. Some versions may
            // have the subresource.
            (Source::Cloud, false) => rights::rule(&[&self.group], &[&self.plural, &status], &["patch"]),
            (Source::Robot, _) => rule(&self.plural, &["create", "patch", "delete"]),
        });
        if self.source == Source::Robot {
            rules.push(rights::rule(&[""], &["namespaces"], &["get", "create"]));
        }
        rules
    }

    /// The rules beside the robot.
    fn beside_robot(&self) -> Vec<Value> {
        let status = format!("{}/status", self.plural);
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        vec![rule(&[&self.group], &[&self.plural, &status], &verbs)]
    }
}

/// A role that is added to what a syncer may do.
fn part(name: &str, rules: &[Value]) -> Value {
    let mut part = role(&format!("{ROLE}{name}"), None, rules);
    part["metadata"]["labels"] = json!({AGGREGATE: "true"});
    part
}

fn crds(verbs: &[&str]) -> Value {
    rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], verbs)
}

/// For the cloud, once: what every robot may do.
pub fn cloud(grants: &[Grant]) -> Vec<Value> {
    let mut all = vec![namespace(names::NAMESPACE), namespace(ROBOTS)];
    let mut gathered = role(ROLE, None, &[]);
    gathered["aggregationRule"] = json!({"clusterRoleSelectors": [
        {"matchLabels": {AGGREGATE: "true"}},
        {"matchLabels": {AGGREGATE_OLD: "true"}},
    ]});
    all.push(gathered);
    let identity = named(rule(&[""], &["namespaces"], &["get"]), &["kube-system", names::NAMESPACE]);
    all.push(part("-identity", &[identity, crds(&["get"])]));
    all.extend(grants.iter().map(|grant| part(&format!(":{}", grant.name), &grant.in_cloud())));
    all
}

/// For the cloud, for each robot: its identity, and its own Lease and memory.
pub fn robot(name: &str) -> Vec<Value> {
    let account = Account { namespace: ROBOTS, name };
    let own = object_name(name);
    let own_one = |group: &str, resource: &str| {
        [
            named(rule(&[group], &[resource], &["get", "update"]), &[&own]),
            // A creation has no name that a rule could look at; the admission policy does.
            rule(&[group], &[resource], &["create"]),
        ]
    };
    let rules = [own_one("coordination.k8s.io", "leases"), own_one("", "configmaps")].concat();
    vec![
        account.object(),
        account.bind(&format!("{ROLE}:{name}"), None, ROLE),
        role(&own, Some(names::NAMESPACE), &rules),
        account.bind(&own, Some(names::NAMESPACE), &own),
    ]
}

/// For the robot's own cluster: what its syncer may do there, as the ServiceAccount `koinon-sync`.
pub fn beside_robot(grants: &[Grant]) -> Vec<Value> {
    let account = Account { namespace: names::NAMESPACE, name: ROLE };
    let mut rules = vec![
        crds(&READ),
        rule(&[""], &["namespaces"], &["get", "create"]),
        rule(&[""], &["events"], &["create", "patch"]),
    ];
    if !grants.is_empty() {
        let synced: Vec<&str> = grants.iter().map(|grant| grant.name.as_str()).collect();
        // Patched to take a confirmation off once it is spent.
        rules.push(named(crds(&["patch"]), &synced));
    }
    rules.extend(grants.iter().flat_map(Grant::beside_robot));
    let memory = [rule(&[""], &["configmaps"], &["get", "create", "update"])];
    // Replicas take turns by a Lease where those of other controllers are.
    let turns = lease(ROLE);
    let mut all = vec![namespace(names::NAMESPACE), account.object()];
    for (place, rules) in
        [(None, &rules[..]), (Some(names::NAMESPACE), &memory), (Some("kube-system"), &turns)]
    {
        all.push(role(ROLE, place, rules));
        all.push(account.bind(ROLE, place, ROLE));
    }
    all
}

/// For the cloud: binds each robot's identity to its label. What carries another robot's name cannot be written by
/// it, and what it makes carries its own. Of what is the cloud's it can write the status, and nothing else.
pub fn admission(grants: &[Grant]) -> Vec<Value> {
    let shared = |grant: &&Grant| grant.source == Source::Cloud && grant.filter == Filter::Everything;
    let whole = |grant: &&Grant| grant.source == Source::Cloud && !grant.status;
    let all_writes = ["CREATE", "UPDATE", "DELETE"];
    let rule_for = |operations: &[&str], group: &str, resources: Vec<String>| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": resources});
    let rule = |group: &str, resources: Vec<String>| rule_for(&all_writes, group, resources);
    let of =
        |grant: &Grant| rule(&grant.group, vec![grant.plural.clone(), format!("{}/status", grant.plural)]);
    let own: Vec<Value> = grants.iter().filter(|grant| !shared(grant)).map(of).collect();
    let about_itself =
        [rule("coordination.k8s.io", vec!["leases".into()]), rule("", vec!["configmaps".into()])];
    let ours = format!("{{0}}.metadata.?labels[?'{}'].orValue('') == variables.robot", names::ROBOT);
    let nobodys = format!("!{{0}}.metadata.?labels[?'{}'].hasValue()", names::ROBOT);
    let before = |test: &str| format!("oldObject == null || {}", test.replace("{0}", "oldObject"));
    let after = |test: &str| format!("object == null || {}", test.replace("{0}", "object"));
    let own_rules = [before(&ours), after(&ours)];
    let shared_rules = [before(&format!("({ours} || {nobodys})")), after(&format!("({ours} || {nobodys})"))];
    let shared: Vec<Value> = grants.iter().filter(shared).map(of).collect();
    // What a robot says of itself has its name too, or it could take the place of another's.
    let [before_own, after_own] = &own_rules;
    let named = [before_own.clone(), after_own.clone(), format!("object == null || {OWN_NAME}")];
    let its_own =
        format!("may write only what carries its own name, above all in the label {}", names::ROBOT);
    let mut all = policy("koinon-robots-presence", &about_itself, &named, &its_own);
    let of_whole = |grant: &Grant| rule_for(&["UPDATE"], &grant.group, vec![grant.plural.clone()]);
    let whole: Vec<Value> = grants.iter().filter(whole).map(of_whole).collect();
    let only_status = ONLY_STATUS.map(str::to_owned);
    let status = "may write nothing but the status of what is the cloud's";
    for (name, rules, tests, may) in [
        ("koinon-robots", own, &own_rules, &*its_own),
        ("koinon-robots-shared", shared, &shared_rules, &*its_own),
        ("koinon-robots-status", whole, &only_status, status),
    ] {
        if !rules.is_empty() {
            all.extend(policy(name, &rules, tests, may));
        }
    }
    all
}

/// A policy for robots. `may` is what one that is refused is told.
fn policy(name: &str, rules: &[Value], tests: &[String], may: &str) -> Vec<Value> {
    let account = format!("system:serviceaccount:{ROBOTS}:");
    let validations: Vec<Value> = tests
        .iter()
        .map(|test| {
            json!({
                "expression": test,
                "messageExpression": format!("'robot ' + variables.robot + \" {may}\""),
                "reason": "Forbidden",
            })
        })
        .collect();
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules},
                "matchConditions": [{"name": "is-a-robot", "expression": format!("request.userInfo.username.startsWith('{account}')")}],
                "variables": [{"name": "robot", "expression": "request.userInfo.username.split(':')[3]"}],
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(annotations: Value, status: bool) -> Value {
        let version = if status {
            json!({"name": "v1", "subresources": {"status": {}}})
        } else {
            json!({"name": "v1"})
        };
        json!({
            "metadata": {"name": "toys.play.io", "annotations": annotations},
            "spec": {"group": "play.io", "names": {"plural": "toys"}, "versions": [version]},
        })
    }

    fn verbs(annotations: Value, status: bool) -> String {
        let grant = Grant::of(&crd(annotations, status)).unwrap().unwrap();
        let rules = grant.in_cloud();
        let shown =
            rules.iter().map(|rule| format!("{}:{}", rule["resources"][0].as_str().unwrap(), rule["verbs"]));
        shown.collect::<Vec<_>>().join(" ").replace('"', "")
    }

    #[test]
    fn a_robot_may_write_only_what_it_must() {
        let (cloud, robot) = (json!({names::SPEC_SOURCE: "cloud"}), json!({names::SPEC_SOURCE: "robot"}));
        assert_eq!(verbs(cloud.clone(), true), "toys:[get,list,watch] toys/status:[patch]");
        assert_eq!(verbs(cloud, false), "toys:[get,list,watch] toys:[patch]");
        assert_eq!(
            verbs(robot, true),
            "toys:[get,list,watch] toys:[create,patch,delete] namespaces:[get,create]"
        );
        assert_eq!(Grant::of(&crd(json!({}), true)), Ok(None));
        assert!(Grant::of(&crd(json!({names::SPEC_SOURCE: "moon"}), true)).is_err());
    }
}
