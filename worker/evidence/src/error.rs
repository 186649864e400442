//! Why a report could not be read.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a report could not be read. The text names the file, what was wrong and what would be right.
#[derive(Debug)]
pub enum EvidenceError {
    /// There is no such file or directory.
    NotFound {
        /// As it was asked for.
        path: PathBuf,
    },
    /// The system refused.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither a regular file nor a result bundle: a symbolic link, a pipe, another directory.
    NotAReport {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A link leads out of the command's directory.
    Escapes {
        /// As it was asked for.
        path: PathBuf,
    },
    /// Larger than what is read.
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The content is of no known kind.
    Unrecognised {
        /// Which file.
        path: PathBuf,
    },
    /// There is nothing in it.
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// It looked like a format, and is not.
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which format.
        format: &'static str,
        /// What was wrong, and where.
        reason: String,
    },
    /// A report of the crash reporter that does not tell of a crash.
    NotACrash {
        /// Which file.
        path: PathBuf,
        /// Its `bug_type`.
        bug_type: String,
    },
    /// A result bundle without a database.
    NeedsXcode {
        /// Which bundle.
        path: PathBuf,
        /// What was tried, if anything.
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

    /// Whether what cannot be read is a report, rather than nothing or something else.
    pub(crate) const fn is_of_a_report(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::TooLarge { .. }
            | Self::Empty { .. }
            | Self::Malformed { .. }
            | Self::NeedsXcode { .. } => true,
            Self::NotFound { .. }
            | Self::NotAReport { .. }
            | Self::Escapes { .. }
            | Self::Unrecognised { .. }
            | Self::NotACrash { .. } => false,
        }
    }

    /// The same with the name that a person knows the file by.
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

    /// The whole chain in one line, for a note.
    pub fn to_note(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for EvidenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { path } => write!(f, "report {}: there is no such file", path.display()),
            Self::Io { path, .. } => write!(f, "report {}: cannot be read", path.display()),
            Self::NotAReport { path, what } => {
                write!(
                    f,
                    "report {}: is {what}; a regular file or an .xcresult bundle is needed",
                    path.display()
                )
            }
            Self::Escapes { path } => {
                write!(
                    f,
                    "report {}: a link leads out of the command's directory; not followed",
                    path.display()
                )
            }
            Self::TooLarge { path, bytes, limit } => {
                write!(f, "report {}: has {bytes} bytes, more than the {limit} that are read", path.display())
            }
            Self::Unrecognised { path } => write!(
                f,
                "report {}: of no known kind; known are .xcresult bundles, JUnit XML, `go test -json`, cargo and \
                 nextest JSON, TAP, .ips and .crash files, sanitizer reports",
                path.display()
            ),
            Self::Empty { path } => write!(f, "report {}: the file is empty", path.display()),
            Self::Malformed { path, format, reason } => {
                write!(f, "report {}: not a whole {format} file: {reason}", path.display())
            }
            Self::NotACrash { path, bug_type } => write!(
                f,
                "report {}: bug_type {bug_type} is not a crash; only 309 is (a few old ones: 109)",
                path.display()
            ),
            Self::NeedsXcode { path, tried: None } => write!(
                f,
                "result bundle {}: it has no database.sqlite3 (written before Xcode 16) and can only be read by \
                 `xcrun xcresulttool` on a Mac with Xcode",
                path.display()
            ),
            Self::NeedsXcode { path, tried: Some(tried) } => write!(
                f,
                "result bundle {}: it has no database.sqlite3 and `xcrun xcresulttool` could not read it: {tried}",
                path.display()
            ),
        }
    }
}

impl Error for EvidenceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotFound { .. }
            | Self::NotAReport { .. }
            | Self::Escapes { .. }
            | Self::TooLarge { .. }
            | Self::Unrecognised { .. }
            | Self::Empty { .. }
            | Self::Malformed { .. }
            | Self::NotACrash { .. }
            | Self::NeedsXcode { .. } => None,
        }
    }
}
