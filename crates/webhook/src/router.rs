//! Answers an API server.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{StatusCode, header};

use crate::metrics::Metrics;
use crate::registration::PATIENCE;
use crate::review::{self, Request, Verdict};

/// More than an API server takes as one object, twice.
const MOST: usize = 8 * 1024 * 1024;
/// Whoever decides has so long; after that the API server would not hear the answer.
const DECIDE_WITHIN: Duration = Duration::from_millis(PATIENCE * 1000 - 500);

/// Decides about writes.
pub trait Reviewer: Send + Sync + 'static {
    fn review(&self, request: Request) -> BoxFuture<'_, Verdict>;
}

struct Desk {
    reviewer: Arc<dyn Reviewer>,
    metrics: Metrics,
}

/// Answers every review at `/`.
pub fn router(reviewer: Arc<dyn Reviewer>, metrics: Metrics) -> Router {
    Router::new()
        .route("/", post(answer))
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(Arc::new(Desk { reviewer, metrics }))
}

async fn answer(State(desk): State<Arc<Desk>>, body: Bytes) -> Response {
    let request = match review::read(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let uid = request.uid.clone();
    let (verdict, counted) = match tokio::time::timeout(DECIDE_WITHIN, desk.reviewer.review(request)).await {
        Ok(verdict) => {
            let counted = match &verdict {
                Verdict::Allow => "allowed",
                Verdict::Warn(_) => "warned",
                Verdict::Refuse(_) => "refused",
            };
            (verdict, counted)
        }
        Err(_) => {
            let late =
                "Koinon could not check this in time: if something is wrong, an event will tell".to_owned();
            (Verdict::Warn(vec![late]), "late")
        }
    };
    desk.metrics.said(counted);
    let body = review::answer(&uid, &verdict).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;

    /// Refuses what is called `bad`, and never comes to a decision about `slow`.
    struct Strict;

    impl Reviewer for Strict {
        fn review(&self, request: Request) -> BoxFuture<'_, Verdict> {
            Box::pin(async move {
                match request.name.as_str() {
                    "bad" => Verdict::Refuse("it is bad".into()),
                    "slow" => std::future::pending().await,
                    _ => Verdict::Allow,
                }
            })
        }
    }

    async fn ask(body: String) -> (u16, Vec<u8>) {
        let router = router(Arc::new(Strict), Metrics::default());
        let request = http::Request::post("/?timeout=2s").body(Body::from(body)).unwrap();
        let answer = router.oneshot(request).await.unwrap();
        (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn every_question_has_an_answer_in_time() {
        for (name, allowed, said) in [
            ("good", true, Value::Null),
            ("bad", false, Value::Null),
            (
                "slow",
                true,
                json!(["Koinon could not check this in time: if something is wrong, an event will tell"]),
            ),
        ] {
            let review = json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {"uid": name, "operation": "CREATE", "name": name, "resource": {"group": "", "resource": "x"}},
            });
            let (code, body) = ask(review.to_string()).await;
            let body: Value = serde_json::from_slice(&body).unwrap();
            let response = &body["response"];
            assert_eq!((code, &response["uid"], &response["allowed"]), (200, &json!(name), &json!(allowed)));
            assert_eq!(response["warnings"], said);
        }
        assert_eq!(ask("nonsense".into()).await.0, 400);
    }
}
