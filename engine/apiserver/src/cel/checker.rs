//! Finds out the type of an expression, and what does not fit in it.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Literal, Message, Mode, Select};
use super::declarations::{self, Overload, instantiate};
use super::issue::Issue;
use super::library::{self, text_format};
use super::message;
use super::types::{Bindings, Object, Type, more_general};

/// What is known about an expression that fits.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) of: Type,
    /// Whether `oldSelf` is used.
    pub(super) uses_old: bool,
    found: Found,
}

/// What was found out about each part of an expression, by where it lies in memory. The parts stay where they are, but
/// the expression itself may be moved: what is nowhere is the whole.
#[derive(Debug, Default)]
struct Found {
    types: HashMap<*const Expr, Type>,
    overloads: HashMap<*const Expr, Vec<&'static Overload>>,
    of_all: Vec<&'static Overload>,
    bindings: Bindings,
}

impl Checked {
    /// The type of a part of the expression that was checked.
    pub(super) fn type_of(&self, expr: &Expr) -> Type {
        let of = self.found.types.get(&std::ptr::from_ref(expr)).unwrap_or(&self.of);
        self.found.bindings.resolve(of, true)
    }

    /// The forms of the function that a part calls which take its arguments.
    pub(super) fn overloads_of(&self, expr: &Expr) -> &[&'static Overload] {
        self.found.overloads.get(&std::ptr::from_ref(expr)).unwrap_or(&self.found.of_all)
    }
}

/// Whether an expression may make `Object{…}` and `JSONPatch{…}`: only those of mutations may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    Known,
    Unknown,
}

/// Checks an expression in which these variables are known.
pub(super) fn check(
    expr: &Expr,
    variables: &[(&str, Type)],
    messages: Messages,
) -> Result<Checked, Vec<Issue>> {
    let variables = variables.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect::<Vec<_>>();
    let mut checker = Checker {
        messages,
        outer: variables.len(),
        variables,
        bindings: Bindings::default(),
        issues: Vec::new(),
        uses_old: false,
        formats: 0,
        literals: Vec::new(),
        found: Found::default(),
    };
    let of = checker.check(expr);
    let of = checker.bindings.resolve(&of, true);
    if checker.issues.is_empty() {
        checker.issues = wrong_literals(expr);
        checker.mixed_literals();
    }
    match checker.issues.is_empty() {
        true => {
            let mut found = Found { bindings: checker.bindings, ..checker.found };
            found.types.remove(&std::ptr::from_ref(expr));
            found.of_all = found.overloads.remove(&std::ptr::from_ref(expr)).unwrap_or_default();
            Ok(Checked { of, uses_old: checker.uses_old, found })
        }
        false => Err(checker.issues),
    }
}

/// Times and patterns that are written out must be valid.
fn wrong_literals(expr: &Expr) -> Vec<Issue> {
    let mut issues = Vec::new();
    for function in ["duration", "timestamp", "matches"] {
        expr.visit(&mut |expr| {
            if let Kind::Call(call) = &expr.kind
                && call.function == function
                && let Some(Expr { at, kind: Kind::Literal(literal), .. }) = call.args.first()
                && !library::accepts_literal(function, literal)
            {
                issues.push(Issue::new(*at, format!("invalid {function} argument")));
            }
        });
    }
    issues
}

/// The type of a field; reserved words need not be escaped here.
fn field<'a>(object: &'a Object, name: &str) -> Option<&'a Type> {
    object.fields.get(name).or_else(|| object.fields.get(&format!("__{name}__")))
}

struct Checker {
    messages: Messages,
    /// Inner ones last.
    variables: Vec<(String, Type)>,
    /// How many variables there are outside of all folds.
    outer: usize,
    bindings: Bindings,
    issues: Vec<Issue>,
    uses_old: bool,
    /// How many calls of `format` are around the expression.
    formats: usize,
    literals: Vec<Elements>,
    found: Found,
}

/// Elements of a literal: where they are and what they are.
enum Elements {
    /// They must have one type.
    Alike(Vec<(usize, Type)>),
    /// They must fit the template of the `format` at a place.
    Formatted(usize, String, Vec<(usize, Type)>),
}

impl Checker {
    fn report(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Error
    }

    fn check(&mut self, expr: &Expr) -> Type {
        let of = self.part(expr);
        self.found.types.insert(expr, of.clone());
        of
    }

    fn part(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => self.ident(expr.at, name),
            Kind::Select(select) => self.select(expr.at, select),
            Kind::Call(call) => self.call(expr, call),
            Kind::List(items) => {
                let mut joined = None;
                let mut found = Vec::with_capacity(items.len());
                for item in items {
                    let of = self.check(&item.value);
                    let of = self.maybe_unwrap(&item.value, of, item.optional);
                    found.push((item.value.at, of.clone()));
                    joined = Some(self.join(joined, of));
                }
                self.alike(found);
                Type::list(joined.unwrap_or_else(|| self.bindings.fresh()))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                let (mut found_keys, mut found_values) = (Vec::new(), Vec::new());
                for entry in entries {
                    let key = self.check(&entry.key);
                    found_keys.push((entry.key.at, key.clone()));
                    keys = Some(self.join(keys, key));
                    let value = self.check(&entry.value);
                    let value = self.maybe_unwrap(&entry.value, value, entry.optional);
                    found_values.push((entry.value.at, value.clone()));
                    values = Some(self.join(values, value));
                }
                self.alike(found_keys);
                self.alike(found_values);
                let key = keys.unwrap_or_else(|| self.bindings.fresh());
                Type::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
            }
            Kind::Message(message) => self.message(expr.at, message),
            Kind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn message(&mut self, at: usize, message: &Message) -> Type {
        if self.messages == Messages::Unknown || !message::is_known(&message.name) {
            return self.undeclared(at, &message.name);
        }
        for field in &message.fields {
            let given = self.check(&field.value);
            let given = self.maybe_unwrap(&field.value, given, field.optional);
            let Some(wanted) = message::field(&message.name, &field.name) else {
                self.report(field.at, format!("undefined field '{}'", field.name));
                continue;
            };
            if !self.bindings.agree(&wanted, &given) {
                let given = self.bindings.resolve(&given, true);
                let name = &field.name;
                let why =
                    format!("expected type of field '{name}' is '{wanted}' but provided type is '{given}'");
                self.report(field.at, why);
            }
        }
        Type::Message(message.name.as_str().into())
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn ident(&mut self, at: usize, name: &str) -> Type {
        if let Some(index) = self.variables.iter().rposition(|(known, _)| known == name) {
            self.uses_old |= name == "oldSelf" && index < self.outer;
            return self.variables[index].1.clone();
        }
        match declarations::named_type(name) {
            Some(of) => Type::Meta(Arc::new(of)),
            None => self.undeclared(at, name),
        }
    }

    fn select(&mut self, at: usize, select: &Select) -> Type {
        if let Some(name) = select.qualified()
            && let Some((_, of)) = self.variables.iter().rfind(|(known, _)| *known == name)
        {
            return of.clone();
        }
        let operand = self.check(&select.operand);
        let operand = self.bindings.resolve(&operand, false);
        let (target, optional) = match operand.unwrapped() {
            Some(inner) => (inner.clone(), true),
            None => (operand, select.mode == Mode::Optional),
        };
        let of = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match field(object, &select.field) {
                Some(of) => of.clone(),
                None => self.report(at, format!("undefined field '{}'", select.field)),
            },
            Type::Message(name) => match message::field(name, &select.field) {
                Some(of) => of,
                None => self.report(at, format!("undefined field '{}'", select.field)),
            },
            // A library's types are objects without fields.
            Type::Opaque(name, _) if name.starts_with("kubernetes.") => {
                self.report(at, format!("undefined field '{}'", select.field))
            }
            Type::Var(_) => {
                self.bindings.agree(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        match select.mode {
            Mode::Test => Type::Bool,
            _ if optional => Type::optional(of),
            _ => self.bindings.resolve(&of, false),
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Type {
        let at = expr.at;
        // Arguments first, as the order of complaints shows.
        let format = call.function == "format";
        self.formats += usize::from(format);
        let args: Vec<Type> = call.args.iter().map(|arg| self.check(arg)).collect();
        self.formats -= usize::from(format);
        if format {
            self.formatted(at, call);
        }
        if matches!(call.function.as_str(), "_&&_" | "_||_") {
            self.found
                .overloads
                .insert(expr, declarations::function(&call.function).into_iter().flatten().collect());
            return self.logical(&call.args, &args);
        }
        let target = call.target.as_ref().map(|target| self.check(target));
        let Some(overloads) = declarations::function(&call.function) else {
            return self.undeclared(at, &call.function);
        };
        let member = target.is_some();
        let args: Vec<Type> = target.into_iter().chain(args).collect();
        self.resolve(expr, &call.function, overloads, member, args)
    }

    /// A template and arguments that are both written out are checked against each other.
    fn formatted(&mut self, at: usize, call: &Call) {
        if let Some(Kind::Literal(Literal::String(template))) =
            call.target.as_ref().map(|target| &target.kind)
            && let [Expr { kind: Kind::List(items), .. }] = call.args.as_slice()
        {
            let before = self.issues.len();
            let elements = items.iter().map(|item| (item.value.at, self.check(&item.value))).collect();
            self.issues.truncate(before);
            self.literals.push(Elements::Formatted(at, template.clone(), elements));
        }
    }

    fn logical(&mut self, exprs: &[Expr], args: &[Type]) -> Type {
        let mut of = Type::Bool;
        for (expr, arg) in exprs.iter().zip(args) {
            if !self.bindings.agree(arg, &Type::Bool) {
                of = self.mismatch(expr.at, &Type::Bool, arg);
            }
        }
        of
    }

    fn mismatch(&mut self, at: usize, expected: &Type, found: &Type) -> Type {
        let expected = self.bindings.resolve(expected, true);
        let found = self.bindings.resolve(found, true);
        self.report(at, format!("expected type '{expected}' but found '{found}'"))
    }

    /// The result of the forms of a function that take the arguments.
    fn resolve(
        &mut self,
        expr: &Expr,
        function: &str,
        overloads: &'static [Overload],
        member: bool,
        args: Vec<Type>,
    ) -> Type {
        let (mut result, mut fitting): (Option<Type>, _) = (None, Vec::new());
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let variables: Vec<Type> = (0..overload.variables).map(|_| self.bindings.fresh()).collect();
            let wanted: Vec<Type> = overload.args.iter().map(|arg| instantiate(arg, &variables)).collect();
            if !self.bindings.agree_all(&args, &wanted) {
                continue;
            }
            fitting.push(overload);
            let of = self.bindings.resolve(&instantiate(&overload.result, &variables), false);
            result = Some(match result {
                None => of,
                Some(known) if known.same(&of) => known,
                Some(_) => Type::Dyn,
            });
        }
        self.found.overloads.insert(expr, fitting);
        result.unwrap_or_else(|| self.no_overload(expr.at, function, member, &args))
    }

    fn no_overload(&mut self, at: usize, function: &str, member: bool, args: &[Type]) -> Type {
        let shown: Vec<String> =
            args.iter().map(|arg| self.bindings.resolve(arg, true).to_string()).collect();
        let signature = match (member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.report(at, format!("found no matching overload for '{function}' applied to '{signature}'"))
    }

    /// What an optional element of a literal is optional of.
    fn maybe_unwrap(&mut self, expr: &Expr, of: Type, optional: bool) -> Type {
        let of = self.bindings.resolve(&of, false);
        match of.unwrapped() {
            _ if !optional => of,
            Some(inner) => inner.clone(),
            None if matches!(of, Type::Dyn) => of,
            None => {
                self.mismatch(expr.at, &Type::optional(of.clone()), &of);
                of
            }
        }
    }

    /// The type of two elements of one literal.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        match self.bindings.agree(&previous, &current) {
            true => more_general(&previous, &current).clone(),
            false => Type::Dyn,
        }
    }

    fn alike(&mut self, elements: Vec<(usize, Type)>) {
        if self.formats == 0 {
            self.literals.push(Elements::Alike(elements));
        }
    }

    /// Literals whose elements differ are refused once all types are known.
    fn mixed_literals(&mut self) {
        for elements in std::mem::take(&mut self.literals) {
            let resolved = |elements: Vec<(usize, Type)>| -> Vec<(usize, Type)> {
                elements.into_iter().map(|(at, of)| (at, self.bindings.resolve(&of, true))).collect()
            };
            match elements {
                Elements::Alike(elements) => {
                    let elements = resolved(elements);
                    let Some((_, first)) = elements.first() else { continue };
                    if let Some((at, other)) = elements.iter().find(|(_, other)| !other.same(first)) {
                        self.mismatch(*at, first, other);
                    }
                }
                Elements::Formatted(at, template, elements) => {
                    let elements = resolved(elements);
                    self.issues.extend(text_format::objection(at, &template, &elements));
                }
            }
        }
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> Type {
        let range = self.check(&fold.range);
        let range = self.bindings.resolve(&range, false);
        if matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap) {
            return self.optional_fold(expr.at, fold, &range);
        }
        let (first, second) = match &range {
            Type::List(item) if fold.second.is_some() => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.agree(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.at, why);
                (Type::Error, Type::Error)
            }
        };
        let before = self.variables.len();
        self.variables.push((fold.variable.clone(), first.clone()));
        self.variables.extend(fold.second.clone().map(|name| (name, second)));
        let of = self.fold_body(expr, fold, &range, first);
        self.variables.truncate(before);
        of
    }

    fn fold_body(&mut self, expr: &Expr, fold: &Fold, range: &Type, first: Type) -> Type {
        let at = expr.at;
        let filter = fold.filter.as_ref().map(|filter| self.check(filter));
        let body = self.check(&fold.body);
        let condition = |checker: &mut Self, condition: &Type, of: &Type| {
            if !checker.bindings.agree(condition, &Type::Bool) {
                checker.no_overload(at, "_?_:_", false, &[condition.clone(), of.clone(), of.clone()]);
            }
        };
        let of = match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                self.logical(std::slice::from_ref(&fold.body), std::slice::from_ref(&body));
                Type::Bool
            }
            FoldKind::ExistsOne => {
                condition(self, &body, &Type::Int);
                Type::Bool
            }
            FoldKind::Filter => {
                let of = Type::list(first);
                condition(self, &body, &of);
                of
            }
            FoldKind::Map => Type::list(body),
            FoldKind::TransformMap => Type::map(first, body),
            FoldKind::TransformMapEntry => {
                let of = Type::map(self.bindings.fresh(), self.bindings.fresh());
                if !self.bindings.agree(&body, &of) {
                    self.no_overload(at, "cel.@mapInsert", false, &[of.clone(), body]);
                }
                of
            }
            FoldKind::SortBy => {
                let function = "@sortByAssociatedKeys";
                let overloads = declarations::function(function).unwrap_or_default();
                self.resolve(expr, function, overloads, true, vec![range.clone(), Type::list(body)])
            }
            FoldKind::OptMap | FoldKind::OptFlatMap => body,
        };
        if let Some(filter) = filter {
            condition(self, &filter, &of);
        }
        self.bindings.resolve(&of, false)
    }

    /// `optional.optMap(variable, …)`: the variable is the value, if there is one.
    fn optional_fold(&mut self, at: usize, fold: &Fold, range: &Type) -> Type {
        let value = match range {
            Type::Dyn | Type::Error | Type::Var(_) => Type::Dyn,
            other => match other.unwrapped() {
                Some(inner) => inner.clone(),
                None => {
                    self.no_overload(at, "hasValue", true, std::slice::from_ref(range));
                    return self.no_overload(at, "value", true, std::slice::from_ref(range));
                }
            },
        };
        self.variables.push((fold.variable.clone(), value));
        let body = self.check(&fold.body);
        self.variables.pop();
        let of = match fold.kind {
            FoldKind::OptMap => Type::optional(body),
            _ => {
                let optional = Type::optional(self.bindings.fresh());
                if !self.bindings.agree(&body, &optional) {
                    self.no_overload(at, "_?_:_", false, &[Type::Bool, body.clone(), optional]);
                }
                body
            }
        };
        self.bindings.resolve(&of, false)
    }
}
