//! A quota holds however many ask at once.

use axum::body::Body;
use http::{Request, StatusCode};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[tokio::test]
async fn many_at_once_use_no_more_than_there_is() {
    let context = Context::seeded(1, || Timestamp::from_second(1_800_000_000).unwrap());
    let authority = Authority::in_memory(&context).unwrap();
    let server = Server::open(Options::default(), &authority, context).await.unwrap();
    let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
    let create = |resource: &str, body: Value| {
        let request = Request::post(format!("/api/v1/namespaces/default/{resource}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let router = router.clone();
        async move { router.oneshot(request.unwrap()).await.unwrap().status() }
    };
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "3"}}});
    assert_eq!(create("resourcequotas", quota).await, StatusCode::CREATED);
    let asked =
        (0..12).map(|number| create("configmaps", json!({"metadata": {"name": format!("m-{number}")}})));
    let answers = futures::future::join_all(asked).await;
    let made = answers.iter().filter(|code| **code == StatusCode::CREATED).count();
    let refused = answers.iter().filter(|code| **code == StatusCode::FORBIDDEN).count();
    assert_eq!((made, refused), (3, 9), "{answers:?}");
}
