//! State that a live attempt shares with the digest of its log: progress, and the order to leave out the rest.

use buildpool_digest::Live;
use buildpool_protocol::shown::thousands;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Following {
    live: Mutex<Live>,
    /// End position of the stored log.
    arrived: AtomicU64,
    /// Position up to which the log is digested.
    digested: AtomicU64,
    end: Mutex<End>,
    /// The digest lacks a part of the log.
    left_out: AtomicBool,
}

/// End of the digest.
#[derive(Clone, Copy, Default)]
struct End {
    /// Length of the whole log, when all of it is stored.
    whole: Option<u64>,
    /// Lengths of the streams of a log whose rest is left out.
    cut: Option<[u64; 2]>,
}

/// How much of a log has arrived, or is digested, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amounts {
    /// The worker sends its log.
    Arrived { bytes: u64, of: u64 },
    /// All of it has arrived.
    Digested { bytes: u64, of: u64 },
}

impl Following {
    pub(crate) fn live(&self) -> Live {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_arrived(&self, position: u64) {
        self.arrived.store(position, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Records that the whole log of this length is stored.
    pub(crate) fn whole(&self, length: u64) {
        self.end().whole = Some(length);
    }

    /// Returns the number of digested bytes and of all bytes, if the whole log is stored.
    pub(crate) fn digested(&self) -> Option<(u64, u64)> {
        let whole = self.end().whole?;
        Some((self.digested.load(Ordering::Relaxed), whole))
    }

    /// Makes the digest leave out what it has not read of a log with these lengths of its streams.
    pub(crate) fn cut(&self, stream_lengths: [u64; 2]) {
        self.end().cut.get_or_insert(stream_lengths);
    }

    /// Returns the lengths of the streams if the rest of the log is left out.
    pub(super) fn is_cut(&self) -> Option<[u64; 2]> {
        self.end().cut
    }

    pub(super) fn leaves_out(&self) {
        self.left_out.store(true, Ordering::Relaxed);
    }

    /// Whether the digest lacks a part of the log.
    pub(crate) fn has_left_out(&self) -> bool {
        self.left_out.load(Ordering::Relaxed)
    }

    pub(super) fn has_digested(&self, position: u64, live: Live) {
        self.digested.store(position, Ordering::Relaxed);
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Amounts {
    /// Returns the amounts as a part of a sentence. `None` for a short log, for which they mean nothing.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Arrived { of, .. } | Self::Digested { of, .. } if of < SHOWN_FROM_BYTES => None,
            Self::Arrived { bytes, of } if bytes >= of => {
                Some(format!("all {} bytes of its log have arrived", thousands(of)))
            }
            Self::Arrived { bytes, of } => {
                Some(format!("{} of {} bytes have arrived", thousands(bytes), thousands(of)))
            }
            Self::Digested { bytes, of } => {
                Some(format!("{} of {} bytes are digested", thousands(bytes), thousands(of)))
            }
        }
    }
}

/// Length from which the amounts of a log are shown. Shorter ones are sent and digested in less time than a reader needs.
const SHOWN_FROM_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::{Amounts, Following};

    #[test]
    fn the_amounts_name_the_part_that_is_missing() {
        let follow = Following::default();
        follow.has_arrived(3 << 20);
        assert_eq!(follow.digested(), None, "more may arrive");
        follow.has_digested(1 << 20, Default::default());
        follow.whole(4 << 20);
        assert_eq!(follow.digested(), Some((1 << 20, 4 << 20)));
        for (amounts, text) in [
            (
                Amounts::Arrived { bytes: 3 << 20, of: 4 << 20 },
                Some("3,145,728 of 4,194,304 bytes have arrived"),
            ),
            (
                Amounts::Arrived { bytes: 4 << 20, of: 4 << 20 },
                Some("all 4,194,304 bytes of its log have arrived"),
            ),
            (
                Amounts::Digested { bytes: 1 << 20, of: 4 << 20 },
                Some("1,048,576 of 4,194,304 bytes are digested"),
            ),
            (Amounts::Arrived { bytes: 10, of: 100 }, None),
        ] {
            assert_eq!(amounts.text().as_deref(), text);
        }
    }
}
