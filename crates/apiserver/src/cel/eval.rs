//! Evaluates expressions that were checked.

use std::cell::Cell;
use std::rc::Rc;

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Mode, Select};
use super::declarations;
use super::library;
use super::value::{Error, Key, Map, Result, Value};

/// Steps that one evaluation may take. The real server counts costs, and allows a fifth of this: a rule
/// that it lets through must never be stopped here, only one that would keep the server busy for long.
const MOST_STEPS: u64 = 5_000_000;
/// Steps that all rules of one object, or all expressions of one policy, may take together, by the same measure.
const MOST_STEPS_OF_ALL: u64 = 50_000_000;

/// What is left for all that is evaluated about one object: a rule for each of its items may be cheap, and all of them
/// together endless.
#[derive(Debug)]
pub(super) struct Budget(Cell<u64>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(MOST_STEPS_OF_ALL))
    }
}

impl Budget {
    #[cfg(test)]
    pub(super) fn of(steps: u64) -> Self {
        Budget(Cell::new(steps))
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Variables that an expression sees, inner ones first.
pub(super) struct Scope<'s, 'a> {
    name: &'s str,
    value: Value<'a>,
    outer: Option<&'s Scope<'s, 'a>>,
}

impl<'s, 'a> Scope<'s, 'a> {
    pub(super) fn new(name: &'s str, value: Value<'a>, outer: Option<&'s Scope<'s, 'a>>) -> Self {
        Scope { name, value, outer }
    }

    fn find(&self, name: &str) -> Option<&Value<'a>> {
        if self.name == name { Some(&self.value) } else { self.outer?.find(name) }
    }
}

/// The value of an expression.
pub(super) fn evaluate<'a>(expr: &Expr, scope: &Scope<'_, 'a>, budget: &Budget) -> Result<Value<'a>> {
    let evaluator = Evaluator { left: Cell::new(MOST_STEPS), budget };
    evaluator.eval(expr, scope)
}

struct Evaluator<'b> {
    left: Cell<u64>,
    budget: &'b Budget,
}

impl Evaluator<'_> {
    fn spend(&self, steps: u64) -> Result<()> {
        for left in [&self.left, &self.budget.0] {
            left.set(left.get().saturating_sub(steps));
            if left.get() == 0 {
                return Err(Error::too_much());
            }
        }
        Ok(())
    }

    fn eval<'a>(&self, expr: &Expr, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        self.spend(1)?;
        match &expr.kind {
            Kind::Literal(literal) => Ok(Value::literal(literal)),
            Kind::Ident(name) => match scope.find(name) {
                Some(value) => value.clone().fit(),
                None if declarations::named_type(name).is_some() => Ok(Value::Type(name.clone().into())),
                None => Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Kind::Select(select) => self.select(select, scope),
            Kind::Call(call) => self.call(call, scope),
            Kind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.eval(&item.value, scope)?;
                    match (item.optional, value) {
                        (true, Value::Optional(None)) => {}
                        (true, Value::Optional(Some(value))) => values.push((*value).clone()),
                        (_, value) => values.push(value),
                    }
                }
                Ok(Value::list(values))
            }
            Kind::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    let key = self.eval(&entry.key, scope)?;
                    let value = match (entry.optional, self.eval(&entry.value, scope)?) {
                        (true, Value::Optional(None)) => continue,
                        (true, Value::Optional(Some(value))) => (*value).clone(),
                        (_, value) => value,
                    };
                    map.insert(place(&key)?, (key, value));
                }
                Ok(Value::Map(Rc::new(map)))
            }
            Kind::Message(name) => Err(Error::new(format!("unknown type: '{name}'"))),
            Kind::Fold(fold) => self.fold(fold, scope),
        }
    }

    fn bool(&self, expr: &Expr, scope: &Scope<'_, '_>) -> Result<bool> {
        match self.eval(expr, scope)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Error::no_such_overload()),
        }
    }

    fn select<'a>(&self, select: &Select, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        if let Some(value) = select.qualified().and_then(|name| scope.find(name)) {
            return value.clone().fit();
        }
        let operand = self.eval(&select.operand, scope)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => {
                return Ok(match select.mode {
                    Mode::Test => Value::Bool(false),
                    _ => Value::Optional(None),
                });
            }
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            plain => (plain, select.mode == Mode::Optional),
        };
        let field = Value::string(&select.field);
        let found = match operand {
            Value::Map(_) | Value::Object(_) => operand.find(&field)?,
            _ => None,
        };
        match (select.mode, found) {
            (Mode::Test, found) => Ok(Value::Bool(found.is_some())),
            (_, found) if optional => Ok(Value::Optional(found.map(Rc::new))),
            (_, Some(value)) => Ok(value),
            (_, None) => Err(Error::new(format!("no such key: {}", select.field))),
        }
    }

    fn call<'a>(&self, call: &Call, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        match call.function.as_str() {
            "_&&_" => self.all_or_any(&call.args, scope, false),
            "_||_" => self.all_or_any(&call.args, scope, true),
            "_?_:_" => match self.bool(&call.args[0], scope)? {
                true => self.eval(&call.args[1], scope),
                false => self.eval(&call.args[2], scope),
            },
            "_[_]" | "_[?_]" => self.index(call, scope),
            function => {
                let target = call.target.as_ref().map(|target| self.eval(target, scope)).transpose()?;
                match (function, &target) {
                    ("or", Some(Value::Optional(Some(_)))) => return Ok(target.unwrap_or(Value::Null)),
                    ("orValue", Some(Value::Optional(Some(value)))) => return Ok((**value).clone()),
                    ("or" | "orValue", Some(Value::Optional(None))) => {
                        return self.eval(&call.args[0], scope);
                    }
                    _ => {}
                }
                let mut args = Vec::with_capacity(call.args.len() + 1);
                args.extend(target);
                for arg in &call.args {
                    args.push(self.eval(arg, scope)?);
                }
                self.spend(library::length(function, &args) / 10)?;
                library::call(function, &args)
            }
        }
    }

    /// One `decisive` argument settles it, even when others fail.
    fn all_or_any<'a>(&self, args: &[Expr], scope: &Scope<'_, 'a>, decisive: bool) -> Result<Value<'a>> {
        let mut failed = None;
        for arg in args {
            match self.bool(arg, scope) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn index<'a>(&self, call: &Call, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        let operand = self.eval(&call.args[0], scope)?;
        let key = self.eval(&call.args[1], scope)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            plain => (plain, call.function == "_[?_]"),
        };
        match operand.find(&key)? {
            found if optional => Ok(Value::Optional(found.map(Rc::new))),
            Some(value) => Ok(value),
            None => Err(Error::new(match operand {
                Value::List(_) => format!("index out of bounds: {key}"),
                _ => format!("no such key: {key}"),
            })),
        }
    }

    fn fold<'a>(&self, fold: &Fold, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        let range = self.eval(&fold.range, scope)?;
        if matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap) {
            let Value::Optional(value) = range else { return Err(Error::no_such_overload()) };
            let Some(value) = value else { return Ok(Value::Optional(None)) };
            let inner = Scope::new(&fold.variable, (*value).clone(), Some(scope));
            let body = self.eval(&fold.body, &inner)?;
            return Ok(if fold.kind == FoldKind::OptMap { Value::some(body) } else { body });
        }
        let is_list = matches!(range, Value::List(_));
        let mut state = State::new(fold.kind);
        for (key, item) in range.pairs()? {
            let (first, second) = match &fold.second {
                Some(name) => (key, Some((name, item))),
                None if is_list => (item, None),
                None => (key, None),
            };
            let inner = Scope::new(&fold.variable, first.clone(), Some(scope));
            let innermost = second.map(|(name, item)| Scope::new(name, item, Some(&inner)));
            let inner = innermost.as_ref().unwrap_or(&inner);
            if let Some(filter) = &fold.filter
                && !self.bool(filter, inner)?
            {
                continue;
            }
            if state.take(first, self.eval(&fold.body, inner))? {
                break;
            }
        }
        state.result()
    }
}

/// What a fold has found so far.
struct State<'a> {
    kind: FoldKind,
    failed: Option<Error>,
    settled: bool,
    count: usize,
    items: Vec<Value<'a>>,
    keys: Vec<Value<'a>>,
    map: Map<'a>,
}

impl<'a> State<'a> {
    fn new(kind: FoldKind) -> Self {
        State {
            kind,
            failed: None,
            settled: false,
            count: 0,
            items: Vec::new(),
            keys: Vec::new(),
            map: Map::new(),
        }
    }

    /// Takes what the body made of an item; true when no other can matter.
    fn take(&mut self, first: Value<'a>, body: Result<Value<'a>>) -> Result<bool> {
        match self.kind {
            FoldKind::All | FoldKind::Exists => {
                let decisive = self.kind == FoldKind::Exists;
                match body {
                    Ok(Value::Bool(value)) => self.settled |= value == decisive,
                    Ok(_) => self.failed = self.failed.take().or_else(|| Some(Error::no_such_overload())),
                    Err(error) => self.failed = self.failed.take().or(Some(error)),
                }
                return Ok(self.settled);
            }
            FoldKind::ExistsOne => match body? {
                Value::Bool(value) => self.count += usize::from(value),
                _ => return Err(Error::no_such_overload()),
            },
            FoldKind::Filter => match body? {
                Value::Bool(true) => self.items.push(first),
                Value::Bool(false) => {}
                _ => return Err(Error::no_such_overload()),
            },
            FoldKind::Map | FoldKind::OptMap | FoldKind::OptFlatMap => self.items.push(body?),
            FoldKind::SortBy => {
                self.keys.push(body?);
                self.items.push(first);
            }
            FoldKind::TransformMap => insert(&mut self.map, first, body?)?,
            FoldKind::TransformMapEntry => {
                for (key, value) in body?.pairs()? {
                    insert(&mut self.map, key, value)?;
                }
            }
        }
        Ok(false)
    }

    fn result(self) -> Result<Value<'a>> {
        match self.kind {
            FoldKind::All | FoldKind::Exists => {
                let decisive = self.kind == FoldKind::Exists;
                match self.failed {
                    Some(error) if !self.settled => Err(error),
                    _ => Ok(Value::Bool(self.settled == decisive)),
                }
            }
            FoldKind::ExistsOne => Ok(Value::Bool(self.count == 1)),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => Ok(Value::Map(Rc::new(self.map))),
            FoldKind::SortBy => library::lists::sort_by_keys(self.keys, self.items),
            _ => Ok(Value::list(self.items)),
        }
    }
}

fn place(key: &Value<'_>) -> Result<Key> {
    key.key().ok_or_else(|| Error::new(format!("unsupported key type: {}", key.type_name())))
}

fn insert<'a>(map: &mut Map<'a>, key: Value<'a>, value: Value<'a>) -> Result<()> {
    let place = place(&key)?;
    if map.contains_key(&place) {
        return Err(Error::new(format!("insert failed: key {key} already exists")));
    }
    map.insert(place, (key, value));
    Ok(())
}
