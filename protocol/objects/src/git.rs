//! Runs `git` isolated from the caller's environment: no `GIT_*` variables, no system or user
//! configuration, no prompts, no optional locks, no network. Time and output are limited.

mod call;
mod dialog;
mod error;
mod stop;

pub use call::Call;
pub use dialog::Dialog;
pub use error::GitError;
pub use stop::Stop;

use crate::programs;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A git version, without its patch number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The oldest supported git. It is the first version that can ignore the user's configuration
/// (`GIT_CONFIG_GLOBAL`).
pub const OLDEST: Version = Version { major: 2, minor: 32 };

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The directories of a git command.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The git directory. If absent, git searches it from the current directory.
    pub git_dir: Option<PathBuf>,
    /// The working tree, or `None` for a bare repository.
    pub work_tree: Option<PathBuf>,
    /// The index, if it is not the index of the git directory.
    pub index: Option<PathBuf>,
}

/// A git with a known version.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    git: Git,
}

/// File metadata that changes if a program is replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    /// Returns the stamp of a program, or `None` if the path is not a program.
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let is_program = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
        let stamp = Self { modified: metadata.modified().ok(), bytes: metadata.len(), inode: metadata.ino() };
        is_program.then_some(stamp)
    }
}

/// A supported git.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    version: Version,
    /// Set if git reads objects from other parties. git then runs with limits, and this value stops
    /// it.
    service: Option<Stop>,
    /// Lower priority of a service's git.
    niceness: Option<Niceness>,
}

/// The path of `nice`, and the value that it adds.
#[derive(Clone, Debug)]
struct Niceness {
    program: PathBuf,
    added: u8,
}

/// Sets the limits of a service's git, then executes git. A limit that the system does not support
/// is skipped. macOS accepts `ulimit -v` and does not enforce it (getrlimit(2) there: RLIMIT_AS).
const LIMITED: &str = concat!(
    "ulimit -S -c 0 2>/dev/null; ulimit -S -v \"$BUILDPOOL_GIT_KIB\" 2>/dev/null; ",
    "ulimit -S -t \"$BUILDPOOL_GIT_SECONDS\" 2>/dev/null; exec \"$0\" \"$@\""
);

/// Settings of a service's git. They limit its memory on every machine. They also exclude the
/// user's files, because jobs may have replaced these with a pipe.
const SERVICE_SETTINGS: &[&str] = &[
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.packedGitWindowSize=64m",
    "core.packedGitLimit=512m",
    "core.bigFileThreshold=64m",
    "pack.windowMemory=256m",
    "pack.threads=2",
];

impl Git {
    /// Finds `git` in `PATH` and checks its version.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`].
    pub fn find() -> Result<Self, GitError> {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        Self::find_in(&std::env::var_os("PATH").unwrap_or_default(), &KNOWN)
    }

    /// Finds the git of a service (see [`crate::programs`]). `stop` ends its commands.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`].
    pub fn find_for_service(stop: &Stop) -> Result<Self, GitError> {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let missing = || GitError::Missing { program: "git".into(), source: io::ErrorKind::NotFound.into() };
        let program = programs::find("git").ok_or_else(missing)?;
        Ok(Self::known_at(&program, &KNOWN)?.for_service(stop))
    }

    /// Finds git in these directories. `git version` runs again only if the program has changed.
    fn find_in(directories: &OsStr, known: &Mutex<Option<Known>>) -> Result<Self, GitError> {
        let programs = std::env::split_paths(directories).map(|directory| directory.join("git"));
        match programs.into_iter().find(|program| Stamp::of(program).is_some()) {
            Some(program) => Self::known_at(&program, known),
            None => Self::at(Path::new("git")),
        }
    }

    fn known_at(program: &Path, known: &Mutex<Option<Known>>) -> Result<Self, GitError> {
        let Some(stamp) = Stamp::of(program) else { return Self::at(program) };
        let is_this = |known: &&Known| known.stamp == stamp && known.git.program == program;
        if let Some(known) = known.lock().unwrap_or_else(PoisonError::into_inner).as_ref().filter(is_this) {
            return Ok(known.git.clone());
        }
        let git = Self::at(program)?;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known { stamp, git: git.clone() });
        Ok(git)
    }

    /// Checks the version of this program.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`].
    pub fn at(program: &Path) -> Result<Self, GitError> {
        // git reads the configuration even for `git version`. An invalid configuration must not
        // make this check fail.
        let output = Command::new(program)
            .arg("version")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| GitError::Missing { program: program.to_owned(), source })?;
        let text = String::from_utf8_lossy(&output.stdout);
        match parse_version(&text) {
            Some(version) if version >= OLDEST => {
                Ok(Self { program: program.to_owned(), version, service: None, niceness: None })
            }
            _ => Err(GitError::TooOld { found: text.trim().to_owned() }),
        }
    }

    /// Returns the version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns this git with limits on memory, processor time and wall time, and without a home
    /// directory. It is for objects and files of other parties. `stop` ends its commands.
    #[must_use]
    pub fn for_service(self, stop: &Stop) -> Self {
        Self { service: Some(stop.clone()), ..self }
    }

    /// Returns this service's git with a lower priority (nice(1)). The priority stays if there is no program `nice`.
    #[must_use]
    pub fn with_niceness(self, added: u8) -> Self {
        Self { niceness: programs::find("nice").map(|program| Niceness { program, added }), ..self }
    }

    /// Returns the stop of this git's commands. A git without limits returns a stop that is never
    /// stopped.
    pub fn stop(&self) -> Stop {
        self.service.clone().unwrap_or_default()
    }

    /// Returns a command that uses only the configuration of `place`.
    pub fn run(&self, place: &Place) -> Call {
        let mut call = self.run_as_user(place);
        call.command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        if self.service.is_some() {
            call.command
                .env("HOME", "/dev/null")
                .env("XDG_CONFIG_HOME", "/dev/null")
                // Use one arena for all threads. Each arena reserves 64 MiB of the memory limit.
                .env("MALLOC_ARENA_MAX", "1");
            call.command.args(SERVICE_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        }
        call
    }

    /// Returns a command that also reads the user's configuration. Use it only for read-only
    /// commands.
    pub fn run_as_user(&self, place: &Place) -> Call {
        let mut command = if self.service.is_some() {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", LIMITED]);
            if let Some(Niceness { program, added }) = &self.niceness {
                command.arg(program).args(["-n", &added.to_string()]);
            }
            command.arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_ALLOW_PROTOCOL", "none");
        if let Some(directory) = &place.git_dir {
            command.env("GIT_DIR", directory);
            command.current_dir(place.work_tree.as_ref().unwrap_or(directory));
        } else if let Some(directory) = &place.work_tree {
            command.current_dir(directory);
        }
        if let (Some(_), Some(tree)) = (&place.git_dir, &place.work_tree) {
            command.env("GIT_WORK_TREE", tree);
        }
        if let Some(index) = &place.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
        Call::new(command, self.service.clone())
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.trim().strip_prefix("git version ")?.split(['.', ' ']);
    Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

/// Splits the output of a command with `-z`.
pub fn split_nul(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Git, GitError, OLDEST, Place, Stop, Version, parse_version, split_nul};
    use std::path::Path;
    use std::sync::Mutex;

    #[test]
    fn versions_are_read_as_the_platforms_write_them() {
        for (text, expected) in [
            ("git version 2.47.3\n", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)\n", Some((2, 39))),
            ("git version 2.50.0.windows.1\n", Some((2, 50))),
            ("hub version 2.14\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text).map(|v| (v.major, v.minor)), expected, "{text}");
        }
        assert!(Version { major: 2, minor: 31 } < OLDEST && OLDEST < Version { major: 3, minor: 0 });
    }

    #[test]
    fn a_missing_and_an_old_git_are_told_apart() {
        assert!(matches!(Git::at(Path::new("/nowhere/git")), Err(GitError::Missing { .. })));
        assert!(matches!(Git::at(Path::new("/bin/echo")), Err(GitError::TooOld { .. })));
    }

    #[test]
    fn a_failure_names_the_command_and_what_git_said() {
        let place = Place { work_tree: Some("/".into()), ..Place::default() };
        let git = Git::find().unwrap();
        let error = git.run(&place).args(["cat-file", "-p", "nonsense"]).output().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("git cat-file -p nonsense") && text.contains("not a git repository"), "{text}");
    }

    #[test]
    fn large_input_and_output_do_not_wait_for_each_other() {
        let place = Place { work_tree: Some("/".into()), ..Place::default() };
        let git = Git::find().unwrap();
        let input = b"a b c\n".repeat(200_000);
        let output = git.run(&place).args(["stripspace"]).input(input.clone()).output().unwrap();
        assert_eq!(output, input);
        assert_eq!(split_nul(b"a\0b\0").count(), 2);
    }

    #[test]
    fn a_service_s_git_has_limits_and_no_home() {
        let git = Git::find().unwrap().for_service(&Stop::default());
        let place = Place { work_tree: Some("/".into()), ..Place::default() };
        let shown = "alias.shown=!ulimit -v; ulimit -t; echo $HOME $XDG_CONFIG_HOME";
        let text = git.run(&place).args(["-c", shown, "shown"]).text().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let has_memory_limit = cfg!(target_os = "linux");
        let kib = if has_memory_limit { "3145728" } else { lines[0] };
        assert_eq!(lines, [kib, "60", "/dev/null /dev/null"]);
        let spin = "alias.spin=!ulimit -S -t 1; while :; do :; done";
        let error = git.run(&place).args(["-c", spin, "spin"]).output().unwrap_err();
        assert!(matches!(error, GitError::Failed { .. } | GitError::OutOfTime { .. }), "{error}");
    }

    #[test]
    fn a_service_s_git_can_have_a_lower_priority_and_keeps_its_limits() {
        let niceness = |text: &str| text.trim().parse::<i32>().unwrap();
        let own = std::process::Command::new("nice").output().unwrap().stdout;
        let own = niceness(std::str::from_utf8(&own).unwrap());
        let git = Git::find().unwrap().for_service(&Stop::default()).with_niceness(5);
        let place = Place { work_tree: Some("/".into()), ..Place::default() };
        let text = git.run(&place).args(["-c", "alias.shown=!nice; ulimit -t", "shown"]).text().unwrap();
        let (shown, seconds) = text.split_once('\n').unwrap();
        assert_eq!((niceness(shown), seconds), ((own + 5).min(19), "60"));
    }

    #[test]
    fn a_command_ends_when_its_operation_is_stopped() {
        let stop = Stop::default();
        let git = Git::find().unwrap().for_service(&stop);
        let place = Place { work_tree: Some("/".into()), ..Place::default() };
        let (input, held) = nix::unistd::pipe().unwrap();
        let mut dialog = git.run(&place).args(["stripspace"]).dialog().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| git.run(&place).args(["stripspace"]).input_from(input.into()));
            let reads = scope.spawn(|| dialog.line());
            stop.stop();
            assert!(matches!(waits.join().unwrap(), Err(GitError::Stopped { .. })));
            assert!(matches!(reads.join().unwrap(), Err(GitError::Stopped { .. })));
        });
        drop(held);
        let later = git.run(&place).args(["version"]).output();
        assert!(matches!(later, Err(GitError::Stopped { .. })));
    }

    #[test]
    fn one_that_was_replaced_is_asked_for_its_version_again() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths = std::env::join_paths(directories.iter().map(tempfile::TempDir::path)).unwrap();
        let put = |directory: usize, version: &str| {
            let beside = directories[directory].path().join("new");
            // Like a git with an invalid configuration: it prints no version if it reads the
            // configuration.
            let script = format!(
                "#!/bin/sh\n[ \"$GIT_CONFIG_GLOBAL\" = /dev/null ] || exit 128\necho x >> $0.asked\necho git version {version}\n"
            );
            // Another process writes the file. An executable that a child of another test holds
            // open for writing cannot be executed.
            let mut copy = std::process::Command::new("sh");
            copy.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(&beside).arg(script);
            assert!(copy.status().unwrap().success());
            std::fs::rename(beside, directories[directory].path().join("git")).unwrap();
        };
        let known = Mutex::new(None);
        let find = || Git::find_in(&paths, &known).map(|git| (git.version().major, git.version().minor));
        put(1, "2.40.0");
        assert_eq!((find().unwrap(), find().unwrap()), ((2, 40), (2, 40)));
        let asked = std::fs::read_to_string(directories[1].path().join("git.asked")).unwrap();
        assert_eq!(asked, "x\n");
        put(1, "2.41.0.1");
        assert_eq!(find().unwrap(), (2, 41));
        put(0, "2.20.0");
        assert!(matches!(find(), Err(GitError::TooOld { .. })));
        put(0, "2.50.1");
        assert_eq!(find().unwrap(), (2, 50));
    }
}
