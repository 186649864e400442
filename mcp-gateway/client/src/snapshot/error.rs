//! Errors of snapshots.

use super::index_file::IndexError;
use crate::project::ConfigProblem;
use buildpool_objects::GitError;
use buildpool_protocol::error::chain;
use buildpool_protocol::transfer::ObjectId;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a snapshot could not be taken or packed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// An error of git, or of the disk.
    // The text has the whole chain of causes.
    #[error("{}", git_text(.0))]
    Git(GitError),
    /// The directory does not exist or can't be entered.
    #[error("the directory {} can't be used", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The directory is too broad: the root of the disk or a home directory, without a repository.
    #[error(
        "{} is not a project: it belongs to no repository and is a home directory or the root; name a directory with --cwd",
        .path.display()
    )]
    TooBroad {
        /// The directory.
        path: PathBuf,
    },
    /// The repository has no working tree here.
    #[error(
        "{} is inside a bare repository or a .git directory and has no working tree; name one with --cwd",
        .path.display()
    )]
    NoWorkTree {
        /// The directory.
        path: PathBuf,
    },
    /// `core.worktree` is set to a directory outside the repository.
    #[error(
        "core.worktree of the repository {} names {}, which is outside the repository, so no snapshot is taken; remove the setting (`git config --unset core.worktree`)",
        .git_dir.display(),
        .top.display()
    )]
    Elsewhere {
        /// The git directory.
        git_dir: PathBuf,
        /// The value of `core.worktree`.
        top: PathBuf,
    },
    /// A `.git` exists, but git does not find a repository.
    #[error(
        "{} does not lead to a repository, so the files of the project are unknown ({}); repair it (`git worktree repair`) or remove it",
        .path.display(),
        first_line(.message)
    )]
    Broken {
        /// Path of the `.git`.
        path: PathBuf,
        /// Message of git.
        message: String,
    },
    /// The clone is partial (filtered), and lacks files of the commit.
    #[error(
        "--ref: this clone is partial (--filter), and {count} files or directories of `{}` are not in it; check the commit out once, or use a clone without a filter",
        .name.escape_debug()
    )]
    Partial {
        /// The requested commit.
        name: String,
        /// Number of missing files and directories.
        count: usize,
    },
    /// The commit does not exist.
    #[error(
        "--ref: `{}` is not a commit of this repository; name a branch, a tag or a commit id",
        .name.escape_debug()
    )]
    UnknownRef {
        /// The requested commit.
        name: String,
    },
    /// The configuration of the project has a `setup` that can't be used.
    #[error(transparent)]
    Configuration(ConfigProblem),
    /// A commit was requested, but there is no repository.
    #[error("--ref needs a git repository; {} is not in one", .path.display())]
    NoRepository {
        /// The directory.
        path: PathBuf,
    },
    /// The repository's index can't be read.
    #[error("{} can't be read", .path.display())]
    Index {
        /// The index file.
        path: PathBuf,
        /// Error of the parser.
        source: IndexError,
    },
    /// The new and changed files exceed the size limit.
    #[error(
        "new and changed files have {}, more than the limit of {} (committed unchanged files do not count); put files that the build does not need into .gitignore or .buildpoolignore, or raise the limit (--max-snapshot-mb). The largest:{}",
        megabytes(*.bytes),
        megabytes(*.guard),
        list_of_sizes(.largest)
    )]
    TooLarge {
        /// Size of the new and changed files, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        guard: u64,
        /// The largest files, largest first.
        largest: Vec<(String, u64)>,
    },
    /// This user may not read some files.
    #[error(
        "these files may not be read by this user: {}; allow it, or put them into .buildpoolignore",
        first_paths(.paths, *.count)
    )]
    Unreadable {
        /// The first of these files.
        paths: Vec<String>,
        /// Number of these files.
        count: usize,
    },
    /// The snapshot has too many files.
    #[error(
        "{count} files are more than a snapshot may have; put files that the build does not need into .gitignore or .buildpoolignore"
    )]
    TooManyFiles {
        /// Number of files.
        count: u64,
    },
    /// Repositories are nested too deeply, or there are too many.
    #[error(
        "repositories are nested too deeply, or there are too many, at {}; put directories that the build does not need into .buildpoolignore",
        .path.display()
    )]
    Nesting {
        /// The repository that exceeds the limit.
        path: PathBuf,
    },
    /// Another call holds the lock of the same tree for too long.
    #[error(
        "another call has been taking a snapshot of this tree for {} seconds; try again when it has ended",
        .waited.as_secs()
    )]
    Busy {
        /// The time waited.
        waited: Duration,
    },
    /// The user has no cache directory.
    #[error("no cache directory is known: set HOME or XDG_CACHE_HOME")]
    NoCacheDirectory,
    /// A tree that was sent earlier can't be read any more, so it can't be the base of a pack.
    #[error("the tree {base}, which the pool has, can't be read here any more")]
    BaseGone {
        /// The tree.
        base: ObjectId,
    },
    /// The repository has lost objects of the snapshot, and the files have changed since.
    #[error("objects of the snapshot {tree} are gone from the repository; take another one")]
    Gone {
        /// The snapshot that can't be packed any more.
        tree: ObjectId,
    },
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
                first_line(message).to_owned()
            }
            Self::NoWorkTree { .. } => "it has no working tree".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Returns the first line of git's message, without its `fatal:` or `error:` prefix.
fn first_line(message: &str) -> &str {
    let line = message.trim().lines().next().unwrap_or_default();
    line.trim_start_matches("fatal: ").trim_start_matches("error: ")
}

fn git_text(error: &GitError) -> String {
    match error {
        GitError::Failed { message, .. } if message.contains("bad ") && message.contains(" config ") => {
            format!(
                "no snapshot was taken, because git refuses its configuration: {}; correct it (`git config --list --show-origin` shows the file of each setting)",
                first_line(message)
            )
        }
        error => format!("no snapshot was taken: {}", chain(error)),
    }
}

fn list_of_sizes(largest: &[(String, u64)]) -> String {
    largest.iter().map(|(path, bytes)| format!("\n  {} {path}", megabytes(*bytes))).collect()
}

fn first_paths(paths: &[String], count: usize) -> String {
    let named = paths.join(", ").escape_debug().to_string();
    match count.saturating_sub(paths.len()) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
