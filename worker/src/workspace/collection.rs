//! Which checkouts go when space is short. Pure.

use std::time::Duration;

/// How much space workspaces may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLimits {
    /// All checkouts together, in bytes; no bound if absent.
    pub bytes_max: Option<u64>,
    /// What is to stay free on the disk, in bytes.
    pub free_min_bytes: u64,
    /// A checkout that was not used for this long goes in any case.
    pub idle_max: Duration,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        Self { bytes_max: None, free_min_bytes: 10 << 30, idle_max: Duration::from_secs(30 * 24 * 60 * 60) }
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
    disk_free: u64,
    now: u64,
    limits: &SpaceLimits,
) -> Vec<T> {
    free_ones.sort_by_key(|candidate| candidate.used_at);
    let (mut total, mut disk_free) = (total, disk_free);
    let mut chosen = Vec::new();
    for candidate in free_ones {
        let is_idle = now.saturating_sub(candidate.used_at) > limits.idle_max.as_secs();
        let is_over = limits.bytes_max.is_some_and(|most| total > most) || disk_free < limits.free_min_bytes;
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
            free_min_bytes,
            idle_max: Duration::from_secs(idle),
        };
        let none: [&str; 0] = [];
        assert_eq!(choose(candidates(), 100, 100, 100, &limits(None, 0, 1000)), none);
        assert_eq!(choose(candidates(), 100, 100, 100, &limits(Some(100), 100, 1000)), none);
        assert_eq!(choose(candidates(), 100, 100, 100, &limits(Some(99), 0, 1000)), ["old"]);
        assert_eq!(choose(candidates(), 100, 100, 100, &limits(None, 121, 1000)), ["old", "middle"]);
        assert_eq!(choose(candidates(), 100, 0, 100, &limits(None, 1 << 40, 1000)), ["old", "middle", "new"]);
        assert_eq!(choose(candidates(), 100, 100, 100, &limits(None, 0, 60)), ["old"]);
    }
}
