use serde_json::json;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

fn token(claims: &Value) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[test]
fn a_token_is_renewed_daily_or_before_it_ends() {
    const HOUR: u64 = 3600;
    let when = |lasts: u64, share: f64| match renewal(at(0), at(0), at(lasts), share) {
        Renewal::In(time) => time.as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!(when(30 * 24 * HOUR, 0.0), 24 * HOUR, "daily, whatever is left");
    assert_eq!(when(10 * HOUR, 0.0), 8 * HOUR, "a short one at four fifths of its time");
    assert!((when(30 * 24 * HOUR, 1.0)).abs_diff(24 * HOUR * 9 / 10) <= 1, "members have their own moments");

    let month = 30 * 24 * HOUR;
    assert_eq!(renewal(at(24 * HOUR), at(0), at(month), 0.0), Renewal::Due);
    assert_eq!(renewal(at(month - 1), at(0), at(month), 0.0), Renewal::Due);
    assert_eq!(renewal(at(month), at(0), at(month), 0.0), Renewal::Over);
    // The clock here is behind that of the member: it is waited for all the same.
    assert_eq!(renewal(at(0), at(60), at(60 + month), 0.0), Renewal::In(Duration::from_secs(24 * HOUR + 60)));
}

#[test]
fn what_a_token_says_of_itself() {
    let good = json!({"iat": 1_800_000_000, "exp": 1_800_003_600, "sub": "system:serviceaccount:ns:web"});
    let term = Term::of(&token(&good)).unwrap();
    assert_eq!(term, Term { issued: at(0), expires: at(3600), account: ("ns".into(), "web".into()) });
    for wrong in [
        json!({"iat": 1, "sub": "system:serviceaccount:ns:web"}),
        json!({"iat": 5, "exp": 5, "sub": "system:serviceaccount:ns:web"}),
        json!({"iat": 1, "exp": 5, "sub": "somebody"}),
        json!({"iat": 1, "exp": i64::MAX, "sub": "system:serviceaccount:ns:web"}),
    ] {
        assert_eq!(Term::of(&token(&wrong)), None, "{wrong}");
    }
    for wrong in ["", "opaque", "a.b.c", "a.!.c"] {
        assert_eq!(Term::of(wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_is_exchanged_where_it_is_and_nothing_else_changes() {
    let kubeconfig =
        |token: &str| json!({"clusters": [{"name": "m"}], "users": [{"user": {"token": token}}]});
    for (before, after) in [
        (json!({"token": "old\n", "ca.crt": "c"}), json!({"token": "new", "ca.crt": "c"})),
        (
            json!({"kubeconfig": kubeconfig("old").to_string(), "server": "s"}),
            json!({"kubeconfig": kubeconfig("new").to_string(), "server": "s"}),
        ),
    ] {
        let secret = |data: &Value| {
            let data = data.as_object().unwrap().iter();
            let data = data.map(|(key, text)| (key.clone(), ByteString(text.as_str().unwrap().into())));
            Secret { data: Some(data.collect()), ..Secret::default() }
        };
        let (before, after) = (secret(&before), secret(&after));
        assert_eq!(in_secret(&before).as_deref(), Some("old"));
        assert_eq!(replaced(&before, "new"), Some(after));
    }
    // Somebody's own kubeconfig, or certificates: there is nothing to exchange.
    let data = [("kubeconfig".to_owned(), ByteString(b"users: []".to_vec()))];
    let other = Secret { data: Some(data.into()), ..Secret::default() };
    assert_eq!((in_secret(&other), replaced(&other, "new")), (None, None));
}

#[test]
fn tokens_for_years_are_too_long() {
    let holds = |claims: &Value| {
        let data = [("token".to_owned(), ByteString(token(claims).into_bytes()))];
        is_too_long(&Secret { data: Some(data.into()), ..Secret::default() })
    };
    let lasting = |days: i64| json!({"iat": 0, "exp": days * 86_400, "sub": "system:serviceaccount:a:b"});
    assert!(!holds(&lasting(30)) && !holds(&lasting(1)));
    assert!(holds(&lasting(3650)));
    assert!(holds(&json!({"sub": "system:serviceaccount:a:b"})), "it does not end");
    assert!(!is_too_long(&Secret::default()), "certificates are no token");
}
