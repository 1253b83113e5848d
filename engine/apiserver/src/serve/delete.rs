//! Delete: at once, after a grace period, or when the last finalizer is gone.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::call::{Call, store_form};
use super::object::{metadata, text};
use super::respond::Reply;
use super::select::Selection;
use super::{admit, crds, incoming, services, write};

use crate::catalog;
use crate::context::rfc3339;
use crate::field;
use crate::schema::decode::decode_json;
use crate::schema::raw::Json;
use crate::status::{Error, GroupResource, Result};
use crate::store::{CommitError, Entry, Expect, ListAt, ListQuery, Op};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
                           propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
                           this warning";

/// What a deletion asks for, from its body or its query.
#[derive(Debug, Clone, Default)]
struct Options {
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    propagation: Option<String>,
    orphan_dependents: Option<bool>,
    dependents: Dependents,
    dry_run: bool,
}

/// What becomes of an object's dependents when nobody says anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Dependents {
    #[default]
    Delete,
    /// Kinds that were there before garbage collection leave their dependents alone unless told otherwise.
    Orphan,
    /// Events have none, whatever is said: nobody would ever take away a finalizer that waits for them.
    None,
}

impl Dependents {
    fn of(call: &Call) -> Self {
        match &*call.resource.storage {
            _ if call.resource.custom.is_some() => Dependents::Delete,
            "batch/jobs" | "/replicationcontrollers" => Dependents::Orphan,
            "/events" | "events.k8s.io/events" => Dependents::None,
            _ => Dependents::Delete,
        }
    }
}

impl Options {
    fn parse(call: &Call, body: &[u8]) -> Result<Options> {
        let mut options = Options::default();
        // A body speaks for itself: what the query says then counts for nothing.
        if body.is_empty() {
            options.dry_run = call.query.dry_run("DeleteOptions")?;
            options.grace = call.query.number("gracePeriodSeconds")?;
            options.propagation = call.query.text("propagationPolicy").map(str::to_owned);
            options.orphan_dependents = call.query.switch("orphanDependents");
        } else {
            let parsed = incoming::parse(&call.headers, body, "v1", "DeleteOptions").map_err(|error| {
                match error.code {
                    400 => Error::bad_request(format!(
                        "couldn't get version/kind; json parse error: {}",
                        error.message
                    )),
                    _ => error,
                }
            })?;
            options.read(parsed.json)?;
        }
        options.validate()?;
        options.dependents = Dependents::of(call);
        // Less than nothing is a moment.
        options.grace = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
        Ok(options)
    }

    fn read(&mut self, json: Json) -> Result<()> {
        let schema = catalog::builtin_definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let schema = schema.expect("DeleteOptions has a schema");
        let decoded = decode_json(&schema, json).map_err(|why| Error::bad_request(why.to_string()))?;
        let body = &decoded.value;
        let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            let version = body["apiVersion"].as_str().unwrap_or("v1");
            return Err(Error::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let word = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        self.grace = body["gracePeriodSeconds"].as_i64();
        self.uid = word(&body["preconditions"]["uid"]);
        self.revision = word(&body["preconditions"]["resourceVersion"]);
        self.propagation = word(&body["propagationPolicy"]);
        self.orphan_dependents = body["orphanDependents"].as_bool();
        let dry_run: Vec<&str> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if dry_run.iter().any(|value| *value != "All") {
            let path = field::Path::new("dryRun");
            let errors = [field::Error::not_supported(&path, json!(dry_run), &["All"])];
            return Err(Error::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        self.dry_run |= !dry_run.is_empty();
        Ok(())
    }

    fn validate(&self) -> Result<()> {
        let mut errors = Vec::new();
        let path = field::Path::new("propagationPolicy");
        if self.propagation.is_some() && self.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(field::Error::invalid(&path, self.propagation.clone(), why));
        }
        let known = ["Foreground", "Background", "Orphan", ""];
        if let Some(policy) = self.propagation.as_deref().filter(|policy| !known.contains(policy)) {
            errors.push(field::Error::not_supported(
                &path,
                policy,
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    /// What is asked for, as admission sees it: the same whether a body or a query said it.
    fn shown(&self) -> Value {
        let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut say = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                shown[name] = value;
            }
        };
        say("gracePeriodSeconds", self.grace.map(Value::from));
        let preconditions: Map<String, Value> = [("uid", &self.uid), ("resourceVersion", &self.revision)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())))
            .collect();
        say("preconditions", (!preconditions.is_empty()).then(|| preconditions.into()));
        say("orphanDependents", self.orphan_dependents.map(Value::from));
        say("propagationPolicy", self.propagation.clone().map(Value::from));
        say("dryRun", self.dry_run.then(|| json!(["All"])));
        shown
    }

    /// The finalizers an object gets for its dependents' sake, in place of those it had.
    fn dependents_finalizers(&self, object: &Value) -> Option<Vec<Value>> {
        let has = |name: &str| finalizers(object).any(|one| one == name);
        let waiting = || finalizers(object).find(|one| [ORPHAN, FOREGROUND].contains(one));
        let (orphan, foreground) = match (self.propagation.as_deref(), self.orphan_dependents) {
            _ if self.dependents == Dependents::None => (false, false),
            (Some("Orphan"), _) | (None, Some(true)) => (true, false),
            (Some("Foreground"), _) => (false, true),
            (Some(_), _) | (None, Some(false)) => (false, false),
            // What was asked for before stays; only then does the kind have a say.
            (None, None) => match waiting() {
                Some(before) => (before == ORPHAN, before == FOREGROUND),
                None => (self.dependents == Dependents::Orphan, false),
            },
        };
        if orphan == has(ORPHAN) && foreground == has(FOREGROUND) {
            return None;
        }
        let rest = finalizers(object).filter(|one| *one != ORPHAN && *one != FOREGROUND);
        let mut wanted: Vec<Value> = rest.map(Value::from).collect();
        wanted.extend(orphan.then(|| ORPHAN.into()));
        wanted.extend(foreground.then(|| FOREGROUND.into()));
        Some(wanted)
    }
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

pub(crate) async fn delete(call: &mut Call, body: Bytes) -> Result<Reply> {
    let options = Options::parse(call, &body)?;
    warn(call, &options);
    let name = call.info.name.clone();
    let (object, gone) = remove(call, &name, &options).await?;
    let whole = !gone || returns_object(call);
    if whole {
        return call.reply_value(StatusCode::OK, object);
    }
    let mut details = json!({"name": name, "kind": &*call.resource.plural, "uid": object["metadata"]["uid"]});
    if !call.resource.group.is_empty() {
        details["group"] = (*call.resource.group).into();
    }
    Ok(Reply::ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })))
}

fn warn(call: &mut Call, options: &Options) {
    let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
    if unsaid && &*call.resource.storage == "batch/jobs" {
        call.warnings.push(JOB_WARNING.to_owned());
    }
}

/// Some kinds answer with the object that is gone, most with a Status.
fn returns_object(call: &Call) -> bool {
    let resource = &call.resource;
    match &*resource.group {
        "" => matches!(
            &*resource.plural,
            "resourcequotas"
                | "persistentvolumes"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "namespaces"
                | "pods"
                | "services"
                | "podtemplates"
        ),
        "resource.k8s.io" => true,
        "storage.k8s.io" => &*resource.plural != "csistoragecapacities",
        _ => false,
    }
}

/// Marks an object for deletion or removes it; tells which, with the object's last state.
async fn remove(call: &mut Call, name: &str, options: &Options) -> Result<(Value, bool)> {
    // Whoever has a say in the deletion of many is told of each, but not by name.
    let named = call.info.name.clone();
    loop {
        let entry = call.entry(name)?;
        let current = call.value(entry.revision, &entry.body);
        check_preconditions(call, name, options, &current)?;
        admit::delete(call, &named, &current, &options.shown(), options.dry_run).await?;
        match remove_once(call, name, options, &entry, &current).await? {
            Some(done) => return Ok(done),
            None => continue,
        }
    }
}

fn check_preconditions(call: &Call, name: &str, options: &Options, current: &Value) -> Result<()> {
    if &*call.resource.storage == "/namespaces" {
        return check_namespace_preconditions(call, name, options, current);
    }
    // The kind stands where the resource is expected, as on a stock server.
    let kind = GroupResource::new(&call.resource.group, &call.resource.kind);
    let checks = [
        ("UID", "uid", &options.uid, "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", &options.revision, "modified"),
    ];
    for (word, key, wanted, what) in checks {
        let stored = text(current, &["metadata", key]);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != stored) {
            let why = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({stored}). The object might have been {what}"
            );
            return Err(Error::conflict(&kind, name, &why));
        }
    }
    Ok(())
}

/// Namespaces have their own words for it.
fn check_namespace_preconditions(call: &Call, name: &str, options: &Options, current: &Value) -> Result<()> {
    let checks = [("UID", "uid", &options.uid), ("ResourceVersion", "resourceVersion", &options.revision)];
    for (word, key, wanted) in checks {
        let stored = text(current, &["metadata", key]);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != stored) {
            let why = format!(
                "Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {stored}"
            );
            return Err(Error::conflict(&call.resource.group_resource(), name, &why));
        }
    }
    Ok(())
}

/// One attempt; nothing when somebody else changed the object meanwhile.
async fn remove_once(
    call: &Call,
    name: &str,
    options: &Options,
    entry: &Entry,
    current: &Value,
) -> Result<Option<(Value, bool)>> {
    let mut object = current.clone();
    let grace = grace_period(call, options, current);
    let mut marked = false;
    if let Some(wanted) = options.dependents_finalizers(current) {
        marked = true;
        match wanted.is_empty() {
            true => metadata(&mut object).remove("finalizers"),
            false => metadata(&mut object).insert("finalizers".into(), wanted.into()),
        };
    }
    if crds::is_definition(call) {
        crds::mark_going(&call.server, &mut object);
    }
    let held = finalizers(&object).next().is_some() || namespace_holds(call, &object) || grace > 0;
    let key = call.key(name);
    if !held {
        // A pod that goes at once has had its grace, and everybody is told so first.
        let running = current["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        let begun = !text(current, &["metadata", "deletionTimestamp"]).is_empty();
        if &*call.resource.storage == "/pods" && (running || !begun) {
            mark(call, &mut object, 0);
            marked = true;
        }
        if options.dry_run {
            return Ok(Some((object, true)));
        }
        let mut ops = Vec::new();
        if marked {
            ops.push(Op::Put {
                key: key.clone(),
                expect: Expect::Revision(entry.revision),
                body: store_form(&call.resource, &object),
                labels: write::labels(&object),
            });
        }
        ops.push(Op::Delete { key, revision: (!marked).then_some(entry.revision) });
        let last = ops.len() - 1;
        ops.extend(services::release(call, current));
        return match call.server.store.commit(ops).await {
            Ok(committed) => {
                metadata(&mut object)
                    .insert("resourceVersion".into(), committed.revisions[last].to_string().into());
                Ok(Some((if returns_object(call) { object } else { current.clone() }, true)))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(error) => Err(write::commit_failed(&error)),
        };
    }
    mark(call, &mut object, grace);
    let body = store_form(&call.resource, &object);
    if options.dry_run || *body == *entry.body {
        return Ok(Some((object, false)));
    }
    let op = Op::Put { key, expect: Expect::Revision(entry.revision), body, labels: write::labels(&object) };
    match call.server.store.commit(vec![op]).await {
        Ok(committed) => {
            metadata(&mut object).insert("resourceVersion".into(), committed.revisions[0].to_string().into());
            Ok(Some((object, false)))
        }
        Err(CommitError::Conflict { .. }) => Ok(None),
        Err(error) => Err(write::commit_failed(&error)),
    }
}

/// A namespace is marked first, and stays until the namespace controller has emptied it.
fn namespace_holds(call: &Call, object: &Value) -> bool {
    &*call.resource.storage == "/namespaces"
        && (text(object, &["metadata", "deletionTimestamp"]).is_empty()
            || object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()))
}

/// Only pods have a grace period; one that no node has taken goes at once.
fn grace_period(call: &Call, options: &Options, current: &Value) -> i64 {
    if &*call.resource.storage != "/pods" {
        return 0;
    }
    let phase = text(current, &["status", "phase"]);
    if text(current, &["spec", "nodeName"]).is_empty() || matches!(phase, "Failed" | "Succeeded") {
        return 0;
    }
    let wanted = options.grace.or_else(|| current["spec"]["terminationGracePeriodSeconds"].as_i64());
    // A pod may have less than nothing from a time when that was not looked at.
    let wanted = wanted.map_or(30, |seconds| if seconds < 0 { 1 } else { seconds });
    // A deletion that is under way can only be hastened.
    match current["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(running) if !text(current, &["metadata", "deletionTimestamp"]).is_empty() => wanted.min(running),
        _ => wanted,
    }
}

/// Says in the object that it is going, and by when.
fn mark(call: &Call, object: &mut Value, grace: i64) {
    let now = call.server.context.now();
    let end = now + jiff::SignedDuration::from_secs(grace);
    if crds::is_definition(call) {
        // CRDs have a way of their own: no grace, no new generation.
        metadata(object).entry("deletionTimestamp").or_insert_with(|| rfc3339(end).into());
        return;
    }
    // So have namespaces.
    if &*call.resource.storage == "/namespaces" {
        metadata(object).entry("deletionTimestamp").or_insert_with(|| rfc3339(end).into());
        object["status"]["phase"] = "Terminating".into();
        return;
    }
    let has_generation = call.strategy().generation != crate::kinds::Generation::Never;
    let metadata = metadata(object);
    let started = metadata.contains_key("deletionTimestamp");
    let running = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if !started || running.is_some_and(|running| grace < running) {
        metadata.insert("deletionTimestamp".into(), rfc3339(end).into());
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    // The first mark counts as a change of what is wanted.
    if !started && (has_generation || metadata.contains_key("generation")) {
        let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
        metadata.insert("generation".into(), (generation + 1).into());
    }
}

/// Deletes all that the selectors choose; each deletion stands alone.
pub(crate) async fn delete_collection(call: &mut Call, body: Bytes) -> Result<Reply> {
    let options = Options::parse(call, &body)?;
    warn(call, &options);
    let selection = Selection::parse(call, |_| Ok(()))?;
    let namespace = Some(call.namespace().to_owned()).filter(|one| !one.is_empty());
    let storage = call.resource.storage.clone();
    let query = ListQuery { namespace: namespace.as_deref(), at: ListAt::Latest, ..ListQuery::all(&storage) };
    let found = call.server.store.list_filtered(&query, &mut |item| selection.matches(call, item));
    let found = found.map_err(|_| Error::internal("the current state could not be read"))?;
    let asked = call.info.namespace.clone();
    let mut items = Vec::with_capacity(found.items.len());
    for item in &found.items {
        // Without a namespace in the address, objects of all of them go.
        call.info.namespace = item.namespace.to_string();
        match remove(call, &item.name, &options).await {
            Ok(_) => items.push(call.printed(item.entry.revision, &item.entry.body)),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    call.info.namespace = asked;
    if call.resource.custom.is_none() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if call.resource.custom.is_some() {
        metadata["continue"] = "".into();
    }
    Ok(Reply::ok(super::print::list(call, items.into_iter(), metadata)?))
}
