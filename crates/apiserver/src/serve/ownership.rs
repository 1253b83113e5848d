//! Who owns which fields: what server-side apply needs to know of a request.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::Inner;
use super::call::{Call, strategy};
use super::parts::Part;
use crate::apply::{self, FieldSet, Force};
use crate::catalog::{Resource, group_version};
use crate::schema::Schema;
use crate::status::Result;

/// A request's writer and the kind it writes; apart from the request, so that a change that is tried
/// again can hold it.
pub(crate) struct Ownership {
    schema: Schema,
    api_version: String,
    kind: Arc<str>,
    versions: Vec<String>,
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
        let catalog = server.catalog();
        let group = catalog.group(&resource.group);
        let versions = group.into_iter().flat_map(|group| &group.versions);
        Ownership {
            schema: resource.schema().unwrap_or_else(Schema::anything),
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            versions: versions.map(|version| group_version(&resource.group, &version.name)).collect(),
            reset: reset_fields(resource, part),
            manager,
            subresource: part.subresource(),
            now: server.context.now(),
        }
    }

    /// Records in `new` what the writer of an ordinary write owns from now on.
    pub(crate) fn update(&self, current: Option<&Value>, new: &mut Value) {
        self.with(|kind, writer| apply::update(kind, current, new, writer));
        if let Some(current) = current {
            apply::keep_times(current, new);
        }
        // Scaling is recorded without a time, for no reason that anyone remembers.
        if self.subresource == "scale" {
            let entries = new["metadata"]["managedFields"].as_array_mut();
            for entry in entries.into_iter().flatten().filter(|entry| entry["subresource"] == "scale") {
                entry.as_object_mut().map(|entry| entry.remove("time"));
            }
        }
    }

    /// The live object with a configuration applied, managed fields included, defaults not yet.
    pub(crate) fn apply(&self, live: Option<&Value>, config: &Value, force: Force) -> Result<Value> {
        Ok(self.with(|kind, writer| apply::apply(kind, live, config, writer, force))?)
    }

    fn with<T>(&self, run: impl FnOnce(&apply::Kind<'_>, &apply::Writer<'_>) -> T) -> T {
        let versions: Vec<&str> = self.versions.iter().map(String::as_str).collect();
        let kind = apply::Kind {
            schema: &self.schema,
            api_version: &self.api_version,
            kind: &self.kind,
            versions: &versions,
            reset: &self.reset,
        };
        run(&kind, &apply::Writer { name: &self.manager, subresource: self.subresource, now: self.now })
    }
}

/// Fields that a write of this part does not set, so that nobody owns them for it.
fn reset_fields(resource: &Resource, part: Part) -> FieldSet {
    match part {
        part if part.is_whole() && strategy(resource).status => FieldSet::of(&["status"]),
        part if part.is_whole() => FieldSet::new(),
        Part::Binding => FieldSet::new(),
        Part::Status if resource.custom.is_some() => FieldSet::of(&["spec", "metadata"]),
        _ if &*resource.kind == "Deployment" => FieldSet::of(&["spec", "metadata.labels"]),
        Part::PodSpec => FieldSet::of(&["status"]),
        _ => FieldSet::of(&["spec"]),
    }
}
