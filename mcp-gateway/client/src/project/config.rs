//! `.buildpool/config.yaml` and `.quiet-shell/config.yaml`: their location, content and changes.

use buildpool_digest::templates::FILES;
use buildpool_protocol::limits::LIST_MAX;
use buildpool_protocol::spec::check_setup_input;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Limit on the problems of a file that are shown with each job.
const PROBLEMS_TOLD_MAX: usize = 5;
/// Limit on directories with a cached configuration.
const CACHED_MAX: usize = 256;

/// Keys of `.buildpool/config.yaml` with a text as value.
const TEXT_KEYS: [&str; 4] = ["test", "build", SETUP_KEY, GROUP_KEY];
/// Key of the command that prepares a workspace.
const SETUP_KEY: &str = "setup";
/// Key of the globs of the files that the setup depends on.
const INPUTS_KEY: &str = "setup_inputs";
/// Key of the quarantine of flaky tests: true or false.
const QUARANTINE_KEY: &str = "quarantine";
/// Key of the templates, which `buildpool_digest::templates` reads.
const TEMPLATES_KEY: &str = "templates";
/// Key of the concurrency group: of the jobs in one group, one runs at a time.
const GROUP_KEY: &str = "concurrency_group";

/// The texts of the configuration, by key.
pub type Commands = BTreeMap<String, String>;

/// The command of `setup`, and the globs of `setup_inputs` if the file has them.
pub type SetupEntry<'a> = (&'a str, Option<&'a [String]>);

/// A problem in a configuration file. The valid parts of the file still apply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {}{reason}", .file.display(), key_prefix(.key))]
pub struct ConfigProblem {
    /// Path of the file.
    pub file: PathBuf,
    /// The key, with dots; empty if the problem concerns the whole file.
    pub key: String,
    /// The reason and the valid values.
    pub reason: String,
}

/// Returns the part of a message that names the key, or nothing for a problem of the whole file.
fn key_prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// The configuration for a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    root: PathBuf,
    file: Option<PathBuf>,
    text: Option<String>,
    commands: Commands,
    setup_inputs: Option<Vec<String>>,
    quarantine: bool,
    problems: Vec<ConfigProblem>,
}

/// Returns the configuration file for a directory: that of the nearest directory upward with one. A
/// relative path is relative to the current directory.
pub fn nearest(directory: &Path) -> Option<PathBuf> {
    whole(directory)
        .ancestors()
        .find_map(|place| FILES.iter().map(|file| place.join(file)).find(|path| path.is_file()))
}

/// Returns the absolute path: a relative one lacks its outer ancestors.
fn whole(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

impl Configuration {
    /// Reads the configuration for a directory. Invalid parts become problems, not errors.
    pub fn load(directory: &Path) -> Self {
        match nearest(directory) {
            Some(file) => Self::read(file),
            None => Self { root: whole(directory), ..Self::default() },
        }
    }

    fn read(file: PathBuf) -> Self {
        let root = file.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
        let mut configuration = Self { root, file: Some(file.clone()), ..Self::default() };
        match text_of(&file) {
            Ok(text) => {
                configuration.read_commands(&file, &text);
                configuration.text = Some(text);
            }
            Err(reason) => configuration.problem(&file, "", reason),
        }
        configuration
    }

    fn read_commands(&mut self, file: &Path, text: &str) {
        let keys: BTreeMap<String, Value> = match serde_saphyr::from_str::<Option<_>>(text) {
            Ok(keys) => keys.unwrap_or_default(),
            Err(error) => {
                let line = error.to_string();
                let line = line.lines().next().unwrap_or_default();
                return self.problem(file, "", format!("invalid YAML: {line}"));
            }
        };
        // The other file belongs to another product, and has keys of that product in addition to
        // the templates.
        if !file.ends_with(FILES[0]) {
            return;
        }
        for (key, value) in keys {
            match value {
                _ if key == TEMPLATES_KEY => {}
                value if key == INPUTS_KEY => match inputs(&value) {
                    Ok(inputs) => self.setup_inputs = Some(inputs),
                    Err(reason) => self.problem(file, INPUTS_KEY, reason),
                },
                Value::Bool(quarantine) if key == QUARANTINE_KEY => self.quarantine = quarantine,
                other if key == QUARANTINE_KEY => {
                    self.problem(file, &key, format!("invalid value {other}: must be true or false"));
                }
                _ if !TEXT_KEYS.contains(&key.as_str()) => {
                    self.problem(file, &key, format!("unknown key; valid are {}", valid_keys()));
                }
                Value::String(text) if !text.trim().is_empty() => {
                    self.commands.insert(key, text);
                }
                other => {
                    let reason = format!("invalid value {other}: must be a text, e.g. \"make {key}\"");
                    self.problem(file, &key, reason);
                }
            }
        }
        self.check_setup(file);
    }

    fn check_setup(&mut self, file: &Path) {
        if self.setup_inputs.is_some() && !self.commands.contains_key(SETUP_KEY) {
            let reason = "has no effect without `setup`; add `setup: \"COMMAND\"` or remove it";
            self.problem(file, INPUTS_KEY, reason);
        }
    }

    fn problem(&mut self, file: &Path, key: &str, reason: impl Into<String>) {
        self.problems.push(ConfigProblem {
            file: file.to_owned(),
            key: key.to_owned(),
            reason: reason.into(),
        });
    }

    /// Returns the directory that contains `.buildpool`. Without a file, returns the requested
    /// directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if the configuration is in this directory or below it.
    pub fn is_below(&self, top: &Path) -> bool {
        self.root.starts_with(top)
    }

    /// Returns the path of the file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the text of the file, if it could be read.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns a command of the file, with the path of the file.
    pub fn command(&self, name: &str) -> Option<(&Path, &str)> {
        Some((self.file.as_deref()?, self.commands.get(name)?))
    }

    /// Returns the concurrency group of the project in this directory: of its jobs, one runs at a time. A file above the
    /// project is not its own.
    ///
    /// # Errors
    /// If the configured value is invalid.
    pub fn concurrency_group_of(&self, project: &Path) -> Result<Option<&str>, ConfigProblem> {
        if !self.is_below(project) {
            return Ok(None);
        }
        match self.problems.iter().find(|problem| problem.key == GROUP_KEY) {
            Some(problem) => Err(problem.clone()),
            None => Ok(self.commands.get(GROUP_KEY).map(String::as_str)),
        }
    }

    /// Returns true if the project requests a quarantine of flaky tests.
    pub fn quarantine(&self) -> bool {
        self.quarantine
    }

    /// Returns the command that prepares a workspace, and the globs of its inputs if the file
    /// contains them.
    ///
    /// # Errors
    /// If one of the two entries is invalid.
    pub fn setup(&self) -> Result<Option<SetupEntry<'_>>, ConfigProblem> {
        let is_of_setup = |problem: &&ConfigProblem| [SETUP_KEY, INPUTS_KEY].contains(&problem.key.as_str());
        match self.problems.iter().find(is_of_setup) {
            Some(problem) => Err(problem.clone()),
            None => Ok(self
                .commands
                .get(SETUP_KEY)
                .map(|command| (command.as_str(), self.setup_inputs.as_deref()))),
        }
    }

    /// Returns the problem of a command; also if the file can't be read at all.
    pub fn problem_of_command(&self, name: &str) -> Option<&ConfigProblem> {
        self.problems.iter().find(|problem| problem.key.is_empty() || problem.key == name)
    }

    /// Returns the problems for a submitter, the first ones. The valid parts of the file apply, so a wrong key stops no
    /// job, except the concurrency group: jobs of a device must not run at the same time.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.problems.iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string)
    }

    /// Returns all problems of the commands.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

fn valid_keys() -> String {
    format!("{}, {INPUTS_KEY}, {QUARANTINE_KEY}, {TEMPLATES_KEY}", TEXT_KEYS.join(", "))
}

/// Parses the globs of a `setup_inputs` entry.
fn inputs(value: &Value) -> Result<Vec<String>, String> {
    let invalid = || format!("invalid value {value}: must be a list of globs, e.g. [package-lock.json]");
    let globs = value.as_array().ok_or_else(invalid)?;
    let globs: Vec<String> = globs
        .iter()
        .map(|glob| glob.as_str().map(str::to_owned).ok_or_else(invalid))
        .collect::<Result<_, _>>()?;
    if globs.len() > LIST_MAX {
        return Err(format!("has {} globs; at most {LIST_MAX} are valid", globs.len()));
    }
    globs.iter().try_for_each(|glob| check_setup_input(glob)).map_err(|error| error.reason)?;
    Ok(globs)
}

fn text_of(file: &Path) -> Result<String, String> {
    let length = fs::metadata(file).map_err(|error| format!("can't be read: {error}"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("has {length} bytes; at most {FILE_BYTES_MAX} are valid"));
    }
    fs::read_to_string(file).map_err(|error| format!("can't be read: {error}"))
}

/// Attributes that change when the file changes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    file: Option<PathBuf>,
    modified: Option<SystemTime>,
    length: u64,
}

impl Stamp {
    fn of(directory: &Path) -> Self {
        let file = nearest(directory);
        let metadata = file.as_ref().and_then(|file| fs::metadata(file).ok());
        Self {
            file,
            modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            length: metadata.map_or(0, |metadata| metadata.len()),
        }
    }
}

/// Cached configurations by directory. They are read again when their file has changed.
#[derive(Debug, Default)]
pub struct ConfigurationCache {
    entries: Mutex<BTreeMap<PathBuf, (Stamp, Arc<Configuration>)>>,
}

impl ConfigurationCache {
    /// Returns the current configuration for a directory.
    pub fn load(&self, directory: &Path) -> Arc<Configuration> {
        let stamp = Stamp::of(directory);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, configuration)) = entries.get(directory)
            && *known == stamp
        {
            return configuration.clone();
        }
        if entries.len() >= CACHED_MAX {
            entries.pop_first();
        }
        let configuration = Arc::new(Configuration::load(directory));
        entries.insert(directory.to_owned(), (stamp, configuration.clone()));
        configuration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_lies_above_a_relative_directory_is_searched_too() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(Configuration::load(Path::new(".")), Configuration::load(&here));
        assert_eq!(nearest(Path::new("src/project")), nearest(&here.join("src/project")));
    }

    #[test]
    fn the_nearest_directory_with_either_file_holds_and_buildpool_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(nearest(&inner), None);
        for (file, expected) in [
            (".quiet-shell/config.yaml", ".quiet-shell/config.yaml"),
            (".buildpool/config.yaml", ".buildpool/config.yaml"),
            ("a/.quiet-shell/config.yaml", "a/.quiet-shell/config.yaml"),
            ("a/b/.buildpool/config.yaml", "a/b/.buildpool/config.yaml"),
        ] {
            write(&directory.path().join(file), "");
            assert_eq!(nearest(&inner), Some(directory.path().join(expected)));
        }
    }

    #[test]
    fn a_wrong_key_is_reported_and_the_others_are_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".buildpool/config.yaml");
        for (text, key, reason) in [
            (
                "{test: make check, lint: x}",
                "lint",
                "valid are test, build, setup, concurrency_group, setup_inputs, quarantine, templates",
            ),
            ("{test: make check, build: []}", "build", "must be a text"),
            ("{test: make check, quarantine: sometimes}", "quarantine", "must be true or false"),
        ] {
            write(&file, text);
            let configuration = Configuration::load(directory.path());
            assert_eq!(configuration.command("test").unwrap().1, "make check");
            let [problem] = configuration.problems() else { panic!("{text}: {configuration:?}") };
            assert_eq!((problem.key.as_str(), &problem.file), (key, &file));
            assert!(problem.reason.contains(reason), "{problem}");
        }
        for text in ["[", "3"] {
            write(&file, text);
            let configuration = Configuration::load(directory.path());
            assert!(configuration.problem_of_command("test").is_some(), "{text}");
        }
        write(&file, "");
        assert_eq!(Configuration::load(directory.path()).problems(), []);
    }

    #[test]
    fn the_file_of_the_other_product_has_templates_only() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory.path().join(".quiet-shell/config.yaml"), "{test: make, theirs: 1}");
        let configuration = Configuration::load(directory.path());
        assert_eq!((configuration.command("test"), configuration.problems()), (None, &[][..]));
    }

    #[test]
    fn the_concurrency_group_is_a_text() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".buildpool/config.yaml");
        write(&file, "{test: make check, concurrency_group: device}");
        assert_eq!(
            Configuration::load(directory.path()).concurrency_group_of(directory.path()),
            Ok(Some("device"))
        );
        let inner = directory.path().join("project");
        assert_eq!(Configuration::load(&inner).concurrency_group_of(&inner), Ok(None), "a file above it");
        write(&file, "concurrency_group: [device]");
        let problem =
            Configuration::load(directory.path()).concurrency_group_of(directory.path()).unwrap_err();
        assert!(problem.to_string().contains("concurrency_group: invalid value [\"device\"]"), "{problem}");
        write(&file, "");
        assert_eq!(Configuration::load(directory.path()).concurrency_group_of(directory.path()), Ok(None));
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".buildpool/config.yaml");
        let cache = ConfigurationCache::default();
        let command = || cache.load(directory.path()).command("test").map(|(_, command)| command.to_owned());
        assert_eq!(command(), None);
        write(&file, "test: one");
        assert_eq!(command().as_deref(), Some("one"));
        write(&file, "test: other");
        assert_eq!(command().as_deref(), Some("other"));
        fs::remove_file(&file).unwrap();
        assert_eq!(command(), None);
    }
}
