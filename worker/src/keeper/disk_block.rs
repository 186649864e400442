//! Measures the time that the disk has blocked a command's output.

use buildpool_protocol::outcome::OutputHeld;
use std::time::Duration;

/// A timeout is also attributed to the disk if output was blocked for this fraction of it, even if
/// it is not blocked any more.
const SIGNIFICANT_PART: u32 = 10;

/// Times are of the running clock.
#[derive(Debug, Default)]
pub(super) struct DiskBlock {
    /// Start of the current block.
    since: Option<Duration>,
    /// Total time of earlier blocks.
    before: Duration,
    /// The last system error.
    reason: String,
}

impl DiskBlock {
    /// Records if output is blocked now, and the reason.
    pub(super) fn note(&mut self, now: Duration, refusal: Option<&std::io::Error>) {
        match (refusal, self.since) {
            (Some(error), None) => {
                self.since = Some(now);
                self.reason = error.to_string();
            }
            (None, Some(since)) => {
                self.before += now.saturating_sub(since);
                self.since = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Returns true if output is blocked now.
    pub(super) fn is_blocked(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the current block.
    pub(super) fn current(&self, now: Duration) -> Option<OutputHeld> {
        let held_for = now.saturating_sub(self.since?);
        Some(OutputHeld { held_for, reason: self.reason.clone() })
    }

    /// Returns the blocked output of a command that exceeded `limit`, if it is blocked now, or was
    /// for a significant part of that time.
    pub(super) fn during_timeout(&self, now: Duration, limit: Duration) -> Option<OutputHeld> {
        let held_for = self.before + self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let counts = self.is_blocked() || !held_for.is_zero() && held_for * SIGNIFICANT_PART >= limit;
        counts.then(|| OutputHeld { held_for, reason: self.reason.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::DiskBlock;
    use std::io;
    use std::time::Duration;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_timeout_is_put_down_to_the_disk_while_it_holds_output_and_when_it_did_so_for_long() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let mut disk_block = DiskBlock::default();
        assert_eq!(disk_block.during_timeout(secs(5), secs(5)), None);
        disk_block.note(secs(10), Some(&full));
        disk_block.note(secs(11), Some(&full));
        assert_eq!(disk_block.current(secs(13)).map(|held| held.held_for), Some(secs(3)));
        let held = disk_block.during_timeout(secs(14), secs(1_000)).expect("it is held now");
        assert_eq!((held.held_for, held.reason), (secs(4), full.to_string()));
        disk_block.note(secs(15), None);
        assert_eq!((disk_block.is_blocked(), disk_block.current(secs(16))), (false, None));
        assert_eq!(disk_block.during_timeout(secs(60), secs(60)), None, "5 of 60 s");
        disk_block.note(secs(50), Some(&full));
        disk_block.note(secs(52), None);
        assert_eq!(disk_block.during_timeout(secs(60), secs(60)).map(|held| held.held_for), Some(secs(7)));
    }
}
