//! Rules for strings and numbers that several groups share, in the words Kubernetes gives.

use serde_json::Value;

use super::look::{Faults, each_wrong};
use crate::field::{Error, Path};
use crate::names;

/// A domain of three parts or more: the names of webhooks.
pub(crate) fn fully_qualified_name(path: &Path, name: &str) -> Faults {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return vec![Error::invalid(path, name, wrong.join(","))];
    }
    if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        return vec![Error::invalid(path, name, why)];
    }
    Vec::new()
}

/// A domain of two parts or more, perhaps with a dot at its end.
pub(crate) fn fully_qualified_domain(path: &Path, name: &str) -> Faults {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return vec![Error::invalid(path, name, wrong.join(","))];
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return vec![Error::invalid(path, name, why)];
    }
    let too_long = name.split('.').find(|label| !names::dns1123_label(label).is_empty());
    too_long
        .map(|label| Error::invalid(path, label, names::dns1123_label(label).join(",")))
        .into_iter()
        .collect()
}

/// `acme.io/some/path`.
pub(crate) fn domain_prefixed_path(path: &Path, value: &str) -> Faults {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let (host, rest) = match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => (host, rest),
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![Error::invalid(path, value, why)];
        }
    };
    let mut faults = each_wrong(path, host, names::dns1123_subdomain(host));
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        faults.push(Error::invalid(path, rest, why));
    }
    faults
}

/// The name of a CSI driver.
pub(crate) fn csi_driver_name(path: &Path, name: &str) -> Faults {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut faults = Vec::new();
    if name.len() > 63 {
        faults.push(Error::too_long(path, 63));
    }
    faults.extend(each_wrong(path, name, names::dns1123_subdomain(&name.to_lowercase())));
    faults
}

/// A whole number that is not negative, or a percentage of a hundred at most.
pub(crate) fn share(value: &Value, path: &Path) -> Faults {
    let Some(text) = value.as_str() else {
        return match value.as_i64() {
            Some(number) if number < 0 => {
                vec![Error::invalid(path, number, crate::kinds::walk::NEGATIVE)]
            }
            _ => Vec::new(),
        };
    };
    let wrong = names::percent(text);
    if !wrong.is_empty() {
        return each_wrong(path, text, wrong);
    }
    let over = text.trim_end_matches('%').parse::<u64>().is_ok_and(|percent| percent > 100);
    if over { vec![Error::invalid(path, text, "must not be greater than 100%")] } else { Vec::new() }
}

/// The port of a Service that someone is to be called at.
pub(crate) fn service_port(port: i64, path: &Path) -> Option<Error> {
    let wrong = names::port_number(port);
    let why = format!("port is not valid: {}", wrong.join(", "));
    (!wrong.is_empty()).then(|| Error::invalid(path, port, why))
}

/// What is wrong with the number of a port.
pub(crate) fn port(number: i64, path: &Path) -> Faults {
    names::port_number(number).into_iter().map(|why| Error::invalid(path, number, why)).collect()
}

/// The path of a webhook's Service or of a URL: segments that are DNS subdomains.
pub(crate) fn webhook_service(path: &Path, service: &Value) -> Faults {
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    // The caller in the real server passes name and namespace the wrong way round.
    if text("namespace").is_empty() {
        faults.push(Error::required(&path.child("name"), ""));
    }
    if text("name").is_empty() {
        faults.push(Error::required(&path.child("namespace"), ""));
    }
    let port = service["port"].as_i64().unwrap_or_default();
    faults.extend(service_port(port, &path.child("port")));
    let route = text("path");
    if route.is_empty() || route == "/" {
        return faults;
    }
    let at = path.child("path");
    if route == "//" {
        faults.push(Error::invalid(&at, route, "segment[0] may not be empty"));
        return faults;
    }
    if !route.starts_with('/') {
        faults.push(Error::invalid(&at, route, "must start with a '/'"));
    }
    let mut rest = route.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            faults.push(Error::invalid(&at, route, format!("segment[{index}] may not be empty")));
            continue;
        }
        let wrong = names::dns1123_subdomain(step);
        faults.extend(wrong.iter().map(|why| Error::invalid(&at, route, format!("segment[{index}]: {why}"))));
    }
    faults
}

/// `https://host/path`, without user, query or fragment.
pub(crate) fn webhook_url(path: &Path, url: &str) -> Faults {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme = |text: &str| {
        text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
        Some(("", _)) => {
            let why = format!("url must be a valid URL: parse {url:?}: missing protocol scheme{FORM}");
            return vec![Error::required(path, why)];
        }
        Some((first, _)) if !first.contains('/') => {
            let why = format!(
                "url must be a valid URL: parse {url:?}: first path segment in URL cannot contain colon{FORM}"
            );
            return vec![Error::required(path, why)];
        }
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = match authority.unwrap_or_default().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.unwrap_or_default()),
    };
    let mut faults = Vec::new();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        faults.push(Error::invalid(path, scheme, why));
    }
    if host.is_empty() {
        faults.push(Error::invalid(path, host, format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        faults.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        faults.push(Error::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        faults.push(Error::invalid(path, query, "query parameters are not permitted in the URL"));
    }
    faults
}
