//! Requests for certificates: who asks, and what nobody gets.

use serde_json::Value;

use super::Attributes;
use crate::auth::csr;
use crate::auth::identity::MASTERS;
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

/// CertificateSubjectRestriction: no client certificate makes its owner an administrator. A request whose subject cannot
/// be read is refused, for a signer may read it after all.
pub(super) fn check_subject(request: &Attributes<'_>, object: &Value) -> Result<()> {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let spec = get(object, &["spec"]);
    if !request.creates("certificates.k8s.io", "certificatesigningrequests")
        || text(spec, "signerName") != SIGNER
    {
        return Ok(());
    }
    let why = match csr::organizations(text(spec, "request")) {
        Err(why) => format!("failed to parse CSR: {why}"),
        Ok(all) if all.iter().any(|one| one == MASTERS) => {
            format!("use of {SIGNER} signer with {MASTERS} group is not allowed")
        }
        Ok(_) => return Ok(()),
    };
    Err(request.forbidden(object, &why))
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
