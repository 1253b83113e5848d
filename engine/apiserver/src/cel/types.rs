//! The types of CEL, and which of them go together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a value may be, as far as an expression tells.
#[derive(Debug, Clone)]
pub(super) enum Type {
    /// A wrong expression: accepted everywhere, so that one mistake is told once.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// An object of a schema: told apart by its name.
    Object(Arc<Object>),
    /// What mutations are made of: `Object`, the parts of one (`Object.spec`), and `JSONPatch`.
    Message(Arc<str>),
    /// A type of a library, such as `net.IP` or `optional_type`.
    Opaque(&'static str, Vec<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// A type that is found out as the expression is read.
    Var(usize),
}

/// The fields of an object, by the names they have in expressions.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Type>,
}

pub(super) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(super) fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(value: Type) -> Type {
        Type::Opaque(OPTIONAL, vec![value])
    }

    /// What an optional type is optional of.
    pub(super) fn unwrapped(&self) -> Option<&Type> {
        match self {
            Type::Opaque(OPTIONAL, inner) => inner.first(),
            _ => None,
        }
    }

    fn accepts_null(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Opaque(..)
                | Type::Object(_)
                | Type::Message(_)
                | Type::Duration
                | Type::Timestamp
        )
    }

    fn params(&self) -> Vec<&Type> {
        match self {
            Type::List(item) => vec![item],
            Type::Map(key, value) => vec![key, value],
            Type::Opaque(_, params) => params.iter().collect(),
            Type::Meta(of) => vec![of],
            _ => Vec::new(),
        }
    }

    /// Whether both are the same kind of type, whatever their parameters.
    fn same_kind(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Opaque(a, left), Type::Opaque(b, right)) => a == b && left.len() == right.len(),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (Type::Message(a), Type::Message(b)) => a == b,
            (Type::Var(a), Type::Var(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    pub(super) fn same(&self, other: &Type) -> bool {
        self.same_kind(other)
            && self.params().into_iter().zip(other.params()).all(|(left, right)| left.same(right))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Error => "!error!",
            Type::Dyn => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Object(object) => &object.name,
            Type::Message(name) => name,
            Type::Opaque(name, _) => name,
            Type::Meta(_) => "type",
            Type::Var(_) => "dyn",
        };
        f.write_str(name)?;
        let params = self.params();
        if !params.is_empty() {
            let shown: Vec<String> = params.iter().map(ToString::to_string).collect();
            write!(f, "({})", shown.join(", "))?;
        }
        Ok(())
    }
}

/// What type variables stand for so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(Vec<Option<Type>>);

impl Bindings {
    pub(super) fn fresh(&mut self) -> Type {
        self.0.push(None);
        Type::Var(self.0.len() - 1)
    }

    /// The type with all variables replaced that are known; others stay, or become `dyn`.
    pub(super) fn resolve(&self, of: &Type, unknown_is_dyn: bool) -> Type {
        let go = |of: &Type| self.resolve(of, unknown_is_dyn);
        match of {
            Type::Var(index) => match &self.0[*index] {
                Some(known) => go(known),
                None if unknown_is_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(item) => Type::list(go(item)),
            Type::Map(key, value) => Type::map(go(key), go(value)),
            Type::Opaque(name, params) => Type::Opaque(name, params.iter().map(go).collect()),
            Type::Meta(of) => Type::Meta(Arc::new(go(of))),
            plain => plain.clone(),
        }
    }

    /// Whether the types go together; what variables must be for that is remembered only then.
    pub(super) fn agree(&mut self, left: &Type, right: &Type) -> bool {
        self.agree_all(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    pub(super) fn agree_all(&mut self, left: &[Type], right: &[Type]) -> bool {
        let mut trial = self.clone();
        let fits = left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| trial.assignable(left, right));
        if fits {
            *self = trial;
        }
        fits
    }

    fn assignable(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Var(index) = right {
            let (fits, bound) = self.substitutes(left, *index);
            if fits || bound {
                return fits;
            }
        }
        if let Type::Var(index) = left {
            return self.substitutes(right, *index).0;
        }
        match (left, right) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => other.accepts_null(),
            (Type::Meta(_), Type::Meta(_)) => true,
            _ => {
                left.same_kind(right)
                    && left
                        .params()
                        .into_iter()
                        .zip(right.params())
                        .all(|(left, right)| self.assignable(left, right))
            }
        }
    }

    /// Whether a variable may stand for a type, and whether it stood for one before.
    fn substitutes(&mut self, of: &Type, index: usize) -> (bool, bool) {
        if matches!(of, Type::Var(other) if *other == index) {
            return (true, true);
        }
        if let Some(known) = self.0[index].clone() {
            if of.same(&known) {
                return (true, true);
            }
            let fits = self.assignable(of, &known);
            if fits {
                let general = more_general(of, &known).clone();
                if !self.mentions(&general, index) {
                    self.0[index] = Some(general);
                }
            }
            return (fits, true);
        }
        if self.mentions(of, index) {
            return (false, false);
        }
        self.0[index] = Some(of.clone());
        (true, false)
    }

    fn mentions(&self, of: &Type, index: usize) -> bool {
        match of {
            Type::Var(other) if *other == index => true,
            Type::Var(other) => self.0[*other].as_ref().is_some_and(|known| self.mentions(known, index)),
            _ => of.params().into_iter().any(|param| self.mentions(param, index)),
        }
    }
}

/// The one of two agreeing types that says less.
pub(super) fn more_general<'a>(left: &'a Type, right: &'a Type) -> &'a Type {
    if says_no_more(left, right) { left } else { right }
}

fn says_no_more(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => {
            left.same_kind(right)
                && left
                    .params()
                    .into_iter()
                    .zip(right.params())
                    .all(|(left, right)| says_no_more(left, right))
        }
    }
}
