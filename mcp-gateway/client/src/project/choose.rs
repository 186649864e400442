//! Chooses the command that tests or builds a project.

use super::config::Configuration;
use super::configured::configured;
use super::directory::Directory;
use super::tools::{self, Detected, Parallel, Refusal};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Limit on projects below a directory that an error lists.
const LISTED_MAX: usize = 20;
/// Limit on directories that the search for projects below one visits.
const VISITED_MAX: usize = 2_000;
/// Depth of the search for projects below a directory.
const DEPTH_MAX: usize = 3;
/// Directories that hold dependencies or results, not projects.
pub(super) const SKIPPED: [&str; 8] =
    ["node_modules", "target", "build", "dist", "out", "vendor", "third_party", "venv"];

/// The purpose of a call.
#[derive(Clone, Copy, Debug)]
pub enum Goal<'a> {
    /// Run the tests.
    Test {
        /// Run only the tests that this selects: a name, or an expression of the test runner.
        filter: Option<&'a str>,
    },
    /// Build the project.
    Build {
        /// Build only this part, in the form of the tool.
        target: Option<&'a str>,
        /// Build with optimisation.
        release: bool,
    },
}

impl Goal<'_> {
    /// Returns `test` or `build`, the key in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Test { .. } => "test",
            Self::Build { .. } => "build",
        }
    }
}

/// A command and the reason for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Command for `sh -c`.
    pub command: String,
    /// The working directory.
    pub directory: PathBuf,
    /// The file that determined the choice, as a clause.
    pub because: String,
    /// Globs of the test reports that the tool writes by default.
    pub reports: Vec<String>,
}

/// Reason why no command can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChooseError {
    /// No file in the directory or above indicates a tool for the goal.
    #[error("{}", nothing_text(.directory, .goal, .unfit, .below))]
    Nothing {
        /// Where the search began.
        directory: PathBuf,
        /// `test` or `build`.
        goal: &'static str,
        /// The detected tools without a command for the goal, each with the reason.
        unfit: Vec<String>,
        /// The projects below the directory: relative directory and file, at most 20.
        below: Vec<String>,
    },
    /// The project's tool does not support an option of the call.
    #[error("{marker}: {reason}")]
    Option {
        /// The file that indicates the tool.
        marker: String,
        /// The option, the reason and the alternative.
        reason: String,
    },
    /// The configured command has no placeholder for an option of the call.
    #[error(
        "{}: {goal}: the command has no placeholder for `{option}`; add {{{option}}} to it, or give the whole command as `command`",
        .file.display()
    )]
    NoPlace {
        /// The configuration file.
        file: PathBuf,
        /// `test` or `build`.
        goal: &'static str,
        /// `filter`, `target` or `release`.
        option: &'static str,
    },
    /// The configured command has a placeholder inside quotes or a here-document.
    #[error(
        "{}: {goal}: {{{option}}} stands inside quotes or a here-document; put it outside, because the value is inserted as one quoted argument",
        .file.display()
    )]
    Quoted {
        /// The configuration file.
        file: PathBuf,
        /// `test` or `build`.
        goal: &'static str,
        /// `filter`, `target` or `release`.
        option: &'static str,
    },
    /// The configuration of the command is invalid.
    #[error(transparent)]
    Configuration(super::ConfigProblem),
}

fn nothing_text(directory: &Path, goal: &str, unfit: &[String], below: &[String]) -> String {
    let mut text = format!("no command to {goal} `{}` is known", directory.display());
    if !unfit.is_empty() {
        text.push_str(&format!(" ({})", unfit.join("; ")));
    }
    if !below.is_empty() {
        text.push_str(&format!("; projects below it: {}; give one as `cwd`", below.join(", ")));
    }
    text.push_str(&format!(
        "; give a command as `command`, or set `{goal}: \"…\"` in .buildpool/config.yaml"
    ));
    text
}

/// Chooses a command: the configured one, else that of the nearest tool at or above `directory`,
/// else pytest if the directory has test files for it. Directories above `top` are outside the
/// project and are not searched.
///
/// `processors` limits the processes of a build; without it, a build uses the processors of the
/// machine that runs it.
///
/// # Errors
/// [`ChooseError`]; each one contains the file or parameter to change.
pub fn choose(
    configuration: &Configuration,
    directory: &Path,
    top: &Path,
    goal: Goal<'_>,
    processors: Option<NonZeroU32>,
) -> Result<Chosen, ChooseError> {
    let mut unfit = Vec::new();
    if configuration.is_below(top) {
        if let Some(problem) = configuration.problem_of_command(goal.name()) {
            return Err(ChooseError::Configuration(problem.clone()));
        }
        if let Some((file, command)) = configuration.command(goal.name()) {
            return configured(file, configuration.root(), command, goal);
        }
        unfit.extend(configuration.notes());
    } else if let Some(file) = configuration.file() {
        unfit.push(format!("{}: its commands are for the directory above the project", file.display()));
    }
    let parallel = Parallel(processors);
    for place in directory.ancestors().take_while(|place| place.starts_with(top)) {
        let found = tools::detect(&Directory::read(place));
        for tool in &found {
            match tool.command(goal, parallel) {
                Ok(command) => {
                    return Ok(Chosen {
                        command,
                        directory: place.to_owned(),
                        because: because(tool, &found, directory, place),
                        reports: tool.reports(goal),
                    });
                }
                Err(Refusal::Goal(reason)) => unfit.push(format!("{}: {reason}", tool.marker)),
                Err(Refusal::Option(reason)) => {
                    return Err(ChooseError::Option { marker: tool.marker.clone(), reason });
                }
            }
        }
    }
    if let Some(tool) = tools::loose_tests(&Directory::read(directory))
        && let Ok(command) = tool.command(goal, parallel)
    {
        let because = because(&tool, &[], directory, directory);
        return Ok(Chosen { command, directory: directory.to_owned(), because, reports: tool.reports(goal) });
    }
    let below = projects_below(directory);
    Err(ChooseError::Nothing { directory: directory.to_owned(), goal: goal.name(), unfit, below })
}

/// Returns the root of the repository that contains a directory.
pub fn repository_of(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|place| place.join(".git").exists())
}

/// Returns the directories below this one with a detected tool, each with the detected file. A
/// project's own subprojects are not listed.
fn projects_below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut visited = 0;
    let mut walk =
        walkdir::WalkDir::new(directory).min_depth(1).max_depth(DEPTH_MAX).sort_by_file_name().into_iter();
    while let Some(entry) = walk.next() {
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy();
        visited += 1;
        if visited > VISITED_MAX || found.len() == LISTED_MAX {
            break;
        }
        if name.starts_with('.') || SKIPPED.contains(&name.as_ref()) {
            walk.skip_current_dir();
            continue;
        }
        if let Some(tool) = tools::detect(&Directory::read(entry.path())).first() {
            let relative = entry.path().strip_prefix(directory).unwrap_or(entry.path());
            found.push(format!("{} ({})", relative.display(), tool.marker));
            walk.skip_current_dir();
        }
    }
    found
}

fn because(tool: &Detected, found: &[Detected], asked: &Path, place: &Path) -> String {
    let mut text = format!("{} was found", tool.marker);
    if asked != place {
        text = format!("{} was found in {}", tool.marker, place.display());
    }
    let others: Vec<&str> =
        found.iter().filter(|other| other.marker != tool.marker).map(|other| other.marker.as_str()).collect();
    if !others.is_empty() {
        text.push_str(&format!(" (also {}; give `command` for another tool)", others.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests;
