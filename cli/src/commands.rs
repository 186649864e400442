//! Subcommands, one per file.

pub(crate) mod artifacts;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod cancel;
pub(crate) mod certificate;
pub(crate) mod completions;
pub(crate) mod coordinator;
pub(crate) mod digest;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod install;
mod isolation;
pub(crate) mod job;
pub(crate) mod jobs;
mod join;
pub(crate) mod keeper;
pub(crate) mod local_pool;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod page;
mod release;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod tests;
pub(crate) mod token;
pub(crate) mod top;
mod upgrade;
pub(crate) mod wait;
mod waiting;
pub(crate) mod worker;
pub(crate) mod workers;

use crate::arguments::LogFormat;
use crate::failure::{Failure, POOL, USAGE};
use buildpool_client::project::{Configuration, Templates};
use buildpool_protocol::spec::TemplateSpec;
use buildpool_telemetry::Telemetry;
use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time after which an idle blocking thread of a daemon ends.
const IDLE_THREAD_FOR: Duration = Duration::from_secs(60);
/// Interval at which a blocking thread is used, well below [`IDLE_THREAD_FOR`].
const USE_THREAD_EVERY: Duration = Duration::from_secs(10);

/// Runs a client command on this thread, which gives a fast start.
fn block_on(task: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| no_runtime(&error))?;
    let result = runtime.block_on(task);
    // A thread that still writes to a blocked terminal must not keep the process alive.
    runtime.shutdown_background();
    result
}

/// Runs a daemon that mostly waits, on this thread: passing work between threads would cost more
/// than the work itself.
fn serve_on_one_thread(task: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    serve_on(&runtime(tokio::runtime::Builder::new_current_thread())?, task)
}

/// Runs a daemon on all processors.
fn serve(task: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    serve_on(&daemon_runtime()?, task)
}

/// Returns a runtime on all processors.
fn daemon_runtime() -> Result<Runtime, Failure> {
    runtime(tokio::runtime::Builder::new_multi_thread())
}

fn runtime(mut builder: tokio::runtime::Builder) -> Result<Runtime, Failure> {
    buildpool_coordinator::limit_arenas();
    let runtime = builder.enable_all().thread_keep_alive(IDLE_THREAD_FOR).build();
    runtime.map_err(|error| no_runtime(&error))
}

fn serve_on(
    runtime: &Runtime,
    task: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    runtime.block_on(async {
        tokio::select! {
            result = task => result,
            never = keep_a_thread() => match never {},
        }
    })
}

/// Keeps one thread for blocking work alive. If the machine allows no more threads (a process limit
/// was reached), such work waits for this one. Without any thread, the runtime would panic.
async fn keep_a_thread() -> Infallible {
    loop {
        // The empty task can't fail.
        let _ = tokio::task::spawn_blocking(|| {}).await;
        // The runtime has no permanent blocking thread, but one that is used regularly stays alive.
        tokio::time::sleep(USE_THREAD_EVERY).await;
    }
}

/// Returns the template with this name from the configuration nearest to the directory.
fn template(name: &str, directory: &Path) -> Result<TemplateSpec, Failure> {
    let templates = Templates::from_configuration(&Configuration::load(directory));
    if let Some(template) = templates.get(name) {
        return Ok(template.clone());
    }
    let reason = match templates.problem_of(name) {
        Some(problem) => problem.to_owned(),
        None => format!("unknown template `{name}`; valid are: {}", templates.names().join(", ")),
    };
    Err(Failure::new(USAGE, format!("--template: {reason}")))
}

fn no_runtime(error: &std::io::Error) -> Failure {
    Failure::while_doing(POOL, "the system gives no resources to start with", error)
}

/// Sends traces to the OpenTelemetry receiver that the environment names, if it names one. A program without traces still
/// works, so an error is only reported.
fn trace(service: &'static str) -> Option<Telemetry> {
    buildpool_telemetry::start(service)
        .inspect_err(|error| crate::terminal::warn(&buildpool_client::chain(error)))
        .ok()
}

/// Writes a daemon's log to stderr. `BUILDPOOL_LOG` sets the levels, as in `debug` or
/// `buildpool_worker=trace`.
fn log_to_stderr(format: LogFormat) {
    log_to_stderr_from(tracing_subscriber::filter::LevelFilter::INFO, format);
}

/// Writes the log to stderr with another default level.
fn log_to_stderr_from(level: tracing_subscriber::filter::LevelFilter, format: LogFormat) {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("BUILDPOOL_LOG")
        .with_default_directive(level.into())
        .from_env_lossy();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Returns when the process receives SIGTERM or SIGINT.
async fn shutdown_requested() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers, the signals end the process by default.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
