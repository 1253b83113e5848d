//! `POST …/deployments/NAME/rollback`: asks a Deployment's controller to go back to a revision.
//!
//! Kubernetes had this request before `apps/v1`, and its controller still does what it asked for. It is not part of
//! discovery, so nobody sees it who does not look for it.

use axum::body::Body;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::Call;
use super::object::metadata;
use super::parts::Part;
use super::respond::Reply;
use super::write::Managed;
use super::{incoming, update};
use crate::catalog::Resource;
use crate::status::{Error, Result};

/// What the controller looks for; its value is the revision, and 0 is the one before.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

/// Whether this request is one.
pub(crate) fn is_asked(resource: &Resource, subresource: &str) -> bool {
    subresource == "rollback" && &*resource.group == "apps" && &*resource.plural == "deployments"
}

pub(crate) async fn serve(call: &mut Call, body: Body) -> Result<Reply> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let wish = Wish::read(&incoming::read_body(body).await?, &call.info.name)?;
    let name = call.info.name.clone();
    let change = |current: &Value| {
        let mut new = current.clone();
        let annotations = metadata(&mut new).entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(annotations) = annotations {
            annotations.extend(wish.annotations.clone());
            annotations.insert(ROLLBACK.to_owned(), wish.revision.to_string().into());
        }
        Ok((new, Managed::Track))
    };
    update::modify(call, &name, Part::Whole, dry_run, change).await?;
    let message = format!("rollback request for deployment {name:?} succeeded");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "message": message, "code": 200,
    });
    Ok(Reply::Value(StatusCode::OK, status))
}

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Wish {
    revision: i64,
    annotations: serde_json::Map<String, Value>,
}

impl Wish {
    fn read(body: &[u8], name: &str) -> Result<Wish> {
        let bad = |why: String| Err(Error::bad_request(why));
        let said: Value = match serde_json::from_slice(body) {
            Ok(said) => said,
            Err(error) => return bad(format!("the rollback is not JSON: {error}")),
        };
        if said["kind"] != "DeploymentRollback" {
            return bad(format!("the kind is {}: it must be \"DeploymentRollback\"", said["kind"]));
        }
        if said["name"] != name {
            return bad(format!("the name is {}: it must be {name:?}, as in the address", said["name"]));
        }
        let revision = match &said["rollbackTo"]["revision"] {
            Value::Null => 0,
            number => match number.as_i64().filter(|revision| *revision >= 0) {
                Some(revision) => revision,
                None => {
                    return bad(format!("rollbackTo.revision is {number}: it must be a whole number from 0"));
                }
            },
        };
        let annotations = match &said["updatedAnnotations"] {
            Value::Null => serde_json::Map::new(),
            Value::Object(all) if all.values().all(Value::is_string) => all.clone(),
            other => return bad(format!("updatedAnnotations is {other}: it must be an object of texts")),
        };
        Ok(Wish { revision, annotations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_requests_get_a_sentence() {
        let read = |said: Value| Wish::read(said.to_string().as_bytes(), "web");
        let good = read(json!({"kind": "DeploymentRollback", "name": "web", "rollbackTo": {"revision": 3}}))
            .unwrap();
        assert_eq!(good.revision, 3);
        let before = read(json!({"kind": "DeploymentRollback", "name": "web", "rollbackTo": {}})).unwrap();
        assert_eq!(before.revision, 0);
        for (said, why) in [
            (json!({"name": "web"}), "the kind is null"),
            (json!({"kind": "DeploymentRollback", "name": "other"}), "the name is \"other\""),
            (
                json!({"kind": "DeploymentRollback", "name": "web", "rollbackTo": {"revision": -1}}),
                "rollbackTo.revision is -1",
            ),
            (
                json!({"kind": "DeploymentRollback", "name": "web", "updatedAnnotations": {"a": 1}}),
                "updatedAnnotations is",
            ),
        ] {
            let error = read(said).unwrap_err();
            assert!(error.message.starts_with(why), "{}", error.message);
        }
        assert!(Wish::read(b"{", "web").is_err());
    }
}
