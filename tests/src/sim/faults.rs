//! Faults and their times.

use super::clock::Time;
use super::dice::Dice;
use std::time::Duration;

/// A fault. Hosts are numbers; times are real time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Cut {
        host: usize,
    },
    /// Blocks one or both directions for these durations.
    Stall {
        host: usize,
        up: Duration,
        down: Duration,
    },
    DaemonCrash {
        host: usize,
        down: Duration,
    },
    DaemonStop {
        host: usize,
        time: Duration,
    },
    DaemonDrain {
        host: usize,
        deadline: Duration,
    },
    KeeperKill {
        host: usize,
    },
    PowerLoss {
        host: usize,
        down: Duration,
    },
    Wipe {
        host: usize,
        down: Duration,
    },
    Sleep {
        host: usize,
        time: Duration,
    },
    Mood {
        host: usize,
    },
    CoordinatorCrash {
        down: Duration,
        says_so: bool,
    },
    /// Crashes after this many further boundaries between effects.
    CoordinatorCrashAt {
        boundaries: u64,
        down: Duration,
    },
    CoordinatorStop {
        time: Duration,
    },
    SlowStore {
        time: Duration,
    },
    FullStore {
        time: Duration,
    },
    WallJump {
        millis: i64,
    },
    Drain {
        host: usize,
        deadline: Option<Duration>,
    },
    Resume {
        host: usize,
    },
    /// Restarts the coordinator with another `lost_after`.
    LostAfter {
        lost_after: Duration,
    },
    /// Crashes a coordinator that may be the leader.
    LeaderCrash {
        down: Duration,
        says_so: bool,
    },
    /// Pauses a coordinator that may be the leader.
    LeaderStop {
        time: Duration,
    },
    /// Cuts a coordinator off from the shared store.
    StoreCut {
        time: Duration,
    },
    /// The shared store is slow, and some of its answers get lost.
    SharedSlow {
        time: Duration,
    },
    /// The server with the records does not answer.
    SharedAway {
        time: Duration,
    },
    /// Objects can't be written.
    ObjectsAway {
        time: Duration,
    },
    /// The asynchronous standby server stops following, so that its state becomes stale.
    StandbyLags,
    /// The primary server is lost, and the standby server takes over after this time.
    StandbyPromoted {
        takes: Duration,
    },
    /// No workspace can be prepared.
    FullDisk {
        host: usize,
        time: Duration,
    },
}

/// Number of fault kinds. Each run uses only some, so that each also occurs with few others.
const KINDS: u64 = 18;

/// Returns the faults of a run, in order.
pub(crate) fn plan(
    dice: &mut Dice,
    hosts: usize,
    until: Duration,
    lost_after: Duration,
) -> Vec<(Time, Fault)> {
    let enabled = dice.throw() & dice.throw() | dice.throw() & dice.throw() & dice.throw();
    let count = dice.below(90);
    let mut faults: Vec<(Time, Fault)> = Vec::new();
    for _ in 0..count {
        let kind = dice.below(KINDS);
        let at = dice.millis(1_000, u64::try_from(until.as_millis()).unwrap_or(1_001).max(1_001));
        let fault = draw(dice, kind, hosts, lost_after);
        if enabled >> kind & 1 == 1 {
            faults.push((at, fault));
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Returns faults that only some runs have. They use their own dice, so that the other faults of a
/// seed do not change.
pub(crate) fn plan_more(seed: u64, hosts: usize, until: Duration) -> Vec<(Time, Fault)> {
    let mut dice = Dice::new(!seed);
    let mut faults = Vec::new();
    if dice.percent(50) {
        return faults;
    }
    for _ in 0..dice.below(8) {
        let at = dice.millis(1_000, u64::try_from(until.as_millis()).unwrap_or(1_001).max(1_001));
        let fault = if dice.percent(50) {
            Fault::FullDisk { host: dice.index(hosts), time: dice.seconds(1, 400) }
        } else {
            Fault::LostAfter { lost_after: Duration::from_secs([91, 120, 300, 900][dice.index(4)]) }
        };
        faults.push((at, fault));
    }
    faults
}

/// Returns the faults of several coordinators and their shared store.
pub(crate) fn plan_shared(seed: u64, until: Duration) -> Vec<(Time, Fault)> {
    let mut dice = Dice::new(seed.rotate_left(32) ^ 0x5a5a);
    let mut faults = Vec::new();
    let end = u64::try_from(until.as_millis()).unwrap_or(1_001).max(1_001);
    let enabled = dice.throw() | dice.throw();
    // Each kind is absent from some runs. A stale standby server is rare, because it excuses losses.
    let is_asynchronous = dice.percent(20);
    for _ in 0..dice.below(60) {
        let at = dice.millis(1_000, end);
        let time = if dice.percent(70) { dice.millis(100, 8_000) } else { dice.millis(3_000, 90_000) };
        let kind = dice.below(7);
        let fault = match kind {
            0 => Fault::LeaderCrash { down: time, says_so: dice.percent(70) },
            1 => Fault::LeaderStop { time },
            2 => Fault::StoreCut { time },
            3 => Fault::SharedSlow { time },
            4 => Fault::SharedAway { time },
            5 => Fault::ObjectsAway { time },
            _ => {
                let lag = dice.millis(10, 10_000);
                if is_asynchronous {
                    faults.push((at, Fault::StandbyLags));
                    faults.push((at + lag, Fault::StandbyPromoted { takes: time }));
                }
                continue;
            }
        };
        if enabled >> kind & 1 == 1 {
            faults.push((at, fault));
        }
    }
    faults
}

/// Returns a short duration, one near the silence limit of a link, one near the lease limits, or a
/// long one.
fn absence(dice: &mut Dice, lost_after: Duration) -> Duration {
    match dice.below(5) {
        0 => dice.millis(10, 3_000),
        1 => dice.seconds(3, 70),
        2 => (lost_after + dice.seconds(0, 90)).saturating_sub(Duration::from_secs(60)),
        3 => lost_after * 2,
        _ => dice.around(lost_after / 3),
    }
}

fn draw(dice: &mut Dice, kind: u64, hosts: usize, lost_after: Duration) -> Fault {
    let host = dice.index(hosts);
    let time = absence(dice, lost_after);
    match kind {
        0 => Fault::Cut { host },
        1 => Fault::Stall { host, up: time, down: time },
        2 => Fault::Stall { host, up: time, down: Duration::ZERO },
        3 => Fault::Stall { host, up: Duration::ZERO, down: time },
        4 => Fault::DaemonCrash { host, down: time },
        5 => Fault::DaemonStop { host, time },
        6 => Fault::DaemonDrain { host, deadline: dice.seconds(0, 120) },
        7 => Fault::KeeperKill { host },
        8 => Fault::PowerLoss { host, down: time },
        9 => Fault::Wipe { host, down: time },
        10 => Fault::Sleep { host, time },
        11 => Fault::Mood { host },
        12 => Fault::CoordinatorCrash { down: dice.millis(10, 90_000), says_so: dice.percent(70) },
        13 => Fault::CoordinatorCrashAt { boundaries: dice.below(40), down: dice.millis(10, 20_000) },
        14 => Fault::CoordinatorStop { time: time.min(lost_after * 2) },
        15 => {
            if dice.percent(50) {
                Fault::SlowStore { time }
            } else {
                Fault::FullStore { time: time.min(lost_after) }
            }
        }
        16 => Fault::WallJump { millis: i64::try_from(dice.below(7_200_000)).unwrap_or(0) - 3_600_000 },
        _ => {
            if dice.percent(50) {
                Fault::Drain { host, deadline: dice.percent(60).then(|| dice.seconds(0, 200)) }
            } else {
                Fault::Resume { host }
            }
        }
    }
}
