//! What an expression may cost at most, estimated when a CRD is written, before there is any object.
//!
//! The rules are cel-go's (`checker/cost.go`), its extensions' and Kubernetes' own: which CRDs are refused follows from
//! them. They go by the sizes that a schema allows (`maxItems`, `maxLength`, `maxProperties`), or, where it does not
//! say, by how much fits into a request.
//!
//! ```text
//! schema ─► declared sizes ─┐
//! expression, types ────────┴─► estimate ─► × how often the place can occur (check) ─► limits of a rule and of a CRD
//! ```

mod calls;
mod declared;
mod folds;
mod path;
mod size;

pub(super) use self::declared::Declared;
use self::path::Path;
use self::size::Size;
use super::ast::{Expr, Kind, Literal, Mode, Select};
use super::checker::Checked;
use super::cost::{LIST, MAP, READ, STRUCT};
use super::types::Type;

/// The most that an expression about a value can cost.
pub(super) fn most(expr: &Expr, checked: &Checked, of_self: &Declared) -> u64 {
    Estimator { checked, root: of_self, locals: Vec::new() }.of(expr).cost
}

struct Estimator<'a> {
    checked: &'a Checked,
    root: &'a Declared,
    /// Variables of macros, inner ones last.
    locals: Vec<Local>,
}

/// A variable of a macro.
struct Local {
    name: String,
    path: Path,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn union(one: Option<Entries>, other: Option<Entries>) -> Option<Entries> {
        let (one, other) = (one?, other?);
        Some(Entries { key: one.key.union(other.key), value: one.value.union(other.value), ..one })
    }
}

/// What is known of an expression.
struct Known {
    cost: u64,
    of: Type,
    /// Where in the schema its value comes from; empty where that is not known.
    path: Path,
    /// A size that follows from the expression itself.
    size: Option<Size>,
    /// The size of the variable that it is.
    of_local: Option<Size>,
    entries: Option<Entries>,
}

impl Known {
    fn new(cost: u64, of: Type) -> Known {
        Known { cost, of, path: Path::default(), size: None, of_local: None, entries: None }
    }
}

impl Estimator<'_> {
    fn of(&mut self, expr: &Expr) -> Known {
        let of = self.checked.type_of(expr);
        match &expr.kind {
            Kind::Literal(literal) => Known { size: Some(Size::of(literal)), ..Known::new(0, of) },
            Kind::Ident(name) => self.ident(name, of),
            Kind::Select(select) => self.select(select, of),
            Kind::Call(call) => self.call(expr, call, of),
            Kind::List(items) => {
                let (mut cost, mut value) = (LIST, Size::none_yet(items.is_empty()));
                for item in items {
                    let known = self.of(&item.value);
                    cost = known.cost.saturating_add(cost);
                    value = value.union(self.size_or_unknown(&known));
                }
                let entries = Entries { is_list: true, key: Size::exactly(1), value };
                let size = Some(Size::exactly(items.len() as u64));
                Known { size, entries: Some(entries), ..Known::new(cost, of) }
            }
            Kind::Map(written) => {
                let mut cost = MAP;
                let (mut key, mut value) =
                    (Size::none_yet(written.is_empty()), Size::none_yet(written.is_empty()));
                for entry in written {
                    let of_key = self.of(&entry.key);
                    let of_value = self.of(&entry.value);
                    cost = cost.saturating_add(of_key.cost).saturating_add(of_value.cost);
                    key = key.union(self.size_or_unknown(&of_key));
                    value = value.union(self.size_or_unknown(&of_value));
                }
                let size = Some(Size::exactly(written.len() as u64));
                let entries = Some(Entries { is_list: false, key, value });
                Known { size, entries, ..Known::new(cost, of) }
            }
            Kind::Message(message) => {
                let fields = message.fields.iter().map(|field| self.of(&field.value).cost);
                Known::new(fields.fold(STRUCT, u64::saturating_add), of)
            }
            Kind::Fold(fold) => self.fold(expr, fold, of),
        }
    }

    fn ident(&self, name: &str, of: Type) -> Known {
        let known = Known::new(READ, of);
        match self.locals.iter().rfind(|local| local.name == name) {
            Some(local) => {
                Known { path: local.path.clone(), of_local: local.size, entries: local.entries, ..known }
            }
            None => Known { path: Path::of(name), ..known },
        }
    }

    fn select(&mut self, select: &Select, of: Type) -> Known {
        let operand = self.of(&select.operand);
        match select.mode {
            // To ask whether a field is there costs nothing by itself.
            Mode::Test => Known::new(operand.cost, of),
            // A call, to the estimator as to cel-go.
            Mode::Optional => Known::new(operand.cost.saturating_add(1), of),
            Mode::Value => {
                let is_read = match &operand.of {
                    Type::Map(..) | Type::Object(_) => true,
                    Type::Opaque(name, _) => name.starts_with("kubernetes."),
                    _ => false,
                };
                let cost = if is_read { operand.cost.saturating_add(READ) } else { operand.cost };
                Known { path: operand.path.append(&select.field), ..Known::new(cost, of) }
            }
        }
    }

    /// The size of a value, as far as it can be told now. Paths may change while other expressions are looked at
    /// (see [`Path`]), so this is asked when cel-go asks.
    fn size(&self, known: &Known) -> Option<Size> {
        known
            .size
            .or_else(|| self.root.size_at(&known.path))
            .or_else(|| is_scalar(&known.of).then_some(Size::exactly(1)))
            .or(known.of_local)
    }

    fn size_or_unknown(&self, known: &Known) -> Size {
        self.size(known).unwrap_or(Size::UNKNOWN)
    }
}

/// Whether all values of a type have one size.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.unwrapped().is_some_and(is_scalar),
    }
}

impl Size {
    fn of(literal: &Literal) -> Size {
        Size::exactly(match literal {
            Literal::String(text) => text.chars().count() as u64,
            Literal::Bytes(bytes) => bytes.len() as u64,
            _ => 1,
        })
    }
}
