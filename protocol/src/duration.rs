//! Serializes durations as whole milliseconds. The code uses [`std::time::Duration`].

use crate::limits::DURATION_MAX;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// Writes a duration as milliseconds, at most [`DURATION_MAX`].
///
/// # Errors
/// Only errors of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds(duration).serialize(serializer)
}

/// Reads milliseconds.
///
/// # Errors
/// Fails if the value is not a whole, non-negative number, or is above [`DURATION_MAX`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    limited(u64::deserialize(deserializer)?)
}

fn milliseconds(duration: &Duration) -> u64 {
    // The limit is far below 2^64 ms.
    u64::try_from((*duration).min(DURATION_MAX).as_millis()).unwrap_or(u64::MAX)
}

fn limited<E: Error>(milliseconds: u64) -> Result<Duration, E> {
    let duration = Duration::from_millis(milliseconds);
    if duration <= DURATION_MAX {
        return Ok(duration);
    }
    let most = DURATION_MAX.as_millis();
    Err(E::custom(format_args!(
        "a duration of {milliseconds} ms is above the limit of {most} ms (100 years)"
    )))
}

/// The same functions for optional durations.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    /// Writes milliseconds or null.
    ///
    /// # Errors
    /// Only errors of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.as_ref().map(super::milliseconds).serialize(serializer)
    }

    /// Reads milliseconds or null.
    ///
    /// # Errors
    /// Fails if the value is neither null nor a whole, non-negative number, or is above the limit.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(deserializer)?.map(super::limited).transpose()
    }
}
