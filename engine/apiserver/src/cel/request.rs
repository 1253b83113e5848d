//! Expressions about whole requests, as admission policies and the conditions of webhooks have them.
//!
//! Objects have no schema here: an expression sees them as they are written, and finds out only when it is
//! evaluated what is in them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use super::ast::Expr;
use super::checker::Messages;
use super::eval::{Scope, evaluate};
use super::library::rights::{Authority, Resource, Right, Who};
use super::message;
use super::meter::Budget;
use super::program;
use super::room;
use super::types::{Object, Type};
use super::value::{Key, Map, Value};

/// What an expression may use.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    params: bool,
    authorizer: bool,
    /// The types of `variables.NAME`, if there are any.
    variables: Option<BTreeMap<String, Type>>,
}

/// What an expression must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Bool,
    Text,
    TextOrNull,
    /// A configuration to be applied, `Object{…}`.
    Configuration,
    /// A list of `JSONPatch{…}`.
    Patch,
    Anything,
}

/// An expression that compiles.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    expr: Expr,
    of: Type,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uncompiled {
    pub(crate) why: String,
    /// Whether the server could not make a program of what is well written.
    pub(crate) internal: bool,
}

/// What an expression came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Bool(bool),
    Text(String),
    /// Anything else.
    Other,
}

impl Known {
    /// `object`, `oldObject`, `request`, `namespaceObject`, and as told `params` and `authorizer`.
    pub(crate) fn new(params: bool, authorizer: bool) -> Self {
        Known { params, authorizer, variables: None }
    }

    /// The same with `variables`, of which there are none yet.
    pub(crate) fn with_variables(self) -> Self {
        Known { variables: Some(BTreeMap::new()), ..self }
    }

    /// The same without `authorizer`.
    pub(crate) fn without_authorizer(&self) -> Self {
        Known { authorizer: false, ..self.clone() }
    }

    /// Lets later expressions use `variables.NAME`; one that did not compile may be anything.
    pub(crate) fn add(&mut self, name: &str, expression: Option<&Expression>) {
        let of = expression.map_or(Type::Dyn, |expression| expression.of.clone());
        self.variables.get_or_insert_default().insert(name.to_owned(), of);
    }

    /// Compiles an expression that uses nothing else.
    pub(crate) fn compile(&self, source: &str, wanted: Wanted) -> Result<Expression, Uncompiled> {
        room::with_room(room::levels(source), || self.compile_here(source, wanted))
    }

    fn compile_here(&self, source: &str, wanted: Wanted) -> Result<Expression, Uncompiled> {
        let refused = |why| Uncompiled { why, internal: false };
        let messages = match wanted {
            Wanted::Configuration | Wanted::Patch => Messages::Known,
            _ => Messages::Unknown,
        };
        let (expr, checked) = program::compile_with(source, &self.types(), messages)
            .map_err(|why| refused(format!("compilation failed: {why}")))?;
        let of = checked.of;
        let fits = match wanted {
            Wanted::Bool => matches!(of, Type::Bool),
            Wanted::Text => matches!(of, Type::String),
            Wanted::TextOrNull => matches!(of, Type::String | Type::Null),
            Wanted::Configuration => of.same(&Type::Message(message::OBJECT.into())),
            Wanted::Patch => of.same(&Type::list(Type::Message(message::PATCH.into()))),
            Wanted::Anything => true,
        };
        if !fits {
            let wanted = match wanted {
                Wanted::Bool => "bool",
                Wanted::Text => "string",
                Wanted::Configuration => message::OBJECT,
                Wanted::Patch => "list(JSONPatch)",
                _ => "one of [string null_type]",
            };
            return Err(refused(format!("must evaluate to {wanted} but got {of}")));
        }
        program::constants(&expr)
            .map_err(|why| Uncompiled { why: format!("program {why}"), internal: true })?;
        Ok(Expression { source: source.to_owned(), expr, of })
    }

    fn types(&self) -> Vec<(&'static str, Type)> {
        let opaque = |name| Type::Opaque(name, Vec::new());
        let mut types = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("namespaceObject", namespace_type()),
            ("request", request_type()),
        ];
        if self.params {
            types.push(("params", Type::Dyn));
        }
        if self.authorizer {
            types.push(("authorizer", opaque("kubernetes.authorization.Authorizer")));
            types.push(("authorizer.requestResource", opaque("kubernetes.authorization.ResourceCheck")));
        }
        if let Some(variables) = &self.variables {
            let name = "kubernetes.variables".to_owned();
            types.push(("variables", Type::Object(Arc::new(Object { name, fields: variables.clone() }))));
        }
        types
    }
}

impl Expression {
    /// How deep it is.
    pub(crate) fn depth(&self) -> usize {
        self.expr.depth
    }
}

/// What a request is about.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// As an AdmissionReview tells it, without the objects.
    pub(crate) request: &'a Json,
    pub(crate) object: Option<&'a Json>,
    pub(crate) old: Option<&'a Json>,
    pub(crate) namespace: Option<&'a Json>,
    pub(crate) params: Option<&'a Json>,
    pub(crate) authority: &'a dyn Authority,
}

/// Does work with facts that may go as many levels deep as its deepest expression.
pub(crate) fn examine<T: Send>(
    facts: &Facts<'_>,
    depth: usize,
    work: impl FnOnce(&mut Examination<'_>) -> T + Send,
) -> T {
    room::with_room(depth, || work(&mut Examination::new(facts)))
}

/// A request, as expressions see it.
pub(crate) struct Examination<'a> {
    values: Vec<(&'static str, Value<'a>)>,
    variables: Rc<Map<'a>>,
    budget: Budget,
}

impl<'a> Examination<'a> {
    fn new(facts: &Facts<'a>) -> Self {
        let plain = |json: Option<&'a Json>| json.map_or(Value::Null, Value::plain);
        let about = |key: &str| facts.request.get(key).and_then(Json::as_str).unwrap_or_default().into();
        let resource = |key: &str| facts.request["requestResource"][key].as_str().unwrap_or_default().into();
        let who = Who::asks(facts.authority);
        let itself = Resource {
            group: resource("group"),
            resource: resource("resource"),
            subresource: about("requestSubResource"),
            namespace: about("namespace"),
            name: about("name"),
        };
        let values = vec![
            ("object", plain(facts.object)),
            ("oldObject", plain(facts.old)),
            ("request", Value::plain(facts.request)),
            ("namespaceObject", plain(facts.namespace)),
            ("params", plain(facts.params)),
            ("authorizer", Value::Right(Rc::new(Right::Authorizer(who.clone())))),
            ("authorizer.requestResource", Value::Right(Rc::new(Right::Resource(who, itself)))),
        ];
        Examination { values, variables: Rc::default(), budget: Budget::default() }
    }

    /// Defines `variables.NAME`. One that fails does so to whoever uses it.
    pub(crate) fn define(&mut self, name: &str, expression: &Result<Expression, Uncompiled>) {
        let quoted = format!("{name:?}");
        let failed = |why: String| Value::Unfit(format!("composited variable {quoted} {why}").into());
        let value = match expression {
            Ok(expression) => {
                self.value(expression).unwrap_or_else(|why| failed(format!("fails to evaluate: {why}")))
            }
            Err(why) => failed(format!("fails to compile: {}", why.why)),
        };
        Rc::make_mut(&mut self.variables).insert(Key::String(name.into()), (Value::string(name), value));
    }

    /// What an expression comes to, or why to nothing.
    pub(crate) fn answer(&self, expression: &Expression) -> Result<Answer, String> {
        match self.value(expression) {
            Ok(Value::Bool(value)) => Ok(Answer::Bool(value)),
            Ok(Value::String(text)) => Ok(Answer::Text(text.to_string())),
            Ok(_) => Ok(Answer::Other),
            Err(why) => Err(format!("expression '{}' resulted in error: {why}", expression.source)),
        }
    }

    /// The configuration or the patch that an expression makes, as JSON.
    pub(crate) fn made(&self, expression: &Expression) -> Result<Json, String> {
        let failed = |why: String| format!("expression '{}' resulted in error: {why}", expression.source);
        let value = self.value(expression).map_err(failed)?;
        message::check_names(&value)?;
        message::to_json(&value)
    }

    fn value(&self, expression: &Expression) -> Result<Value<'a>, String> {
        let mut names = self.values.iter();
        let variables = Scope::new("variables", Value::Map(self.variables.clone()), None);
        within(&mut names, &variables, &expression.expr, &self.budget)
    }
}

/// Evaluates with all values in scope, each inside of the one before.
fn within<'a, 's>(
    rest: &mut std::slice::Iter<'s, (&'static str, Value<'a>)>,
    outer: &Scope<'_, 'a>,
    expr: &Expr,
    budget: &Budget,
) -> Result<Value<'a>, String> {
    match rest.next() {
        Some((name, value)) => within(rest, &Scope::new(name, value.clone(), Some(outer)), expr, budget),
        None => evaluate(expr, outer, budget).map_err(|error| error.0),
    }
}

impl<'a> Value<'a> {
    /// What is written, without a schema.
    fn plain(json: &Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Value::Int(whole),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::string(text),
            Json::Array(items) => Value::list(items.iter().map(Value::plain).collect()),
            Json::Object(fields) => {
                let entry = |(name, value): (&String, &Json)| {
                    (Key::String(name.as_str().into()), (Value::string(name), Value::plain(value)))
                };
                Value::Map(Rc::new(fields.iter().map(entry).collect()))
            }
        }
    }
}

fn object(name: &str, fields: Vec<(&str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    Type::Object(Arc::new(Object { name: format!("kubernetes.{name}"), fields }))
}

fn texts(names: &[&'static str]) -> Vec<(&'static str, Type)> {
    names.iter().map(|name| (*name, Type::String)).collect()
}

/// An AdmissionRequest, without its UID and objects.
fn request_type() -> Type {
    let kind = || object("GroupVersionKind", texts(&["group", "version", "kind"]));
    let resource = || object("GroupVersionResource", texts(&["group", "version", "resource"]));
    let mut user = texts(&["username", "uid"]);
    user.push(("groups", Type::list(Type::String)));
    user.push(("extra", Type::map(Type::String, Type::list(Type::String))));
    let mut fields = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    fields.extend([
        ("kind", kind()),
        ("resource", resource()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("userInfo", object("UserInfo", user)),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    object("AdmissionRequest", fields)
}

/// A Namespace, as far as expressions may look at it.
fn namespace_type() -> Type {
    let labels = || Type::map(Type::String, Type::String);
    let mut metadata = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    metadata.extend([
        ("labels", labels()),
        ("annotations", labels()),
        ("creationTimestamp", Type::Timestamp),
        ("deletionTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("generation", Type::Int),
        ("finalizers", Type::list(Type::String)),
    ]);
    let mut condition = texts(&["status", "type", "message", "reason"]);
    condition.push(("lastTransitionTime", Type::Timestamp));
    let mut status = texts(&["phase"]);
    status.push(("conditions", Type::list(object("NamespaceCondition", condition))));
    let spec = object("NamespaceSpec", vec![("finalizers", Type::list(Type::String))]);
    object(
        "Namespace",
        vec![
            ("metadata", object("NamespaceMetadata", metadata)),
            ("spec", spec),
            ("status", object("NamespaceStatus", status)),
        ],
    )
}
