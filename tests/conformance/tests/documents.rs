//! The list of known differences is the same in the code and in the document.

use koinon_conformance::known::{KNOWN, KNOWN_TEXTS};

#[test]
fn known_differences_are_documented() {
    let document = include_str!("../../../docs/differences.md");
    let told: Vec<_> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` |"))
        .map(|(id, _)| id)
        .collect();
    let known: Vec<_> =
        KNOWN.iter().map(|known| known.id).chain(KNOWN_TEXTS.iter().map(|known| known.id)).collect();
    assert_eq!(told, known);
}
