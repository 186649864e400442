//! Lower priority for background threads.

/// Niceness of a thread, as in nice(1). Next to a thread with niceness 0, the kernel gives it this
/// share of a processor: 335 to 1024 at 5, 110 to 1024 at 10 (sched(7)).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Niceness {
    /// A long answer: the digest of a long log, a list. A client waits for it, but less urgently than others wait for
    /// their jobs.
    Answer = 5,
    /// Compression and retention, which clients rarely wait for. Below the digests, because reading
    /// a log is cheaper before it is compressed.
    Housekeeping = 10,
}

/// Lowers the priority of this thread permanently. On macOS, nice(2) affects the whole process, so
/// nothing is changed there.
pub(crate) fn give_way(niceness: Niceness) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(niceness as i32) {
        tracing::debug!(%error, ?niceness, "a thread does not give way");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}
