//! Errors of the configuration.

use crate::limits::CONFIG_BYTES_MAX;
use buildpool_protocol::spec::SpecError;
use std::io;
use std::path::PathBuf;

/// Error of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{} can't be read", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A path to hide from isolated jobs cannot be resolved.
    #[error(
        "{} does not exist, so it can't be hidden from jobs; paths in `hidden` are relative to the configuration's directory",
        .path.display()
    )]
    Unresolvable {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A file exceeds the size limit.
    #[error("{} has {length} bytes; a configuration has at most {CONFIG_BYTES_MAX}", .path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Its size in bytes.
        length: u64,
    },
    /// The text does not parse.
    #[error("{}: {reason}", .path.as_ref().map_or("worker configuration".into(), |path| path.display().to_string()))]
    Malformed {
        /// Path of the file, if it is a file.
        path: Option<PathBuf>,
        /// The problem and its position.
        reason: String,
    },
    /// A field has an invalid value.
    #[error("{field}: {reason}")]
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
