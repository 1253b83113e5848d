//! What a request is about, read from its method and path alone.

use http::Method;

use crate::names;
use crate::selector::FieldSelector;

/// A request's address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Info {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for paths that
    /// are no resources the method in lower case.
    pub verb: &'static str,
    pub path: String,
    /// Whether the path is one of a resource (`/api/V/…`, `/apis/G/V/…`).
    pub resource_path: bool,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// Whether the path goes on below the subresource.
    pub deeper: bool,
    /// Whether the path has `namespaces/NAME` in front of the resource. A Namespace's own path has not, although the
    /// request is authorised in that namespace.
    pub below_namespace: bool,
    /// A verb in front of the resource. Whatever the method, it is what the request is authorised for.
    pub prefix: Option<Prefix>,
    /// The only name that the field selector of a list or watch lets through.
    pub selected: String,
}

/// The old way to say a verb: by a segment of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    Watch,
    Proxy,
}

impl Info {
    /// `watch` tells whether the query asks for one; the rest is in the path.
    pub(crate) fn parse(method: &Method, path: &str, watch: bool) -> Info {
        // As in Go, a slash counts as one whether it is escaped or not.
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut parts: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
        let mut info = Info { verb: method_name(method), path, ..Info::default() };
        let prefix = match parts.first().map(String::as_str) {
            Some("api") => 2,
            Some("apis") => 3,
            _ => return info,
        };
        if parts.len() <= prefix {
            return info;
        }
        let mut rest = parts.split_off(prefix);
        info.version = parts.pop().unwrap_or_default();
        if prefix == 3 {
            info.group = parts.pop().unwrap_or_default();
        }
        info.resource_path = true;
        info.prefix = match rest[0].as_str() {
            "watch" if rest.len() > 1 => Some(Prefix::Watch),
            "proxy" if rest.len() > 1 => Some(Prefix::Proxy),
            _ => None,
        };
        if info.prefix.is_some() {
            rest.remove(0);
        }
        // A namespace is a resource too: its own parts follow its name directly.
        if rest[0] == "namespaces" && rest.len() > 1 {
            info.namespace = rest[1].clone();
            let own_part = rest.len() > 2 && matches!(rest[2].as_str(), "status" | "finalize");
            if rest.len() > 2 && !own_part {
                rest.drain(..2);
                info.below_namespace = true;
            }
        }
        let mut rest = rest.into_iter();
        info.resource = rest.next().unwrap_or_default();
        info.name = rest.next().unwrap_or_default();
        info.subresource = rest.next().unwrap_or_default();
        info.deeper = rest.next().is_some();
        info.verb = match (info.prefix, info.verb) {
            (Some(Prefix::Watch), _) => "watch",
            (Some(Prefix::Proxy), _) => "proxy",
            (None, "get") if !info.name.is_empty() => "get",
            (None, "get") if watch => "watch",
            (None, "get") => "list",
            (None, "post") => "create",
            (None, "put") => "update",
            (None, "patch") => "patch",
            (None, "delete") if info.name.is_empty() => "deletecollection",
            (None, "delete") => "delete",
            _ => "",
        };
        info
    }

    /// Takes from the query what a request without a name in its path is about.
    pub(crate) fn select(&mut self, fields: Option<&str>) {
        if !matches!(self.verb, "list" | "watch") || !self.name.is_empty() {
            return;
        }
        let Some(Ok(selector)) = fields.map(FieldSelector::parse) else { return };
        if let Some(name) = selector.exact("metadata.name")
            && names::path_segment(name).is_empty()
        {
            self.selected = name.to_owned();
        }
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str, expected: &str) {
        let (path, watch) = path.strip_suffix("?watch").map_or((path, false), |path| (path, true));
        let i = Info::parse(&method, path, watch);
        let parts = [i.verb, &i.group, &i.version, &i.namespace, &i.resource, &i.name, &i.subresource];
        assert_eq!(parts.join(" | "), expected, "{path}");
    }

    #[test]
    fn a_field_selector_can_name_the_one_object() {
        let selected = |method: Method, path: &str, fields: &str| {
            let mut info = Info::parse(&method, path, false);
            info.select(Some(fields));
            info.selected
        };
        assert_eq!(selected(Method::GET, "/api/v1/pods", "metadata.name=a"), "a");
        assert_eq!(selected(Method::GET, "/api/v1/pods", "spec.nodeName=n,metadata.name==a"), "a");
        assert_eq!(selected(Method::GET, "/api/v1/pods", "metadata.name!=a"), "");
        assert_eq!(selected(Method::GET, "/api/v1/pods", "metadata.name=a/b"), "");
        assert_eq!(selected(Method::GET, "/api/v1/pods", "metadata.name"), "");
        assert_eq!(selected(Method::GET, "/api/v1/namespaces/b", "metadata.name=a"), "");
        assert_eq!(selected(Method::DELETE, "/api/v1/namespaces/b/pods", "metadata.name=a"), "");
    }

    #[test]
    fn a_verb_in_the_path_counts_whatever_the_method() {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
        {
            check(method.clone(), "/api/v1/watch/namespaces/a/pods", "watch |  | v1 | a | pods |  | ");
            check(method.clone(), "/apis/g.io/v1/watch/things/b", "watch | g.io | v1 |  | things | b | ");
            check(method, "/api/v1/proxy/nodes/b", "proxy |  | v1 |  | nodes | b | ");
        }
    }

    #[test]
    fn only_what_lies_in_a_namespace_is_below_one() {
        let below = |path: &str| Info::parse(&Method::GET, path, false).below_namespace;
        assert!(below("/api/v1/namespaces/a/pods"));
        assert!(below("/api/v1/namespaces/a/namespaces"));
        assert!(below("/api/v1/watch/namespaces/a/namespaces/b"));
        assert!(below("/api/v1/namespaces//pods"));
        assert!(!below("/api/v1/namespaces/a"));
        assert!(!below("/api/v1/namespaces/a/status"));
        assert!(!below("/api/v1/pods"));
    }

    #[test]
    fn paths_are_taken_apart() {
        check(Method::GET, "/api/v1/pods", "list |  | v1 |  | pods |  | ");
        check(Method::GET, "/api/v1/pods?watch", "watch |  | v1 |  | pods |  | ");
        check(Method::GET, "/api/v1/watch/pods", "watch |  | v1 |  | pods |  | ");
        check(Method::GET, "/api/v1/namespaces/a/pods/b", "get |  | v1 | a | pods | b | ");
        check(Method::PUT, "/api/v1/namespaces/a/pods/b/status", "update |  | v1 | a | pods | b | status");
        check(Method::GET, "/api/v1/namespaces/a", "get |  | v1 | a | namespaces | a | ");
        check(Method::PUT, "/api/v1/namespaces/a/finalize", "update |  | v1 | a | namespaces | a | finalize");
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection | apps | v1 | a | deployments |  | ",
        );
        check(Method::PATCH, "/apis/g.io/v1/things/x%3Ay", "patch | g.io | v1 |  | things | x:y | ");
        check(Method::GET, "/api/v1/namespaces/a%2Fpods", "list |  | v1 | a | pods |  | ");
        check(Method::GET, "/api/v1/pods/a/proxy/b/c", "get |  | v1 |  | pods | a | proxy");
        check(Method::OPTIONS, "/api/v1/pods", " |  | v1 |  | pods |  | ");
        check(Method::GET, "/apis/apps/v1", "get |  |  |  |  |  | ");
        check(Method::GET, "/healthz", "get |  |  |  |  |  | ");
    }
}
