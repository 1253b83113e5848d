//! Messages about many clusters.

use std::fmt::Display;

/// What people read at once; of a thousand clusters the rest is in the placement.
const TOLD: usize = 10;

/// The first of them, and how many more there are.
pub(crate) fn several<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut items = items.into_iter();
    let told: Vec<String> = items.by_ref().take(TOLD).map(|item| item.to_string()).collect();
    let text = told.join(separator);
    match items.count() {
        0 => text,
        more => format!("{text}{separator}and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted_and_few_are_told() {
        assert_eq!(several(Vec::<u8>::new(), "; "), "");
        assert_eq!(several([1, 2], "; "), "1; 2");
        assert_eq!(several(1..=10, " "), "1 2 3 4 5 6 7 8 9 10");
        assert_eq!(several(1..=1000, " "), "1 2 3 4 5 6 7 8 9 10 and 990 more");
    }
}
