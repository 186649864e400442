//! Messages for a caller without a progress line while a job waits: in the queue, or for space on
//! its worker's disk.

use crate::terminal;
use buildpool_protocol::client_link::Progress;
use std::time::{Duration, Instant};

/// Minimum wait before a message. Most jobs are granted sooner.
const SAY_AFTER: Duration = Duration::from_secs(5);
/// Minimum time between messages with different reasons.
const REPEAT_NOTE_AFTER: Duration = Duration::from_secs(30);

/// State of the messages.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    since: Option<Instant>,
    /// The last printed reason and its time; the reason is empty if the job has not waited since.
    last_note: Option<(String, Instant)>,
}

impl Waiting {
    /// Handles a progress message. Returns the text to print, if any: each reason once while it is
    /// unchanged.
    pub(super) fn note(&mut self, progress: &Progress, now: Instant) -> Option<String> {
        let Some(waiting) = &progress.waiting else {
            self.since = None;
            if let Some((reason, _)) = &mut self.last_note {
                reason.clear();
            }
            return None;
        };
        let reason = terminal::one_line(&waiting.reason);
        let since = *self.since.get_or_insert(now);
        let is_known = match &self.last_note {
            Some((last_note, at)) => *last_note == reason || now.duration_since(*at) < REPEAT_NOTE_AFTER,
            None => false,
        };
        if is_known || now.duration_since(since) < SAY_AFTER {
            return None;
        }
        let text = format!("waiting: {reason}");
        self.last_note = Some((reason, now));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Waiting;
    use buildpool_protocol::client_link::Progress;
    use buildpool_protocol::report::{JobState, Waiting as Why};
    use std::time::{Duration, Instant};

    #[test]
    fn a_reason_is_said_once_and_another_one_not_too_soon() {
        let begun = Instant::now();
        let queued = |reason: &str| Progress {
            waiting: Some(Why { reason: reason.into(), position: Some(1), ..Why::default() }),
            ..Progress::default()
        };
        let held = Progress { state: JobState::Running, ..queued("its disk is full") };
        let running = Progress { state: JobState::Running, ..Progress::default() };
        let mut waiting = Waiting::default();
        for (millis, progress, expected) in [
            (0, queued("all slots\nare taken"), None),
            (4_900, queued("all slots\nare taken"), None),
            (5_000, queued("all slots\nare taken"), Some("waiting: all slots ⏎ are taken")),
            (9_000, queued("all slots\nare taken"), None),
            (34_900, queued("its worker is away"), None),
            (35_000, queued("its worker is away"), Some("waiting: its worker is away")),
            (90_000, queued("its worker is away"), None),
            (91_000, running, None),
            (92_000, queued("its worker is away"), None),
            (97_000, queued("its worker is away"), Some("waiting: its worker is away")),
            (130_000, held, Some("waiting: its disk is full")),
        ] {
            let last_note = waiting.note(&progress, begun + Duration::from_millis(millis));
            assert_eq!(last_note.as_deref(), expected, "after {millis} ms");
        }
        assert_eq!(waiting.note(&Progress::default(), begun), None, "no reason is known");
    }
}
