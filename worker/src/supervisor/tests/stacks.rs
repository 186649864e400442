//! After a timeout, processes print their stacks.

use super::super::{Effect, Input, Plan};
use super::{Bench, plan};
use crate::limits::{DEBUGGER_QUIET, STACKS_FOR, STACKS_QUIET};
use buildpool_protocol::outcome::EndReason;
use std::time::Duration;

/// A supervisor after a timeout that has requested the stacks of the tree.
fn printing_stacks() -> Bench {
    let after = Duration::from_secs(60);
    let mut bench = Bench::running(Plan { timeout: Some(after), ..plan() });
    bench.pass(after);
    bench.feed(Input::StacksRequested { processes: 2, has_debugger: false });
    assert_eq!(
        bench.take(),
        [Effect::Record(EndReason::Timeout { after, held: None }), Effect::RequestStacks]
    );
    bench
}

#[test]
fn after_a_timeout_stacks_are_printed_for_a_limited_time() {
    let mut silent = printing_stacks();
    silent.pass(STACKS_FOR - Duration::from_millis(1));
    assert_eq!(silent.take(), []);
    silent.pass(Duration::from_millis(1));
    assert_eq!(silent.take(), [Effect::Terminate]);

    let mut quick = printing_stacks();
    quick.pass(Duration::from_millis(10));
    quick.feed(Input::Output);
    assert_eq!(quick.supervisor.next_deadline().until(quick.now), Some(STACKS_QUIET));
    quick.pass(STACKS_QUIET);
    assert_eq!(quick.take(), [Effect::Terminate], "it has printed all");

    let mut debugged = printing_stacks();
    debugged.feed(Input::StacksRequested { processes: 1, has_debugger: true });
    debugged.pass(Duration::from_millis(10));
    debugged.feed(Input::Output);
    assert_eq!(debugged.supervisor.next_deadline().until(debugged.now), Some(DEBUGGER_QUIET));

    let mut dead = printing_stacks();
    dead.feed(Input::Exited);
    assert_eq!(dead.take(), [Effect::Terminate, Effect::CountTree], "a Go program exits after its stacks");
    dead.feed(Input::TreeCounted { left: 0 });
    dead.feed(Input::PipesClosed);
    assert_eq!(dead.take(), [Effect::Finish { survivors: false }]);

    let mut skipped = printing_stacks();
    skipped.feed(Input::SkipGrace);
    assert_eq!(skipped.take(), [Effect::Kill]);
    let mut fenced = printing_stacks();
    fenced.feed(Input::End(EndReason::Fenced));
    assert_eq!(fenced.take(), [Effect::Kill]);
}

#[test]
fn a_timeout_without_a_grace_asks_for_no_stacks() {
    let after = Duration::from_secs(60);
    let mut bench = Bench::running(Plan { timeout: Some(after), grace: Duration::ZERO, ..plan() });
    bench.pass(after);
    assert_eq!(bench.take(), [Effect::Record(EndReason::Timeout { after, held: None }), Effect::Kill]);
}
