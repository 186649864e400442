//! `buildpool wait ID...`: waits for the end of jobs and exits as `run` would.

use super::waiting::Waiting;
use crate::arguments::{Form, WaitArguments};
use crate::exit;
use crate::failure::Failure;
use crate::settings;
use crate::terminal;
use buildpool_client::{Client, ClientError, chain};
use buildpool_gateway::builds;
use buildpool_protocol::client_link::{Progress, View};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Verbosity;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum wait of one request. A wait without a limit is a sequence of such requests.
const REQUEST_WAIT: Duration = Duration::from_secs(3600);
/// Delay before the next request while the coordinator is unreachable. The client's own retries
/// come before it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Time limit of a wait.
pub(crate) struct Limit {
    begun: Instant,
    within: Option<Duration>,
}

impl Limit {
    /// Starts the limit now. Without a duration, the wait has no limit.
    pub(crate) fn from_now(within: Option<Duration>) -> Self {
        Self { begun: Instant::now(), within }
    }

    /// Returns the maximum wait of the next request; zero if the limit is reached.
    fn left(&self) -> Duration {
        let left = self.within.map(|within| within.saturating_sub(self.begun.elapsed()));
        left.map_or(REQUEST_WAIT, |left| left.min(REQUEST_WAIT))
    }
}

/// A resolved id, with the jobs to wait for.
enum WaitTarget {
    Job(String),
    Build(BuildId, Vec<String>),
}

/// Waits. As in `run`, every error gets the exit code of a failed pool.
pub(crate) fn run(arguments: &WaitArguments) -> Result<ExitCode, Failure> {
    super::block_on(wait(arguments)).map_err(Failure::of_run)
}

async fn wait(arguments: &WaitArguments) -> Result<ExitCode, Failure> {
    let client = settings::connect(&arguments.pool).await?;
    let limit = Limit::from_now(arguments.timeout);
    let named = resolve(&client, &arguments.ids).await?;
    let is_one = named.len() == 1;
    let mut code = 0;
    let mut answers = Vec::new();
    for named in &named {
        let (answer, of_named) = end_of(&client, named, &limit, arguments.form).await?;
        code = code.max(of_named);
        answers.extend(answer);
    }
    if arguments.form.json {
        match answers.pop() {
            Some(answer) if is_one => terminal::print_json(&answer)?,
            last => {
                answers.extend(last);
                terminal::print_json(&answers)?;
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// Resolves all ids before the first wait, so that a wrong id is reported at once.
async fn resolve(client: &Client, ids: &[String]) -> Result<Vec<WaitTarget>, Failure> {
    let mut named = Vec::new();
    for id in ids {
        named.push(match builds::named(id) {
            Some(build) => WaitTarget::Build(build, builds::jobs(client, build).await?),
            None => WaitTarget::Job(client.job(id, View::default(), Duration::ZERO).await?.job_id),
        });
    }
    Ok(named)
}

/// Waits for one job or build. Prints its answer as text, or returns it as JSON.
async fn end_of(
    client: &Client,
    named: &WaitTarget,
    limit: &Limit,
    form: Form,
) -> Result<(Option<serde_json::Value>, u8), Failure> {
    match named {
        WaitTarget::Job(job) => {
            let view = View { for_json: form.json, ..View::default() };
            let result = for_end(client, job, &view, limit).await?;
            if !form.json {
                terminal::print(&buildpool_digest::text(&result))?;
            }
            Ok((form.json.then(|| result.to_json()), exit::code(&result)))
        }
        WaitTarget::Build(build, jobs) => {
            let mut code = 0;
            for job in jobs {
                code = code.max(exit::code(&for_end(client, job, &View::default(), limit).await?));
            }
            let manifest = builds::manifest(client, *build, Verbosity::default(), None).await?;
            if !form.json {
                terminal::print(&format!("{}\n", manifest.text.trim_end()))?;
            }
            Ok((form.json.then_some(manifest.structured), code))
        }
    }
}

/// Waits for the end of a job or for the limit, and returns the job's result at that time. Prints
/// on stderr why the job waits, and if the coordinator is unreachable. Neither ends the wait.
///
/// # Errors
/// If the pool refuses the request, or the link fails with an error that a retry can't fix.
pub(crate) async fn for_end(
    client: &Client,
    job: &str,
    view: &View,
    limit: &Limit,
) -> Result<JobResult, Failure> {
    let mut is_away = false;
    loop {
        match watched(client, job, view, limit.left()).await {
            Ok(result) if result.state == JobState::Done || limit.left().is_zero() => {
                if result.state != JobState::Done {
                    let state = result.state.name();
                    terminal::warn(&format!(
                        "job {job} is {state}, not done; the wait is over, the job goes on"
                    ));
                }
                return Ok(result);
            }
            Ok(_) => is_away = false,
            Err(error @ ClientError::Unreachable { .. }) if !limit.left().is_zero() => {
                if !is_away {
                    terminal::warn(&format!("{}; trying again, the job is not affected", chain(&error)));
                }
                is_away = true;
                // No event reports that an unreachable coordinator is back.
                tokio::time::sleep(RETRY_AFTER.min(limit.left())).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends one request. Prints each reason why the job waits once.
async fn watched(
    client: &Client,
    job: &str,
    view: &View,
    within: Duration,
) -> Result<JobResult, ClientError> {
    let (sender, mut progress) = watch::channel(Progress::default());
    let mut waiting = Waiting::default();
    let answer = client.job_with_progress(job, view.clone(), within, sender);
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            Ok(()) = progress.changed() => {
                if let Some(text) = waiting.note(&progress.borrow_and_update(), Instant::now()) {
                    terminal::warn(&text);
                }
            }
        }
    }
}
