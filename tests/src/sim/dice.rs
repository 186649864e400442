//! The only source of randomness: the same seed gives the same numbers.

use std::time::Duration;

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5157_4ea1_d1ce_0001)
    }

    pub(crate) fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.throw() % end
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    pub(crate) fn seconds(&mut self, from: u64, to: u64) -> Duration {
        self.millis(from * 1000, to * 1000)
    }

    /// Returns a duration mostly near `typical`, sometimes ten times longer.
    pub(crate) fn around(&mut self, typical: Duration) -> Duration {
        let part = typical / 8;
        let parts = 1 + self.below(12) + if self.percent(10) { self.below(70) } else { 0 };
        part * u32::try_from(parts).unwrap_or(1)
    }
}
