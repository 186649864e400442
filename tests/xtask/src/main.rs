//! Developer commands, run as `cargo xtask COMMAND`. CONTRIBUTING.md gives the duration of each.

mod crates;

use crates::Crate;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask check [BASE]     format, lint and unit-test the crates that changed since BASE (default: main)
       cargo xtask test             run all checks and tests, as continuous integration does
       cargo xtask bench [ARG]...   run the benchmarks; ARG goes to cargo bench (example: -p buildpool-digest)
       cargo xtask bless            rewrite the golden files, and list those that changed";

/// Crates that compare their output with golden files.
const GOLDEN: [&str; 4] = ["buildpool-protocol", "buildpool-gateway", "buildpool", "buildpool-digest"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check("main"),
        ["check", base] => check(base),
        ["test"] => run(Command::new("sh").arg("scripts/test.sh")),
        ["bench", rest @ ..] => run(cargo(["bench"]).args(rest)),
        ["bless"] => bless(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Formats, lints and unit-tests each crate with a file that differs from `base`, committed or not.
fn check(base: &str) -> Result<(), String> {
    let changed = changed_files(base)?;
    let all = crates::of_workspace(&root())?;
    let touched = crates::with_changes(&all, &changed);
    run(cargo(["fmt", "--all"]))?;
    if touched.is_empty() {
        eprintln!("no crate differs from {base}");
        return Ok(());
    }
    let packages: Vec<&str> = touched.iter().flat_map(|one| ["--package", &one.name]).collect();
    run(cargo(["clippy", "--all-targets"]).args(&packages).args(["--", "-D", "warnings"]))?;
    unit_tests("--lib", touched.iter().filter(|one| one.has_library))?;
    unit_tests("--bins", touched.iter().filter(|one| !one.has_library))
}

/// Runs the unit tests of some crates. Integration tests take too long for a quick check: `cargo xtask test` runs them.
fn unit_tests<'a>(target: &str, crates: impl Iterator<Item = &'a &'a Crate>) -> Result<(), String> {
    let packages: Vec<&str> = crates.flat_map(|one| ["--package", &one.name]).collect();
    if packages.is_empty() {
        return Ok(());
    }
    run(cargo(["test", target]).args(packages))
}

/// Paths, relative to the repository, that differ between `base` and the working tree.
fn changed_files(base: &str) -> Result<Vec<PathBuf>, String> {
    let fork = output(Command::new("git").args(["merge-base", base, "HEAD"]))?;
    let differs = output(Command::new("git").args(["diff", "--name-only", fork.trim()]))?;
    let new = output(Command::new("git").args(["ls-files", "--others", "--exclude-standard"]))?;
    Ok(differs.lines().chain(new.lines()).map(PathBuf::from).collect())
}

/// Rewrites the golden files and lists the changed ones, which the author reviews before a commit.
fn bless() -> Result<(), String> {
    let packages: Vec<&str> = GOLDEN.iter().flat_map(|name| ["--package", name]).collect();
    run(cargo(["test"]).args(packages).env("UPDATE_GOLDEN", "1"))?;
    let document = ["test", "--package", "buildpool-coordinator", "--lib", "net::api::document"];
    run(cargo(document).env("UPDATE_GOLDEN", "1"))?;
    run(Command::new("git").args([
        "status",
        "--short",
        "--",
        ":(glob)**/golden/**",
        "coordinator/digest/samples",
        "docs",
    ]))
}

fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    // Cargo sets CARGO for the programs that it runs.
    let mut command = Command::new(env::var_os("CARGO").as_deref().unwrap_or(OsStr::new("cargo")));
    command.args(arguments);
    command
}

fn run(command: impl std::borrow::BorrowMut<Command>) -> Result<(), String> {
    let mut command = command;
    let command = command.borrow_mut().current_dir(root());
    let status = command.status().map_err(|error| format!("start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let command = command.current_dir(root());
    let done = command.output().map_err(|error| format!("start {command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr)));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Root of the repository: this crate is in `tests/xtask`.
fn root() -> PathBuf {
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    this.ancestors().nth(2).unwrap_or(this).to_owned()
}
