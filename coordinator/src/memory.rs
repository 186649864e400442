//! Settings of the allocator.

/// Areas from which glibc serves the threads' allocations. By default there are eight for each processor. Each area keeps
/// what its threads freed, so many threads with large answers hold several times the memory that is in use. Musl and macOS
/// have no such areas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: i32 = 2;

/// Limits the memory that the allocator keeps for later.
pub(crate) fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use nix::libc::{M_ARENA_MAX, mallopt};
        // SAFETY: mallopt(3) sets a number of the allocator and may be called at any time, by any thread.
        if unsafe { mallopt(M_ARENA_MAX, ARENAS_MAX) } == 0 {
            tracing::debug!("the allocator keeps its own number of areas");
        }
    }
}
