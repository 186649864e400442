//! Tests of the supervisor: inputs and effects.

mod stacks;

use super::{Effect, Input, Plan, Supervisor};
use crate::limits::{KILL_FOR, LEAK_GRACE, SETTLE};
use crate::platform::Now;
use buildpool_protocol::limits::PIPE_DRAIN;
use buildpool_protocol::outcome::EndReason;
use proptest::prelude::*;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(10);

/// A supervisor with its clock, and all its effects.
struct Bench {
    supervisor: Supervisor,
    now: Now,
    effects: Vec<Effect>,
}

impl Bench {
    fn new(plan: Plan) -> Self {
        let now = Now { running: Duration::from_secs(5), continuous: Duration::from_secs(500) };
        Self { supervisor: Supervisor::new(plan, now), now, effects: Vec::new() }
    }

    fn running(plan: Plan) -> Self {
        let mut bench = Self::new(plan);
        bench.feed(Input::Started);
        assert_eq!(bench.take(), []);
        bench
    }

    fn feed(&mut self, input: Input) {
        self.supervisor.handle(self.now, input);
        while let Some(effect) = self.supervisor.poll_effect() {
            self.effects.push(effect);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.running += time;
        self.now.continuous += time;
        self.feed(Input::Tick);
    }

    fn sleep_the_machine(&mut self, time: Duration) {
        self.now.continuous += time;
        self.feed(Input::Tick);
    }

    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}

fn plan() -> Plan {
    Plan { grace: GRACE, cut_off_grace: Duration::from_secs(3), ..Plan::default() }
}

fn cancel() -> EndReason {
    EndReason::Cancelled { by: "me".into(), reason: String::new() }
}

#[test]
fn a_clean_exit_ends_when_tree_and_pipes_are_gone_in_either_order() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::Exited);
    assert_eq!(bench.take(), [Effect::CountTree]);
    bench.feed(Input::TreeCounted { left: 0 });
    assert_eq!(bench.take(), []);
    bench.feed(Input::PipesClosed);
    assert_eq!(bench.take(), [Effect::Finish { survivors: false }]);
    assert!(bench.supervisor.is_done());

    let mut bench = Bench::running(plan());
    bench.feed(Input::PipesClosed);
    bench.feed(Input::Exited);
    bench.feed(Input::TreeCounted { left: 0 });
    assert_eq!(bench.take(), [Effect::CountTree, Effect::Finish { survivors: false }]);
}

#[test]
fn limits_are_recorded_before_the_first_signal() {
    let after = Duration::from_secs(60);
    let idle = Plan { idle_timeout: Some(after), ..plan() };
    let total = Plan { timeout: Some(after), ..plan() };
    let cut = Plan { cut_off_after: Some(after), ..plan() };
    for (plan, acted) in [
        (idle, EndReason::IdleTimeout { after }),
        (total, EndReason::Timeout { after, held: None }),
        (cut, EndReason::CutOff),
    ] {
        let mut bench = Bench::running(plan);
        bench.pass(after - Duration::from_millis(1));
        assert_eq!(bench.take(), []);
        assert_eq!(bench.supervisor.next_deadline().until(bench.now), Some(Duration::from_millis(1)));
        bench.pass(Duration::from_millis(1));
        let is_timeout = acted != EndReason::CutOff;
        let first = if is_timeout { Effect::RequestStacks } else { Effect::Terminate };
        assert_eq!(bench.take(), [Effect::Record(acted), first]);
        assert!(bench.supervisor.is_ending());
        bench.feed(Input::StacksRequested { processes: 0, has_debugger: false });
        assert_eq!(bench.take(), if is_timeout { vec![Effect::Terminate] } else { vec![] });
    }
}

#[test]
fn output_and_contact_put_their_limits_off_and_nothing_else_does() {
    let after = Duration::from_secs(60);
    let mut bench = Bench::running(Plan { idle_timeout: Some(after), cut_off_after: Some(after), ..plan() });
    for _ in 0..5 {
        bench.pass(Duration::from_secs(50));
        bench.feed(Input::Output);
        bench.feed(Input::Contact { age: Duration::from_secs(5), cut_off_after: None });
    }
    assert_eq!(bench.take(), []);
    // An older contact has no effect.
    bench.feed(Input::Contact { age: Duration::from_secs(500), cut_off_after: None });
    bench.pass(Duration::from_secs(54));
    assert_eq!(bench.take(), []);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.take(), [Effect::Record(EndReason::CutOff), Effect::Terminate]);
}

#[test]
fn a_process_that_waits_at_its_pipe_is_not_silent() {
    let after = Duration::from_secs(60);
    let mut bench = Bench::running(Plan { idle_timeout: Some(after), ..plan() });
    bench.feed(Input::Blocked);
    bench.pass(after * 10);
    assert_eq!(bench.take(), []);
    bench.feed(Input::Unblocked);
    bench.pass(after - Duration::from_secs(1));
    assert_eq!(bench.take(), []);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.take(), [Effect::Record(EndReason::IdleTimeout { after }), Effect::RequestStacks]);
}

#[test]
fn sleep_of_the_machine_counts_for_the_lease_and_not_for_the_job() {
    let after = Duration::from_secs(60);
    let mut bench = Bench::running(Plan { timeout: Some(after), ..plan() });
    bench.sleep_the_machine(after * 100);
    assert_eq!(bench.take(), []);
    let mut bench = Bench::running(Plan { cut_off_after: Some(after), ..plan() });
    bench.sleep_the_machine(after);
    assert_eq!(bench.take(), [Effect::Record(EndReason::CutOff), Effect::Terminate]);
}

#[test]
fn what_takes_long_gives_way_to_decisions_and_to_no_look() {
    let second = Duration::from_secs(1);
    let mut bench =
        Bench::running(Plan { timeout: Some(second * 60), cut_off_after: Some(second * 90), ..plan() });
    let left = |bench: &Bench| bench.supervisor.work_deadline().until(bench.now);
    assert_eq!(left(&bench), Some(second * 60), "the limit");
    bench.feed(Input::End(cancel()));
    assert_eq!(left(&bench), Some(GRACE), "the kill");
    assert!(bench.supervisor.next_deadline().until(bench.now) < Some(second), "a look is sooner");
    let later = |by: Duration| Now { running: bench.now.running + by, ..bench.now };
    assert!(
        !bench.supervisor.is_kill_due(later(GRACE - second)) && bench.supervisor.is_kill_due(later(GRACE))
    );
    bench.sleep_the_machine(second * 91);
    assert_eq!(left(&bench), Some(second * 2), "the kill, when the job may run elsewhere");
    bench.feed(Input::SkipGrace);
    assert_eq!(left(&bench), Some(KILL_FOR), "the end of killing");
    bench.feed(Input::Exited);
    bench.feed(Input::TreeCounted { left: 0 });
    assert_eq!(left(&bench), Some(PIPE_DRAIN), "the end of waiting for the pipes");

    let mut bench = Bench::running(plan());
    bench.feed(Input::PipesClosed);
    bench.feed(Input::Exited);
    assert_eq!(left(&bench), Some(SETTLE), "when the remaining processes count as leaked");
}

#[test]
fn a_machine_that_slept_past_the_lease_leaves_no_grace() {
    let after = Duration::from_secs(60);
    for (slept, grace) in [(61, 2), (62, 1), (63, 0), (5_000, 0)] {
        let mut bench = Bench::running(Plan { cut_off_after: Some(after), ..plan() });
        bench.sleep_the_machine(Duration::from_secs(slept));
        let first = if grace == 0 { Effect::Kill } else { Effect::Terminate };
        assert_eq!(bench.take(), [Effect::Record(EndReason::CutOff), first], "{slept}");
        bench.pass(Duration::from_secs(grace));
        assert!(grace == 0 || bench.take().contains(&Effect::Kill), "{slept}");
    }
}

#[test]
fn a_tree_that_has_a_long_grace_is_gone_when_the_lease_ends() {
    let after = Duration::from_secs(60);
    let patient = Plan { cut_off_after: Some(after), grace: Duration::from_secs(3_600), ..plan() };
    let mut bench = Bench::running(patient);
    bench.pass(Duration::from_secs(50));
    bench.feed(Input::End(cancel()));
    bench.pass(Duration::from_secs(12));
    assert!(!bench.take().contains(&Effect::Kill));
    let left = bench.supervisor.next_deadline().continuous.map(|at| at - bench.now.continuous);
    assert_eq!(left, Some(Duration::from_secs(1)));
    bench.pass(Duration::from_secs(1));
    assert!(bench.take().contains(&Effect::Kill));
}

#[test]
fn an_attempt_that_starts_long_after_the_last_contact_has_less_time() {
    let after = Duration::from_secs(60);
    let mut bench = Bench::new(Plan { cut_off_after: Some(after), ..plan() });
    bench.feed(Input::Contact { age: Duration::from_secs(50), cut_off_after: None });
    bench.feed(Input::Started);
    bench.pass(Duration::from_secs(9));
    assert_eq!(bench.take(), []);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.take(), [Effect::Record(EndReason::CutOff), Effect::Terminate]);
}

#[test]
fn each_reason_has_its_grace() {
    for (acted, grace) in [
        (cancel(), GRACE),
        (EndReason::Drained, GRACE),
        (EndReason::OutputLimit { reason: "full".into() }, GRACE),
        (EndReason::DiskLimit { used_bytes: 2, limit_bytes: 1 }, GRACE),
        (EndReason::CutOff, Duration::from_secs(3)),
    ] {
        let mut bench = Bench::running(plan());
        bench.feed(Input::End(acted.clone()));
        assert_eq!(bench.take(), [Effect::Record(acted.clone()), Effect::Terminate]);
        bench.pass(grace - Duration::from_millis(1));
        assert!(!bench.take().contains(&Effect::Kill), "{acted:?}");
        bench.pass(Duration::from_millis(1));
        assert!(bench.take().contains(&Effect::Kill), "{acted:?}");
    }
    let mut bench = Bench::running(plan());
    bench.feed(Input::End(EndReason::Fenced));
    assert_eq!(bench.take(), [Effect::Record(EndReason::Fenced), Effect::Kill]);
    let mut bench = Bench::running(Plan { grace: Duration::ZERO, ..plan() });
    bench.feed(Input::End(cancel()));
    assert_eq!(bench.take(), [Effect::Record(cancel()), Effect::Kill]);
}

#[test]
fn the_first_reason_stays_and_a_skipped_grace_period_kills() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::End(cancel()));
    bench.take();
    bench.feed(Input::End(EndReason::Drained));
    bench.feed(Input::End(cancel()));
    assert_eq!(bench.take(), []);
    bench.feed(Input::SkipGrace);
    assert_eq!(bench.take(), [Effect::Kill]);
    bench.feed(Input::SkipGrace);
    assert_eq!(bench.take(), []);
}

#[test]
fn a_reason_that_comes_before_the_process_is_kept_for_it() {
    let mut bench = Bench::new(plan());
    bench.feed(Input::End(cancel()));
    assert_eq!(bench.take(), []);
    bench.feed(Input::Started);
    assert_eq!(bench.take(), [Effect::Record(cancel()), Effect::Terminate]);
    let mut bench = Bench::new(plan());
    bench.feed(Input::NotStarted);
    assert_eq!(bench.take(), [Effect::Finish { survivors: false }]);
}

#[test]
fn an_exit_that_was_seen_is_not_ours() {
    let mut bench = Bench::running(Plan { timeout: Some(Duration::from_secs(1)), ..plan() });
    bench.feed(Input::Exited);
    bench.feed(Input::End(cancel()));
    bench.pass(Duration::from_secs(1));
    let effects = bench.take();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Record(_))), "{effects:?}");
    // Its leftover processes are still ended sooner.
    assert!(effects.contains(&Effect::Kill) && effects.contains(&Effect::NoteLeaked));
}

#[test]
fn what_outlives_the_command_is_noted_and_ended() {
    for (pipes_closed, retry) in [(true, SETTLE), (false, PIPE_DRAIN)] {
        let mut bench = Bench::running(plan());
        if pipes_closed {
            bench.feed(Input::PipesClosed);
        }
        bench.feed(Input::Exited);
        bench.feed(Input::TreeCounted { left: 1 });
        bench.pass(retry - Duration::from_millis(1));
        bench.feed(Input::TreeCounted { left: 1 });
        assert!(!bench.take().contains(&Effect::NoteLeaked));
        bench.pass(Duration::from_millis(1));
        assert_eq!(bench.take(), [Effect::CountTree]);
        bench.feed(Input::TreeCounted { left: 1 });
        assert_eq!(bench.take(), [Effect::NoteLeaked, Effect::Terminate]);
        bench.pass(LEAK_GRACE);
        assert!(bench.take().contains(&Effect::Kill));
        bench.feed(Input::TreeCounted { left: 0 });
        bench.feed(Input::PipesClosed);
        assert_eq!(bench.take().last(), Some(&Effect::Finish { survivors: false }));
    }
}

#[test]
fn what_ends_by_itself_in_time_is_no_leak() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::Exited);
    bench.feed(Input::TreeCounted { left: 2 });
    bench.pass(PIPE_DRAIN - Duration::from_millis(1));
    bench.feed(Input::TreeCounted { left: 0 });
    bench.feed(Input::PipesClosed);
    let effects = bench.take();
    assert_eq!(effects.last(), Some(&Effect::Finish { survivors: false }));
    assert!(!effects.contains(&Effect::NoteLeaked) && !effects.contains(&Effect::Terminate));
}

#[test]
fn who_closes_the_pipes_late_has_a_moment_to_end() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::Exited);
    bench.feed(Input::TreeCounted { left: 1 });
    bench.pass(SETTLE * 2);
    bench.feed(Input::PipesClosed);
    bench.feed(Input::TreeCounted { left: 1 });
    bench.pass(SETTLE - Duration::from_millis(1));
    bench.feed(Input::TreeCounted { left: 1 });
    assert!(!bench.take().contains(&Effect::NoteLeaked));
    bench.feed(Input::TreeCounted { left: 0 });
    assert_eq!(bench.take(), [Effect::Finish { survivors: false }]);
}

#[test]
fn pipes_that_a_stranger_holds_are_given_up() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::Exited);
    bench.feed(Input::TreeCounted { left: 0 });
    bench.take();
    bench.pass(PIPE_DRAIN);
    assert_eq!(bench.take(), [Effect::ClosePipes]);
    bench.feed(Input::PipesClosed);
    assert_eq!(bench.take(), [Effect::Finish { survivors: false }]);
}

#[test]
fn what_cannot_be_killed_is_reported_after_a_while() {
    let mut bench = Bench::running(plan());
    bench.feed(Input::End(EndReason::Fenced));
    let mut rounds = 0;
    while !bench.supervisor.is_done() {
        let wait = bench.supervisor.next_deadline().until(bench.now).expect("it goes on trying");
        bench.pass(wait);
        bench.feed(Input::TreeCounted { left: 1 });
        rounds += 1;
        assert!(rounds < 200, "it ends");
    }
    assert!(rounds > 20, "it tries again and again, not {rounds} times");
    let effects = bench.take();
    assert_eq!(effects.last(), Some(&Effect::Finish { survivors: true }));
    assert!(bench.now.running >= Duration::from_secs(5) + KILL_FOR);
}

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Output),
        Just(Input::Blocked),
        Just(Input::Unblocked),
        Just(Input::Exited),
        Just(Input::PipesClosed),
        (0usize..3).prop_map(|left| Input::TreeCounted { left }),
        (0u64..100).prop_map(|age| Input::Contact { age: Duration::from_secs(age), cut_off_after: None }),
        Just(Input::End(cancel())),
        Just(Input::End(EndReason::Fenced)),
        Just(Input::End(EndReason::Drained)),
        Just(Input::SkipGrace),
        Just(Input::Tick),
    ]
}

proptest! {
    /// For any inputs in any order: each signal has a recorded reason, and there is exactly one
    /// end.
    #[test]
    fn every_attempt_ends_and_says_why(
        timeout in proptest::option::of(1u64..100),
        idle in proptest::option::of(1u64..100),
        grace in 0u64..20,
        steps in proptest::collection::vec((inputs(), 0u64..30_000), 0..60),
        dies in any::<bool>(),
    ) {
        let mut bench = Bench::running(Plan {
            timeout: timeout.map(Duration::from_secs),
            idle_timeout: idle.map(Duration::from_secs),
            grace: Duration::from_secs(grace),
            ..plan()
        });
        let mut has_exited = false;
        for (input, millis) in steps {
            has_exited |= input == Input::Exited;
            // A tree is never empty while its command exists.
            if matches!(input, Input::TreeCounted { left: 0 }) && !has_exited {
                continue;
            }
            bench.feed(input);
            bench.pass(Duration::from_millis(millis));
        }
        bench.feed(Input::End(cancel()));
        let mut answered = 0;
        for _ in 0..2_000 {
            let effects: Vec<Effect> = bench.effects[answered..].to_vec();
            answered = bench.effects.len();
            for effect in effects {
                match effect {
                    Effect::Kill if dies => {
                        bench.feed(Input::Exited);
                        bench.feed(Input::TreeCounted { left: 0 });
                    }
                    Effect::CountTree => bench.feed(Input::TreeCounted { left: usize::from(!dies) }),
                    Effect::ClosePipes => bench.feed(Input::PipesClosed),
                    _ => {}
                }
            }
            if bench.supervisor.is_done() {
                break;
            }
            if let Some(wait) = bench.supervisor.next_deadline().until(bench.now) {
                bench.pass(wait.max(Duration::from_millis(1)));
            }
        }
        prop_assert!(bench.supervisor.is_done(), "{:?}", bench.supervisor);
        let count = |wanted: fn(&Effect) -> bool| bench.effects.iter().filter(|effect| wanted(effect)).count();
        prop_assert_eq!(count(|effect| matches!(effect, Effect::Finish { .. })), 1);
        prop_assert!(count(|effect| matches!(effect, Effect::Record(_))) <= 1);
        let is_signal = |effect: &Effect| matches!(effect, Effect::Terminate | Effect::Kill);
        let is_reason = |effect: &Effect| matches!(effect, Effect::Record(_) | Effect::NoteLeaked);
        if let Some(signal) = bench.effects.iter().position(is_signal) {
            prop_assert!(bench.effects[..signal].iter().any(is_reason), "{:?}", bench.effects);
        }
        let is_last = matches!(bench.effects.last(), Some(Effect::Finish { .. }));
        prop_assert!(is_last, "{:?}", bench.effects);
    }
}

#[test]
fn a_longer_limit_that_is_told_later_counts_and_a_shorter_one_does_not() {
    let secs = Duration::from_secs;
    let mut bench = Bench::running(Plan { cut_off_after: Some(secs(60)), ..plan() });
    let contact = |after| Input::Contact { age: Duration::ZERO, cut_off_after: Some(secs(after)) };
    bench.feed(contact(30));
    bench.pass(secs(59));
    assert_eq!(bench.take(), [], "it lives as long as the longest limit that it received");
    bench.feed(contact(600));
    bench.pass(secs(599));
    assert_eq!(bench.take(), []);
    bench.pass(secs(1));
    assert_eq!(bench.take(), [Effect::Record(EndReason::CutOff), Effect::Terminate]);
    let mut bench = Bench::running(plan());
    bench.feed(contact(1));
    bench.pass(secs(1_000_000));
    assert_eq!(bench.take(), [], "a job that waits for its worker has no limit");
}
