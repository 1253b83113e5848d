//! What macros cost at most. To cel-go they are loops over operators of the language, which cost what they cost.

use super::path::Path;
use super::size::Size;
use super::{Entries, Estimator, Known, Local};
use crate::cel::ast::{Expr, Fold, FoldKind};
use crate::cel::cost::{CALL, LIST, MAP, READ};
use crate::cel::types::Type;

/// The variable of a binding inside `sortBy`, which no expression can name.
const SORTED: &str = "@__sortBy_input__";

impl Estimator<'_> {
    pub(super) fn fold(&mut self, expr: &Expr, fold: &Fold, of: Type) -> Known {
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => self.optional(fold, of),
            FoldKind::SortBy => self.sorted(expr, fold, of),
            _ => {
                let range = self.of(&fold.range);
                let of_range = self.checked.type_of(&fold.range);
                self.looped(fold.kind, fold, range, &of_range, of)
            }
        }
    }

    fn looped(&mut self, kind: FoldKind, fold: &Fold, range: Known, of_range: &Type, of: Type) -> Known {
        let outside = self.locals.len();
        self.bind_items(fold, &range, of_range);
        let filter = fold.filter.as_ref().map(|filter| self.of(filter).cost);
        let body = self.of(&fold.body);
        // Which sizes the items of the result have, asked while the variables are still known.
        let made = match kind {
            FoldKind::Map => Some(self.size_or_unknown(&body)),
            FoldKind::Filter => {
                let item = self.ident(&fold.variable, item_type(of_range));
                Some(self.size_or_unknown(&item))
            }
            _ => None,
        };
        self.locals.truncate(outside);

        // The accumulator at first, the condition of the loop, one step of it, and the result.
        let (first, condition, step, result) = match kind {
            FoldKind::All => (0, READ + CALL, body.cost.saturating_add(READ), READ),
            FoldKind::Exists => (0, READ + 2 * CALL, body.cost.saturating_add(READ), READ),
            FoldKind::ExistsOne => (0, 0, body.cost.saturating_add(READ + CALL), READ + CALL),
            FoldKind::Map => (LIST, 0, body.cost.saturating_add(READ + CALL + LIST), READ),
            FoldKind::Filter => (LIST, 0, body.cost.saturating_add(2 * READ + CALL + LIST), READ),
            FoldKind::TransformMap => (MAP, 0, body.cost.saturating_add(2 * READ + CALL), READ),
            _ => (MAP, 0, body.cost.saturating_add(READ + CALL), READ),
        };
        let step = step.saturating_add(filter.unwrap_or(0));
        let times = self.size_or_unknown(&range);
        let loops = times.max.saturating_mul(step.saturating_add(condition));
        let cost = range.cost.saturating_add(first + result).saturating_add(loops);
        let size = match kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Size::exactly(1),
            _ => times,
        };
        let entries = made.map(|made| Entries {
            is_list: true,
            key: Size::exactly(1),
            value: Size { min: 0, max: made.max },
        });
        Known { size: Some(size), entries, ..Known::new(cost, of) }
    }

    /// The variables of a loop. With two, both paths are made from that of the range, one after the other.
    fn bind_items(&mut self, fold: &Fold, range: &Known, of_range: &Type) {
        let is_list = range.entries.map_or(matches!(of_range, Type::List(_)), |entries| entries.is_list);
        let key = range.entries.map(|entries| entries.key);
        let value = range.entries.map(|entries| entries.value);
        let mut bind = |name: &str, part: &str, size: Option<Size>| {
            let path = range.path.append(part);
            self.locals.push(Local { name: name.to_owned(), path, size, entries: None });
        };
        match (&fold.second, is_list) {
            (None, true) => bind(&fold.variable, "@items", value),
            (None, false) => bind(&fold.variable, "@keys", key),
            (Some(second), true) => {
                bind(&fold.variable, "@indices", key);
                bind(second, "@items", value);
            }
            (Some(second), false) => {
                bind(&fold.variable, "@keys", key);
                bind(second, "@values", value);
            }
        }
    }

    /// A binding of the list, and a call with what its items are mapped to.
    fn sorted(&mut self, expr: &Expr, fold: &Fold, of: Type) -> Known {
        let list = self.of(&fold.range);
        let of_list = self.checked.type_of(&fold.range);
        let size = self.size(&list);
        let outside = self.locals.len();
        let local = Local { name: SORTED.to_owned(), path: list.path.clone(), size, entries: list.entries };
        self.locals.push(local);
        let variable = self.ident(SORTED, of_list.clone());
        let keys = self.looped(FoldKind::Map, fold, variable, &of_list, Type::Dyn);
        self.locals.truncate(outside);
        let size = keys.size.unwrap_or(Size::UNKNOWN);
        let sorting = self.checked.overloads_of(expr).iter().map(|overload| {
            let by_text = matches!(overload.args.get(1), Some(Type::List(key)) if matches!(**key, Type::String | Type::Bytes));
            size.times(size).costs(if by_text { 2.1 } else { 2.0 })
        });
        let sorting = sorting.max().unwrap_or_default().saturating_add(CALL + LIST);
        let cost = LIST.saturating_add(list.cost).saturating_add(READ).saturating_add(keys.cost);
        Known { size: Some(size.times(size)), ..Known::new(cost.saturating_add(sorting), of) }
    }

    /// `x.hasValue() ? optional.of(…) : optional.none()`, with a binding of `x.value()` inside.
    fn optional(&mut self, fold: &Fold, of: Type) -> Known {
        let asked = self.of(&fold.range);
        let bound = Known::new(0, asked.of.unwrapped().cloned().unwrap_or(Type::Dyn));
        let local = Local {
            name: fold.variable.clone(),
            path: Path::default(),
            size: self.size(&bound),
            entries: None,
        };
        self.locals.push(local);
        let body = self.of(&fold.body);
        self.locals.pop();
        let binding = LIST.saturating_add(asked.cost).saturating_add(CALL).saturating_add(body.cost);
        let none = self.size_or_unknown(&Known::new(0, of.clone()));
        let (some, size) = match fold.kind {
            FoldKind::OptMap => (binding.saturating_add(CALL), none),
            _ => (binding, self.size_or_unknown(&body)),
        };
        let cost = asked.cost.saturating_add(CALL).saturating_add(some.max(CALL));
        Known { size: Some(size.union(none)), ..Known::new(cost, of) }
    }
}

/// The type of what a loop with one variable goes through.
fn item_type(range: &Type) -> Type {
    match range {
        Type::List(item) => (**item).clone(),
        Type::Map(key, _) => (**key).clone(),
        _ => Type::Dyn,
    }
}
