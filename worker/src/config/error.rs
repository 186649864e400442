//! Errors of the configuration.

use crate::limits::CONFIG_BYTES_MAX;
use buildpool_protocol::spec::SpecError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Error of the configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// A file cannot be read.
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A path to hide from isolated jobs cannot be resolved.
    Unresolvable {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A file exceeds the size limit.
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Its size in bytes.
        length: u64,
    },
    /// The text does not parse.
    Malformed {
        /// Path of the file, if it is a file.
        path: Option<PathBuf>,
        /// The problem and its position.
        reason: String,
    },
    /// A field has an invalid value.
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// The problem and the valid values.
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
                "{} does not exist, so it can't be hidden from jobs; paths in `hidden` are relative to the configuration's directory",
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
