//! Settings of the allocator, and the memory that it keeps.

use std::time::Duration;

/// Areas from which glibc serves the threads' allocations. By default there are eight for each processor. Each area keeps
/// the memory that its threads freed, so many threads with large answers hold several times the memory that is in use. Musl and macOS
/// have no such areas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: i32 = 2;
/// Interval at which the memory of the process is read.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Growth since the last release after which free memory is released, in bytes.
const GROWTH_BYTES: u64 = 32 << 20;

/// Limits the memory that the allocator keeps for later. Call it before the process has a second thread: each thread keeps
/// the area from which it was served first. A limit that came after the threads doubled the growth of the coordinator while it
/// received a long log.
pub fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use nix::libc::{M_ARENA_MAX, mallopt};
        // SAFETY: mallopt(3) sets a number of the allocator and may be called at any time, by any thread.
        if unsafe { mallopt(M_ARENA_MAX, ARENAS_MAX) } == 0 {
            tracing::debug!("the allocator keeps its own number of areas");
        }
    }
}

/// Returns free memory to the system each time that the process has grown. glibc keeps free blocks between used ones: next to
/// clients that send large messages, half of the process was free memory. Runs until its task is dropped.
pub(crate) async fn release_free_memory() {
    let mut growth = Growth::default();
    loop {
        // The allocator reports no growth.
        tokio::time::sleep(READ_EVERY).await;
        let Some(resident) = resident_bytes() else { return };
        if growth.is_large(resident) {
            tokio::task::block_in_place(trim);
            growth.released(resident_bytes().unwrap_or(resident));
        }
    }
}

/// Returns the resident memory of this process, in bytes. `None` where the system has no such file.
pub(crate) fn resident_bytes() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages.saturating_mul(page.try_into().ok()?))
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim(3) only releases pages of free blocks and may be called at any time, by any thread.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Decides when free memory is worth a release.
#[derive(Default)]
struct Growth {
    /// The least resident memory since the last release, in bytes.
    least: Option<u64>,
}

impl Growth {
    fn is_large(&mut self, resident: u64) -> bool {
        let least = self.least.map_or(resident, |least| least.min(resident));
        self.least = Some(least);
        resident - least > GROWTH_BYTES
    }

    fn released(&mut self, resident: u64) {
        self.least = Some(resident);
    }
}

#[cfg(test)]
mod tests {
    use super::{GROWTH_BYTES, Growth};

    #[test]
    fn memory_is_released_after_each_growth() {
        let mut growth = Growth::default();
        assert!(!growth.is_large(500 << 20), "the first size is the start");
        assert!(!growth.is_large((500 << 20) + GROWTH_BYTES));
        assert!(growth.is_large((500 << 20) + GROWTH_BYTES + 1));
        growth.released(510 << 20);
        assert!(!growth.is_large((510 << 20) + GROWTH_BYTES));
        assert!(!growth.is_large(100 << 20));
        assert!(growth.is_large((100 << 20) + GROWTH_BYTES + 1), "a smaller size is the new start");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_resident_memory_is_plausible() {
        let resident = super::resident_bytes().expect("Linux has the file");
        assert!((1 << 20..1 << 40).contains(&resident), "{resident}");
    }
}
