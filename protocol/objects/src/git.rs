//! Running `git` so that nothing of the caller's surroundings reaches in: no `GIT_*` variables, no system or user
//! configuration, no prompts, no optional locks, no network; bounded in time and output.

use crate::limits;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

/// A version of git, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

/// The oldest git that will do: the first one that can be told to ignore the user's configuration (`GIT_CONFIG_GLOBAL`).
pub const OLDEST: Version = Version { major: 2, minor: 32 };

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why git did not do it.
#[derive(Debug)]
pub enum GitError {
    /// There is no git.
    Missing {
        /// What was tried.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is there and too old.
    TooOld {
        /// As it calls itself.
        found: String,
    },
    /// It ended badly.
    Failed {
        /// The command without its data.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        message: String,
    },
    /// It took too long and was ended.
    TimedOut {
        /// The command without its data.
        command: String,
        /// The limit.
        after: Duration,
    },
    /// It wrote more than can be held.
    TooMuchOutput {
        /// The command without its data.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// It wrote what it never should.
    Unexpected {
        /// The command without its data.
        command: String,
        /// What was wrong.
        what: String,
    },
    /// A file or pipe beside it failed.
    Io {
        /// Which, and what was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl GitError {
    /// A failure of a file, with what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, .. } => {
                write!(f, "`{}` can't be started; git {OLDEST} or newer is needed", program.display())
            }
            Self::TooOld { found } => {
                write!(f, "this machine's git is {found}; {OLDEST} or newer is needed")
            }
            Self::Failed { command, status, message } => {
                write!(f, "`git {command}` failed ({status}): {}", message.trim())
            }
            Self::TimedOut { command, after } => {
                write!(f, "`git {command}` was ended after {} seconds", after.as_secs())
            }
            Self::TooMuchOutput { command, limit } => {
                write!(f, "`git {command}` wrote more than {limit} bytes")
            }
            Self::Unexpected { command, what } => write!(f, "`git {command}` answered oddly: {what}"),
            Self::Io { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Missing { source, .. } | Self::Io { source, .. } => Some(source),
            Self::TooOld { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::TooMuchOutput { .. }
            | Self::Unexpected { .. } => None,
        }
    }
}

/// Where a git command works.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The git directory; found from the current directory if absent.
    pub git_dir: Option<PathBuf>,
    /// The files; none for a bare repository.
    pub work_tree: Option<PathBuf>,
    /// The index, if not the git directory's own.
    pub index: Option<PathBuf>,
}

/// A git that was asked for its version.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    git: Git,
}

/// By what a program that was replaced is told from the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    /// Of a program; none for what is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let is_program = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
        let stamp = Self { modified: metadata.modified().ok(), bytes: metadata.len(), inode: metadata.ino() };
        is_program.then_some(stamp)
    }
}

/// A git that will do.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    version: Version,
}

impl Git {
    /// Finds `git` in `PATH` and checks its version.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`].
    pub fn find() -> Result<Self, GitError> {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        Self::find_in(&std::env::var_os("PATH").unwrap_or_default(), &KNOWN)
    }

    /// The one in these directories; it is asked for its version again only when it is another one than was known.
    fn find_in(directories: &OsStr, known: &Mutex<Option<Known>>) -> Result<Self, GitError> {
        let Some((program, stamp)) = std::env::split_paths(directories).find_map(|directory| {
            let program = directory.join("git");
            Stamp::of(&program).map(|stamp| (program, stamp))
        }) else {
            return Self::at(Path::new("git"));
        };
        let is_this = |known: &&Known| known.stamp == stamp && known.git.program == program;
        if let Some(known) = known.lock().unwrap_or_else(PoisonError::into_inner).as_ref().filter(is_this) {
            return Ok(known.git.clone());
        }
        let git = Self::at(&program)?;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known { stamp, git: git.clone() });
        Ok(git)
    }

    /// Checks this one.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`].
    pub fn at(program: &Path) -> Result<Self, GitError> {
        // It reads the configuration even for this, and one that it does not take says nothing of the version.
        let output = Command::new(program)
            .arg("version")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| GitError::Missing { program: program.to_owned(), source })?;
        let text = String::from_utf8_lossy(&output.stdout);
        match parse_version(&text) {
            Some(version) if version >= OLDEST => Ok(Self { program: program.to_owned(), version }),
            _ => Err(GitError::TooOld { found: text.trim().to_owned() }),
        }
    }

    /// Which version it is.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// A command that only this place's own configuration governs.
    pub fn run(&self, place: &Place) -> Call {
        let mut call = self.run_as_user(place);
        call.command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        call
    }

    /// A command that also sees the user's configuration: for asking, never for writing.
    pub fn run_as_user(&self, place: &Place) -> Call {
        let mut command = Command::new(&self.program);
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
        Call { command, name: String::new(), stdin: None, limit: limits::GIT_OUTPUT_BYTES_MAX }
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.trim().strip_prefix("git version ")?.split(['.', ' ']);
    Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

/// A git command that is being put together.
#[derive(Debug)]
pub struct Call {
    command: Command,
    name: String,
    stdin: Option<Vec<u8>>,
    limit: usize,
}

impl Call {
    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            if self.name.len() < 120 {
                if !self.name.is_empty() {
                    self.name.push(' ');
                }
                self.name.push_str(&argument.as_ref().to_string_lossy());
            }
            self.command.arg(argument);
        }
        self
    }

    /// Gives it this on standard input; nothing otherwise.
    #[must_use]
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    /// Runs it and gives its standard output.
    ///
    /// # Errors
    /// Every [`GitError`] except those of finding git.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        let (status, output, message, name) = self.finish(None)?;
        checked(status, message, name).map(|()| output)
    }

    /// Runs it and gives its standard output, and what it said beside it.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_and_remarks(self) -> Result<(Vec<u8>, String), GitError> {
        let (status, output, message, name) = self.finish(None)?;
        checked(status, message.clone(), name).map(|()| (output, message))
    }

    /// Runs it and gives its standard output, or none if it ended with code 1: how git says "there is none".
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_or_none(self) -> Result<Option<Vec<u8>>, GitError> {
        let (status, output, message, name) = self.finish(None)?;
        if status.code() == Some(1) {
            return Ok(None);
        }
        checked(status, message, name).map(|()| Some(output))
    }

    /// Runs it and gives its standard output as text without the last line's end.
    ///
    /// # Errors
    /// As for [`Call::output`]; [`GitError::Unexpected`] if it is not UTF-8.
    pub fn text(self) -> Result<String, GitError> {
        let name = self.name.clone();
        let mut text = String::from_utf8(self.output()?)
            .map_err(|_| GitError::Unexpected { command: name, what: "the answer is not UTF-8".into() })?;
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    /// Runs it with its standard output into a file.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_into(self, file: File) -> Result<(), GitError> {
        let (status, _, message, name) = self.finish(Some(file))?;
        checked(status, message, name)
    }

    /// Runs it with a file as its standard input.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn input_from(mut self, file: File) -> Result<Vec<u8>, GitError> {
        self.command.stdin(Stdio::from(file));
        self.stdin = None;
        let (status, output, message, name) = self.start(None)?;
        checked(status, message, name).map(|()| output)
    }

    fn finish(mut self, into: Option<File>) -> Result<Ended, GitError> {
        self.command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        self.start(into)
    }

    fn start(mut self, into: Option<File>) -> Result<Ended, GitError> {
        self.command.stderr(Stdio::piped());
        self.command.stdout(match into {
            Some(file) => Stdio::from(file),
            None => Stdio::piped(),
        });
        let program = PathBuf::from(self.command.get_program());
        let mut child = self.command.spawn().map_err(|source| GitError::Missing { program, source })?;
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.take(), child.stdin.take()) {
            // A git that ends early closes the pipe; its status says why.
            std::thread::spawn(move || pipe.write_all(&bytes).ok());
        }
        let errors = child.stderr.take().map(|pipe| read_aside(pipe, limits::GIT_MESSAGE_BYTES_MAX));
        let output = child.stdout.take().map(|pipe| read_aside(pipe, self.limit));
        let deadline = Instant::now() + limits::GIT_RUN_MAX;
        let output = match output {
            None => Vec::new(),
            Some(receiver) => match receiver.recv_timeout(limits::GIT_RUN_MAX) {
                Ok(Ok((_, true))) => {
                    end(&mut child);
                    return Err(GitError::TooMuchOutput { command: self.name, limit: self.limit });
                }
                Ok(Ok((bytes, false))) => bytes,
                Ok(Err(source)) => {
                    end(&mut child);
                    return Err(GitError::Io { what: format!("the output of `git {}`", self.name), source });
                }
                Err(_) => {
                    end(&mut child);
                    return Err(GitError::TimedOut { command: self.name, after: limits::GIT_RUN_MAX });
                }
            },
        };
        let message = errors.and_then(|receiver| {
            receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
        });
        let Some(message) = message else {
            end(&mut child);
            return Err(GitError::TimedOut { command: self.name, after: limits::GIT_RUN_MAX });
        };
        let status = child.wait().map_err(GitError::io(format!("waiting for `git {}`", self.name)))?;
        let message = message.map(|(bytes, _)| bytes).unwrap_or_default();
        Ok((status, output, String::from_utf8_lossy(&message).into_owned(), self.name))
    }
}

type Ended = (ExitStatus, Vec<u8>, String, String);

fn checked(status: ExitStatus, message: String, command: String) -> Result<(), GitError> {
    if status.success() { Ok(()) } else { Err(GitError::Failed { command, status, message }) }
}

fn end(child: &mut Child) {
    child.kill().ok();
    child.wait().ok();
}

/// Reads a pipe to its end in a thread; keeps at most `limit` bytes and says whether there were more.
fn read_aside(
    mut pipe: impl Read + Send + 'static,
    limit: usize,
) -> mpsc::Receiver<io::Result<(Vec<u8>, bool)>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let result = pipe.by_ref().take(limit as u64).read_to_end(&mut kept);
        let more = io::copy(&mut pipe, &mut io::sink()).is_ok_and(|more| more > 0);
        sender.send(result.map(|_| (kept, more))).ok();
    });
    receiver
}

/// Splits output of a command with `-z`.
pub fn split_nul(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Git, GitError, OLDEST, Place, Version, parse_version, split_nul};
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
    fn one_that_was_replaced_is_asked_for_its_version_again() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths = std::env::join_paths(directories.iter().map(tempfile::TempDir::path)).unwrap();
        let put = |directory: usize, version: &str| {
            let beside = directories[directory].path().join("new");
            // As git where a configuration is broken: it says nothing of its version where it reads that.
            let script = format!(
                "#!/bin/sh\n[ \"$GIT_CONFIG_GLOBAL\" = /dev/null ] || exit 128\necho x >> $0.asked\necho git version {version}\n"
            );
            // Written by another process: what another test's child has open for writing can't be executed.
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
