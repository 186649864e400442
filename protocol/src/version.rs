//! Protocol versions. A peer states the range that it speaks; the answer names the highest that both do.
//!
//! Ledger, newest first; one sentence a version. A coordinator serves its own version and the one before.
//!
//! * 2: `follow` names the stream that it is for, and stretches of a log without it may be left out.
//! * 1: the first.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The newest version that this build speaks.
pub const NEWEST: u16 = 2;
/// The oldest version that this build speaks.
pub const OLDEST: u16 = 1;
/// From this version on `follow` may be for one stream only.
pub const FOLLOW_OF_ONE_STREAM: u16 = 2;

/// The versions that a peer speaks, both ends included. As text `1` or `1..2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionRange {
    /// Oldest.
    pub min: u16,
    /// Newest.
    pub max: u16,
}

impl VersionRange {
    /// What this build speaks.
    pub const fn ours() -> Self {
        Self { min: OLDEST, max: NEWEST }
    }

    /// The highest version that both speak.
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
