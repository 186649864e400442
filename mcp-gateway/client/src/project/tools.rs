//! The supported build tools, one file each.
//!
//! To add a tool: a file with a type that implements [`Tool`] and a function `detect`, and a line
//! in [`DETECTORS`].

mod bazel;
mod bundler;
mod cargo;
mod cmake;
mod composer;
mod deno;
mod dotnet;
mod go;
mod gradle;
mod just;
mod make;
mod maven;
mod meson;
mod mix;
mod monorepo;
mod node;
mod python;
mod sbt;
mod script;
mod swift;
mod xcode;
mod zig;

use super::choose::Goal;
use super::directory::Directory;
use buildpool_protocol::shell::quoted;
use std::num::NonZeroU32;

pub(super) use python::loose_tests;

/// Reason why a tool has no command for a goal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The tool can't do this here. Another tool of the project may.
    Goal(String),
    /// The tool does this, but not with the given option. Another tool would run something else.
    Option(String),
}

/// Test and build commands of a tool, for `sh -c`.
pub(super) trait Tool {
    /// Returns the command that runs the tests, or only those that `filter` selects.
    fn test(&self, filter: Option<&str>, parallel: Parallel) -> Result<String, Refusal>;

    /// Returns the command that builds the project, or only `target`.
    fn build(&self, target: Option<&str>, release: bool, parallel: Parallel) -> Result<String, Refusal>;

    /// Returns globs of the test reports that the tool writes by default.
    fn test_reports(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Limit on the concurrent processes of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parallel(pub(super) Option<NonZeroU32>);

impl Parallel {
    /// Returns a shell word: the number, or a command that prints the processors of the machine
    /// that runs it. `getconf _NPROCESSORS_ONLN` works on Linux and macOS (getconf(1) on both).
    fn word(self) -> String {
        match self.0 {
            Some(count) => count.to_string(),
            None => "\"$(getconf _NPROCESSORS_ONLN)\"".to_owned(),
        }
    }
}

/// A tool that was detected by a file.
pub(super) struct Detected {
    /// The tool.
    pub(super) tool: Box<dyn Tool>,
    /// The file that indicates it.
    pub(super) marker: String,
}

impl Detected {
    fn new(tool: impl Tool + 'static, marker: impl Into<String>) -> Self {
        Self { tool: Box::new(tool), marker: marker.into() }
    }

    /// Returns the command for a goal.
    pub(super) fn command(&self, goal: Goal<'_>, parallel: Parallel) -> Result<String, Refusal> {
        match goal {
            Goal::Test { filter } => self.tool.test(filter, parallel),
            Goal::Build { target, release } => self.tool.build(target, release, parallel),
        }
    }

    /// Returns globs of the reports that the tool writes by default.
    pub(super) fn reports(&self, goal: Goal<'_>) -> Vec<String> {
        match goal {
            Goal::Test { .. } => self.tool.test_reports().iter().map(|&glob| glob.to_owned()).collect(),
            Goal::Build { .. } => Vec::new(),
        }
    }
}

type Detector = fn(&Directory<'_>) -> Option<Detected>;

/// In order of precedence: tools that select single tests come before tools that wrap others.
const DETECTORS: [Detector; 21] = [
    cargo::detect,
    swift::detect,
    xcode::detect,
    go::detect,
    maven::detect,
    gradle::detect,
    sbt::detect,
    mix::detect,
    dotnet::detect,
    zig::detect,
    deno::detect,
    node::detect,
    monorepo::detect,
    bundler::detect,
    composer::detect,
    python::detect,
    bazel::detect,
    cmake::detect,
    meson::detect,
    just::detect,
    make::detect,
];

/// Returns the tools of a directory, the preferred one first.
pub(super) fn detect(directory: &Directory<'_>) -> Vec<Detected> {
    DETECTORS.iter().filter_map(|detect| detect(directory)).collect()
}

/// Returns `command option filter`, or the command alone.
fn with_filter(command: &str, option: &str, filter: Option<&str>) -> String {
    match filter {
        Some(filter) => format!("{command} {option}{}", quoted(filter)),
        None => command.to_owned(),
    }
}

/// Returns `command option target`, or the command alone.
fn with_target(command: &str, option: &str, target: Option<&str>) -> String {
    with_filter(command, option, target)
}

/// Returns the refusal of a tool without such an option.
fn no_option(tool: &str, option: &str, instead: &str) -> Refusal {
    Refusal::Option(format!("{tool} has no `{option}`; {instead}"))
}
