//! What a CEL expression looks like once it is parsed.

/// An expression and where it starts, counted in characters of its source.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// How many expressions are inside each other here.
    pub(super) depth: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(String),
    Select(Box<Select>),
    /// Operators are functions too, with names such as `_+_`.
    Call(Call),
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// `Name{field: value}`: what mutations are made of, and nothing else.
    Message(Box<Message>),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Select {
    pub(super) operand: Expr,
    pub(super) field: String,
    pub(super) mode: Mode,
}

impl Select {
    /// The one variable with a dot in its name, if this is how it is written.
    pub(super) fn qualified(&self) -> Option<&'static str> {
        let of_authorizer = matches!(&self.operand.kind, Kind::Ident(name) if name == "authorizer");
        (of_authorizer && self.field == "requestResource" && self.mode == Mode::Value)
            .then_some("authorizer.requestResource")
    }
}

/// What is asked of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Value,
    /// `has(operand.field)`
    Test,
    /// `operand.?field`
    Optional,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) function: String,
    pub(super) target: Option<Box<Expr>>,
    pub(super) args: Vec<Expr>,
}

/// An element of a list literal; an optional one is left out when it has no value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// A field of a message literal; an optional one is left out when it has no value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A macro that binds variables to parts of a range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) range: Expr,
    pub(super) variable: String,
    /// With two variables the first is the index or key, the second the value.
    pub(super) second: Option<String>,
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
}

impl Expr {
    pub(super) fn new(at: usize, kind: Kind) -> Expr {
        let mut depth = 0;
        kind.each_child(&mut |child| depth = depth.max(child.depth));
        Expr { at, kind, depth: depth + 1 }
    }

    pub(super) fn call(at: usize, function: &str, args: Vec<Expr>) -> Expr {
        Expr::new(at, Kind::Call(Call { function: function.to_owned(), target: None, args }))
    }

    /// The dotted name that an expression spells, such as `ip.isCanonical`.
    pub(super) fn qualified(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select(select) if select.mode == Mode::Value => {
                Some(format!("{}.{}", select.operand.qualified()?, select.field))
            }
            _ => None,
        }
    }

    /// Visits this expression and all below it, parents first.
    pub(super) fn visit<'a>(&'a self, look: &mut dyn FnMut(&'a Expr)) {
        look(self);
        self.kind.each_child(&mut |child| child.visit(look));
    }
}

impl Kind {
    fn each_child<'a>(&'a self, look: &mut dyn FnMut(&'a Expr)) {
        match self {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Message(message) => message.fields.iter().for_each(|field| look(&field.value)),
            Kind::Select(select) => look(&select.operand),
            Kind::Call(call) => {
                call.target.iter().for_each(|target| look(target));
                call.args.iter().for_each(look);
            }
            Kind::List(items) => items.iter().for_each(|item| look(&item.value)),
            Kind::Map(entries) => {
                for entry in entries {
                    look(&entry.key);
                    look(&entry.value);
                }
            }
            Kind::Fold(fold) => {
                look(&fold.range);
                fold.filter.iter().for_each(&mut *look);
                look(&fold.body);
            }
        }
    }
}
