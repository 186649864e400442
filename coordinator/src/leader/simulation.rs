//! Simulation of several coordinators that share a store. Clocks drift, answers get lost or arrive late, and
//! coordinators pause.

use super::election::{Action, Answer, Election, Question};
use std::time::Duration;

const LEASE_MS: u64 = 3_000;
const CANDIDATES: usize = 3;
/// A simulated run has faults for its first half only.
const RUN_MS: u64 = 120_000;
const STEP_MS: u64 = 20;
const SEEDS: u64 = 2_000;

/// Pseudo-random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Default)]
struct LeaseStore {
    epoch: i64,
    holder: usize,
    /// By the store's clock, which is the true time here.
    expires: u64,
}

impl LeaseStore {
    fn ask(&mut self, now: u64, candidate: usize, question: Question) -> Answer {
        let held = match question {
            Question::Claim if self.expires < now => {
                self.epoch += 1;
                self.holder = candidate;
                true
            }
            Question::Claim => false,
            Question::Renew { epoch } => self.epoch == epoch && self.holder == candidate,
        };
        if !held {
            let left = Duration::from_millis(self.expires.saturating_sub(now));
            return Answer::Other { url: String::new(), left };
        }
        self.expires = now + LEASE_MS;
        Answer::Held { epoch: self.epoch }
    }
}

struct SimulatedCandidate {
    election: Election,
    /// Its clock has another rate than the store's, in parts of a million, and another zero.
    rate_ppm: u64,
    zero_ms: u64,
    paused_until: u64,
    /// A question on its way: when it reaches the store, and when the answer arrives. `None` if it is lost.
    asked: Option<(u64, Question)>,
    answer: Option<(u64, Answer)>,
    /// A question of its election before the present one. Its answer is dropped.
    stray: Option<(u64, Question)>,
}

impl SimulatedCandidate {
    fn new(dice: &mut Dice) -> Self {
        Self {
            election: Election::new(Duration::from_millis(LEASE_MS)),
            // Up to 5 % slower or faster, far beyond real clocks.
            rate_ppm: 950_000 + dice.below(100_000),
            zero_ms: dice.below(1_000_000),
            paused_until: 0,
            asked: None,
            answer: None,
            stray: None,
        }
    }

    fn clock(&self, now: u64) -> Duration {
        Duration::from_micros(self.zero_ms * 1_000 + now * self.rate_ppm / 1_000)
    }

    /// Returns true if it would act as the leader at this moment, also in the middle of a pause.
    fn acts(&self, now: u64) -> bool {
        self.paused_until <= now && self.election.until().is_some_and(|until| self.clock(now) < until)
    }
}

fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut store = LeaseStore::default();
    let mut candidates: Vec<SimulatedCandidate> =
        (0..CANDIDATES).map(|_| SimulatedCandidate::new(&mut dice)).collect();
    let mut epochs = vec![0_i64];
    for now in (0..RUN_MS).step_by(STEP_MS as usize) {
        let has_faults = now < RUN_MS / 2;
        for (number, candidate) in candidates.iter_mut().enumerate() {
            if has_faults && dice.below(2_000) == 0 {
                candidate.paused_until = now + dice.below(3 * LEASE_MS);
            }
            if let Some((_, question)) = candidate.stray.take_if(|(at, _)| *at <= now) {
                store.ask(now, number, question);
            }
            // The network works on while a coordinator is paused.
            if let Some((_, question)) = candidate.asked.take_if(|(at, _)| *at <= now) {
                let answer = store.ask(now, number, question);
                let is_lost = has_faults && dice.below(5) == 0;
                let answer = if is_lost { Answer::Failed } else { answer };
                let slow =
                    if has_faults && dice.below(5) == 0 { dice.below(2 * LEASE_MS) } else { dice.below(20) };
                candidate.answer = Some((now + slow, answer));
            }
            if candidate.paused_until > now {
                continue;
            }
            let clock = candidate.clock(now);
            if let Some((_, answer)) = candidate.answer.take_if(|(at, _)| *at <= now) {
                candidate.election.answered(clock, answer);
            }
            while let Some(action) = candidate.election.poll(clock) {
                match action {
                    Action::Ask(question) => {
                        let slow = if has_faults && dice.below(5) == 0 {
                            dice.below(2 * LEASE_MS)
                        } else {
                            dice.below(20)
                        };
                        candidate.asked = Some((now + slow, question));
                    }
                    Action::Lead { epoch } => {
                        assert!(epochs.iter().all(|earlier| *earlier < epoch), "seed {seed}: epochs grow");
                        epochs.push(epoch);
                    }
                    Action::StepDown => {
                        candidate.election = Election::new(Duration::from_millis(LEASE_MS));
                        (candidate.stray, candidate.answer) = (candidate.asked.take(), None);
                    }
                }
            }
        }
        let acting = candidates.iter().filter(|candidate| candidate.acts(now)).count();
        assert!(acting <= 1, "seed {seed}: {acting} leaders act at {now} ms");
    }
    let acting = candidates.iter().filter(|candidate| candidate.acts(RUN_MS - STEP_MS)).count();
    assert_eq!(acting, 1, "seed {seed}: without faults there is a leader");
    assert!(epochs.len() < 60, "seed {seed}: leaders change only when they must: {}", epochs.len());
}

#[test]
fn at_most_one_leader_acts_and_one_leads_when_faults_end() {
    (1..=SEEDS).for_each(run);
}
