//! The trial of a new program: it starts as the worker, registers, and exits.

use super::{REGISTERED, Staged, program, trial_arguments};
use crate::daemon::Shutdown;

/// Result of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The new program has registered.
    Registered,
    /// It has not, for this reason.
    Failed(String),
    /// This process should end.
    Shutdown,
}

/// Runs the trial. The data directory is free: the daemon of this process has ended.
pub async fn run(staged: &Staged, shutdown: &mut Shutdown) -> Verdict {
    let within = staged.order.register_within;
    let arguments = trial_arguments(&staged.restart, staged.order.id);
    let ran = tokio::select! {
        // The program is ended when its future is dropped.
        _ = shutdown.wish() => return Verdict::Shutdown,
        ran = program::run(&staged.path, arguments, within) => ran,
    };
    match ran {
        Err(error) => Verdict::Failed(format!("the new program does not start on this machine: {error}")),
        Ok(ran) => {
            let has_registered = ran.out.lines().any(|line| line.trim() == REGISTERED);
            if ran.status.is_some_and(|status| status.success()) && has_registered {
                return Verdict::Registered;
            }
            let story = ran.story(within);
            Verdict::Failed(format!("the new program did not register with the coordinator: it {story}"))
        }
    }
}
