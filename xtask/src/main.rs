//! `cargo xtask COMMAND`: the one entry to what developers and CI run. Each command is what its line in [`COMMANDS`] says.

use std::process::{Command, ExitCode};

/// Name, what it is for, and the programs that it runs one after the other.
const COMMANDS: &[(&str, &str, &[&[&str]])] = &[
    (
        "check",
        "format, lints and documentation, as CI checks them",
        &[
            &["cargo", "fmt", "--all", "--check"],
            &["cargo", "clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
            &["cargo", "doc", "--workspace", "--no-deps"],
        ],
    ),
    ("test", "the tests that need only Rust", &[&["cargo", "test", "--workspace", "--no-fail-fast"]]),
    ("stock", "the tests beside stock Kubernetes (needs Go)", &[&["hack/test-stock.sh"]]),
    ("deny", "licences, bans and sources of dependencies", &[&["hack/deny.sh"]]),
    ("soak", "property tests and random schedules with fresh cases", &[&["hack/soak.sh"]]),
    ("ci", "everything that must hold before a change lands", &[&["bash", ".ci/run"]]),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let Some((_, _, programs)) = COMMANDS.iter().find(|(name, ..)| *name == wanted) else {
        eprintln!("cargo xtask COMMAND [what the last program of it takes]\n");
        for (name, what, _) in COMMANDS {
            eprintln!("  {name:<6} {what}");
        }
        return ExitCode::from(2);
    };
    let rest: Vec<String> = arguments.collect();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for (index, program) in programs.iter().enumerate() {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(root);
        if index + 1 == programs.len() {
            command.args(&rest);
        }
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{} cannot be run: {error}", program[0]);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
