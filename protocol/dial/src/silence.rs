//! Decides when a link without messages ends. Pure: it does no I/O and reads no clock.
//!
//! A leader that is paused keeps its connections open. So the holder of a silent link asks the other coordinators of the pool
//! whether one of them leads ([`crate::Peers`]), and does not wait for the whole limit.

use buildpool_protocol::limits::SILENCE_MAX;
use std::time::{Duration, Instant};

/// Silence after which a ping is sent. An idle link has a message each 10 s only.
const PING_AFTER: Duration = Duration::from_secs(3);
/// Silence after which the other coordinators are asked. A live coordinator has answered the ping by then.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// Pause after an answer that no other coordinator leads.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(3);

/// The next step for a silent link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilenceStep {
    /// Send a ping.
    Ping,
    /// Ask whether another coordinator leads, and pass the answer to [`Silence::answered`].
    Ask,
    /// Close the link: it was silent for [`SILENCE_MAX`].
    GiveUp,
    /// Close the link: another coordinator leads.
    Leave,
}

/// The time since the last message of a link.
#[derive(Debug)]
pub struct Silence {
    has_others: bool,
    received_at: Instant,
    is_pinged: bool,
    is_asking: bool,
    ask_at: Instant,
    is_replaced: bool,
}

impl Silence {
    /// Starts at a message. `has_others` is true if other coordinators can be asked.
    pub fn new(now: Instant, has_others: bool) -> Self {
        Self {
            has_others,
            received_at: now,
            is_pinged: false,
            is_asking: false,
            ask_at: now + ASK_AFTER,
            is_replaced: false,
        }
    }

    /// Notes a message. A question that is open is dropped.
    pub fn received(&mut self, now: Instant) {
        *self = Self::new(now, self.has_others);
    }

    /// Takes the answer to the last [`SilenceStep::Ask`].
    pub fn answered(&mut self, now: Instant, is_replaced: bool) {
        self.is_replaced = self.is_asking && is_replaced;
        self.is_asking = false;
        self.ask_at = now + ASK_AGAIN_AFTER;
    }

    /// Returns true while an answer is expected.
    pub fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Returns the next step. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<SilenceStep> {
        if now >= self.received_at + SILENCE_MAX {
            return Some(SilenceStep::GiveUp);
        }
        if self.is_replaced {
            return Some(SilenceStep::Leave);
        }
        if !self.has_others {
            return None;
        }
        if !self.is_pinged && now >= self.received_at + PING_AFTER {
            self.is_pinged = true;
            return Some(SilenceStep::Ping);
        }
        if self.is_pinged && !self.is_asking && now >= self.ask_at {
            self.is_asking = true;
            return Some(SilenceStep::Ask);
        }
        None
    }

    /// Returns the time at which [`Silence::poll`] can have another step without a message or an answer.
    pub fn next_deadline(&self) -> Instant {
        let end = self.received_at + SILENCE_MAX;
        match (self.has_others, self.is_pinged, self.is_asking) {
            (true, false, _) => self.received_at + PING_AFTER,
            (true, true, false) => self.ask_at.min(end),
            (true, true, true) | (false, _, _) => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ASK_AFTER, ASK_AGAIN_AFTER, PING_AFTER, SILENCE_MAX, Silence, SilenceStep};
    use std::time::Instant;

    /// Returns the step at the next deadline.
    fn next(silence: &mut Silence) -> (Instant, Option<SilenceStep>) {
        let at = silence.next_deadline();
        (at, silence.poll(at))
    }

    #[test]
    fn a_silent_link_is_pinged_then_others_are_asked_until_one_leads() {
        let start = Instant::now();
        let mut silence = Silence::new(start, true);
        assert_eq!(silence.poll(start), None);
        assert_eq!(next(&mut silence), (start + PING_AFTER, Some(SilenceStep::Ping)));
        assert_eq!(next(&mut silence), (start + ASK_AFTER, Some(SilenceStep::Ask)));
        assert_eq!(silence.poll(start + ASK_AFTER), None, "one question at a time");
        silence.answered(start + ASK_AFTER, false);
        let again = start + ASK_AFTER + ASK_AGAIN_AFTER;
        assert_eq!(next(&mut silence), (again, Some(SilenceStep::Ask)));
        silence.answered(again, true);
        assert_eq!(silence.poll(again), Some(SilenceStep::Leave));
    }

    #[test]
    fn a_message_ends_the_silence_and_the_open_question() {
        let start = Instant::now();
        let mut silence = Silence::new(start, true);
        next(&mut silence);
        next(&mut silence);
        assert!(silence.is_asking());
        silence.received(start + ASK_AFTER);
        assert!(!silence.is_asking());
        silence.answered(start + ASK_AFTER, true);
        assert_eq!(
            silence.poll(start + ASK_AFTER),
            None,
            "the link has a message that is newer than the question"
        );
        assert_eq!(next(&mut silence), (start + ASK_AFTER + PING_AFTER, Some(SilenceStep::Ping)));
    }

    #[test]
    fn a_link_without_other_coordinators_ends_at_the_limit_only() {
        let start = Instant::now();
        let mut silence = Silence::new(start, false);
        assert_eq!(silence.poll(start + SILENCE_MAX - ASK_AFTER), None);
        assert_eq!(next(&mut silence), (start + SILENCE_MAX, Some(SilenceStep::GiveUp)));
    }

    #[test]
    fn a_link_ends_at_the_limit_although_a_question_is_open() {
        let start = Instant::now();
        let mut silence = Silence::new(start, true);
        next(&mut silence);
        next(&mut silence);
        assert_eq!(next(&mut silence), (start + SILENCE_MAX, Some(SilenceStep::GiveUp)));
    }
}
