//! Admission: what else has a say before an object is stored. Stock plugins first, then policies, then webhooks.

use std::borrow::Cow;

use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::call::Call;
use super::object::{self, text};
use super::parts::{self, Part};
use super::query::FieldValidation;
use super::{Inner, creating, incoming, scale, webhooks};
use crate::admission::policy::mutating::{Turns, Typing as _};
use crate::admission::{self, Attributes, Lookup, Operation, Served, policy, webhook};
use crate::auth::identity::{User, service_account_groups, service_account_user};
use crate::auth::rbac::{self, Decision, authorize, check_binding, check_role};
use crate::catalog::{self, Resource};
use crate::cel::rights::{Account, Authority, Verdict, What};
use crate::schema::Schema;
use crate::schema::raw::Json;
use crate::status::{Error, Result};
use crate::store::{Key, ListQuery};

const VALIDATING: &str = "admissionregistration.k8s.io/validatingwebhookconfigurations";
const MUTATING: &str = "admissionregistration.k8s.io/mutatingwebhookconfigurations";

/// A write that is to be admitted.
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    pub(crate) part: Part,
    pub(crate) name: &'a str,
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    /// What a deletion asks for, by its body or its query, as `DeleteOptions`.
    pub(crate) deletion: Option<&'a Value>,
}

/// Changes what is about to be written, or refuses it. Whether rights are handed out that the writer lacks is asked of the
/// outcome, before anybody looks at whether it is valid.
pub(crate) async fn mutate(call: &mut Call, write: &Write<'_>, object: &mut Value) -> Result<()> {
    if call.admitted {
        return Ok(());
    }
    change(call, write, object).await?;
    check_escalation(call, object, write.old)
}

async fn change(call: &mut Call, write: &Write<'_>, object: &mut Value) -> Result<()> {
    let going = call.resource.custom.as_ref().is_some_and(|custom| custom.crd.terminating);
    if going && write.operation == Operation::Create {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Error::forbidden(&call.resource.group_resource(), write.name, why));
    }
    let (user, options) = (call.user.to_info(), options(call, write));
    let hooks = configurations(&call.server, MUTATING);
    let rights = Rights { server: &call.server, user: &call.user };
    let request = attributes(call, write, &user, &options, &rights);
    admission::mutate(&request, object, write.old, call.server.as_ref())?;
    let policies = call.server.policies();
    if hooks.is_empty() && policies.is_mutating_idle() {
        return Ok(());
    }
    let shape = creating::shape(&call.resource, write.part);
    let typing = Typing { shape: &shape, write };
    let mut turns = Turns::default();
    let before = (!policies.is_mutating_idle()).then(|| object.clone());
    let have_policies = |object: &mut Value, turns: &mut Turns| {
        policy::mutating::mutate(&request, object, write.old, &policies, call.server.as_ref(), &typing, turns)
    };
    have_policies(object, &mut turns)?;
    if !hooks.is_empty() {
        let ask = |target, body| webhooks::ask(call.server.clone(), target, body);
        let again = |changed| typing.again(changed);
        let given = object.take();
        let asked = webhook::mutate(&request, given, write.old, &hooks, call.server.as_ref(), ask, again);
        let (changed, outcome) = asked.await;
        *object = changed;
        call.warnings.extend(outcome.warnings);
        outcome.refusal.map_or(Ok(()), Err)?;
    }
    // What was changed may concern the plugins again, and the policies that ask for it.
    if before.is_some_and(|before| before != *object) {
        let request = attributes(call, write, &user, &options, &rights);
        admission::mutate(&request, object, write.old, call.server.as_ref())?;
        if turns.is_second_wanted() {
            turns.begin_second();
            policy::mutating::mutate(
                &request,
                object,
                write.old,
                &policies,
                call.server.as_ref(),
                &typing,
                &mut turns,
            )?;
        }
    }
    Ok(())
}

/// How what policies and webhooks change is typed.
struct Typing<'a> {
    shape: &'a Resource,
    write: &'a Write<'a>,
}

impl policy::mutating::Typing for Typing<'_> {
    fn schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        match &self.shape.custom {
            Some(_) => self.shape.schema(),
            None => catalog::builtin_schema(group, version, kind),
        }
    }

    fn again(&self, changed: Value) -> Result<Value> {
        taken_again(self.shape, self.write, changed)
    }
}

/// What a webhook returns is decoded and defaulted like what a client sends, but it is nobody's fault but the server's if
/// that fails. It changes no more than the request may.
fn taken_again(shape: &Resource, write: &Write<'_>, changed: Value) -> Result<Value> {
    let decoded = incoming::object(shape, Json::from(changed), FieldValidation::Ignore, &mut Vec::new());
    let mut object = decoded.map_err(|error| Error::internal(error.message))?;
    if let (false, Some(old)) = (write.part.is_whole(), write.old) {
        parts::keep_the_rest(write.part, shape, &mut object, old);
    }
    Ok(object)
}

/// Held from the look at what a quota leaves until what uses it is stored, so that two do not use the same.
pub(crate) type Turn = Option<OwnedMutexGuard<()>>;

/// Refuses what may not be written. `object` is nothing for a deletion. What comes back is to be held until it is stored.
pub(crate) async fn validate(call: &mut Call, write: &Write<'_>, object: Option<&Value>) -> Result<Turn> {
    if call.admitted {
        return Ok(None);
    }
    let (user, options) = (call.user.to_info(), options(call, write));
    let hooks = configurations(&call.server, VALIDATING);
    let rights = Rights { server: &call.server, user: &call.user };
    if let Some(object) = object {
        let request = attributes(call, write, &user, &options, &rights);
        admission::validate(&request, object, write.old, call.server.as_ref())?;
        let said = admission::warnings(&request, object, write.old, call.server.as_ref());
        call.warnings.extend(said);
    }
    let policies = call.server.policies();
    let (shown, old) = (shown(call, write, object), shown(call, write, write.old));
    let (shown, old) = (shown.as_deref(), old.as_deref());
    if !policies.is_idle() {
        let request = attributes(call, write, &user, &options, &rights);
        let said = policy::validate(&request, shown, old, &policies, call.server.as_ref());
        call.warnings.extend(said.warnings);
        said.refusal.map_or(Ok(()), Err)?;
    }
    let request = attributes(call, write, &user, &options, &rights);
    if !hooks.is_empty() {
        let ask = |target, body| webhooks::ask(call.server.clone(), target, body);
        let asked = webhook::validate(&request, shown, old, &hooks, call.server.as_ref(), ask);
        let outcome = asked.await;
        call.warnings.extend(outcome.warnings);
        outcome.refusal.map_or(Ok(()), Err)?;
    }
    let Some(object) = object else { return Ok(None) };
    let request = attributes(call, write, &user, &options, &rights);
    let turn = match admission::is_quota_asked(&request, object, write.old) {
        true => turn(&call.server, &call.info.namespace).await,
        false => None,
    };
    admission::check_quota(&request, object, write.old, call.server.as_ref())?;
    Ok(turn)
}

/// An object as policies and webhooks see it: where its number of replicas is written, they see a Scale.
fn shown<'a>(call: &Call, write: &Write<'_>, object: Option<&'a Value>) -> Option<Cow<'a, Value>> {
    object.map(|object| match write.part {
        Part::Scale => Cow::Owned(scale::shown(&call.resource, object)),
        _ => Cow::Borrowed(object),
    })
}

/// Only where there is a quota does anybody wait for others.
async fn turn(server: &Inner, namespace: &str) -> Turn {
    if server.list("", "resourcequotas", namespace).is_empty() {
        return None;
    }
    Some(server.quotas.clone().lock_owned().await)
}

/// A deletion is refused, but never changed.
pub(crate) async fn delete(
    call: &mut Call,
    name: &str,
    current: &Value,
    asked: &Value,
    dry_run: bool,
) -> Result<()> {
    if call.admitted {
        return Ok(());
    }
    let write = Write {
        operation: Operation::Delete,
        part: Part::Whole,
        name,
        old: Some(current),
        dry_run,
        deletion: Some(asked),
    };
    let (user, options) = (call.user.to_info(), options(call, &write));
    let rights = Rights { server: &call.server, user: &call.user };
    let request = attributes(call, &write, &user, &options, &rights);
    admission::mutate(&request, &mut Value::Null, Some(current), call.server.as_ref())?;
    validate(call, &write, None).await.map(drop)
}

/// Nobody hands out rights that they do not have.
fn check_escalation(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    if &*call.resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let request = super::attributes(&call.info, &call.user);
    let rules = call.server.rules();
    match &*call.resource.kind {
        "Role" | "ClusterRole" => check_role(&request, object, old, &*rules),
        _ => check_binding(&request, object, old, &*rules),
    }
}

fn configurations(server: &Inner, resource: &str) -> Vec<Value> {
    let found = server.store.list(&ListQuery::all(resource));
    let items = found.into_iter().flat_map(|found| found.items);
    items.map(|item| object::of_entry(None, &item.entry)).collect()
}

/// The options of the request, as reviews show them.
fn options(call: &Call, write: &Write<'_>) -> Value {
    if let Some(deletion) = write.deletion {
        return deletion.clone();
    }
    let kind = match (write.operation, call.info.verb) {
        (Operation::Create, _) => "CreateOptions",
        (_, "patch") => "PatchOptions",
        _ => "UpdateOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for key in ["fieldManager", "fieldValidation"] {
        if let Some(value) = call.query.text(key) {
            options[key] = value.into();
        }
    }
    if write.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

fn attributes<'a>(
    call: &'a Call,
    write: &Write<'a>,
    user: &'a Value,
    options: &'a Value,
    rights: &'a Rights<'a>,
) -> Attributes<'a> {
    Attributes {
        operation: write.operation,
        group: &call.resource.group,
        version: &call.resource.version,
        resource: &call.resource.plural,
        kind: &call.resource.kind,
        subresource: write.part.subresource(),
        namespace: &call.info.namespace,
        name: write.name,
        user,
        dry_run: write.dry_run,
        options,
        context: &call.server.context,
        authority: rights,
    }
}

/// What whoever asks may do, and what service accounts may.
struct Rights<'a> {
    server: &'a Inner,
    user: &'a User,
}

impl Authority for Rights<'_> {
    fn decide(&self, account: Option<Account<'_>>, what: &What<'_>) -> Verdict {
        let account = account.map(|(namespace, name)| User {
            name: service_account_user(namespace, name),
            groups: service_account_groups(namespace),
            ..User::default()
        });
        let user = account.as_ref().map_or(self.user, |account| account);
        let asked = match *what {
            What::Path { path, verb } => rbac::Attributes::path(user, verb, path),
            What::Resource { group, resource, subresource, namespace, name, verb } => rbac::Attributes {
                subresource,
                namespace,
                name,
                ..rbac::Attributes::resource(user, verb, group, resource)
            },
        };
        match authorize(&asked, &*self.server.rules()) {
            Decision::Allow { reason } => Verdict { allowed: true, reason },
            Decision::NoOpinion { reason } => Verdict { allowed: false, reason },
        }
    }
}

impl Lookup for Inner {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(format!("{group}/{resource}"), namespace, name);
        self.store.get(&key).map(|entry| object::of_entry(None, &entry))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        let resource = format!("{group}/{resource}");
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let found = self.store.list(&ListQuery { namespace, ..ListQuery::all(&resource) });
        let items = found.into_iter().flat_map(|found| found.items);
        items.map(|item| object::of_entry(None, &item.entry)).collect()
    }

    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Served> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.catalog().resource_of_kind(group, version, kind)?;
        let (group, resource) = (found.group.to_string(), found.plural.to_string());
        Some(Served { group, resource, namespaced: found.namespaced })
    }
}

/// Where in the cluster a webhook's Service answers: the first ready endpoint of its port.
pub(crate) fn service_address(
    server: &Inner,
    namespace: &str,
    name: &str,
    port: u16,
) -> std::result::Result<String, String> {
    let service = Lookup::get(server, "", "services", namespace, name)
        .ok_or_else(|| format!("service {name:?} not found"))?;
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let chosen = ports.clone().find(|one| one["port"].as_u64() == Some(port.into()));
    let chosen = chosen.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = text(chosen, &["name"]);
    for slice in server.list("discovery.k8s.io", "endpointslices", namespace) {
        if slice["metadata"]["labels"]["kubernetes.io/service-name"] != name {
            continue;
        }
        let ports = slice["ports"].as_array().into_iter().flatten();
        let target = ports.clone().find(|one| text(one, &["name"]) == port_name);
        let ready = slice["endpoints"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["conditions"]["ready"].as_bool().unwrap_or(true));
        if let (Some(number), Some(address)) = (
            target.and_then(|target| target["port"].as_u64()),
            ready.and_then(|ready| ready["addresses"][0].as_str()),
        ) {
            return Ok(format!("{address}:{number}"));
        }
    }
    Err(format!("no endpoints available for service {name:?}"))
}
