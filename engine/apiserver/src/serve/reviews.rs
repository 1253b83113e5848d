//! Kinds that are questions: they are answered, never stored.

use bytes::Bytes;
use http::StatusCode;

use super::call::Call;
use super::incoming;
use super::respond::Reply;
use crate::auth::identity::StaticTokens;
use crate::auth::{reviews, token};
use crate::catalog::Resource;
use crate::status::{Error, Result};

/// Whether a resource is asked rather than stored.
pub(crate) fn is_review(resource: &Resource) -> bool {
    resource.custom.is_none() && matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

pub(crate) fn review(call: &mut Call, body: Bytes) -> Result<Reply> {
    let validation = call.query.field_validation("CreateOptions")?;
    let json = incoming::read(&call.resource, &call.headers, &body, validation, &mut call.warnings)?;
    let resource = call.resource.clone();
    let body = incoming::object(&resource, json, validation, &mut call.warnings)?;
    let server = &call.server;
    let rules = server.following.rules();
    let answer = match &*resource.kind {
        "TokenReview" => {
            token::review(body, &server.issuer, &StaticTokens::default(), server.as_ref(), &server.context)?
        }
        "SelfSubjectReview" => reviews::self_subject(&call.user, &server.context),
        "SelfSubjectAccessReview" => reviews::self_access(body, &call.user, &*rules)?,
        "SubjectAccessReview" => reviews::access(body, &*rules)?,
        "LocalSubjectAccessReview" => reviews::local_access(body, &call.info.namespace, &*rules)?,
        "SelfSubjectRulesReview" => reviews::self_rules(&body, &call.user, &*rules)?,
        _ => return Err(Error::method_not_allowed()),
    };
    call.reply_value(StatusCode::CREATED, answer)
}
