//! Says which permission is missing: a controller that may not do something works on without it, and nobody would know why.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use parking_lot::Mutex;

/// So many different ones are told; whoever lacks more has read enough.
const MOST: usize = 100;

/// The same client, but it warns of every permission that it lacks, once. `whose` is the cluster it leads to.
pub fn telling(client: Client, whose: &str) -> Client {
    let (whose, told): (Arc<str>, Arc<Mutex<BTreeSet<String>>>) = (whose.into(), Arc::default());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, whose, told) = (client.clone(), whose.clone(), told.clone());
        async move { tell(client.send(request).await?, &whose, &told).await }
    });
    Client::new(service, "default")
}

async fn tell(
    response: Response<Body>,
    whose: &str,
    told: &Mutex<BTreeSet<String>>,
) -> kube::Result<Response<Body>> {
    if response.status() != StatusCode::FORBIDDEN {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await?;
    if let Some(missing) = missing(&body) {
        let mut told = told.lock();
        if told.len() < MOST && told.insert(missing.clone()) {
            tracing::warn!(cluster = whose, missing, "a permission is missing: see koinon install rbac");
        }
    }
    Ok(Response::from_parts(head, Body::from(body)))
}

/// What the account may not do. An answer 403 may also come of a quota, an admission webhook or a namespace that goes.
fn missing(body: &[u8]) -> Option<String> {
    let status: Status = serde_json::from_slice(body).ok()?;
    let (_, what) = status.message.split_once("User \"")?;
    let (user, what) = what.split_once("\" cannot ")?;
    Some(format!("{user} cannot {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_permission_is_one() {
        let said = |message: &str| {
            missing(
                serde_json::json!({"kind": "Status", "code": 403, "message": message}).to_string().as_bytes(),
            )
        };
        assert_eq!(
            said(
                r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"#
            ),
            Some(r#"u cannot list resource "pods" in API group "" at the cluster scope"#.into())
        );
        for other in [
            r#"pods "x" is forbidden: exceeded quota: q"#,
            r#"pods "x" is forbidden: unable to create new content in namespace n because it is being terminated"#,
            r#"admission webhook "w" denied the request: no"#,
        ] {
            assert_eq!(said(other), None, "{other}");
        }
    }
}
