//! Calls that are not functions but shapes of their own.

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Mode};
use super::issue::Issue;

/// The call, or what its macro makes of it.
pub(super) fn expand(at: usize, call: Call) -> Result<Expr, Issue> {
    if call.function == "has" && call.target.is_none() && call.args.len() == 1 {
        return has(at, call);
    }
    let Some((kind, variables, filtered)) = fold(&call) else {
        return Ok(Expr::new(at, Kind::Call(call)));
    };
    let Call { target: Some(range), args, function } = call else { unreachable!("a fold has a target") };
    let mut args = args.into_iter();
    let mut names = Vec::with_capacity(variables);
    for arg in args.by_ref().take(variables) {
        match &arg.kind {
            Kind::Ident(name) if names.contains(name) => {
                return Err(Issue::new(arg.at, format!("duplicate variable name: {name}")));
            }
            Kind::Ident(name) if name == "__result__" => {
                return Err(Issue::new(arg.at, "iteration variable overwrites accumulator variable"));
            }
            Kind::Ident(name) => names.push(name.clone()),
            _ => {
                let why = match kind {
                    FoldKind::OptMap | FoldKind::OptFlatMap => {
                        format!("{function}() variable name must be a simple identifier")
                    }
                    _ => "argument must be a simple name".to_owned(),
                };
                return Err(Issue::new(arg.at, why));
            }
        }
    }
    let filter = if filtered { args.next() } else { None };
    let mut names = names.into_iter();
    let (Some(variable), Some(body)) = (names.next(), args.next()) else {
        unreachable!("the macro was chosen by its number of arguments")
    };
    let fold = Fold { kind, range: *range, variable, second: names.next(), filter, body };
    Ok(Expr::new(at, Kind::Fold(Box::new(fold))))
}

/// The fold that a call stands for, its number of variables, and whether it has a filter.
fn fold(call: &Call) -> Option<(FoldKind, usize, bool)> {
    call.target.as_ref()?;
    Some(match (call.function.as_str(), call.args.len()) {
        ("all", 2) => (FoldKind::All, 1, false),
        ("all", 3) => (FoldKind::All, 2, false),
        ("exists", 2) => (FoldKind::Exists, 1, false),
        ("exists", 3) => (FoldKind::Exists, 2, false),
        ("exists_one", 2) => (FoldKind::ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, 2, false),
        ("map", 2) => (FoldKind::Map, 1, false),
        ("map", 3) => (FoldKind::Map, 1, true),
        ("filter", 2) => (FoldKind::Filter, 1, false),
        ("transformList", 3) => (FoldKind::Map, 2, false),
        ("transformList", 4) => (FoldKind::Map, 2, true),
        ("transformMap", 3) => (FoldKind::TransformMap, 2, false),
        ("transformMap", 4) => (FoldKind::TransformMap, 2, true),
        ("transformMapEntry", 3) => (FoldKind::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (FoldKind::TransformMapEntry, 2, true),
        ("sortBy", 2) => (FoldKind::SortBy, 1, false),
        ("optMap", 2) => (FoldKind::OptMap, 1, false),
        ("optFlatMap", 2) => (FoldKind::OptFlatMap, 1, false),
        _ => return None,
    })
}

fn has(at: usize, mut call: Call) -> Result<Expr, Issue> {
    let arg = call.args.remove(0);
    match arg.kind {
        Kind::Select(mut select) if select.mode == Mode::Value => {
            select.mode = Mode::Test;
            Ok(Expr::new(at, Kind::Select(select)))
        }
        _ => Err(Issue::new(arg.at, "invalid argument to has() macro")),
    }
}
