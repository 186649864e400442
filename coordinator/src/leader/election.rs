//! Decides whether this coordinator is the leader. Pure: it does no I/O and reads no clock.
//!
//! All times are of one monotonic clock. The store counts the lease from a moment after the question was sent, and this
//! machine from the moment before. So this coordinator stops first, unless its clock is slower than the store's by more
//! than `MARGIN` of the lease.

use std::time::Duration;

/// Part of the lease that the leader does not use: one eighth.
const MARGIN: u32 = 8;
/// Renewals in one lease. Two may get lost.
const RENEWALS: u32 = 3;
/// Minimum number of questions of a standby in one lease. A further question follows at the end of the lease.
const LOOKS: u32 = 6;
/// Shortest interval between two questions of a standby: this part of the lease.
const LOOKS_MAX: u32 = 60;
/// A renewal is overdue if less than this part of the lease is left. The leader renews when two thirds are left, so then
/// its last renewal is late by a sixth of the lease or was lost.
const OVERDUE: u32 = 2;

/// A question to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Claims the lease if it has run out.
    Claim,
    /// Renews the lease of this leadership.
    Renew {
        /// The leadership.
        epoch: i64,
    },
}

/// The store's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The lease belongs to this coordinator.
    Held {
        /// The leadership.
        epoch: i64,
    },
    /// The lease belongs to another coordinator.
    Other {
        /// URL of the leader; empty if there was never one.
        url: String,
        /// Time until the lease ends, by the store's clock when it answered.
        left: Duration,
    },
    /// The store gave no answer.
    Failed,
}

/// An action of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the store, and pass the answer to [`Election::answered`].
    Ask(Question),
    /// Begin to lead.
    Lead {
        /// The leadership.
        epoch: i64,
    },
    /// Stop leading at once, and start over.
    StepDown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Standby,
    Leading {
        epoch: i64,
        /// The end of the lease, less the margin.
        until: Duration,
        is_announced: bool,
    },
    Ended {
        is_announced: bool,
    },
}

/// One candidacy. After [`Action::StepDown`] it is over.
#[derive(Debug)]
pub struct Election {
    lease: Duration,
    state: State,
    /// Time at which the unanswered question was sent.
    asked_at: Option<Duration>,
    ask_at: Duration,
    leader: Option<String>,
    is_overdue: bool,
}

impl Election {
    /// Returns a new candidacy for a lease of this length.
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            state: State::Standby,
            asked_at: None,
            ask_at: Duration::ZERO,
            leader: None,
            is_overdue: false,
        }
    }

    /// Returns the last known URL of the leader.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// Returns true if the leader has not renewed its lease for so long that it may be lost.
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Returns the time until which this coordinator may act as the leader.
    pub fn until(&self) -> Option<Duration> {
        match self.state {
            State::Leading { until, .. } => Some(until),
            State::Standby | State::Ended { .. } => None,
        }
    }

    /// Returns the next action. Call it until it returns `None`.
    pub fn poll(&mut self, now: Duration) -> Option<Action> {
        if let State::Leading { until, .. } = self.state
            && now >= until
        {
            self.state = State::Ended { is_announced: false };
        }
        match &mut self.state {
            State::Ended { is_announced } => {
                return (!std::mem::replace(is_announced, true)).then_some(Action::StepDown);
            }
            State::Leading { epoch, is_announced, .. } if !*is_announced => {
                *is_announced = true;
                return Some(Action::Lead { epoch: *epoch });
            }
            State::Leading { .. } | State::Standby => {}
        }
        if self.asked_at.is_some() || now < self.ask_at {
            return None;
        }
        self.asked_at = Some(now);
        Some(Action::Ask(match self.state {
            State::Leading { epoch, .. } => Question::Renew { epoch },
            State::Standby | State::Ended { .. } => Question::Claim,
        }))
    }

    /// Takes the answer to the last question.
    pub fn answered(&mut self, now: Duration, answer: Answer) {
        let Some(asked_at) = self.asked_at.take() else { return };
        match (self.state, answer) {
            (State::Ended { .. }, _) => {}
            (State::Standby, Answer::Held { epoch }) => {
                let until = asked_at + self.lease - self.lease / MARGIN;
                self.state = State::Leading { epoch, until, is_announced: false };
                self.ask_at = asked_at + self.lease / RENEWALS;
                self.leader = None;
                if now >= until {
                    // The answer took too long. Another coordinator may lead already.
                    self.state = State::Standby;
                }
            }
            (State::Leading { epoch, is_announced, until }, Answer::Held { epoch: held })
                if held == epoch =>
            {
                let until = until.max(asked_at + self.lease - self.lease / MARGIN);
                self.state = State::Leading { epoch, until, is_announced };
                self.ask_at = asked_at + self.lease / RENEWALS;
            }
            (State::Leading { .. }, Answer::Held { .. } | Answer::Other { .. }) => {
                self.state = State::Ended { is_announced: false };
            }
            (State::Standby, Answer::Other { url, left }) => {
                self.leader = Some(url).filter(|url| !url.is_empty());
                self.is_overdue = left < self.lease / OVERDUE;
                // The next question comes when the lease has run out, if it is not renewed.
                self.ask_at = now + left.clamp(self.lease / LOOKS_MAX, self.lease / LOOKS);
            }
            (State::Standby | State::Leading { .. }, Answer::Failed) => {
                self.ask_at = now + self.lease / LOOKS
            }
        }
    }

    /// Returns the time at which [`Election::poll`] can have another action without an answer.
    pub fn next_deadline(&self) -> Option<Duration> {
        let ask_at = self.asked_at.is_none().then_some(self.ask_at);
        match self.state {
            State::Ended { .. } => None,
            State::Standby => ask_at,
            State::Leading { until, .. } => Some(ask_at.map_or(until, |at| at.min(until))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Answer, Election, Question};
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(3);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn leading() -> Election {
        let mut election = Election::new(LEASE);
        assert_eq!(election.poll(ms(0)), Some(Action::Ask(Question::Claim)));
        assert_eq!(election.poll(ms(10)), None, "one question at a time");
        election.answered(ms(20), Answer::Held { epoch: 5 });
        assert_eq!(election.poll(ms(20)), Some(Action::Lead { epoch: 5 }));
        assert_eq!(election.poll(ms(20)), None);
        election
    }

    #[test]
    fn a_standby_asks_again_and_knows_the_leader() {
        let mut election = Election::new(LEASE);
        election.poll(ms(0));
        election.answered(ms(10), Answer::Other { url: "ws://a:1".into(), left: ms(2_900) });
        assert_eq!(election.poll(ms(11)), None);
        assert_eq!((election.leader(), election.is_overdue()), (Some("ws://a:1"), false));
        assert_eq!(election.next_deadline(), Some(ms(510)));
        assert_eq!(election.poll(ms(510)), Some(Action::Ask(Question::Claim)));
        election.answered(ms(520), Answer::Failed);
        assert_eq!(election.poll(ms(1_020)), Some(Action::Ask(Question::Claim)));
    }

    #[test]
    fn a_leader_renews_and_stops_before_its_lease_ends() {
        let mut election = leading();
        assert_eq!(election.until(), Some(ms(2_625)), "counted from the question");
        assert_eq!(election.poll(ms(1_000)), Some(Action::Ask(Question::Renew { epoch: 5 })));
        election.answered(ms(1_010), Answer::Held { epoch: 5 });
        assert_eq!(election.until(), Some(ms(3_625)));
        // The store does not answer any more.
        assert_eq!(election.poll(ms(2_000)), Some(Action::Ask(Question::Renew { epoch: 5 })));
        assert_eq!(election.next_deadline(), Some(ms(3_625)));
        assert_eq!(election.poll(ms(3_625)), Some(Action::StepDown));
        election.answered(ms(3_700), Answer::Held { epoch: 5 });
        assert_eq!((election.poll(ms(3_700)), election.until()), (None, None), "it is over");
    }

    #[test]
    fn a_leader_that_was_replaced_stops_at_once() {
        let mut election = leading();
        election.poll(ms(1_000));
        election.answered(ms(1_010), Answer::Other { url: "ws://b:1".into(), left: LEASE });
        assert_eq!(election.poll(ms(1_010)), Some(Action::StepDown));
    }

    #[test]
    fn a_standby_asks_at_the_end_of_a_lease_that_is_not_renewed() {
        let mut election = Election::new(LEASE);
        let left = |left| Answer::Other { url: "ws://a:1".into(), left };
        election.poll(ms(0));
        election.answered(ms(10), left(ms(1_400)));
        assert!(election.is_overdue(), "a renewal is missing");
        assert_eq!(election.next_deadline(), Some(ms(510)));
        election.poll(ms(510));
        election.answered(ms(520), left(ms(370)));
        assert_eq!(election.next_deadline(), Some(ms(890)));
        election.poll(ms(890));
        election.answered(ms(900), left(Duration::ZERO));
        assert_eq!(election.next_deadline(), Some(ms(950)), "another one may have claimed it");
        election.poll(ms(950));
        election.answered(ms(960), left(LEASE));
        assert!(!election.is_overdue());
    }

    #[test]
    fn a_late_answer_begins_no_leadership() {
        let mut election = Election::new(LEASE);
        election.poll(ms(0));
        election.answered(ms(2_700), Answer::Held { epoch: 5 });
        assert_eq!((election.until(), election.poll(ms(2_700))), (None, Some(Action::Ask(Question::Claim))));
    }
}
