//! The simulation: the real pool and the real supervisor in one process, with simulated time,
//! network, disks, machines and clients. The seed determines everything, so a failure replays
//! exactly. With several coordinators, each also has the real election, and they share a simulated store.
//!
//! Real: [`buildpool_pool::Pool`], [`buildpool_worker::supervisor::Supervisor`],
//! [`buildpool_coordinator::election::Election`], the messages between them. Modelled: the shells around both, according to their documentation. After each
//! step the invariants of ARCHITECTURE.md are checked. After all faults have healed, every accepted
//! job must end.

mod clients;
mod clock;
mod coordinator;
mod daemon;
mod dice;
mod disk;
mod faults;
mod host;
mod keeper;
mod network;
mod shared;
#[cfg(test)]
mod staged;
mod truth;
mod world;

pub use truth::Counts;
pub use world::{Failure, Options};

/// Runs one simulation.
///
/// # Errors
/// The violated invariant.
pub fn run(options: &Options) -> Result<Counts, Box<Failure>> {
    world::World::new(options).run()
}

/// Runs one seed. A failure runs again with a trace, and the report contains the command to replay
/// it.
///
/// # Errors
/// A report for users.
pub fn run_and_explain(options: &Options) -> Result<Counts, String> {
    let failure = match run(options) {
        Ok(counts) => return Ok(counts),
        Err(failure) => failure,
    };
    let told = run(&Options { traces: true, ..options.clone() }).err().unwrap_or(failure);
    let from = told.trace.len().saturating_sub(TRACE_SHOWN);
    let crash_at = options.crash_at.map(|at| format!(" --crash-at {at}")).unwrap_or_default();
    let calm = if options.is_calm { " --calm" } else { "" };
    let jobs = options.jobs.map(|jobs| format!(" --jobs {jobs}")).unwrap_or_default();
    let coordinators = match options.coordinators {
        0 | 1 => String::new(),
        several => format!(" --coordinators {several}"),
    };
    Err(format!(
        "{}\n\n{}\nafter {:.3} simulated seconds\nreplay: cargo run -p buildpool-tests --bin simulate -- --seed {}{crash_at}{calm}{jobs}{coordinators} --trace",
        told.trace.get(from..).unwrap_or_default().join("\n"),
        told.what,
        told.at_secs,
        options.seed,
    ))
}

/// Limit on the trace lines shown for a failure.
const TRACE_SHOWN: usize = 60;
