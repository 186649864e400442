//! `buildpool workers`, `workers approve WORKER`, `workers forget WORKER`, `workers upgrade`, `drain WORKER`,
//! `resume WORKER`

use super::jobs::ago;
use crate::arguments::{DrainArguments, Form, PoolOptions, ResumeArguments, WorkersAction, WorkersArguments};
use crate::failure::Failure;
use crate::settings;
use crate::terminal::table::{Cell, Table};
use crate::terminal::{self, Colour};
use buildpool_protocol::client_link::WorkerSummary;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Maximum wait for a resumed worker. A worker that receives the request resumes at once; a broken
/// link is detected only later.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which its state is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &WorkersArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let Some(action) = &arguments.action else {
            let client = settings::connect_to_running(&arguments.pool).await?;
            return print(&client.workers().await?, arguments.form);
        };
        let (workers, form) = match action {
            WorkersAction::Approve(of) => {
                let client = settings::connect_to_running(&of.pool).await?;
                (client.approve(&of.worker).await?, of.form)
            }
            WorkersAction::Forget(of) => {
                let client = settings::connect_to_running(&of.pool).await?;
                (client.forget_worker(&of.worker).await?, of.form)
            }
            WorkersAction::Upgrade(of) => return super::upgrade::run(of).await,
        };
        print(&workers, form)
    })
}

pub(crate) fn drain(arguments: &DrainArguments) -> Result<ExitCode, Failure> {
    set(&arguments.pool, &arguments.worker, true, arguments.deadline, arguments.form)
}

pub(crate) fn resume(arguments: &ResumeArguments) -> Result<ExitCode, Failure> {
    set(&arguments.pool, &arguments.worker, false, None, arguments.form)
}

fn set(
    pool: &PoolOptions,
    worker: &str,
    draining: bool,
    deadline: Option<Duration>,
    form: Form,
) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect_to_running(pool).await?;
        let mut workers = client.drain(worker, draining, deadline).await?;
        if !draining {
            let until = Instant::now() + RESUMED_WITHIN;
            while is_emptied(&workers, worker) && Instant::now() < until {
                // Only the coordinator receives the worker's new state. A worker that is about to
                // end never resumes.
                tokio::time::sleep(LOOK_EVERY).await;
                workers = client.workers().await?;
            }
            if is_emptied(&workers, worker) {
                terminal::warn(&format!(
                    "`{worker}` still takes no jobs: it is shutting down, or has not received this order yet"
                ));
            }
        }
        print(&workers, form)
    })
}

/// Returns true if the worker with this name or id is connected and draining.
fn is_emptied(workers: &[WorkerSummary], named: &str) -> bool {
    let by_id = workers.iter().find(|worker| worker.worker_id == named);
    let worker = by_id.or_else(|| workers.iter().find(|worker| worker.name == named));
    worker.is_some_and(|worker| worker.connected && worker.draining)
}

fn print(workers: &[WorkerSummary], form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        terminal::print_json(&workers)?;
    } else {
        terminal::print(&table(workers))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(workers: &[WorkerSummary]) -> String {
    let mut table = Table::new(["WORKER", "TOKEN", "STATE", "BUSY", "LABELS", "RESOURCES", "VERSION"]);
    for worker in workers {
        table.row([
            worker.name.as_str().into(),
            worker.token.as_deref().unwrap_or_default().into(),
            state(worker),
            format!("{}/{}", worker.busy, worker.slots).into(),
            pairs(&worker.labels).into(),
            pairs(&worker.resources).into(),
            worker.version.as_str().into(),
        ]);
    }
    table.text()
}

fn state(worker: &WorkerSummary) -> Cell {
    if !worker.connected {
        let seen = worker.last_seen.as_deref().map_or("never".to_owned(), ago);
        return Cell::coloured(format!("away, seen {seen}"), Colour::Red);
    }
    match &worker.quarantined {
        Some(reason) => Cell::coloured(format!("quarantined: {reason}"), Colour::Red),
        None if worker.draining => Cell::coloured("draining", Colour::Yellow),
        None => Cell::coloured("ready", Colour::Green),
    }
}

fn pairs<V: Display>(map: &std::collections::BTreeMap<String, V>) -> String {
    let shown = map.iter().map(|(key, value)| match value.to_string() {
        value if value.is_empty() => key.clone(),
        value => format!("{key}={value}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}
