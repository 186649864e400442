//! Shares of the submitters in the space for standard input: each may store as many bytes as the disk has free after
//! them, so space stays free for other submitters and for logs.

use dashmap::DashMap;
use std::sync::Arc;

/// Returns the free space of the disk in bytes. `None` if the system does not report it.
pub(crate) type Free = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Stored bytes of all submitters.
pub(super) struct Shares {
    free: Free,
    stored: DashMap<String, u64>,
}

/// Stored bytes of one input. They are given back when it is dropped.
pub(super) struct Share {
    shares: Arc<Shares>,
    submitter: String,
    bytes: u64,
}

impl Shares {
    pub(super) fn new(free: Free) -> Arc<Self> {
        Arc::new(Self { free, stored: DashMap::new() })
    }

    /// Begins the share of an input that has some bytes already.
    pub(super) fn begin(self: &Arc<Self>, submitter: &str, bytes: u64) -> Share {
        *self.stored.entry(submitter.to_owned()).or_default() += bytes;
        Share { shares: self.clone(), submitter: submitter.to_owned(), bytes }
    }

    /// Checks that a submitter may store some more bytes.
    ///
    /// # Errors
    /// The reason, for the submitter.
    pub(super) fn check(&self, submitter: &str, more: u64) -> Result<(), String> {
        let stored = self.stored.get(submitter).map_or(0, |bytes| *bytes);
        match (self.free)() {
            Some(free) if stored.saturating_add(more) > free.saturating_sub(more) => Err(format!(
                "the inputs of `{submitter}` have {stored} bytes on the coordinator, and its disk has {free} bytes free; a submitter may store as much as stays free"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Share {
    /// Checks that this input may grow.
    ///
    /// # Errors
    /// The reason, for the submitter.
    pub(super) fn check(&self, more: u64) -> Result<(), String> {
        self.shares.check(&self.submitter, more)
    }

    /// Counts stored bytes.
    pub(super) fn grow(&mut self, more: u64) {
        self.bytes += more;
        *self.shares.stored.entry(self.submitter.clone()).or_default() += more;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(mut stored) = self.shares.stored.get_mut(&self.submitter) {
            *stored -= self.bytes;
        }
        self.shares.stored.remove_if(&self.submitter, |_, stored| *stored == 0);
    }
}
