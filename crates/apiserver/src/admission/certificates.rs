//! Requests for certificates: who asks, and what nobody gets.

use base64::Engine as _;
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::Attributes;
use crate::cel::rights::What;
use crate::kinds::walk::{get, is_empty, map_mut, object_mut, same, text};
use crate::status::Result;

/// A request for a certificate says who made it, whatever its author wrote.
pub(super) fn name_requester(request: &Attributes<'_>, object: &mut Value) {
    if !request.creates("certificates.k8s.io", "certificatesigningrequests") {
        return;
    }
    let spec = map_mut(object_mut(object, "spec"));
    for key in ["username", "uid", "groups", "extra"] {
        spec.remove(key);
        let value = &request.user[key];
        if !is_empty(value) {
            spec.insert(key.to_owned(), value.clone());
        }
    }
}

/// CertificateSubjectRestriction: no client certificate makes its owner an administrator.
pub(super) fn check_subject(request: &Attributes<'_>, object: &Value) -> Result<()> {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let spec = get(object, &["spec"]);
    if !request.creates("certificates.k8s.io", "certificatesigningrequests")
        || text(spec, "signerName") != SIGNER
    {
        return Ok(());
    }
    if organizations(text(spec, "request")).iter().any(|one| one == "system:masters") {
        let why = format!("use of {SIGNER} signer with system:masters group is not allowed");
        return Err(request.forbidden(object, &why));
    }
    Ok(())
}

/// CertificateApproval and CertificateSigning: who approves or signs needs leave to do so for that very signer.
pub(super) fn check_signer(request: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    let Some(old) = old.filter(|_| request.is("certificates.k8s.io", "certificatesigningrequests")) else {
        return Ok(());
    };
    let changed = |key: &str| !same(get(object, &["status", key]), get(old, &["status", key]));
    let verb = match request.subresource {
        "approval" => "approve",
        "status" if changed("certificate") || changed("conditions") => "sign",
        _ => return Ok(()),
    };
    let signer = text(get(old, &["spec"]), "signerName");
    let whole_domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let may = |name: &str| {
        let what = What::Resource {
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
            verb,
        };
        request.authority.decide(None, &what).allowed
    };
    if may(signer) || may(&whole_domain) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(request.forbidden(object, &why))
}

/// The organizations that a PEM request, in base64, names; none if it cannot be read.
fn organizations(encoded: &str) -> Vec<String> {
    let standard = &base64::engine::general_purpose::STANDARD;
    let pem = standard.decode(encoded).unwrap_or_default();
    let body: String =
        String::from_utf8_lossy(&pem).lines().filter(|line| !line.starts_with("-----")).collect();
    let der = standard.decode(body.trim()).unwrap_or_default();
    let Ok((_, parsed)) = X509CertificationRequest::from_der(&der) else { return Vec::new() };
    let subject = &parsed.certification_request_info.subject;
    subject.iter_organization().filter_map(|one| one.as_str().ok()).map(str::to_owned).collect()
}
