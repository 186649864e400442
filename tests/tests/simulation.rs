//! Runs the simulation with a fixed set of seeds. A failure prints the command that replays it.

use buildpool_tests::sim::{Options, run_and_explain};

/// Seeds that once failed. 327: a machine slept past its lease while the disconnected tree was
/// still in its grace period. 331: two jobs of one concurrency group counted as granted after a
/// restart. The others: jobs behind one that waits forever.
const SAVED: [u64; 5] = [273, 275, 297, 327, 331];

#[test]
fn the_saved_seeds_hold() {
    for seed in SAVED {
        run_and_explain(&Options { seed, ..Options::default() }).unwrap_or_else(|report| panic!("{report}"));
    }
}

#[test]
fn forty_seeds_hold() {
    for seed in 0..40 {
        run_and_explain(&Options { seed, ..Options::default() }).unwrap_or_else(|report| panic!("{report}"));
    }
}

/// The coordinator crashes between two effects: one run per boundary of a short run.
#[test]
fn a_coordinator_that_dies_at_any_boundary_loses_nothing() {
    let calm = Options { seed: 11, is_calm: true, jobs: Some(3), ..Options::default() };
    let counts = run_and_explain(&calm).unwrap_or_else(|report| panic!("{report}"));
    let mut runs = 0;
    for at in (1..=counts.boundaries).step_by(usize::try_from(counts.boundaries / RUNS).unwrap_or(0).max(1)) {
        let options = Options { crash_at: Some(at), ..calm.clone() };
        let counts = run_and_explain(&options).unwrap_or_else(|report| panic!("{report}"));
        // The previous run had its last boundaries after the time of faults.
        if counts.coordinator_crashes == 0 {
            break;
        }
        runs += 1;
    }
    assert!(runs > RUNS / 2, "{runs} boundaries only");
}

/// Approximate number of boundaries to test. A short run has more, most of them answers to reports.
const RUNS: u64 = 300;
