//! Who owns which fields: what server-side apply needs to know of a request.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::Inner;
use super::call::{Call, strategy};
use super::parts::Part;
use crate::apply::{self, FieldSet, Force};
use crate::catalog::{Resource, group_version};
use crate::kinds;
use crate::schema::Schema;
use crate::status::Result;

/// A request's writer and the kind it writes; apart from the request, so that a change that is tried
/// again can hold it.
pub(crate) struct Ownership {
    schema: Schema,
    api_version: String,
    kind: Arc<str>,
    versions: Versions,
    reset: FieldSet,
    manager: String,
    subresource: &'static str,
    now: Timestamp,
}

impl Ownership {
    /// The writer of a request.
    pub(crate) fn of(call: &Call, part: Part) -> Ownership {
        Ownership::by(&call.server, &call.resource, call.field_manager(), part)
    }

    /// Any writer, the server itself included.
    pub(crate) fn by(server: &Inner, resource: &Resource, manager: String, part: Part) -> Ownership {
        Ownership {
            schema: resource.schema().unwrap_or_else(Schema::anything),
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            versions: Versions::of(server, resource),
            reset: reset_fields(resource, part),
            manager,
            subresource: part.subresource(),
            now: server.context.now(),
        }
    }

    /// Records in `new` what the writer of an ordinary write owns from now on.
    pub(crate) fn update(&self, current: Option<&Value>, new: &mut Value) {
        self.with(|kind, writer| apply::update(kind, current, new, writer));
    }

    /// The live object with a configuration applied, managed fields included, defaults not yet.
    pub(crate) fn apply(&self, live: Option<&Value>, config: &Value, force: Force) -> Result<Value> {
        Ok(self.with(|kind, writer| apply::apply(kind, live, config, writer, force))?)
    }

    fn with<T>(&self, run: impl FnOnce(&apply::Kind<'_>, &apply::Writer<'_>) -> T) -> T {
        let versions: Vec<&str> = self.versions.0.iter().map(|(name, _)| name.as_str()).collect();
        let kind = apply::Kind {
            schema: &self.schema,
            api_version: &self.api_version,
            kind: &self.kind,
            versions: &versions,
            elsewhere: Some(&self.versions),
            reset: &self.reset,
        };
        run(&kind, &apply::Writer { name: &self.manager, subresource: self.subresource, now: self.now })
    }
}

/// All versions that a resource is served in, by their full names. A group may have others, in which it is not.
struct Versions(Vec<(String, Option<Arc<Resource>>)>);

impl Versions {
    fn of(server: &Inner, resource: &Resource) -> Versions {
        let catalog = server.catalog();
        let versions = catalog.group(&resource.group).into_iter().flat_map(|group| &group.versions);
        let named = versions.map(|version| {
            let name = group_version(&resource.group, &version.name);
            (name, catalog.resource(&resource.group, &version.name, &resource.plural))
        });
        Versions(named.collect())
    }

    fn resource(&self, api_version: &str) -> Option<&Resource> {
        self.0.iter().find(|(name, _)| name == api_version)?.1.as_deref()
    }
}

impl std::fmt::Debug for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl apply::Elsewhere for Versions {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        self.resource(api_version).map(|resource| resource.schema().unwrap_or_else(Schema::anything))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let from = self.resource(object["apiVersion"].as_str().unwrap_or_default());
        let mut converted = match (from, self.resource(api_version)) {
            (Some(from), Some(to)) if from.custom.is_none() => kinds::convert::convert(
                &from.group,
                &from.version,
                &from.kind,
                object.clone(),
                &to.group,
                &to.version,
            ),
            _ => object.clone(),
        };
        converted["apiVersion"] = api_version.into();
        converted
    }

    fn resets(&self, api_version: &str) -> bool {
        // The strategy of a custom resource knows its own version alone.
        self.resource(api_version).is_some_and(|resource| resource.custom.is_none())
    }
}

/// Fields that a write of this part does not set, so that nobody owns them for it.
fn reset_fields(resource: &Resource, part: Part) -> FieldSet {
    match part {
        // A Scale by itself, or an object that is made from one.
        Part::Scale => FieldSet::new(),
        part if part.is_whole() && strategy(resource).status => FieldSet::of(&["status"]),
        part if part.is_whole() => FieldSet::new(),
        Part::Binding => FieldSet::new(),
        Part::Status if resource.custom.is_some() => FieldSet::of(&["spec", "metadata"]),
        _ if &*resource.kind == "Deployment" => FieldSet::of(&["spec", "metadata.labels"]),
        Part::EphemeralContainers | Part::Resize => FieldSet::of(&["status"]),
        _ => FieldSet::of(&["spec"]),
    }
}
