//! Threads that give way to what somebody waits for.

/// How far a thread gives way, as nice(1) counts. Beside one that does not, the kernel gives it this part of a processor
/// (sched(7): 335 parts to 1024 at 5, 110 at 10).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Niceness {
    /// A digest of a long log: it has its reader, but later.
    Digest = 5,
    /// What is seldom waited for, by nobody in a hurry: compression, retention. Below the digests, which read a log more
    /// cheaply before it is compressed.
    Housekeeping = 10,
}

/// Lowers this thread's priority for good. On macOS nice(2) is of the whole process, so it stays there.
pub(crate) fn give_way(niceness: Niceness) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(niceness as i32) {
        tracing::debug!(%error, ?niceness, "a thread does not give way");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}
