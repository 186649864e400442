//! Durations travel as whole milliseconds; inside the code they are [`std::time::Duration`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// Writes a duration as milliseconds, saturating.
///
/// # Errors
/// Only what the serializer itself reports.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
}

/// Reads milliseconds.
///
/// # Errors
/// When the value is not a whole, non-negative number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// The same for a duration that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    /// Writes milliseconds or null.
    ///
    /// # Errors
    /// Only what the serializer itself reports.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    /// Reads milliseconds or null.
    ///
    /// # Errors
    /// When the value is neither null nor a whole, non-negative number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
