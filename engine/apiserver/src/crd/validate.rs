//! What is wrong with a definition, in the words of the real server.
//!
//! That server checks an internal form, in which what all versions share stands above them: so a schema
//! that is the same in every version is found at `spec.validation`, and messages say so.

mod version;

use serde_json::Value;

use self::version::{
    CostLimit, check_columns, check_selectable, check_subresources, check_validation, has_status,
};

use super::{flag, list, map, part, text, written};
use crate::field::{Error, Path};
use crate::names;

const APPROVED: &str = "api-approved.kubernetes.io";
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What is wrong with a new definition. That its name is a DNS subdomain is checked with all metadata.
pub fn validate(crd: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = &crd["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let name = text(&crd["metadata"], "name");
    if name != wanted {
        let at = Path::new("metadata.name");
        errors.push(Error::invalid(&at, name, r#"must be spec.names.plural+"."+spec.group"#));
    }
    common(crd, None, &mut errors);
    errors.extend(approval(crd, None));
    errors.extend(preserving(crd));
    errors
}

/// What is wrong with an update: validity, and what may not change.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    common(crd, Some(old), &mut errors);
    let mut immutable = |pointer: &str| {
        let at = |crd: &Value| crd["spec"].pointer(pointer).cloned().unwrap_or_else(|| "".into());
        if at(crd) != at(old) {
            let path = Path::new("spec").child(&pointer[1..].replace('/', "."));
            errors.push(Error::invalid(&path, at(crd), "field is immutable"));
        }
    };
    if super::names::is_true(old, "Established") {
        immutable("/scope");
        immutable("/names/kind");
    }
    immutable("/group");
    immutable("/names/plural");
    errors.extend(approval(crd, Some(old)));
    if !flag(&old["spec"], "preserveUnknownFields") {
        errors.extend(preserving(crd));
    }
    errors
}

/// What is wrong with an update through `/status`.
pub fn validate_status(crd: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    check_names(&crd["status"]["acceptedNames"], &Path::new("status.acceptedNames"), &mut errors);
    errors
}

fn common(crd: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    specification(&crd["spec"], old.map(|old| &old["spec"]), errors);
    errors.extend(validate_status(crd));
    stored_versions(crd, errors);
}

/// One version, without what it shares with all others.
pub(super) struct VersionParts<'a> {
    pub(super) version: &'a Value,
    pub(super) validation: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) selectable: Option<&'a Value>,
}

/// What all versions share; `None` where they differ, or have nothing.
fn shared<'a>(versions: &'a [Value], key: &str) -> (bool, Option<&'a Value>) {
    let Some(first) = versions.first().map(|version| part(version, key)) else { return (false, None) };
    let same = versions.iter().all(|version| part(version, key) == first);
    (same, first.filter(|_| same))
}

fn specification(spec: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    group(spec, errors);
    let scope = text(spec, "scope");
    one_of(&path.child("scope"), scope, &["Cluster", "Namespaced"], errors);
    let versions = list(spec, "versions");
    let defaults = versions.iter().any(|version| super::has_defaults(&version["schema"]));
    if defaults && flag(spec, "preserveUnknownFields") {
        let why = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, why));
    }
    let (same_schema, validation) = shared(versions, "schema");
    let (same_subresources, subresources) = shared(versions, "subresources");
    let (same_columns, columns) = shared(versions, "additionalPrinterColumns");
    let (same_selectable, selectable) = shared(versions, "selectableFields");
    let own = |version: &'_ Value, key: &str, same: bool| -> Option<Value> {
        part(version, key).filter(|_| !same).cloned()
    };
    let own: Vec<[Option<Value>; 4]> = versions
        .iter()
        .map(|version| {
            [
                own(version, "schema", same_schema),
                own(version, "subresources", same_subresources),
                own(version, "additionalPrinterColumns", same_columns),
                own(version, "selectableFields", same_selectable),
            ]
        })
        .collect();
    let parts: Vec<VersionParts<'_>> = versions
        .iter()
        .zip(&own)
        .map(|(version, [validation, subresources, columns, selectable])| VersionParts {
            version,
            validation: validation.as_ref(),
            subresources: subresources.as_ref(),
            columns: columns.as_ref(),
            selectable: selectable.as_ref(),
        })
        .collect();
    if validation.is_none_or(|validation| part(validation, "openAPIV3Schema").is_none()) {
        for (index, parts) in parts.iter().enumerate() {
            if parts.validation.is_none_or(|validation| part(validation, "openAPIV3Schema").is_none()) {
                let at = path.child("versions").index(index).child("schema.openAPIV3Schema");
                errors.push(Error::required(&at, ""));
            }
        }
    }
    for (index, parts) in parts.iter().enumerate() {
        let status = has_status(if same_subresources { subresources } else { parts.subresources });
        let limit = cost_limit(parts.version, old);
        version(parts, &path.child("versions").index(index), status, limit, errors);
    }
    version_set(&parts, errors);
    required_names(spec, errors);
    check_names(&spec["names"], &path.child("names"), errors);
    let any_status = has_status(subresources) || parts.iter().any(|parts| has_status(parts.subresources));
    let limit = versions.first().map_or(CostLimit::Enforced, |version| cost_limit(version, old));
    check_validation(validation, any_status, limit, &path.child("validation"), errors);
    check_subresources(subresources, &path.child("subresources"), errors);
    check_columns(columns, &path.child("additionalPrinterColumns"), errors);
    check_selectable(selectable, validation, &path.child("selectableFields"), errors);
    conversion(spec, errors);
}

/// A version whose schema an update leaves as it is keeps rules that were accepted before there was a limit.
fn cost_limit(version: &Value, old: Option<&Value>) -> CostLimit {
    let named = |one: &&Value| text(one, "name") == text(version, "name");
    let before = old.and_then(|old| list(old, "versions").iter().find(named));
    match before {
        Some(before) if part(before, "schema") == part(version, "schema") => CostLimit::Accepted,
        _ => CostLimit::Enforced,
    }
}

fn group(spec: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec.group");
    let group = text(spec, "group");
    let wrong = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&path, ""));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid(&path, group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&path, group, "should be a domain with at least one dot"));
    }
}

fn one_of(path: &Path, value: &str, known: &[&str], errors: &mut Vec<Error>) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !known.contains(&value) {
        errors.push(Error::not_supported(path, value, known));
    }
}

fn version(parts: &VersionParts<'_>, path: &Path, status: bool, limit: CostLimit, errors: &mut Vec<Error>) {
    let version = parts.version;
    let name = text(version, "name");
    let wrong = names::dns1035_label(name);
    if !wrong.is_empty() {
        errors.push(Error::invalid(&path.child("name"), name, wrong.join(",")));
    }
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        for why in wrong_warning(flag(version, "deprecated"), warning) {
            errors.push(Error::invalid(&path.child("deprecationWarning"), warning, why));
        }
    }
    check_validation(parts.validation, status, limit, &path.child("schema"), errors);
    check_subresources(parts.subresources, &path.child("subresources"), errors);
    check_columns(parts.columns, &path.child("additionalPrinterColumns"), errors);
    check_selectable(parts.selectable, parts.validation, &path.child("selectableFields"), errors);
}

fn wrong_warning(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut wrong = Vec::new();
    if warning.len() > 256 {
        wrong.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, letter)| letter.is_control()) {
        wrong.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    wrong
}

fn version_set(parts: &[VersionParts<'_>], errors: &mut Vec<Error>) {
    let path = Path::new("spec.versions");
    let names: Vec<&str> = parts.iter().map(|parts| text(parts.version, "name")).collect();
    // The value is part of the sentence: it shows the fields of a Go struct, in their order.
    let mut refuse = |why: &str| {
        let mut error = Error::invalid(&path, Value::Null, format!("{}: {why}", written::versions(parts)));
        error.value = None;
        errors.push(error);
    };
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        refuse("must contain unique version names");
    }
    if parts.iter().filter(|parts| flag(parts.version, "storage")).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    // An older form of the type repeats the first name, if there is one.
    if let Some(first) = names.first().filter(|first| !first.is_empty()) {
        let wrong = self::names::dns1035_label(first);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&Path::new("spec.version"), *first, wrong.join(",")));
        }
    }
}

fn required_names(spec: &Value, errors: &mut Vec<Error>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], name).is_empty() {
            errors.push(Error::required(&Path::new("spec.names").child(name), ""));
        }
    }
}

fn check_names(given: &Value, path: &Path, errors: &mut Vec<Error>) {
    let label = |path: &Path, name: &str, errors: &mut Vec<Error>| {
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(path, name, wrong.join(",")));
        }
    };
    for key in ["plural", "singular"] {
        let name = text(given, key);
        if !name.is_empty() {
            label(&path.child(key), name, errors);
        }
    }
    for key in ["kind", "listKind"] {
        let name = text(given, key);
        let wrong = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(Error::invalid(&path.child(key), name, why));
        }
    }
    let each = |key: &str, errors: &mut Vec<Error>| {
        for (index, name) in list(given, key).iter().enumerate() {
            label(&path.child(key).index(index), name.as_str().unwrap_or_default(), errors);
        }
    };
    each("shortNames", errors);
    let kind = text(given, "kind");
    if !kind.is_empty() && kind == text(given, "listKind") {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), kind, why));
    }
    each("categories", errors);
}

fn conversion(spec: &Value, errors: &mut Vec<Error>) {
    let Some(conversion) = part(spec, "conversion") else { return };
    let path = Path::new("spec.conversion");
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(&path.child("strategy"), strategy, why));
    }
    one_of(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let client = conversion["webhook"].get("clientConfig").filter(|client| !client.is_null());
    let versions = list(&conversion["webhook"], "conversionReviewVersions");
    let (client_at, versions_at) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(Error::forbidden(&client_at, why));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(&versions_at, why));
        }
        return;
    }
    match client {
        None => errors.push(Error::required(&client_at, "required when strategy is set to Webhook")),
        Some(client) if part(client, "url").is_some() == part(client, "service").is_some() => {
            errors.push(Error::required(&client_at, "exactly one of url or service is required"));
        }
        Some(_) => {}
    }
    if versions.is_empty() {
        errors.push(Error::required(&versions_at, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let at = versions_at.index(index);
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&at, version.clone(), "duplicate version"));
            continue;
        }
        for why in names::dns1035_label(version.as_str().unwrap_or_default()) {
            errors.push(Error::invalid(&at, version.clone(), why));
        }
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.iter().any(|known| *version == *known)) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(&versions_at, Value::from(versions.to_vec()), why));
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("status.storedVersions");
    let stored = list(&crd["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = list(&crd["spec"], "versions");
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        if !stored.contains(&version["name"]) {
            let why = format!("must have the storage version {}", text(version, "name"));
            errors.push(Error::invalid(&path, Value::from(stored.to_vec()), why));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let shown = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name.clone(), why));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn approval_of(crd: &Value) -> Approval {
    let annotation = map(&crd["metadata"], "annotations")
        .find(|(key, _)| *key == APPROVED)
        .and_then(|(_, value)| value.as_str())
        .unwrap_or_default();
    let is_url = || {
        let (scheme, rest) = annotation.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        Some(!scheme.is_empty() && !host.is_empty())
    };
    match annotation {
        "" => Approval::Missing,
        reason if reason.starts_with("unapproved") => Approval::Bypassed,
        _ if is_url() == Some(true) => Approval::Approved,
        _ => Approval::Invalid,
    }
}

/// Groups of the Kubernetes community need its approval.
fn approval(crd: &Value, old: Option<&Value>) -> Option<Error> {
    let group = text(&crd["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let state = approval_of(crd);
    if !protected || old.is_some_and(|old| approval_of(old) == state) {
        return None;
    }
    let at = Path::new("metadata.annotations").key(APPROVED);
    let must = format!("protected groups must have approval annotation {APPROVED:?}");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Missing => Some(Error::required(&at, format!("{must}, {see}"))),
        Approval::Invalid => {
            let why = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            Some(Error::invalid(&at, crd["metadata"]["annotations"][APPROVED].clone(), why))
        }
        Approval::Bypassed | Approval::Approved => None,
    }
}

fn preserving(crd: &Value) -> Option<Error> {
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    flag(&crd["spec"], "preserveUnknownFields")
        .then(|| Error::invalid(&Path::new("spec.preserveUnknownFields"), true, why))
}
