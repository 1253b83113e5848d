//! What holds for every pair of objects.

use proptest::prelude::*;

use super::*;

fn pairs() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(
        prop::sample::select(vec!["a", "b/c", "d~e", names::ROBOT]),
        "(r1|r2|x)",
        0..3,
    )
    .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c/~]{1,2}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Object> {
    let part = || prop::option::of(tree());
    (pairs(), pairs(), part(), part(), 1..4i64, "u[12]").prop_map(
        |(labels, annotations, spec, status, generation, uid)| Object {
            uid,
            version: "7".into(),
            generation,
            terminating: false,
            labels,
            annotations,
            spec,
            status,
        },
    )
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(robot, filter, subtree, translate, status)| Rules {
            source: if robot { Source::Robot } else { Source::Cloud },
            filter: if filter { Filter::OwnLabel } else { Filter::Everything },
            subtree: subtree.then(|| "a".into()),
            observed: if translate { Observed::Translate } else { Observed::Verbatim },
            robot: "r1".into(),
            downstream_status: status,
        },
    )
}

/// An object as its server has it, with a patch applied as the server would.
fn patched(object: &Object, patch: &Patch) -> Object {
    let mut whole = json!({"metadata": {"resourceVersion": object.version}});
    if !object.labels.is_empty() {
        whole["metadata"]["labels"] = json!(object.labels);
    }
    if !object.annotations.is_empty() {
        whole["metadata"]["annotations"] = json!(object.annotations);
    }
    for (key, part) in [("spec", &object.spec), ("status", &object.status)] {
        if let Some(part) = part {
            whole[key] = part.clone();
        }
    }
    json_patch::patch(&mut whole, patch).expect("a patch fits what it was made for");
    let pairs = |key: &str| {
        whole["metadata"].get(key).map(|map| serde_json::from_value(map.clone()).unwrap()).unwrap_or_default()
    };
    Object {
        labels: pairs("labels"),
        annotations: pairs("annotations"),
        spec: whole.get("spec").cloned(),
        status: whole.get("status").cloned(),
        ..object.clone()
    }
}

proptest! {
    #[test]
    fn doing_what_is_planned_leaves_nothing_to_do(
        rules in any_rules(), mut original in any_object(), mut copy in any_object(), earlier in any_object(),
    ) {
        original.labels.insert(names::ROBOT.into(), "r1".into());
        copy.labels.insert(names::ROBOT.into(), "r1".into());
        // Half of the copies were made by us, some of them from something else.
        if copy.generation > 1 {
            let made = copy_of(&rules, &earlier, json!({}));
            copy.annotations.extend(made.annotations);
        }
        let foreign = copy.labels.clone();
        let before = Ledger::of(&copy).unwrap_or_default();
        for _ in 0..3 {
            let plan = plan(&rules, Seen::Known(&original), Seen::Known(&copy), Known::default());
            if let Down::Update { patch, .. } = &plan.down {
                copy = patched(&copy, patch);
            }
            if let Up::Status { patch, .. } = &plan.up {
                original = patched(&original, patch);
            }
        }
        let plan = plan(&rules, Seen::Known(&original), Seen::Known(&copy), Known::default());
        prop_assert!(matches!(plan.down, Down::Nothing(Idle::Agreed)), "{:?}", plan);
        prop_assert!(matches!(plan.up, Up::Nothing(_)), "{:?}", plan);
        prop_assert_eq!(&copy.spec, &original.spec);
        for (key, value) in &original.labels {
            prop_assert_eq!(copy.labels.get(key), Some(value));
        }
        for (key, value) in foreign {
            if !before.labels.contains(&key) && !original.labels.contains_key(&key) {
                prop_assert_eq!(copy.labels.get(&key), Some(&value), "{} was not ours", key);
            }
        }
    }

    #[test]
    fn nothing_of_a_status_moves_but_the_subtree(original in any_object(), copy in any_object()) {
        let rules = Rules { subtree: Some("a".into()), ..rules() };
        let mut copy = Object { spec: original.spec.clone(), ..copy };
        copy.annotations.extend(copy_of(&rules, &original, json!({})).annotations);
        let plan = plan(&rules, Seen::Known(&original), Seen::Known(&copy), Known::default());
        if let Up::Status { patch, .. } = &plan.up {
            let after = patched(&original, patch);
            let rest = |status: &Option<Value>| {
                let mut status = status.clone().unwrap_or_else(|| json!({}));
                if status.is_null() { status = json!({}) }
                status.as_object_mut().map(|map| map.remove("a"));
                status
            };
            prop_assert_eq!(rest(&after.status), rest(&original.status));
        }
    }
}
