//! Tokens from request to review.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rcgen::KeyPair;

use super::*;
use crate::auth::identity::{StaticTokens, authenticate};
use crate::context::rfc3339;

const START: i64 = 1_800_000_000;

/// Objects by `resource/namespace/name`.
#[derive(Clone, Default)]
struct Objects(BTreeMap<String, Value>);

impl Lookup for Objects {
    fn get(&self, _: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&format!("{resource}/{namespace}/{name}")).cloned()
    }
}

impl Objects {
    fn with(mut self, path: &str, uid: &str, spec: Value) -> Self {
        self.0.insert(path.to_owned(), json!({"metadata": {"uid": uid}, "spec": spec}));
        self
    }
}

struct World {
    issuer: Issuer,
    objects: Objects,
    context: Context,
    seconds: Arc<AtomicI64>,
}

fn world() -> World {
    let key = KeyPair::generate().unwrap();
    let key = Arc::new(SigningKey::from_pkcs8(key.serialized_der()).unwrap());
    let seconds = Arc::new(AtomicI64::new(START));
    let clock = seconds.clone();
    let context = Context::seeded(3, move || Timestamp::from_second(clock.load(Ordering::SeqCst)).unwrap());
    let objects = Objects::default()
        .with("serviceaccounts/ns/web", "u-web", json!({}))
        .with("pods/ns/web-0", "u-pod", json!({"serviceAccountName": "web", "nodeName": "n1"}))
        .with("pods/ns/lost", "u-lost", json!({"serviceAccountName": "web", "nodeName": "n9"}))
        .with("pods/ns/other", "u-other", json!({"serviceAccountName": "default"}))
        .with("secrets/ns/s", "u-secret", json!({}))
        .with("nodes//n1", "u-node", json!({}));
    World { issuer: Issuer::new(key, DEFAULT_ISSUER), objects, context, seconds }
}

impl World {
    fn request(&self, body: Value) -> crate::status::Result<Value> {
        self.issuer.request("ns", "web", body, &self.objects, &self.context)
    }

    fn token(&self, spec: Value) -> String {
        let answer = self.request(json!({"spec": spec})).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let mut statics = StaticTokens::default();
        statics.add("static", User::new("admin", &["system:masters"]));
        let body = json!({"kind": "TokenReview", "spec": {"token": token, "audiences": audiences}});
        review(body, &self.issuer, &statics, &self.objects, &self.context).unwrap()["status"].clone()
    }

    fn refused(&self, token: &str) -> String {
        let status = self.review(token, &[]);
        assert_eq!(status["user"], json!({}));
        assert_eq!(status.get("authenticated"), None);
        status["error"].as_str().unwrap().to_owned()
    }
}

fn claims(token: &str) -> Value {
    let middle = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(middle).unwrap()).unwrap()
}

#[test]
fn a_request_is_answered_with_a_token() {
    let world = world();
    let body = json!({"kind": "TokenRequest", "metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {"token": "x"}});
    let mut answer = world.request(body).unwrap();
    let token = answer["status"]["token"].take();
    assert_eq!(
        answer,
        json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": "web", "namespace": "ns", "uid": "u-web", "labels": {"a": "b"},
                "creationTimestamp": "2027-01-15T08:00:00Z"},
            "spec": {"audiences": [DEFAULT_ISSUER], "expirationSeconds": 3600, "boundObjectRef": null},
            "status": {"token": null, "expirationTimestamp": "2027-01-15T09:00:00Z"},
        })
    );
    let mut claims = claims(token.as_str().unwrap());
    assert_eq!(claims["jti"].take().as_str().unwrap().len(), 36);
    assert_eq!(
        claims,
        json!({
            "iss": DEFAULT_ISSUER, "sub": "system:serviceaccount:ns:web", "aud": [DEFAULT_ISSUER],
            "iat": START, "nbf": START, "exp": START + 3600, "jti": null,
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "web", "uid": "u-web"}},
        })
    );
}

#[test]
fn what_a_token_is_bound_to_is_in_its_claims() {
    let world = world();
    let check = |reference: Value, expected: Value| {
        let mut private = claims(&world.token(json!({"boundObjectRef": reference})))["kubernetes.io"].take();
        for key in ["namespace", "serviceaccount"] {
            private.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(private, expected);
    };
    let node = json!({"name": "n1", "uid": "u-node"});
    check(
        json!({"kind": "Pod", "apiVersion": "v1", "name": "web-0"}),
        json!({"pod": {"name": "web-0", "uid": "u-pod"}, "node": node}),
    );
    check(
        json!({"kind": "Pod", "apiVersion": "v1", "name": "lost"}),
        json!({"pod": {"name": "lost", "uid": "u-lost"}, "node": {"name": "n9"}}),
    );
    check(
        json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "u-secret"}),
        json!({"secret": {"name": "s", "uid": "u-secret"}}),
    );
    check(json!({"kind": "Node", "apiVersion": "v1", "name": "n1"}), json!({"node": node}));
}

#[test]
fn kubelets_get_longer_tokens_than_they_ask_for() {
    let world = world();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "web-0"});
    let check = |spec: Value, lifetime: i64, warn: Value| {
        let claims = claims(&world.token(spec));
        assert_eq!(claims["exp"], START + lifetime);
        assert_eq!(claims["kubernetes.io"]["warnafter"], warn);
    };
    let year = 365 * 24 * 3600;
    check(json!({"expirationSeconds": 3607, "boundObjectRef": pod}), year, json!(START + 3607));
    check(json!({"expirationSeconds": 3607}), 3607, Value::Null);
    check(json!({"expirationSeconds": 3607, "boundObjectRef": pod, "audiences": ["x"]}), 3607, Value::Null);
}

#[test]
fn requests_are_refused_in_the_real_servers_words() {
    let world = world();
    let check = |body: Value, code: u16, message: &str| {
        let error = world.request(body).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    };
    let invalid = |why: &str| {
        format!(
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {why}"
        )
    };
    check(
        json!({"spec": {"expirationSeconds": 10}}),
        422,
        &invalid("10: may not specify a duration less than 10 minutes"),
    );
    check(
        json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
        422,
        &invalid("4294967297: may not specify a duration larger than 2^32 seconds"),
    );
    check(
        json!({"metadata": {"name": "other"}}),
        422,
        "TokenRequest.authentication.k8s.io \"web\" is invalid: metadata.name: Invalid value: \"other\": must match the service account name if specified",
    );
    check(
        json!({"metadata": {"namespace": "other"}}),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    check(
        json!({"metadata": {"uid": "other"}}),
        409,
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"web\": the UID in the token request (other) does not match the UID of the service account (u-web)",
    );
    let bound = |kind: &str, version: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": version, "name": name, "uid": uid}}});
    check(bound("Pod", "v1", "nope", ""), 404, "pods \"nope\" not found");
    check(bound("ConfigMap", "v1", "x", ""), 400, "cannot bind token to object of type /v1, Kind=ConfigMap");
    check(
        bound("Deployment", "apps/v1", "x", ""),
        400,
        "cannot bind token to object of type apps/v1, Kind=Deployment",
    );
    check(
        bound("Pod", "v1", "other", ""),
        400,
        "cannot bind token for serviceaccount \"web\" to pod running with different serviceaccount name.",
    );
    check(
        bound("Pod", "v1", "web-0", "old"),
        409,
        "Operation cannot be fulfilled on Pod \"web-0\": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated",
    );
    let error = world.issuer.request("ns", "nope", json!({}), &world.objects, &world.context).unwrap_err();
    assert_eq!(error.message, "serviceaccounts \"nope\" not found");
}

#[test]
fn reviews_say_whose_a_token_is() {
    let world = world();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "web-0"});
    let token = world.token(json!({"audiences": ["x", DEFAULT_ISSUER], "boundObjectRef": pod}));
    let status = world.review(&token, &["y", "x"]);
    let jti = claims(&token)["jti"].as_str().unwrap().to_owned();
    assert_eq!(
        status,
        json!({
            "authenticated": true, "audiences": ["x"],
            "user": {"username": "system:serviceaccount:ns:web", "uid": "u-web",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
                "extra": {
                    "authentication.kubernetes.io/credential-id": [format!("JTI={jti}")],
                    "authentication.kubernetes.io/pod-name": ["web-0"],
                    "authentication.kubernetes.io/pod-uid": ["u-pod"],
                    "authentication.kubernetes.io/node-name": ["n1"],
                    "authentication.kubernetes.io/node-uid": ["u-node"],
                }},
        })
    );
    assert_eq!(
        world.review("static", &[])["user"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
    assert_eq!(world.review("static", &[])["audiences"], json!([DEFAULT_ISSUER]));
    assert_eq!(world.review("static", &["x"])["error"], "invalid bearer token");
    assert_eq!(world.refused("abc"), "invalid bearer token");
    assert_eq!(
        world.refused(&world.token(json!({"audiences": ["x"]}))),
        format!(
            "[invalid bearer token, token audiences [\"x\"] is invalid for the target audiences [\"{DEFAULT_ISSUER}\"]]"
        )
    );
    let empty =
        review(json!({"spec": {}}), &world.issuer, &StaticTokens::default(), &world.objects, &world.context);
    assert_eq!(empty.unwrap_err().message, "token is required for TokenReview in authentication");
}

#[test]
fn forged_and_foreign_tokens_are_refused() {
    let (world, other) = (self::world(), self::world());
    let token = world.token(json!({}));
    assert_eq!(other.refused(&token), "[invalid bearer token, invalid signature, no keys found]");

    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let broken = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
    let mut more = claims(&token);
    more["sub"] = "system:serviceaccount:kube-system:admin".into();
    let kid = world.issuer.keys()["keys"][0]["kid"].clone();
    for forged in [
        format!("{}.{}.{}", parts[0], encode(&more), parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], URL_SAFE_NO_PAD.encode([7; 64])),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}.", encode(&json!({"alg": "none"})), parts[1]),
        format!("{}.{}.{}", encode(&json!({"alg": "HS256", "kid": kid})), parts[1], parts[2]),
    ] {
        assert_eq!(world.refused(&forged), broken, "{forged}");
    }
    more["iss"] = "https://elsewhere".into();
    let foreign = format!("{}.{}.{}", parts[0], encode(&more), parts[2]);
    assert_eq!(world.refused(&foreign), "invalid bearer token");
}

#[test]
fn a_token_lives_as_long_as_what_it_speaks_of() {
    let world = world();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "web-0"});
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "name": "s"});
    let node = json!({"kind": "Node", "apiVersion": "v1", "name": "n1"});
    let invalidated = "service account token has been invalidated";
    let check = |reference: &Value, path: &str, change: Option<(&str, &str)>, why: &str| {
        let token = world.token(json!({"boundObjectRef": reference}));
        let mut later = World {
            issuer: world.issuer.clone(),
            objects: world.objects.clone(),
            context: world.context.clone(),
            seconds: world.seconds.clone(),
        };
        assert_eq!(later.review(&token, &[])["authenticated"], true, "{path}");
        match change {
            Some((key, value)) => later.objects.0.get_mut(path).unwrap()["metadata"][key] = value.into(),
            None => drop(later.objects.0.remove(path)),
        }
        match why {
            "" => assert_eq!(later.review(&token, &[])["authenticated"], true, "{path}"),
            why => assert_eq!(later.refused(&token), format!("[invalid bearer token, {why}]"), "{path}"),
        }
    };
    let new = Some(("uid", "new"));
    let (long_ago, just_now) = (rfc3339(time(START - 61)), rfc3339(time(START - 59)));
    let deleted = Some(("deletionTimestamp", long_ago.as_str()));
    let deleting = Some(("deletionTimestamp", just_now.as_str()));
    let account = "serviceaccounts/ns/web";
    check(&Value::Null, account, None, "serviceaccounts \"web\" not found");
    check(&Value::Null, account, new, "service account UID (new) does not match claim (u-web)");
    check(&Value::Null, account, deleted, "service account ns/web has been deleted");
    check(&Value::Null, account, deleting, "");
    check(&pod, "pods/ns/web-0", None, invalidated);
    check(&pod, "pods/ns/web-0", new, "pod UID (new) does not match service account pod ref claim (u-pod)");
    check(&pod, "pods/ns/web-0", deleted, invalidated);
    check(&pod, "nodes//n1", None, "");
    check(&secret, "secrets/ns/s", None, invalidated);
    check(
        &secret,
        "secrets/ns/s",
        new,
        "secret UID (new) does not match service account secret ref claim (u-secret)",
    );
    check(&node, "nodes//n1", None, invalidated);
    check(&node, "nodes//n1", new, "node UID (new) does not match service account node ref claim (u-node)");
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn tokens_expire() {
    let world = world();
    let token = world.token(json!({"expirationSeconds": 600}));
    let user = || {
        let tokens = world.issuer.tokens(&world.objects, &world.context);
        let now = world.context.now();
        authenticate(None, Some(&format!("Bearer {token}")), &[&tokens], now).map_err(|why| why.0)
    };
    let at = |seconds: i64| world.seconds.store(START + seconds, Ordering::SeqCst);
    assert_eq!(user().unwrap().groups.last().unwrap(), "system:authenticated");
    at(660);
    assert!(user().is_ok());
    at(661);
    assert_eq!(user().unwrap_err(), "service account token has expired");
    at(-61);
    assert_eq!(user().unwrap_err(), "service account token is not valid yet");
}

#[test]
fn the_issuer_describes_itself() {
    let world = world();
    assert_eq!(
        world.issuer.configuration("10.0.0.1:6443"),
        json!({"issuer": DEFAULT_ISSUER, "jwks_uri": "https://10.0.0.1:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"]})
    );
    // Whoever holds the published key alone can check a token.
    let key = &world.issuer.keys()["keys"][0];
    let mut point = vec![4];
    for coordinate in ["x", "y"] {
        point.extend(URL_SAFE_NO_PAD.decode(key[coordinate].as_str().unwrap()).unwrap());
    }
    let token = world.token(json!({}));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point)
        .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
        .unwrap();
}
