//! Protocol versions. A peer states the range that it speaks; the answer names the highest that both do.
//!
//! Ledger, newest first; one sentence a version. A coordinator serves its own version and the one before.
//!
//! * 1: the first.

use serde::{Deserialize, Serialize};

/// The newest version that this build speaks.
pub const NEWEST: u16 = 1;
/// The oldest version that this build speaks.
pub const OLDEST: u16 = 1;

/// The versions that a peer speaks, both ends included.
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

#[cfg(test)]
mod tests {
    use super::VersionRange;

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
