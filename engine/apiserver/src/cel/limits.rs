//! What the rules of a CRD may cost at most, one by one and together, for the CRD to be accepted.

use crate::field::{Error, Path};

/// Of one expression, as often as its place can occur (`StaticEstimatedCostLimit` of a stock server).
const MOST_OF_ONE: u64 = 10_000_000;
/// Of all rules of one schema (`StaticEstimatedCRDCostLimit`).
const MOST_OF_ALL: u64 = 100_000_000;
/// So many rules are named when all together cost too much.
const NAMED: usize = 4;

/// What an expression is estimated to cost, and where it is.
#[derive(Debug)]
pub struct Estimated {
    pub path: Path,
    pub cost: u64,
}

/// What is wrong with an expression that may cost as much.
pub(super) fn of_one(path: &Path, what: &str, cost: u64) -> Option<Error> {
    (cost > MOST_OF_ONE).then(|| Error::forbidden(path, too_much(what, cost, MOST_OF_ONE)))
}

/// What is wrong with all rules of the schema at `path`, if they may cost too much together.
pub(crate) fn of_all(costs: impl IntoIterator<Item = Estimated>, path: &Path) -> Vec<Error> {
    let mut total = 0_u64;
    let mut largest: Vec<Estimated> = Vec::new();
    for one in costs {
        total = total.saturating_add(one.cost);
        if one.cost >= MOST_OF_ALL / 100 {
            largest.push(one);
            largest.sort_by_key(|one| std::cmp::Reverse(one.cost));
            largest.truncate(NAMED);
        }
    }
    if total <= MOST_OF_ALL {
        return Vec::new();
    }
    let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    let mut errors: Vec<Error> = largest.iter().map(|one| Error::forbidden(&one.path, why)).collect();
    errors.push(Error::forbidden(path, too_much(what, total, MOST_OF_ALL)));
    errors
}

fn too_much(what: &str, cost: u64, most: u64) -> String {
    let times = cost as f64 / most as f64;
    let times = match times {
        times if times > 100.0 => "more than 100x".to_owned(),
        times if times < 1.5 => format!("{times:.6}x"),
        times => format!("{times:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
