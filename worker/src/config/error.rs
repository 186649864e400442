//! Why a configuration is of no use.

use crate::limits::CONFIG_BYTES_MAX;
use buildpool_protocol::spec::SpecError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a configuration is of no use.
#[derive(Debug)]
pub enum ConfigError {
    /// A file can't be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What isolated jobs must not see can't be found.
    Unresolvable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is far larger than any configuration.
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its size in bytes.
        length: u64,
    },
    /// It does not parse.
    Malformed {
        /// Which file.
        path: Option<PathBuf>,
        /// What and where.
        reason: String,
    },
    /// A field has a value that cannot be.
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong and what is valid.
        reason: String,
    },
}

impl From<SpecError> for ConfigError {
    fn from(error: SpecError) -> Self {
        Self::Invalid { field: error.field, reason: error.reason }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, .. } => write!(f, "{} can't be read", path.display()),
            Self::Unresolvable { path, .. } => write!(
                f,
                "{} can't be found, so it can't be hidden from jobs; `hidden` names what is there, relative to the configuration's directory",
                path.display()
            ),
            Self::TooLarge { path, length } => write!(
                f,
                "{} has {length} bytes; a configuration has at most {CONFIG_BYTES_MAX}",
                path.display()
            ),
            Self::Malformed { path: Some(path), reason } => write!(f, "{}: {reason}", path.display()),
            Self::Malformed { path: None, reason } => write!(f, "worker configuration: {reason}"),
            Self::Invalid { field, reason } => write!(f, "{field}: {reason}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } | Self::Unresolvable { source, .. } => Some(source),
            Self::TooLarge { .. } | Self::Malformed { .. } | Self::Invalid { .. } => None,
        }
    }
}
