//! Completion of command lines in shells, with the names of live jobs and workers.

use crate::arguments::{Arguments, PoolOptions};
use crate::settings;
use crate::terminal;
use buildpool_client::Client;
use buildpool_protocol::client_link::JobSummary;
use buildpool_protocol::ids::short_ids;
use buildpool_protocol::report::JobState;
use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::CompletionCandidate;
use std::future::Future;
use std::time::Duration;

/// Variable that a shell's script sets to the name of the shell. Jobs do not inherit variables with
/// this prefix.
pub(crate) const VARIABLE: &str = "BUILDPOOL_COMPLETE";
/// Maximum wait for the pool. A shell is blocked meanwhile.
const WITHIN: Duration = Duration::from_millis(800);
/// Maximum number of offered jobs.
const JOBS_MAX: u32 = 100;

/// Prints the candidates and ends the process, if a shell requests them.
pub(crate) fn serve() {
    CompleteEnv::with_factory(whole_command).var(VARIABLE).complete();
}

/// Returns the definition of the program with the options of all subcommands. clap copies the subcommands into `help` before
/// it builds the deferred ones, so `help token` would complete nothing.
fn whole_command() -> Command {
    let mut command = Arguments::command();
    command.get_subcommands_mut().for_each(Command::build);
    command
}

/// Returns the newest jobs.
pub(crate) fn jobs() -> Vec<CompletionCandidate> {
    job_candidates(|_| true)
}

/// Returns the newest jobs that are not done.
pub(crate) fn live_jobs() -> Vec<CompletionCandidate> {
    job_candidates(|job| job.state != JobState::Done)
}

fn job_candidates(is_wanted: impl Fn(&JobSummary) -> bool) -> Vec<CompletionCandidate> {
    let jobs = read(async |client| client.jobs(None, None, JOBS_MAX).await.unwrap_or_default());
    let wanted = jobs
        .iter()
        .zip(short_ids(jobs.iter().map(|job| job.job_id.as_str())))
        .filter(|(job, _)| is_wanted(job));
    wanted
        .map(|(job, id)| {
            let state = job.verdict.map_or_else(|| job.state.name(), |verdict| verdict.name());
            let about = format!("{state}: {}", terminal::one_line(&job.command));
            CompletionCandidate::new(id).help(Some(about.into()))
        })
        .collect()
}

/// Returns the names of the workers. A name that would need quotes in a shell is left out.
pub(crate) fn workers() -> Vec<CompletionCandidate> {
    let workers = read(async |client| client.workers().await.unwrap_or_default());
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let plain = workers.into_iter().filter(|worker| worker.name.chars().all(is_plain));
    plain.map(|worker| CompletionCandidate::new(worker.name)).collect()
}

/// Reads from the pool that the command line selects. Returns nothing if the pool does not answer
/// in time. Never starts a pool, and prints nothing.
fn read<T: Default, F: Future<Output = T>>(request: impl FnOnce(Client) -> F) -> T {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return T::default();
    };
    let answer = runtime.block_on(async {
        let reading = async {
            match settings::connect_quietly(&options(std::env::args())).await {
                Ok(client) => request(client).await,
                Err(_) => T::default(),
            }
        };
        tokio::time::timeout(WITHIN, reading).await.unwrap_or_default()
    });
    runtime.shutdown_background();
    answer
}

/// Returns the pool options of the command line that follows the first `--`, the one to complete.
fn options(words: impl Iterator<Item = String>) -> PoolOptions {
    let line: Vec<String> = words.skip_while(|word| word != "--").skip(1).collect();
    let of_pool: Vec<&str> = line.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let value = |flag: &str| {
        let next = of_pool.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
        let joined = || of_pool.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        next.or_else(joined).map(str::to_owned)
    };
    PoolOptions {
        coordinator: value("--coordinator"),
        token: value("--token"),
        ca_file: value("--ca-file").map(Into::into),
        insecure_plain_text: of_pool.contains(&"--insecure-plain-text"),
    }
}

#[cfg(test)]
mod tests {
    use super::{options, whole_command};
    use clap_complete::engine::complete;
    use std::path::Path;

    #[test]
    fn commands_and_options_are_completed_at_every_level() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (line, expected) in [
            ("buildpool tok", "token"),
            ("buildpool token re", "revoke"),
            ("buildpool help token re", "revoke"),
            ("buildpool token create --pre", "--prefix"),
            ("buildpool run --verb", "--verbosity"),
            ("buildpool run --col", "--color"),
            ("buildpool run --on-lost re", "rerun"),
            ("buildpool run --network no", "none"),
            ("buildpool run -- build.r", "build.rs"),
            ("buildpool run -- cat Cargo.t", "Cargo.toml"),
        ] {
            let words: Vec<_> = line.split(' ').map(Into::into).collect();
            let last = words.len() - 1;
            let found = complete(&mut whole_command(), words, last, Some(here)).expect("candidates");
            let values: Vec<_> =
                found.iter().map(|candidate| candidate.get_value().to_string_lossy()).collect();
            assert_eq!(values, [expected], "{line}");
        }
    }

    #[test]
    fn the_pool_is_that_of_the_completed_line() {
        let line = "buildpool -- buildpool job --coordinator ws://h:1 --token=t -- --ca-file f";
        let found = options(line.split(' ').map(str::to_owned));
        assert_eq!((found.coordinator.as_deref(), found.token.as_deref()), (Some("ws://h:1"), Some("t")));
        assert!(found.ca_file.is_none() && !found.insecure_plain_text, "{found:?}");
    }
}
