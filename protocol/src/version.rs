//! Protocol versions. A peer sends the range of its supported versions, and the answer contains the
//! highest common version.
//!
//! Ledger, newest first, one sentence per version. A coordinator supports its own version and the
//! one before.
//!
//! * 2: `follow` names its stream, and parts of the log without data of that stream may be skipped; `retry` can name a
//!   worker.
//! * 1: the first version.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The newest version that this build supports.
pub const NEWEST: u16 = 2;
/// The oldest version that this build supports.
pub const OLDEST: u16 = 1;
/// Returns the version of this program.
///
/// The compiler does not know its bytes, so an optimised program has them in one place. Tests make a program of another
/// version by changing them there.
pub fn program() -> &'static str {
    std::hint::black_box(env!("CARGO_PKG_VERSION"))
}

/// From this version on, `follow` can select a single stream.
pub const FOLLOW_OF_ONE_STREAM: u16 = 2;
/// From this version on, `retry` can name the worker of the new job.
pub const RETRY_ON_WORKER: u16 = 2;

/// The supported versions of a peer, both ends included. As text `1` or `1..2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionRange {
    /// Oldest version.
    pub min: u16,
    /// Newest version.
    pub max: u16,
}

impl VersionRange {
    /// Returns the versions that this build supports.
    pub const fn ours() -> Self {
        Self { min: OLDEST, max: NEWEST }
    }

    /// Returns the highest version that both support.
    pub fn agree(self, other: Self) -> Option<u16> {
        let highest = self.max.min(other.max);
        let lowest = self.min.max(other.min);
        (lowest <= highest).then_some(highest)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}..{}", self.min, self.max) }
    }
}

impl FromStr for VersionRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        match (min.parse(), max.parse()) {
            (Ok(min), Ok(max)) if min <= max => Ok(Self { min, max }),
            _ => Err("valid is a version, or two of them as in 1..2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::VersionRange;

    #[test]
    fn a_range_is_text_and_back() {
        for text in ["1", "1..2", "7..65535"] {
            assert_eq!(text.parse::<VersionRange>().map(|range| range.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "x", "2..1", "1..", "..", "1..2..3", "-1"] {
            assert!(text.parse::<VersionRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_highest_common_version_is_agreed() {
        let range = |min, max| VersionRange { min, max };
        for (ours, theirs, expected) in [
            (range(1, 1), range(1, 1), Some(1)),
            (range(1, 2), range(2, 3), Some(2)),
            (range(1, 3), range(1, 2), Some(2)),
            (range(2, 3), range(1, 1), None),
            (range(1, 1), range(2, 9), None),
        ] {
            assert_eq!(ours.agree(theirs), expected, "{ours:?} with {theirs:?}");
            assert_eq!(theirs.agree(ours), expected, "{theirs:?} with {ours:?}");
        }
    }
}
