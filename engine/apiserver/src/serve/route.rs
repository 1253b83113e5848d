//! The router: which addresses a resource of the catalog has, and which methods each of them takes.
//!
//! A resource's scope decides its addresses. A cluster-scoped resource has none below `namespaces/NAME`, a namespaced one
//! has its collection outside of namespaces as well, to be listed and watched across all of them, and nothing else there.
//! No request reaches a handler but through [`find`]: a handler that saw a cluster-scoped resource together with a path's
//! namespace would act in the whole cluster for a user who was authorised in that namespace alone.
//!
//! Authorisation comes first and judges the path as it is written, as on a stock server: a user without rights learns
//! nothing of which addresses there are.

use std::sync::Arc;

use http::Method;

use super::info::{Info, Prefix};
use super::rollback;
use crate::catalog::{Catalog, Resource};
use crate::status::Error;

/// Why a request has no handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// No API answers for this address.
    NoApi,
    /// The API has no such address.
    NoResource,
    /// The address takes other methods.
    OtherMethods,
    /// A part of an object with no name.
    NoName,
}

impl NoRoute {
    /// The API's own error; none where no API answers.
    pub(crate) fn error(self) -> Option<Error> {
        Some(match self {
            NoRoute::NoApi => return None,
            NoRoute::NoResource => Error::no_such_resource(),
            NoRoute::OtherMethods => Error::method_not_allowed(),
            NoRoute::NoName => Error::bad_request("name must be provided"),
        })
    }
}

/// The resource that a request is about, if its path is one of that resource's addresses.
pub(crate) fn find(catalog: &Catalog, info: &Info, method: &Method) -> Result<Arc<Resource>, NoRoute> {
    if catalog.group(&info.group).is_none() || info.path.starts_with("//") {
        return Err(NoRoute::NoApi);
    }
    let unknown = if catalog.is_custom(&info.group) { NoRoute::NoApi } else { NoRoute::NoResource };
    let resource = catalog.resource(&info.group, &info.version, &info.resource).ok_or(unknown)?;
    match resource.custom {
        Some(_) => custom(&resource, info)?,
        None => builtin(&resource, info, method)?,
    }
    Ok(resource)
}

/// Custom resources have no routes of their own: their handler looks at the verb and at the namespace.
fn custom(resource: &Resource, info: &Info) -> Result<(), NoRoute> {
    let across_all = matches!(info.verb, "list" | "watch");
    match (resource.namespaced, info.namespace.is_empty()) {
        (true, true) if !across_all => Err(NoRoute::NoApi),
        (false, false) => Err(NoRoute::NoApi),
        _ => Ok(()),
    }
}

fn builtin(resource: &Resource, info: &Info, method: &Method) -> Result<(), NoRoute> {
    let taken = methods(resource, info);
    if taken.is_empty() {
        return Err(NoRoute::NoResource);
    }
    if !taken.contains(method) {
        return Err(NoRoute::OtherMethods);
    }
    if info.name.is_empty() && !info.subresource.is_empty() {
        return Err(NoRoute::NoName);
    }
    Ok(())
}

/// How the path's shape fits the resource's scope.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Where the objects lie.
    Home,
    /// A namespaced resource outside of namespaces.
    AllNamespaces,
    /// A cluster-scoped resource below a namespace.
    Foreign,
}

fn shape(resource: &Resource, info: &Info) -> Shape {
    match (resource.namespaced, info.below_namespace) {
        (false, false) => Shape::Home,
        (false, true) => Shape::Foreign,
        (true, true) if !info.namespace.is_empty() => Shape::Home,
        // `namespaces//pods` names no namespace.
        (true, _) => Shape::AllNamespaces,
    }
}

/// The methods that the address takes; none where there is no such address.
fn methods(resource: &Resource, info: &Info) -> Vec<Method> {
    const COLLECTION: [(&str, Method); 3] =
        [("list", Method::GET), ("create", Method::POST), ("deletecollection", Method::DELETE)];
    const OBJECT: [(&str, Method); 4] =
        [("get", Method::GET), ("update", Method::PUT), ("patch", Method::PATCH), ("delete", Method::DELETE)];
    let offered = |verbs: &[(&str, Method)]| -> Vec<Method> {
        verbs.iter().filter(|(verb, _)| resource.allows(verb)).map(|(_, method)| method.clone()).collect()
    };
    let (named, part) = (!info.name.is_empty(), !info.subresource.is_empty());
    match (info.prefix, shape(resource, info)) {
        (Some(Prefix::Proxy), _) | (_, Shape::Foreign) => Vec::new(),
        (Some(Prefix::Watch), _) if part => Vec::new(),
        (Some(Prefix::Watch), Shape::AllNamespaces) if named => Vec::new(),
        (Some(Prefix::Watch), _) => offered(&[("watch", Method::GET)]),
        (None, Shape::AllNamespaces) if named || part => Vec::new(),
        (None, Shape::AllNamespaces) => offered(&COLLECTION[..1]),
        (None, Shape::Home) if part => part_methods(resource, info),
        (None, Shape::Home) if named => offered(&OBJECT),
        (None, Shape::Home) => offered(&COLLECTION),
    }
}

fn part_methods(resource: &Resource, info: &Info) -> Vec<Method> {
    // What lies behind a proxy has paths of its own, and any method.
    let proxy = info.subresource == "proxy";
    if info.deeper && !proxy {
        return Vec::new();
    }
    if rollback::is_asked(resource, &info.subresource) {
        return vec![Method::POST];
    }
    let Some(part) = resource.subresource(&info.subresource) else { return Vec::new() };
    let mut methods: Vec<Method> = part.verbs.iter().filter_map(|verb| method_of(verb)).collect();
    if proxy {
        methods.extend([Method::HEAD, Method::OPTIONS]);
    }
    methods
}

fn method_of(verb: &str) -> Option<Method> {
    Some(match verb {
        "get" => Method::GET,
        "create" => Method::POST,
        "update" => Method::PUT,
        "patch" => Method::PATCH,
        "delete" => Method::DELETE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: Method, path: &str) -> Result<(), NoRoute> {
        let info = Info::parse(&method, path, false);
        find(&Catalog::default(), &info, &method).map(|_| ())
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD];
        let taken: Vec<String> = methods
            .into_iter()
            .filter_map(|method| match found(method.clone(), path) {
                Ok(()) => Some(method.to_string()),
                Err(NoRoute::OtherMethods) => None,
                Err(other) => Some(format!("{other:?}")),
            })
            .collect();
        let mut taken = taken;
        taken.dedup();
        assert_eq!(taken.join(" "), expected, "{path}");
    }

    #[test]
    fn a_cluster_scoped_resource_has_no_address_below_a_namespace() {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        check(&format!("{RBAC}/clusterrolebindings"), "GET POST DELETE");
        check(&format!("{RBAC}/clusterrolebindings/a"), "GET PUT PATCH DELETE");
        check(&format!("{RBAC}/namespaces/tenant/clusterrolebindings"), "NoResource");
        check(&format!("{RBAC}/namespaces/tenant/clusterrolebindings/a"), "NoResource");
        check(&format!("{RBAC}/namespaces//clusterrolebindings"), "NoResource");
        check(&format!("{RBAC}/watch/namespaces/tenant/clusterrolebindings"), "NoResource");
        check("/api/v1/namespaces/tenant/nodes/a/status", "NoResource");
        check("/api/v1/namespaces/tenant/nodes/a/proxy/b", "NoResource");
    }

    #[test]
    fn a_namespaced_resource_is_only_read_across_all_namespaces() {
        check("/api/v1/namespaces/a/configmaps", "GET POST DELETE");
        check("/api/v1/configmaps", "GET");
        check("/api/v1/namespaces//configmaps", "GET");
        check("/api/v1/watch/configmaps", "GET");
        check("/api/v1/configmaps/a", "NoResource");
        check("/api/v1/pods/a/status", "NoResource");
        check("/api/v1/watch/configmaps/a", "NoResource");
        check("/api/v1/bindings", "NoResource");
    }

    #[test]
    fn a_namespace_is_found_by_its_own_path_alone() {
        check("/api/v1/namespaces", "GET POST");
        check("/api/v1/namespaces/a", "GET PUT PATCH DELETE");
        check("/api/v1/namespaces/a/status", "GET PUT PATCH");
        check("/api/v1/namespaces/a/finalize", "PUT");
        check("/api/v1/namespaces/a/finalize/b", "NoResource");
        check("/api/v1/namespaces/a/namespaces", "NoResource");
        check("/api/v1/namespaces/a/namespaces/a", "NoResource");
        check("/api/v1/namespaces/a/nonsense", "NoResource");
        check("/api/v1/watch/namespaces/a", "GET");
        check("/apis/apps/v1/namespaces/a", "NoResource");
    }

    #[test]
    fn parts_are_those_that_there_are() {
        check("/api/v1/namespaces/a/pods/b/status", "GET PUT PATCH");
        check("/api/v1/namespaces/a/pods/b/status/c", "NoResource");
        check("/api/v1/namespaces/a/pods/b/nonsense", "NoResource");
        check("/api/v1/namespaces/a/pods/b/eviction", "POST");
        check("/api/v1/namespaces/a/pods/b/proxy/c/d", "GET POST PUT PATCH DELETE HEAD");
        check("/api/v1/namespaces/a/pods//status", "NoName");
        check("/api/v1/watch/namespaces/a/pods/b/status", "NoResource");
        check("/api/v1/proxy/namespaces/a/pods/b", "NoResource");
    }

    #[test]
    fn what_no_api_serves_is_nobodys() {
        check("/apis/none.io/v1/things", "NoApi");
        check("//api/v1/pods", "NoApi");
        check("/apis/apps/v9/deployments", "NoResource");
    }
}
