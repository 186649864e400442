//! Why there is no snapshot.

use super::index_file::IndexError;
use buildpool_objects::GitError;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no snapshot.
#[derive(Debug)]
pub enum SnapshotError {
    /// git, or the disk beside it.
    Git(GitError),
    /// The directory is not there or can't be entered.
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory is too much to send: the root of the disk or a home directory, without a repository.
    TooBroad {
        /// Which.
        path: PathBuf,
    },
    /// The repository has no working tree here.
    NoWorkTree {
        /// Where.
        path: PathBuf,
    },
    /// `core.worktree` names a directory that is not the repository's.
    Elsewhere {
        /// The git directory.
        git_dir: PathBuf,
        /// What it names.
        top: PathBuf,
    },
    /// What should lead to the repository leads nowhere.
    Broken {
        /// The `.git`.
        path: PathBuf,
        /// What git says.
        message: String,
    },
    /// The clone has a filter, and lacks files of the commit.
    Partial {
        /// As the commit was asked for.
        name: String,
        /// How many files and directories.
        count: usize,
    },
    /// No such commit.
    UnknownRef {
        /// As it was asked for.
        name: String,
    },
    /// A commit was asked for where there is no repository.
    NoRepository {
        /// Where.
        path: PathBuf,
    },
    /// The repository's index can't be read.
    Index {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: IndexError,
    },
    /// More would have to be sent than the guard lets pass.
    TooLarge {
        /// New or changed files together, in bytes.
        bytes: u64,
        /// The guard, in bytes.
        guard: u64,
        /// The largest ones, largest first.
        largest: Vec<(String, u64)>,
    },
    /// Files that this user may not read.
    Unreadable {
        /// The first of them.
        paths: Vec<String>,
        /// How many.
        count: usize,
    },
    /// Too many files.
    TooManyFiles {
        /// How many.
        count: u64,
    },
    /// Repositories lie in each other too deeply, or too many of them.
    Nesting {
        /// The one that is too much.
        path: PathBuf,
    },
    /// Another call is taking a snapshot of the same tree and does not end.
    Busy {
        /// How long it was waited for.
        waited: Duration,
    },
    /// No directory for caches is known.
    NoCacheDirectory,
    /// A tree that was sent before can't be read any more, so nothing can be packed on top of it.
    BaseGone {
        /// Which.
        base: ObjectId,
    },
    /// Objects were dropped from the repository, and the files are not any more what they were.
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
                    "no snapshot could be taken, because git does not take its configuration: {}; mend it (`git config --list --show-origin` shows what comes from which file)",
                    said(message)
                )
            }
            Self::Git(error) => write!(f, "no snapshot could be taken: {error}"),
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
                "{} does not lead to a repository, so what belongs to the project can't be told ({}); mend it (`git worktree repair`) or remove it",
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
            Self::NoRepository { path } => {
                write!(f, "--ref needs a git repository; {} is in none", path.display())
            }
            Self::Index { path, .. } => write!(f, "{} can't be read", path.display()),
            Self::TooLarge { bytes, guard, largest } => {
                write!(
                    f,
                    "{} of files that are new or changed (what is committed as it lies on disk does not count) are more than the {} that are sent unasked; put what the build does not need into .gitignore or .buildpoolignore, or raise the guard (--max-snapshot-mb). The largest:",
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
                "{count} files are more than a snapshot may have; put what the build does not need into .gitignore or .buildpoolignore"
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
    /// What git said, or what is wrong.
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

/// What git said, without what it begins every failure with, and without its advice.
fn said(message: &str) -> &str {
    let line = message.trim().lines().next().unwrap_or_default();
    line.trim_start_matches("fatal: ").trim_start_matches("error: ")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
