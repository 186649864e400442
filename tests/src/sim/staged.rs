//! Faults at chosen times, which random runs reach only sometimes, with checks of their cost.

use super::clock::Time;
use super::daemon::BACKOFF_MAX_MILLIS;
use super::faults::Fault;
use super::truth::Counts;
use super::world::{Options, World};
use buildpool_protocol::limits::{REPORT_EVERY, SELF_FENCE_MARGIN};
use std::time::Duration;

const SEEDS: u64 = 8;
/// Number of jobs in a staged run. Most of them run or wait when the faults strike.
const JOBS: u64 = 12;
const STRIKES_AT: Time = Duration::from_secs(200);
/// Interval between several faults.
const EVERY: Duration = Duration::from_secs(7);

/// Runs some seeds with only these faults, and returns the sum of all counts.
fn staged(faults: impl Fn(Duration) -> Vec<Fault>) -> Counts {
    let mut total = Counts::default();
    for seed in 0..SEEDS {
        let options = Options { seed, jobs: Some(JOBS), traces: true, ..Options::default() };
        let strike = |lost_after| {
            let at = |index| STRIKES_AT + EVERY * u32::try_from(index).unwrap();
            faults(lost_after).into_iter().enumerate().map(|(index, fault)| (at(index), fault)).collect()
        };
        match World::with_faults(&options, strike).run() {
            Ok(counts) => total.add(&counts),
            Err(failure) => panic!("seed {seed}: {}\n{}", failure.what, failure.trace.join("\n")),
        }
    }
    total
}

/// Checks that no attempt was lost, ended early, or ran again without a retry.
#[track_caller]
fn costs_nothing(counts: &Counts) {
    assert_eq!((counts.losses, counts.cut_offs, counts.fenced), (0, 0, 0), "{counts:?}");
    assert!(counts.executions <= counts.jobs + counts.retries, "{counts:?}");
}

/// Checks that at least one attempt was lost. Each run already checks that all jobs ended.
#[track_caller]
fn costs_attempts(counts: &Counts) {
    assert!(counts.losses > 0 && counts.executions > 0, "{counts:?}");
}

/// Strikes the first machine, which exists in each run. The number of machines is random.
fn on_first(fault: impl Fn(usize) -> Fault) -> Vec<Fault> {
    vec![fault(0)]
}

/// A fault without effect, which only takes time.
const fn pause() -> Fault {
    Fault::WallJump { millis: 0 }
}

/// Sum of round trips, the commit of a registration, and clocks that differ by half a percent.
const SLACK: Duration = Duration::from_secs(10);

/// Difference between `lost_after` and the longest harmless absence. It covers the keeper's margin,
/// the age of the last contact, the backoff of a worker, and some slack.
const AWAY_MARGIN: Duration = SELF_FENCE_MARGIN
    .saturating_add(REPORT_EVERY)
    .saturating_add(Duration::from_millis(BACKOFF_MAX_MILLIS))
    .saturating_add(SLACK);

#[test]
fn nothing_goes_wrong_where_nothing_is_done() {
    costs_nothing(&staged(|_| Vec::new()));
}

#[test]
fn a_coordinator_without_room_for_longer_than_any_lease_costs_no_running_job() {
    costs_nothing(&staged(|lost_after| vec![Fault::FullStore { time: lost_after * 3 }]));
}

#[test]
fn workers_that_come_back_while_the_coordinator_has_no_room_keep_their_jobs() {
    costs_nothing(&staged(|lost_after| {
        let mut faults = vec![Fault::FullStore { time: lost_after * 3 }];
        faults.extend((0..3).flat_map(|_| on_first(|host| Fault::Cut { host })));
        faults.extend(on_first(|host| Fault::DaemonCrash { host, down: Duration::from_secs(25) }));
        faults
    }));
}

#[test]
fn a_slow_disk_costs_nothing() {
    costs_nothing(&staged(|lost_after| vec![Fault::SlowStore { time: lost_after }]));
}

#[test]
fn a_coordinator_that_is_away_costs_nothing_however_it_went() {
    for says_so in [true, false] {
        costs_nothing(&staged(|lost_after| {
            vec![Fault::CoordinatorCrash { down: lost_after - AWAY_MARGIN, says_so }]
        }));
    }
    costs_nothing(&staged(|lost_after| vec![Fault::CoordinatorStop { time: lost_after - AWAY_MARGIN }]));
}

#[test]
fn an_outage_on_either_side_of_the_leases_limit_costs_nothing_before_it_and_attempts_after_it() {
    let stall = |time| on_first(|host| Fault::Stall { host, up: time, down: time });
    let margin = Duration::from_secs(75);
    for time in [Duration::from_secs(5), Duration::from_secs(29), Duration::from_secs(31)] {
        costs_nothing(&staged(|_| stall(time)));
    }
    costs_nothing(&staged(|lost_after| stall(lost_after - margin - Duration::from_secs(30))));
    costs_attempts(&staged(|lost_after| stall(lost_after + margin)));
    costs_attempts(&staged(|_| stall(Duration::from_secs(1_800))));
}

#[test]
fn one_dead_direction_is_noticed_and_costs_nothing() {
    for (up, down) in [(60, 0), (0, 60)] {
        let (up, down) = (Duration::from_secs(up), Duration::from_secs(down));
        costs_nothing(&staged(|_| on_first(|host| Fault::Stall { host, up, down })));
    }
}

#[test]
fn a_daemon_that_dies_or_stands_still_for_less_than_the_lease_costs_nothing() {
    let time = Duration::from_secs(25);
    costs_nothing(&staged(|_| on_first(|host| Fault::DaemonStop { host, time })));
    costs_nothing(&staged(|_| on_first(|host| Fault::DaemonCrash { host, down: time })));
}

#[test]
fn a_daemon_that_stands_still_for_longer_is_fenced_when_it_wakes() {
    costs_attempts(&staged(|lost_after| on_first(|host| Fault::DaemonStop { host, time: lost_after * 2 })));
}

#[test]
fn a_machine_that_loses_power_or_sleeps_past_its_lease_costs_attempts_and_no_job() {
    costs_attempts(&staged(|lost_after| on_first(|host| Fault::PowerLoss { host, down: lost_after / 4 })));
    costs_attempts(&staged(|lost_after| on_first(|host| Fault::Sleep { host, time: lost_after * 2 })));
}

#[test]
fn a_keeper_that_is_killed_costs_its_attempt() {
    costs_attempts(&staged(|_| on_first(|host| Fault::KeeperKill { host })));
}

#[test]
fn a_keeper_that_is_killed_while_its_daemon_is_away_leaves_no_tree_behind() {
    costs_attempts(&staged(|lost_after| {
        let mut faults = on_first(|host| Fault::DaemonCrash { host, down: lost_after * 3 });
        faults.extend((0..3).flat_map(|_| on_first(|host| Fault::KeeperKill { host })));
        faults
    }));
}

#[test]
fn attempts_live_as_long_as_their_workers_were_ever_told() {
    let shorter = Fault::LostAfter { lost_after: Duration::from_secs(91) };
    // Shortened while a daemon is stopped, so that its keepers do not receive the new value.
    costs_attempts(&staged(|lost_after| {
        let mut faults = on_first(|host| Fault::DaemonStop { host, time: lost_after * 2 });
        faults.push(shorter.clone());
        faults
    }));
    // Lengthened before that, beyond the time when all faults have healed.
    costs_nothing(&staged(|_| {
        let lost_after = Duration::from_secs(7_200);
        let mut faults = vec![Fault::LostAfter { lost_after }, pause(), pause(), pause(), pause()];
        faults.extend(on_first(|host| Fault::DaemonStop { host, time: lost_after }));
        faults.push(shorter.clone());
        faults
    }));
    costs_nothing(&staged(|lost_after| {
        let longer = lost_after * 3;
        let mut faults = vec![Fault::LostAfter { lost_after: longer }, pause(), pause(), pause(), pause()];
        let time = longer - AWAY_MARGIN;
        faults.extend(on_first(|host| Fault::Stall { host, up: time, down: time }));
        faults
    }));
}

#[test]
fn a_worker_without_room_costs_no_job() {
    let counts = staged(|lost_after| on_first(|host| Fault::FullDisk { host, time: lost_after }));
    assert!(counts.losses > 0, "{counts:?}");
}

#[test]
fn the_wall_clock_may_jump() {
    for millis in [-3_600_000, 3_600_000] {
        costs_nothing(&staged(|_| vec![Fault::WallJump { millis }]));
    }
}

#[test]
fn links_that_are_cut_again_and_again_cost_nothing() {
    let cuts = |lost_after: Duration| {
        let times = u32::try_from(lost_after.as_secs() / 20).unwrap();
        (0..times).flat_map(|_| on_first(|host| Fault::Cut { host })).collect()
    };
    costs_nothing(&staged(cuts));
}
