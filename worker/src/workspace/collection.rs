//! Which checkouts go when space is short. Pure.

use crate::limits::SHORT_BYTES;
use crate::platform::DiskRoom;
use std::time::Duration;

/// How much space workspaces may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLimits {
    /// All checkouts together, in bytes; no bound if absent.
    pub bytes_max: Option<u64>,
    /// What is to stay free on the disk, in bytes; a tenth of it and at most 10 GiB if absent.
    pub free_min_bytes: Option<u64>,
    /// A checkout that was not used for this long goes in any case.
    pub idle_max: Duration,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        Self { bytes_max: None, free_min_bytes: None, idle_max: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl SpaceLimits {
    /// Bytes that are to stay free on a disk.
    pub fn free_min(&self, room: DiskRoom) -> u64 {
        self.free_min_bytes.unwrap_or((room.total / 10).min(10 << 30))
    }

    /// Whether so little is free that idle checkouts go at once. A worker that is to keep nothing free
    /// needs some bytes all the same, to lay out jobs.
    pub fn is_short(&self, room: DiskRoom) -> bool {
        room.free < self.free_min(room).max(SHORT_BYTES)
    }
}

/// A checkout that no job has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate<T> {
    /// Which.
    pub which: T,
    /// When a job last had it, in seconds since 1970.
    pub used_at: u64,
    /// Files and build products.
    pub bytes: u64,
}

/// The ones to remove, least recently used first, until the limits are kept. `total` counts those in use too.
pub fn choose<T>(
    mut free_ones: Vec<Candidate<T>>,
    total: u64,
    room: DiskRoom,
    now: u64,
    limits: &SpaceLimits,
) -> Vec<T> {
    free_ones.sort_by_key(|candidate| candidate.used_at);
    let free_min_bytes = limits.free_min(room);
    let (mut total, mut disk_free) = (total, room.free);
    let mut chosen = Vec::new();
    for candidate in free_ones {
        let is_idle = now.saturating_sub(candidate.used_at) > limits.idle_max.as_secs();
        let is_over = limits.bytes_max.is_some_and(|most| total > most) || disk_free < free_min_bytes;
        if !is_idle && !is_over {
            break;
        }
        total = total.saturating_sub(candidate.bytes);
        disk_free = disk_free.saturating_add(candidate.bytes);
        chosen.push(candidate.which);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::{Candidate, SpaceLimits, choose};
    use crate::platform::DiskRoom;
    use std::time::Duration;

    fn candidates() -> Vec<Candidate<&'static str>> {
        [("new", 90, 10), ("old", 10, 20), ("middle", 50, 30)]
            .map(|(which, used_at, bytes)| Candidate { which, used_at, bytes })
            .to_vec()
    }

    #[test]
    fn the_least_recently_used_go_until_it_is_enough() {
        let limits = |bytes_max, free_min_bytes, idle| SpaceLimits {
            bytes_max,
            free_min_bytes: Some(free_min_bytes),
            idle_max: Duration::from_secs(idle),
        };
        let chosen = |free, limits: &SpaceLimits| {
            choose(candidates(), 100, DiskRoom { free, total: 1000 }, 100, limits)
        };
        let none: [&str; 0] = [];
        assert_eq!(chosen(100, &limits(None, 0, 1000)), none);
        assert_eq!(chosen(100, &limits(Some(100), 100, 1000)), none);
        assert_eq!(chosen(100, &limits(Some(99), 0, 1000)), ["old"]);
        assert_eq!(chosen(100, &limits(None, 121, 1000)), ["old", "middle"]);
        assert_eq!(chosen(0, &limits(None, 1 << 40, 1000)), ["old", "middle", "new"]);
        assert_eq!(chosen(100, &limits(None, 0, 60)), ["old"]);
        // Without a figure of its own, a tenth of the disk.
        let unsaid = SpaceLimits { idle_max: Duration::MAX, ..SpaceLimits::default() };
        assert_eq!(chosen(100, &unsaid), none);
        assert_eq!(chosen(99, &unsaid), ["old"]);
        let large = DiskRoom { free: 10 << 30, total: 1 << 50 };
        assert_eq!(choose(candidates(), 100, large, 100, &unsaid), none);
    }
}
