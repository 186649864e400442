//! Errors of snapshots.

use super::index_file::IndexError;
use crate::project::ConfigProblem;
use buildpool_objects::GitError;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a snapshot could not be taken or packed.
#[derive(Debug)]
pub enum SnapshotError {
    /// An error of git, or of the disk.
    Git(GitError),
    /// The directory does not exist or can't be entered.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The directory is too broad: the root of the disk or a home directory, without a repository.
    TooBroad {
        /// The directory.
        path: PathBuf,
    },
    /// The repository has no working tree here.
    NoWorkTree {
        /// The directory.
        path: PathBuf,
    },
    /// `core.worktree` is set to a directory outside the repository.
    Elsewhere {
        /// The git directory.
        git_dir: PathBuf,
        /// The value of `core.worktree`.
        top: PathBuf,
    },
    /// A `.git` exists, but git does not find a repository.
    Broken {
        /// Path of the `.git`.
        path: PathBuf,
        /// Message of git.
        message: String,
    },
    /// The clone is partial (filtered), and lacks files of the commit.
    Partial {
        /// The requested commit.
        name: String,
        /// Number of missing files and directories.
        count: usize,
    },
    /// The commit does not exist.
    UnknownRef {
        /// The requested commit.
        name: String,
    },
    /// The configuration of the project has a `setup` that can't be used.
    Configuration(ConfigProblem),
    /// A commit was requested, but there is no repository.
    NoRepository {
        /// The directory.
        path: PathBuf,
    },
    /// The repository's index can't be read.
    Index {
        /// The index file.
        path: PathBuf,
        /// Error of the parser.
        source: IndexError,
    },
    /// The new and changed files exceed the size limit.
    TooLarge {
        /// Size of the new and changed files, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        guard: u64,
        /// The largest files, largest first.
        largest: Vec<(String, u64)>,
    },
    /// This user may not read some files.
    Unreadable {
        /// The first of these files.
        paths: Vec<String>,
        /// Number of these files.
        count: usize,
    },
    /// The snapshot has too many files.
    TooManyFiles {
        /// Number of files.
        count: u64,
    },
    /// Repositories are nested too deeply, or there are too many.
    Nesting {
        /// The repository that exceeds the limit.
        path: PathBuf,
    },
    /// Another call holds the lock of the same tree for too long.
    Busy {
        /// The time waited.
        waited: Duration,
    },
    /// The user has no cache directory.
    NoCacheDirectory,
    /// A tree that was sent earlier can't be read any more, so it can't be the base of a pack.
    BaseGone {
        /// The tree.
        base: ObjectId,
    },
    /// The repository has lost objects of the snapshot, and the files have changed since.
    Gone {
        /// The snapshot that can't be packed any more.
        tree: ObjectId,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git(GitError::Failed { message, .. })
                if message.contains("bad ") && message.contains(" config ") =>
            {
                write!(
                    f,
                    "no snapshot was taken, because git refuses its configuration: {}; correct it (`git config --list --show-origin` shows the file of each setting)",
                    said(message)
                )
            }
            Self::Git(error) => write!(f, "no snapshot was taken: {error}"),
            Self::Directory { path, .. } => write!(f, "the directory {} can't be used", path.display()),
            Self::TooBroad { path } => write!(
                f,
                "{} is no project: it belongs to no repository and is a home directory or the root; name a directory with --cwd",
                path.display()
            ),
            Self::Elsewhere { git_dir, top } => write!(
                f,
                "core.worktree of the repository {} names {}, which is outside the repository, so no snapshot is taken; remove the setting (`git config --unset core.worktree`)",
                git_dir.display(),
                top.display()
            ),
            Self::NoWorkTree { path } => write!(
                f,
                "{} is inside a bare repository or a .git directory and has no working tree; name one with --cwd",
                path.display()
            ),
            Self::Broken { path, message } => write!(
                f,
                "{} does not lead to a repository, so the files of the project are unknown ({}); repair it (`git worktree repair`) or remove it",
                path.display(),
                said(message)
            ),
            Self::Partial { name, count } => write!(
                f,
                "--ref: this clone is partial (--filter), and {count} files or directories of `{}` are not in it; check the commit out once, or use a clone without a filter",
                name.escape_debug()
            ),
            Self::UnknownRef { name } => {
                write!(f, "--ref: `{}` names no commit of this repository", name.escape_debug())
            }
            Self::Configuration(problem) => problem.fmt(f),
            Self::NoRepository { path } => {
                write!(f, "--ref needs a git repository; {} is not in one", path.display())
            }
            Self::Index { path, .. } => write!(f, "{} can't be read", path.display()),
            Self::TooLarge { bytes, guard, largest } => {
                write!(
                    f,
                    "new and changed files have {}, more than the limit of {} (committed unchanged files do not count); put files that the build does not need into .gitignore or .buildpoolignore, or raise the limit (--max-snapshot-mb). The largest:",
                    megabytes(*bytes),
                    megabytes(*guard)
                )?;
                largest.iter().try_for_each(|(path, bytes)| write!(f, "\n  {} {path}", megabytes(*bytes)))
            }
            Self::Unreadable { paths, count } => {
                let more = count.saturating_sub(paths.len());
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(
                    f,
                    "these files may not be read by this user: {}{more}; allow it, or put them into .buildpoolignore",
                    paths.join(", ").escape_debug()
                )
            }
            Self::TooManyFiles { count } => write!(
                f,
                "{count} files are more than a snapshot may have; put files that the build does not need into .gitignore or .buildpoolignore"
            ),
            Self::Nesting { path } => {
                write!(f, "repositories are nested too deeply, or there are too many, at {}", path.display())
            }
            Self::Busy { waited } => write!(
                f,
                "another call has been taking a snapshot of this tree for {} seconds",
                waited.as_secs()
            ),
            Self::BaseGone { base } => {
                write!(f, "the tree {base}, which the pool has, can't be read here any more")
            }
            Self::Gone { tree } => {
                write!(f, "objects of the snapshot {tree} are gone from the repository; take another one")
            }
            Self::NoCacheDirectory => f.write_str("no cache directory is known: set HOME or XDG_CACHE_HOME"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git(source) => std::error::Error::source(source),
            Self::Directory { source, .. } => Some(source),
            Self::Index { source, .. } => Some(source),
            Self::TooBroad { .. }
            | Self::NoWorkTree { .. }
            | Self::Elsewhere { .. }
            | Self::Broken { .. }
            | Self::Partial { .. }
            | Self::UnknownRef { .. }
            | Self::Configuration(_)
            | Self::NoRepository { .. }
            | Self::TooLarge { .. }
            | Self::Unreadable { .. }
            | Self::TooManyFiles { .. }
            | Self::Nesting { .. }
            | Self::Busy { .. }
            | Self::BaseGone { .. }
            | Self::Gone { .. }
            | Self::NoCacheDirectory => None,
        }
    }
}

impl From<GitError> for SnapshotError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

impl SnapshotError {
    /// Returns the message of git, or a description of the error.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Git(GitError::Failed { message, .. }) | Self::Broken { message, .. } => {
                said(message).to_owned()
            }
            Self::NoWorkTree { .. } => "it has no working tree".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Returns the first line of git's message, without its `fatal:` or `error:` prefix.
fn said(message: &str) -> &str {
    let line = message.trim().lines().next().unwrap_or_default();
    line.trim_start_matches("fatal: ").trim_start_matches("error: ")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
