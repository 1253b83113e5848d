use proptest::prelude::*;

use super::*;

const HERE: &str = "antrea-plus-system";

fn federation(namespace: &str, name: &str, members: &[&str]) -> Value {
    let members: Vec<Value> = members.iter().map(|id| json!({"clusterID": {"value": id}})).collect();
    json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"members": members}})
}

fn claim(object: &str, name: Option<&str>, value: &str) -> Value {
    let mut claim = json!({"metadata": {"namespace": HERE, "name": object}, "value": value});
    if let Some(name) = name {
        claim["name"] = name.into();
    }
    claim
}

fn facts(federations: &[Value], claims: &[Value]) -> Facts {
    Facts {
        federations: federations.iter().map(|one| Arc::new(read(one).unwrap())).collect(),
        claims: claims.iter().map(|one| read(one).unwrap()).collect(),
        namespace_ends: false,
    }
}

fn ask(resource: &str, old: &Value, object: &Value) -> Request {
    let (operation, subject) = match (old.is_null(), object.is_null()) {
        (true, _) => (Operation::Create, object),
        (false, true) => (Operation::Delete, old),
        (false, false) => (Operation::Update, old),
    };
    let text = |field: &str| subject["metadata"][field].as_str().unwrap_or_default().to_owned();
    Request {
        uid: "1".into(),
        operation,
        group: GROUP.into(),
        resource: resource.into(),
        subresource: String::new(),
        namespace: text("namespace"),
        name: text("name"),
        object: object.clone(),
        old: old.clone(),
    }
}

fn check(verdict: &Verdict, expected: &str) {
    let said = match verdict {
        Verdict::Allow => "allowed".to_owned(),
        Verdict::Warn(warnings) => format!("warned: {}", warnings.join("; ")),
        Verdict::Refuse(why) => why.clone(),
    };
    assert_eq!(said, expected);
}

#[test]
fn there_is_one_federation_and_it_is_in_its_place() {
    let create = |namespace: &str, name: &str, there: &[Value]| {
        let object = federation(namespace, name, &[]);
        review(HERE, &ask("federations", &Value::Null, &object), &facts(there, &[]))
    };
    let first = federation(HERE, "fed", &[]);
    check(&create(HERE, "fed", &[]), "allowed");
    check(&create("default", "fed", &[]), "a Federation belongs into the namespace antrea-plus-system");
    let there = |place: &str| {
        format!(
            "a cluster is in one federation, and there is the Federation {place}: change that one, or delete it first"
        )
    };
    check(&create(HERE, "second", std::slice::from_ref(&first)), &there("antrea-plus-system/fed"));
    check(&create(HERE, "fed", &[federation("default", "x", &[])]), &there("default/x"));
    let mut going = first.clone();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    check(&create(HERE, "second", &[going]), "allowed");
    // It may always be changed, and go.
    let both = facts(&[first.clone(), federation(HERE, "second", &[])], &[]);
    check(&review(HERE, &ask("federations", &first, &federation(HERE, "fed", &["a"])), &both), "allowed");
    check(&review(HERE, &ask("federations", &first, &Value::Null), &both), "allowed");
}

#[test]
fn members_are_named_once_and_by_names() {
    let twice = "cluster a is named twice: name each cluster once";
    let invalid = "\"A b\" is no name for a cluster: it takes lower-case letters, digits, '-' and '.', starts and ends with a \
                   letter or digit, and has at most 127 characters";
    for (old, new, expected) in [
        (None, &["a", "b"][..], "allowed".to_owned()),
        (None, &["a", "b", "a"], twice.into()),
        (None, &["A b"], invalid.into()),
        (None, &["a", "A b", "a"], format!("{invalid}; {twice}")),
        (Some(&["a"][..]), &["a", "a"], twice.into()),
        (Some(&["a", "a"]), &["a", "a", "b"], format!("warned: {twice}")),
        (Some(&["a", "a"]), &["a", "a", "A b"], invalid.into()),
        (Some(&["a", "a"]), &["a"], "allowed".into()),
    ] {
        let old = old.map_or(Value::Null, |members| federation(HERE, "fed", members));
        let request = ask("federations", &old, &federation(HERE, "fed", new));
        check(&review(HERE, &request, &Facts::default()), &expected);
    }
}

#[test]
fn the_id_stays_while_a_federation_refers_to_it() {
    let none = || Value::Null;
    let id = |value: &str| claim("id.k8s.io", None, value);
    let refused = |what: &str| {
        format!(
            "the cluster's ID is a, and {what} while the Federation {HERE}/fed refers to it: delete that first"
        )
    };
    let (other, without) = (refused("this would make it b"), refused("this would leave it without one"));
    let cases = [
        // Under its own name, as an alias, and under a name of the object that says nothing.
        (vec![id("a")], id("a"), id("b"), other.clone()),
        (vec![id("a")], id("a"), none(), without.clone()),
        (vec![id("a")], id("a"), id(""), without.clone()),
        (
            vec![claim("cluster.clusterset.k8s.io", None, "a")],
            claim("cluster.clusterset.k8s.io", None, "a"),
            none(),
            without.clone(),
        ),
        (
            vec![claim("x", Some("id.k8s.io"), "a")],
            claim("x", Some("id.k8s.io"), "a"),
            claim("x", Some("id.k8s.io"), "b"),
            other.clone(),
        ),
        // No longer called so.
        (
            vec![claim("x", Some("id.k8s.io"), "a")],
            claim("x", Some("id.k8s.io"), "a"),
            claim("x", Some("y"), "a"),
            without,
        ),
        // A second claim that would come before the first.
        (vec![claim("cluster.clusterset.k8s.io", None, "a")], none(), id("b"), other.clone()),
        (vec![claim("x", Some("id.k8s.io"), "a")], none(), claim("w", Some("id.k8s.io"), "b"), other.clone()),
        (
            vec![claim("x", Some("id.k8s.io"), "a")],
            none(),
            claim("z", Some("id.k8s.io"), "b"),
            "allowed".into(),
        ),
        // One of two that say the same.
        (vec![id("a"), claim("cluster.clusterset.k8s.io", None, "a")], id("a"), none(), "allowed".into()),
        (vec![id("a"), claim("cluster.clusterset.k8s.io", None, "b")], id("a"), none(), other),
        // Other claims, and what else is on this one.
        (vec![id("a")], none(), claim("clusterset.k8s.io", None, "s"), "allowed".into()),
        (vec![id("a")], id("a"), id("a"), "allowed".into()),
        // The first claim of a cluster whose Federation came first.
        (vec![], none(), id("a"), "allowed".into()),
    ];
    for (claims, old, new, expected) in cases {
        let request = ask("clusterclaims", &old, &new);
        check(&review(HERE, &request, &facts(&[federation(HERE, "fed", &[])], &claims)), &expected);
        // Without a Federation, or with one that does not count, anything goes.
        check(&review(HERE, &request, &facts(&[], &claims)), "allowed");
        check(&review(HERE, &request, &facts(&[federation("default", "fed", &[])], &claims)), "allowed");
    }
}

#[test]
fn what_was_changed_behind_the_webhook_can_be_put_right() {
    let mut bound = federation(HERE, "fed", &[]);
    bound["status"] = json!({"clusterID": "a"});
    let id = |value: &str| claim("id.k8s.io", None, value);
    for (claims, old, new, expected) in [
        (vec![id("b")], id("b"), id("a"), "allowed"),
        (vec![], Value::Null, id("a"), "allowed"),
        // A label on it is no matter of ours.
        (vec![id("b")], id("b"), id("b"), "allowed"),
        (
            vec![id("b")],
            id("b"),
            id("c"),
            "the cluster's ID is a, and this would make it c while the Federation antrea-plus-system/fed refers to it: \
             delete that first",
        ),
    ] {
        check(
            &review(HERE, &ask("clusterclaims", &old, &new), &facts(std::slice::from_ref(&bound), &claims)),
            expected,
        );
    }
}

#[test]
fn a_namespace_that_goes_takes_its_claims_along() {
    let (there, id) = (federation(HERE, "fed", &[]), claim("id.k8s.io", None, "a"));
    let mut facts = facts(&[there], std::slice::from_ref(&id));
    facts.namespace_ends = true;
    check(&review(HERE, &ask("clusterclaims", &id, &Value::Null), &facts), "allowed");
}

proptest! {
    /// Step by step, with whatever claims in whatever order: the ID that a Federation was bound to never changes by a write that
    /// was let through.
    #[test]
    fn no_way_leads_around_it(steps in prop::collection::vec((0..4usize, 0..4usize, 0..3usize, any::<bool>()), 1..40)) {
        const OBJECTS: [&str; 4] = ["id.k8s.io", "cluster.clusterset.k8s.io", "w", "x"];
        const NAMES: [Option<&str>; 4] = [None, Some("id.k8s.io"), Some("cluster.clusterset.k8s.io"), Some("other")];
        const VALUES: [&str; 3] = ["a", "b", ""];
        let mut claims = vec![claim("id.k8s.io", None, "a")];
        for (object, name, value, delete) in steps {
            let at = claims.iter().position(|one| one["metadata"]["name"] == OBJECTS[object]);
            let old = at.map_or(Value::Null, |at| claims[at].clone());
            let new = if delete { Value::Null } else { claim(OBJECTS[object], NAMES[name], VALUES[value]) };
            if old.is_null() && new.is_null() {
                continue;
            }
            let request = ask("clusterclaims", &old, &new);
            let verdict = review(HERE, &request, &facts(&[federation(HERE, "fed", &[])], &claims));
            if matches!(verdict, Verdict::Refuse(_)) {
                continue;
            }
            claims.retain(|one| one["metadata"]["name"] != OBJECTS[object]);
            if !new.is_null() {
                claims.push(new);
            }
            let read: Vec<ClusterClaim> = claims.iter().map(|one| read(one).unwrap()).collect();
            let claims = Claims::of(&read);
            prop_assert_eq!(claims.id(), Some("a"));
        }
    }
}
