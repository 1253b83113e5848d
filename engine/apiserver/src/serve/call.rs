//! One request to a resource, with all that its handlers need.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::accept::{Accept, Form};
use super::info::Info;
use super::object::{self, Naming};
use super::pieces::Turns;
use super::query::Query;
use super::respond::Reply;
use super::{Inner, print};
use crate::auth::User;
use crate::catalog::{Custom, Resource};
use crate::kinds::{self, Strategy};
use crate::schema;
use crate::status::{Error, Result};
use crate::store::{Entry, Key};

/// One request, past authentication and authorisation.
pub(crate) struct Call {
    pub(crate) server: Arc<Inner>,
    pub(crate) info: Info,
    pub(crate) query: Query,
    pub(crate) accept: Accept,
    pub(crate) headers: HeaderMap,
    pub(crate) user: User,
    pub(crate) resource: Arc<Resource>,
    pub(crate) api_version: String,
    /// Collected for the response's `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Lists and maps that the body has, but with nothing in them. Decoding drops most.
    pub(crate) empties: Vec<(String, Value)>,
    /// Whether the request as a whole was admitted: what it does in turn is then not asked about again.
    pub(crate) admitted: bool,
    /// Where what is left to do while the answer is sent takes its turns; none without a socket.
    pub(crate) turns: Option<Turns>,
    /// Room in memory that a long answer takes until it is sent.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// The same request, to go on with while its answer is sent.
    pub(crate) fn detached(&self) -> Call {
        Call {
            server: self.server.clone(),
            info: self.info.clone(),
            query: self.query.clone(),
            accept: self.accept,
            headers: HeaderMap::new(),
            user: self.user.clone(),
            resource: self.resource.clone(),
            api_version: self.api_version.clone(),
            warnings: Vec::new(),
            empties: Vec::new(),
            admitted: self.admitted,
            turns: self.turns.clone(),
            room: None,
        }
    }

    pub(crate) fn naming(&self) -> Naming<'_> {
        Naming { kind: &self.resource.kind, api_version: &self.api_version }
    }

    pub(crate) fn strategy(&self) -> &'static Strategy {
        strategy(&self.resource)
    }

    /// The namespace that the objects lie in: none of a cluster-scoped resource, such as a Namespace, whatever the path.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.info.namespace } else { "" }
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.resource.storage.clone(), self.namespace(), name)
    }

    pub(crate) fn entry(&self, name: &str) -> Result<Arc<Entry>> {
        self.server.store.get(&self.key(name)).ok_or_else(|| self.not_found(name))
    }

    pub(crate) fn not_found(&self, name: &str) -> Error {
        Error::not_found(&self.resource.group_resource(), name)
    }

    /// The stored object as this version of the resource shows it.
    pub(crate) fn value(&self, revision: u64, body: &[u8]) -> Value {
        view(&self.resource, &self.api_version, revision, body)
    }

    /// As [`Call::value`], but where nothing has to be converted only these branches of it.
    pub(crate) fn branches(&self, revision: u64, body: &[u8], paths: &[Vec<String>]) -> Value {
        if self.resource.custom.is_none() && stored_as_served(&self.resource, revision) {
            return object::branches(revision, body, paths);
        }
        self.value(revision, body)
    }

    /// The stored object as what the client asked for is made of. A Table of autoscalers shows the order of
    /// metrics, which only the stored version has, and metadata alone is that of the stored version as well.
    pub(crate) fn printed(&self, revision: u64, body: &[u8]) -> Value {
        if self.accept.form != Form::Whole
            && &*self.resource.storage == "autoscaling/horizontalpodautoscalers"
        {
            return object::decode(Some(self.naming()), revision, body);
        }
        self.value(revision, body)
    }

    /// The name under which a writer's fields are remembered.
    pub(crate) fn field_manager(&self) -> String {
        if let Some(name) = self.query.text("fieldManager") {
            return name.to_owned();
        }
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or("");
        let name = agent.split('/').next().unwrap_or("");
        if name.is_empty() { "unknown".to_owned() } else { name.chars().take(128).collect() }
    }

    /// One object, in the form the client asked for.
    pub(crate) fn reply(&self, code: http::StatusCode, revision: u64, body: &[u8]) -> Result<Reply> {
        if self.accept.form == Form::Whole && stored_as_served(&self.resource, revision) {
            let mut text = Vec::with_capacity(body.len() + 128);
            object::render(&mut text, Some(self.naming()), revision, body);
            text.push(b'\n');
            return Ok(Reply::Text(code, text));
        }
        self.reply_value(code, self.printed(revision, body))
    }

    /// One object that is at hand as a value.
    pub(crate) fn reply_value(&self, code: http::StatusCode, value: Value) -> Result<Reply> {
        Ok(Reply::Value(code, print::object(self, value)?))
    }
}

/// The strategy of a resource, built-in or custom.
pub(crate) fn strategy(resource: &Resource) -> &'static Strategy {
    static CUSTOM: Strategy =
        Strategy { generation: kinds::Generation::Spec, unconditional_update: false, ..Strategy::PLAIN };
    static CUSTOM_WITH_STATUS: Strategy = Strategy {
        status: true,
        generation: kinds::Generation::Spec,
        unconditional_update: false,
        ..Strategy::PLAIN
    };
    match &resource.custom {
        None => kinds::strategy(&resource.group, &resource.kind),
        Some(custom) if custom.version().status => &CUSTOM_WITH_STATUS,
        Some(_) => &CUSTOM,
    }
}

/// Whether the stored text can be sent as it is: no other version, no defaults to fill in on reading, and of a custom
/// resource nothing that its schema has lost since the object was `written`.
pub(crate) fn stored_as_served(resource: &Resource, written: u64) -> bool {
    match &resource.custom {
        None => builtin_as_served(resource),
        Some(custom) => {
            let stored = custom.crd.storage();
            written > custom.crd.since
                && stored.is_some_and(|stored| !stored.has_defaults && stored.name == *resource.version)
        }
    }
}

fn builtin_as_served(resource: &Resource) -> bool {
    !defaults_on_reading(resource)
        && kinds::convert::storage(&resource.group, &resource.kind)
            .is_none_or(|(group, version)| group == &*resource.group && version == &*resource.version)
}

/// Claims are stored without their first phase.
fn defaults_on_reading(resource: &Resource) -> bool {
    resource.custom.is_none() && &*resource.storage == "/persistentvolumeclaims"
}

/// A stored object as one version of its resource shows it.
pub(crate) fn view(resource: &Resource, api_version: &str, revision: u64, body: &[u8]) -> Value {
    let naming = Naming { kind: &resource.kind, api_version };
    if stored_as_served(resource, revision) {
        return object::decode(Some(naming), revision, body);
    }
    if let Some(custom) = &resource.custom {
        return custom_view(custom, object::decode(Some(naming), revision, body));
    }
    match kinds::convert::storage(&resource.group, &resource.kind) {
        Some((group, version)) => {
            let stored = crate::catalog::group_version(group, version);
            let value = object::decode(Some(Naming { api_version: &stored, ..naming }), revision, body);
            kinds::convert::convert(group, version, &resource.kind, value, &resource.group, &resource.version)
        }
        None => {
            let mut value = object::decode(Some(naming), revision, body);
            (strategy(resource).default)(&mut value);
            value
        }
    }
}

/// A custom resource is stored under the schema of its time: what the stored version has lost since does not show, a
/// default that it got does, and nothing shows that the version asked for does not know.
fn custom_view(custom: &Custom, mut value: Value) -> Value {
    let stored = custom.crd.storage();
    if let Some(schema) = stored.and_then(|version| version.schema.as_ref()) {
        schema::prune::prune(schema, &mut value);
        schema::default::default(schema, &mut value);
    }
    let asked = custom.version();
    if let Some(schema) = asked.schema.as_ref().filter(|_| stored.is_none_or(|one| one.name != asked.name)) {
        schema::prune::prune(schema, &mut value);
    }
    value
}

/// The text to store of an object of one version of its resource.
pub(crate) fn store_form(resource: &Resource, object: &Value) -> Box<[u8]> {
    if resource.custom.is_none()
        && !builtin_as_served(resource)
        && let Some((group, version)) = kinds::convert::storage(&resource.group, &resource.kind)
    {
        let converted = kinds::convert::convert(
            &resource.group,
            &resource.version,
            &resource.kind,
            object.clone(),
            group,
            version,
        );
        return object::encode(&converted).into();
    }
    if let Some(stored) = resource.custom.as_ref().and_then(|custom| custom.crd.storage())
        && stored.name != *resource.version
        && let Some(schema) = &stored.schema
    {
        // What the stored version does not know is not stored.
        let mut pruned = object.clone();
        schema::prune::prune_with_nulls(schema, &mut pruned);
        return object::encode(&pruned).into();
    }
    let body = object::encode(object);
    // Few objects have an empty list that is written at all.
    if resource.custom.is_none()
        && body.windows(3).any(|part| part == b":[]")
        && let Some(schema) = resource.schema()
        && let Ok(decoded) = schema::decode::decode_stored(&schema, object.clone())
    {
        return object::encode(&decoded.value).into();
    }
    body.into()
}
