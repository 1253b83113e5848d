//! Evaluates expressions that were checked.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Literal, Mode, Select};
use super::cost;
use super::declarations;
use super::escape::unescape;
use super::library;
use super::message::Made;
use super::meter::{Budget, ENTRY, Meter, VALUE};
use super::value::{Error, Key, Map, Result, Value};

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

/// The value of an expression. A budget that is spent gives none.
pub(super) fn evaluate<'a>(expr: &Expr, scope: &Scope<'_, 'a>, budget: &Budget) -> Result<Value<'a>> {
    match budget.is_spent() {
        true => Err(Error::too_much()),
        false => Evaluator { meter: Meter::new(budget) }.eval(expr, scope),
    }
}

struct Evaluator<'b> {
    meter: Meter<'b>,
}

impl Evaluator<'_> {
    fn eval<'a>(&self, expr: &Expr, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        self.meter.touch(1)?;
        match &expr.kind {
            Kind::Literal(literal) => {
                self.meter.make(match literal {
                    Literal::String(text) => text.len(),
                    Literal::Bytes(bytes) => bytes.len(),
                    _ => 0,
                })?;
                Ok(Value::literal(literal))
            }
            Kind::Ident(name) => match scope.find(name) {
                Some(value) => {
                    self.meter.charge(cost::READ)?;
                    value.clone().fit()
                }
                None if declarations::named_type(name).is_some() => Ok(Value::Type(name.clone().into())),
                None => Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Kind::Select(select) => self.select(select, scope),
            Kind::Call(call) => self.call(expr, call, scope),
            Kind::List(items) => {
                self.charge_unless_constant(expr, cost::LIST)?;
                self.meter.make(items.len() * VALUE)?;
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
                self.charge_unless_constant(expr, cost::MAP)?;
                self.meter.make(entries.len() * ENTRY)?;
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
            Kind::Message(message) => {
                self.meter.charge(cost::STRUCT)?;
                self.meter.make(message.fields.len() * ENTRY)?;
                let mut fields = BTreeMap::new();
                for field in &message.fields {
                    let value = match (field.optional, self.eval(&field.value, scope)?) {
                        (true, Value::Optional(None)) => continue,
                        (true, Value::Optional(Some(value))) => (*value).clone(),
                        (_, value) => value,
                    };
                    fields.insert(unescape(&field.name).unwrap_or_else(|| field.name.clone()), value);
                }
                Ok(Value::Message(Rc::new(Made { name: message.name.clone(), fields })))
            }
            Kind::Fold(fold) => self.fold(fold, scope),
        }
    }

    fn charge_unless_constant(&self, expr: &Expr, cost: u64) -> Result<()> {
        if cost::is_constant(expr) { Ok(()) } else { self.meter.charge(cost) }
    }

    fn bool(&self, expr: &Expr, scope: &Scope<'_, '_>) -> Result<bool> {
        match self.eval(expr, scope)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Error::no_such_overload()),
        }
    }

    fn select<'a>(&self, select: &Select, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        if let Some(value) = select.qualified().and_then(|name| scope.find(name)) {
            self.meter.charge(cost::READ)?;
            return value.clone().fit();
        }
        let operand = self.eval(&select.operand, scope)?;
        // To ask whether a field is there costs nothing.
        if select.mode != Mode::Test {
            self.meter.charge(cost::READ)?;
        }
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
            Value::Map(_) | Value::Object(_) | Value::Message(_) => self.decoded(operand.find(&field)?)?,
            _ => None,
        };
        match (select.mode, found) {
            (Mode::Test, found) => Ok(Value::Bool(found.is_some())),
            (_, found) if optional => Ok(Value::Optional(found.map(Rc::new))),
            (_, Some(value)) => Ok(value),
            (_, None) => Err(Error::new(format!("no such key: {}", select.field))),
        }
    }

    /// A part of the object; bytes are decoded each time that they are read.
    fn decoded<'a>(&self, found: Option<Value<'a>>) -> Result<Option<Value<'a>>> {
        if let Some(Value::Bytes(bytes)) = &found {
            self.meter.scan(bytes.len())?;
        }
        Ok(found)
    }

    fn call<'a>(&self, expr: &Expr, call: &Call, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
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
                if !cost::is_constant(expr) {
                    self.meter.charge(cost::of_call(function, &args, &self.meter)?)?;
                }
                self.meter.scan(library::length(function, &args))?;
                let result = library::call(function, &args, &self.meter)?;
                self.meter.charge(cost::of_result(function, &result, &self.meter)?)?;
                Ok(result)
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
                Err(error) if self.meter.is_spent() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn index<'a>(&self, call: &Call, scope: &Scope<'_, 'a>) -> Result<Value<'a>> {
        let operand = self.eval(&call.args[0], scope)?;
        let key = self.eval(&call.args[1], scope)?;
        self.meter.charge(cost::READ)?;
        if let Value::String(key) = &key {
            self.meter.scan(key.len())?;
        }
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            plain => (plain, call.function == "_[?_]"),
        };
        match self.decoded(operand.find(&key)?)? {
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
        let cost = cost::of_fold(fold);
        self.meter.charge(cost.own)?;
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
            self.meter.touch(1)?;
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
                self.meter.charge(cost.left)?;
                continue;
            }
            let body = self.eval(&fold.body, inner);
            if self.meter.is_spent() {
                return body;
            }
            let left = matches!(body, Ok(Value::Bool(false)))
                && matches!(fold.kind, FoldKind::Filter | FoldKind::ExistsOne);
            self.meter.charge(if left { cost.left } else { cost.taken })?;
            if state.take(first, body, &self.meter)? {
                break;
            }
        }
        if fold.kind == FoldKind::SortBy {
            self.meter.charge(cost::self_compare(state.keys.len(), state.keys.first()))?;
        }
        state.result(&self.meter)
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
    fn take(&mut self, first: Value<'a>, body: Result<Value<'a>>, meter: &Meter<'_>) -> Result<bool> {
        match self.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => {}
            FoldKind::TransformMap | FoldKind::TransformMapEntry => meter.make(ENTRY)?,
            _ => meter.make(VALUE)?,
        }
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
                    meter.make(ENTRY)?;
                    insert(&mut self.map, key, value)?;
                }
            }
        }
        Ok(false)
    }

    fn result(self, meter: &Meter<'_>) -> Result<Value<'a>> {
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
            FoldKind::SortBy => library::lists::sort_by_keys(self.keys, self.items, meter),
            _ => Ok(Value::list(self.items)),
        }
    }
}

fn place<'a>(key: &Value<'a>) -> Result<Key<'a>> {
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
