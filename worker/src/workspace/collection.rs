//! Selects the checkouts to remove when disk space is low. Pure.

use crate::limits::SHORT_BYTES;
use crate::platform::DiskRoom;
use std::time::Duration;

/// Disk space limits of workspaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLimits {
    /// Limit on all checkouts together, in bytes. No limit if absent.
    pub bytes_max: Option<u64>,
    /// Free space to keep on the disk, in bytes. If absent, a tenth of the disk and at most 10 GiB.
    pub free_min_bytes: Option<u64>,
    /// Idle time after which a checkout is always removed.
    pub idle_max: Duration,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        Self { bytes_max: None, free_min_bytes: None, idle_max: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl SpaceLimits {
    /// Returns the free space to keep on a disk, in bytes.
    pub fn free_min(&self, room: DiskRoom) -> u64 {
        self.free_min_bytes.unwrap_or((room.total / 10).min(10 << 30))
    }

    /// Returns true if free space is so low that idle checkouts are removed immediately. A limit of
    /// zero still keeps some bytes, which are needed to prepare jobs.
    pub fn is_short(&self, room: DiskRoom) -> bool {
        room.free < self.free_min(room).max(SHORT_BYTES)
    }
}

/// An idle checkout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate<T> {
    /// The checkout.
    pub which: T,
    /// Last use by a job, in seconds since 1970.
    pub used_at: u64,
    /// Size of files and build products, in bytes.
    pub bytes: u64,
}

/// Returns the checkouts to remove, least recently used first, until the limits are met. `total`
/// includes checkouts in use.
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
        // Without a configured limit, a tenth of the disk.
        let unsaid = SpaceLimits { idle_max: Duration::MAX, ..SpaceLimits::default() };
        assert_eq!(chosen(100, &unsaid), none);
        assert_eq!(chosen(99, &unsaid), ["old"]);
        let large = DiskRoom { free: 10 << 30, total: 1 << 50 };
        assert_eq!(choose(candidates(), 100, large, 100, &unsaid), none);
    }
}
