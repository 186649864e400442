//! The trial of a new program: it starts as the worker, registers, and exits.

use super::program::{self, End, Limits};
use super::{REGISTERED, Staged, trial_arguments};
use crate::daemon::Shutdown;
use std::time::Duration;

/// Time limit of the exit after the registration: work on the disk may still run.
const EXIT_WITHIN: Duration = Duration::from_secs(60);

/// Result of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TrialResult {
    /// The new program has registered.
    Registered,
    /// The new program failed, for this reason.
    Failed(String),
    /// This process should end.
    Shutdown,
}

/// Runs the trial, and waits until its process has ended. The data directory is free: the daemon of this process has ended.
pub async fn run(staged: &Staged, shutdown: &mut Shutdown) -> TrialResult {
    let within = staged.order.register_within;
    let arguments = trial_arguments(&staged.restart, staged.order.id);
    let limits = Limits { within, line: Some((REGISTERED, EXIT_WITHIN)) };
    let stop = async {
        shutdown.next_request().await;
    };
    let ran = match program::run(staged.path(), arguments, limits, stop).await {
        Err(error) => {
            return TrialResult::Failed(format!("the new program does not start on this machine: {error}"));
        }
        Ok(ran) => ran,
    };
    match ran.end {
        End::Stopped => TrialResult::Shutdown,
        End::Exited(status) if ran.has_line && status.success() => TrialResult::Registered,
        End::TimedOut if ran.has_line => {
            tracing::warn!("the new program registered, and was killed {} s later", EXIT_WITHIN.as_secs());
            TrialResult::Registered
        }
        End::Exited(_) if ran.has_line => {
            TrialResult::Failed(format!("the new program registered, but then it {}", ran.story(within)))
        }
        End::Exited(_) | End::TimedOut => {
            let story = ran.story(within);
            TrialResult::Failed(format!("the new program did not register with the coordinator: it {story}"))
        }
    }
}
