//! The build tools that detection knows, one file each.
//!
//! To add a tool: a file with a type that implements [`Tool`] and a function `detect`, and a line in [`DETECTORS`].

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
use super::quote::quoted;
use std::num::NonZeroU32;

pub(super) use python::loose_tests;

/// Why a tool has no command for a goal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The tool can't do this here. Another tool of the project may.
    Goal(String),
    /// The tool does this, but not with the given option. Another tool would run something else.
    Option(String),
}

/// How a tool tests and builds a project. The commands are for `sh -c`.
pub(super) trait Tool {
    /// The command that runs the tests, or only those that `filter` selects.
    fn test(&self, filter: Option<&str>) -> Result<String, Refusal>;

    /// The command that builds the project, or only `target`.
    fn build(&self, target: Option<&str>, release: bool, parallel: Parallel) -> Result<String, Refusal>;

    /// Globs of the test reports that the tool writes by itself.
    fn test_reports(&self) -> &'static [&'static str] {
        &[]
    }
}

/// How many processes a build may start at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parallel(pub(super) Option<NonZeroU32>);

impl Parallel {
    /// A word of a shell command: the number, or the processors of the machine that runs it.
    /// `getconf _NPROCESSORS_ONLN` works on Linux and macOS (getconf(1) on both).
    fn word(self) -> String {
        match self.0 {
            Some(count) => count.to_string(),
            None => "\"$(getconf _NPROCESSORS_ONLN)\"".to_owned(),
        }
    }
}

/// A tool that the files of a directory show.
pub(super) struct Detected {
    /// The tool.
    pub(super) tool: Box<dyn Tool>,
    /// The file that shows it.
    pub(super) marker: String,
}

impl Detected {
    fn new(tool: impl Tool + 'static, marker: impl Into<String>) -> Self {
        Self { tool: Box::new(tool), marker: marker.into() }
    }

    /// The command for a goal.
    pub(super) fn command(&self, goal: Goal<'_>, parallel: Parallel) -> Result<String, Refusal> {
        match goal {
            Goal::Test { filter } => self.tool.test(filter),
            Goal::Build { target, release } => self.tool.build(target, release, parallel),
        }
    }

    /// Globs of the reports that the tool writes by itself.
    pub(super) fn reports(&self, goal: Goal<'_>) -> Vec<String> {
        match goal {
            Goal::Test { .. } => self.tool.test_reports().iter().map(|&glob| glob.to_owned()).collect(),
            Goal::Build { .. } => Vec::new(),
        }
    }
}

type Detector = fn(&Directory<'_>) -> Option<Detected>;

/// In order of precedence: tools that select single tests come before tools that wrap others.
const DETECTORS: [Detector; 20] = [
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
    just::detect,
    make::detect,
];

/// The tools of a directory, the preferred one first.
pub(super) fn detect(directory: &Directory<'_>) -> Vec<Detected> {
    DETECTORS.iter().filter_map(|detect| detect(directory)).collect()
}

/// `command option filter`, or the command alone.
fn with_filter(command: &str, option: &str, filter: Option<&str>) -> String {
    match filter {
        Some(filter) => format!("{command} {option}{}", quoted(filter)),
        None => command.to_owned(),
    }
}

/// `command option target`, or the command alone.
fn with_target(command: &str, option: &str, target: Option<&str>) -> String {
    with_filter(command, option, target)
}

/// The refusal of a tool that has no such option.
fn no_option(tool: &str, option: &str, instead: &str) -> Refusal {
    Refusal::Option(format!("{tool} has no `{option}`; {instead}"))
}
