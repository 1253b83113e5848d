//! What can be said without a server: documents and data are in order.

use koinon_conformance::generate;
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

#[test]
fn sequences_are_the_same_for_the_same_seed() {
    let print = |seed| generate::sequence(seed).iter().map(|step| format!("{step}\n")).collect::<String>();
    for seed in 0..100 {
        let first = print(seed);
        assert_eq!(first, print(seed));
        assert!(generate::sequence(seed).len() >= 20, "seed {seed} is short");
    }
    assert_ne!(print(0), print(1));
}

#[test]
fn scripts_are_well_formed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/kubectl");
    for entry in std::fs::read_dir(folder).expect("the folder of the scripts") {
        let path = entry.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a readable script");
        let steps: Result<Vec<koinon_conformance::script::Step>, _> = serde_saphyr::from_str(&text);
        assert!(steps.is_ok_and(|steps| !steps.is_empty()), "{}", path.display());
    }
}
