//! The errors of reading reports.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

/// Error of reading a report. Its message contains the file, the problem and the expected content.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The file or directory does not exist.
    #[error("report {}: there is no such file", .path.display())]
    NotFound {
        /// The path as requested.
        path: PathBuf,
    },
    /// The operating system returned an error.
    #[error("report {}: cannot be read", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The path is neither a regular file nor a result bundle: a symbolic link, a pipe, or another
    /// directory.
    #[error("report {}: is {kind}; a regular file or an .xcresult bundle is needed", .path.display())]
    NotAReport {
        /// Path of the file.
        path: PathBuf,
        /// Kind of the file.
        kind: &'static str,
    },
    /// A symbolic link points outside the command's directory.
    #[error("report {}: a link leads out of the command's directory; not followed", .path.display())]
    Escapes {
        /// The path as requested.
        path: PathBuf,
    },
    /// The file is larger than the limit.
    #[error("report {}: has {bytes} bytes, more than the {limit} that are read", .path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The content is of an unknown kind.
    #[error(
        "report {}: of no known kind; known are .xcresult bundles, JUnit XML, `go test -json`, cargo and nextest JSON, TAP, \
         .ips and .crash files, sanitizer reports",
        .path.display()
    )]
    Unrecognised {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("report {}: the file is empty", .path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The content starts like a known format but is not valid.
    #[error("report {}: not a whole {format} file: {reason}", .path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// The problem and its position.
        reason: String,
    },
    /// A report of the crash reporter that does not describe a crash.
    #[error("report {}: bug_type {bug_type} is not a crash; only 309 is (a few old ones: 109)", .path.display())]
    NotACrash {
        /// Path of the file.
        path: PathBuf,
        /// Its `bug_type`.
        bug_type: String,
    },
    /// A result bundle without a database.
    #[error("result bundle {}: it has no database.sqlite3 {}", .path.display(), without_database(.tried.as_deref()))]
    NeedsXcode {
        /// Path of the bundle.
        path: PathBuf,
        /// The failed attempt to read it, if one was made.
        tried: Option<String>,
    },
}

impl EvidenceError {
    pub(crate) fn malformed(path: &Path, format: &'static str, reason: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), format, reason: reason.into() }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            Self::NotFound { path: path.to_owned() }
        } else {
            Self::Io { path: path.to_owned(), source }
        }
    }

    /// Returns true if the unreadable file is a report, not a missing file or another kind of file.
    pub(crate) const fn is_of_a_report(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::TooLarge { .. }
            | Self::Empty { .. }
            | Self::Malformed { .. }
            | Self::Escapes { .. }
            | Self::NeedsXcode { .. } => true,
            Self::NotFound { .. }
            | Self::NotAReport { .. }
            | Self::Unrecognised { .. }
            | Self::NotACrash { .. } => false,
        }
    }

    /// Replaces the path with the name that users know.
    pub(crate) fn shown_as(mut self, shown: &str) -> Self {
        let (Self::NotFound { path }
        | Self::Io { path, .. }
        | Self::NotAReport { path, .. }
        | Self::Escapes { path }
        | Self::TooLarge { path, .. }
        | Self::Unrecognised { path }
        | Self::Empty { path }
        | Self::Malformed { path, .. }
        | Self::NotACrash { path, .. }
        | Self::NeedsXcode { path, .. }) = &mut self;
        *path = PathBuf::from(shown);
        self
    }

    /// Returns the error and its source in one line, for a note.
    pub fn to_note(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Describes why a bundle without a database is not read.
fn without_database(tried: Option<&str>) -> String {
    match tried {
        None => "(written before Xcode 16) and can only be read by `xcrun xcresulttool` on a Mac with Xcode"
            .to_owned(),
        Some(tried) => format!("and `xcrun xcresulttool` could not read it: {tried}"),
    }
}
