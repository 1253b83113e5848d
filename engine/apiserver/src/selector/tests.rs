use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX: &str = r"prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The canonical form, or the complaint.
fn label(text: &str) -> String {
    LabelSelector::parse(text).map_or_else(|error| error.to_string(), |selector| selector.to_string())
}

#[test]
fn label_selectors_parse() {
    for (text, canonical) in [
        ("", ""),
        ("a=b", "a=b"),
        (" a = b , c ", "a=b,c"),
        ("a==", "a=="),
        ("b,a!=x", "a!=x,b"),
        ("a in ()", "a in ()"),
        ("a in (,)", "a in ()"),
        ("a in (y,,x,y)", "a in (,x,y)"),
        ("a in (x,)", "a in (,x)"),
        ("a notin(z)", "a notin (z)"),
        ("in", "in"),
        ("notin=in", "notin=in"),
        ("a in (in,notin)", "a in (in,notin)"),
        ("x.io/y=1,!z", "x.io/y=1,!z"),
        ("b<2,a>1", "a>1,b<2"),
        ("a=\nb", "a=b"),
        ("a=,b", "a=,b"),
        ("a\0=b", "a"),
    ] {
        assert_eq!(label(text), canonical, "{text:?}");
    }
}

#[test]
fn complaints_about_label_selectors_are_the_real_servers() {
    let long = "a".repeat(64);
    for (text, complaint) in [
        ("a in (x,y", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a=b=c", "found '=', expected: ',' or 'end of string'".into()),
        ("=b", "found '=', expected: !, identifier, or 'end of string'".into()),
        ("a,,b", "found ',', expected: identifier after ','".into()),
        ("a,", "found '', expected: identifier after ','".into()),
        ("!", "unable to parse requirement: found '', expected: identifier".into()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".into()),
        ("a in x", "unable to parse requirement: found 'x' expected: '('".into()),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer".into(),
        ),
        ("-a=b", format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {NAME}")),
        ("a=-b", format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE}")),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".into()),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'".into()),
        ("a in (!)", "unable to parse requirement: found '!', expected: ',', ')' or identifier".into()),
        ("a notin", "unable to parse requirement: found '' expected: '('".into()),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt".into()),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier".into()),
        (")", "found ')', expected: !, identifier, or 'end of string'".into()),
        ("a>1 2", "found '2', expected: ',' or 'end of string'".into()),
        ("a in (x)) ", "found ')', expected: ',' or 'end of string'".into()),
        ("a!==b", "unable to parse requirement: found '=', expected: identifier".into()),
        ("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty".into()),
        ("A_/b=1", format!("unable to parse requirement: <nil>: Invalid value: \"A_/b\": {PREFIX}")),
        ("a=ü", format!("unable to parse requirement: values[0][a]: Invalid value: \"ü\": {VALUE}")),
        (
            "a in (-x,-y)",
            format!("unable to parse requirement: [values[0][a]: Invalid value: \"-x\": {VALUE}, values[1][a]: Invalid value: \"-y\": {VALUE}]"),
        ),
        (
            long.as_str(),
            format!("unable to parse requirement: <nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes"),
        ),
        (
            "a/=",
            format!("unable to parse requirement: <nil>: Invalid value: \"a/\": name part must be non-empty; {NAME}"),
        ),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".into()),
        ("a in (x=)", "unable to parse requirement: found '=', expected: ',' or ')'".into()),
    ] {
        assert_eq!(label(text), complaint, "{text:?}");
    }
}

#[test]
fn labels_match() {
    let labels = json!({"metadata": {"labels": {"a": "b", "n": "5", "empty": ""}}});
    for (selector, expected) in [
        ("", true),
        ("a=b", true),
        ("a==c", false),
        ("a!=c", true),
        ("zz!=c", true),
        ("a in (x,b)", true),
        ("a notin (x,b)", false),
        ("zz notin (x)", true),
        ("zz in (x)", false),
        ("a,n,empty", true),
        ("!a", false),
        ("!zz", true),
        ("empty=", true),
        ("zz=", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("a<6", false),
        ("zz>0", false),
        ("a=b,n=6", false),
    ] {
        let parsed = LabelSelector::parse(selector).expect("well formed");
        assert_eq!(parsed.matches_object(&labels), expected, "{selector}");
    }
    assert!(!LabelSelector::nothing().matches_object(&labels));
    assert!(LabelSelector::everything().matches_object(&json!({})));
}

#[test]
fn the_object_form() {
    let form = |selector: Value| {
        LabelSelector::from_label_selector(&selector)
            .map_or_else(|error| error.to_string(), |selector| selector.to_string())
    };
    let all = json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [
        {"key": "c", "operator": "In", "values": ["z", "d"]}, {"key": "a", "operator": "Exists"},
        {"key": "q", "operator": "DoesNotExist"}, {"key": "w", "operator": "NotIn", "values": ["v"]}]});
    assert_eq!(form(all), "a=2,a,b=1,c in (d,z),!q,w notin (v)");
    assert_eq!(form(json!({})), "");
    assert!(LabelSelector::from_label_selector(&json!({})).is_ok_and(|selector| selector.is_empty()));
    assert!(LabelSelector::from_label_selector(&Value::Null).is_ok_and(|selector| !selector.is_empty()));
    let expression = |one: Value| form(json!({"matchExpressions": [one]}));
    assert_eq!(
        expression(json!({"key": "a", "operator": "Foo"})),
        r#""Foo" is not a valid label selector operator"#
    );
    assert_eq!(
        expression(json!({"key": "a", "operator": "In"})),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        expression(json!({"key": "a", "operator": "Exists", "values": ["x"]})),
        r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#
    );
    assert_eq!(form(json!({"matchLabels": {"-": "x"}})), format!("key: Invalid value: \"-\": {NAME}"));
}

#[test]
fn field_selectors_parse() {
    let field = |text: &str| {
        FieldSelector::parse(text).map_or_else(|error| error.to_string(), |selector| selector.to_string())
    };
    for (text, expected) in [
        ("", ""),
        (",,", ""),
        ("metadata.name==x", "metadata.name=x"),
        ("b!=y,a=x,", "a=x,b!=y"),
        (r"a=b\,c\=d\\", r"a=b\,c\=d\\"),
        ("=x", "=x"),
        ("=,a!=,!=", "a!="),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a,b=c", "invalid selector: 'a,b=c'; can't understand 'a'"),
        (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        (r"a=b\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(field(text), expected, "{text:?}");
    }
}

#[test]
fn each_kind_offers_its_fields() {
    let convert = |group: &str, kind: &str, text: &str| {
        let selector = FieldSelector::parse(text).expect("well formed");
        selector
            .convert(|label| field_label(group, "v1", kind, label))
            .map_or_else(|error| error.to_string(), |selector| selector.to_string())
    };
    for (group, kind, text, expected) in [
        ("", "Pod", "spec.foo=1", "field label not supported: spec.foo"),
        ("", "Pod", "spec.host=n", "spec.nodeName=n"),
        ("", "Pod", "metadata.name=,spec.zoo=1,spec.bar=2", "field label not supported: spec.bar"),
        ("", "Pod", "=x", "field label not supported: "),
        ("", "Service", "spec.x=1", "field label not supported: spec.x"),
        ("", "Node", "metadata.namespace=x", "field label not supported: metadata.namespace"),
        ("", "Namespace", "name=x", "field label not supported: name"),
        ("events.k8s.io", "Event", "involvedObject.name=x", "field label not supported: involvedObject.name"),
        (
            "apps",
            "ReplicaSet",
            "status.replicas=1",
            r#""status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        ("batch", "Job", "spec.x=1", r#"field label "spec.x" not supported for Job"#),
        (
            "resource.k8s.io",
            "ResourceSlice",
            "x=1",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "metadata.namespace=x", "metadata.namespace=x"),
    ] {
        assert_eq!(convert(group, kind, text), expected, "{kind} {text}");
    }
}

#[test]
fn fields_match() {
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "w"},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "source": {},
        "reportingComponent": "x.io/c"});
    let job = json!({"metadata": {"name": "j"}, "status": {"succeeded": 3}});
    for (group, kind, object, selector, expected) in [
        ("", "Pod", &pod, "metadata.name=p,spec.nodeName=w", true),
        ("", "Pod", &pod, "status.phase!=Running", false),
        ("", "Pod", &pod, "spec.hostNetwork=false,status.podIP=10.0.0.1,status.podIPs=", true),
        ("", "Pod", &pod, "status.nominatedNodeName=", true),
        ("", "Event", &event, "source=x.io/c,involvedObject.kind=Pod,involvedObject.uid=", true),
        ("batch", "Job", &job, "status.successful=3,metadata.namespace=", true),
        ("", "Node", &job, "spec.unschedulable=true", false),
        ("apps", "Deployment", &job, "metadata.name=j", true),
    ] {
        let parsed = FieldSelector::parse(selector).expect("well formed");
        assert_eq!(
            parsed.matches(|field| field_values(group, kind, object, field)),
            expected,
            "{kind} {selector}"
        );
    }
    assert_eq!(field_values("", "Pod", &pod, "spec.zoo"), None);
}

#[test]
fn custom_resources_offer_what_their_crd_says() {
    let fields = CustomFields::new(
        &json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}, {"jsonPath": ".spec.b"}]),
        true,
    );
    let object =
        json!({"metadata": {"name": "t", "namespace": "x"}, "spec": {"color": "red", "n": 5, "b": true}});
    for (text, expected) in [
        ("spec.color=red,spec.n=5,spec.b=true,metadata.namespace=x", Ok(true)),
        ("spec.color!=red", Ok(false)),
        ("metadata.name=u", Ok(false)),
        ("spec.x=1", Err("field label not supported: spec.x")),
        (".spec.color=red", Err("field label not supported: .spec.color")),
        ("metadata.uid=1", Err("field label not supported: metadata.uid")),
    ] {
        let found = FieldSelector::parse(text)
            .and_then(|selector| selector.convert(|label| fields.label(label)))
            .map(|selector| selector.matches(|field| fields.value(&object, field)));
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
    }
    assert_eq!(fields.value(&json!({}), "spec.n").as_deref(), Some(""));
    assert!(CustomFields::new(&Value::Null, false).label("metadata.namespace").is_err());
}

proptest! {
    #[test]
    fn a_label_selector_survives_its_own_form(text in "[a-c/=!<>(), \t0-9-]{0,20}|(a|b|in|notin|,|\\(|\\)|=|!| ){0,12}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn a_field_selector_survives_its_own_form(text in "[a-c.=!,\\\\]{0,20}") {
        // Terms are sorted as they are written, `==!` after `=!!`, so only the order may change.
        let sorted = |selector: &FieldSelector| {
            let mut requirements = selector.requirements().to_vec();
            requirements.sort_by(|a, b| (&a.field, a.differs, &a.value).cmp(&(&b.field, b.differs, &b.value)));
            requirements
        };
        if let Ok(selector) = FieldSelector::parse(&text) {
            let again = FieldSelector::parse(&selector.to_string());
            prop_assert_eq!(again.as_ref().map(sorted), Ok(sorted(&selector)));
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,24}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
