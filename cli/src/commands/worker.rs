//! `buildpool worker`

use crate::arguments::{JoinText, WorkerArguments};
use crate::failure::{Failure, POOL, USAGE};
use crate::settings::{self, Given, URL_VARIABLE};
use crate::terminal;
use buildpool_client::PoolUrl;
use buildpool_client::directories;
use buildpool_client::local::{LocalError, LocalPool};
use buildpool_protocol::spec::NAME_LABEL;
use buildpool_worker::environment;
use buildpool_worker::isolation::Isolation;
use buildpool_worker::upgrade::{self, FileId, Restart, replace::replace};
use buildpool_worker::{Config, Shutdown, ShutdownHandle, WorkerError, WorkerExit};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(arguments: WorkerArguments) -> Result<ExitCode, Failure> {
    let format = arguments.daemon.log_format;
    let (trial, restart) = (arguments.upgrade_trial, restart(&arguments));
    let config = Config { restart, trial, ..config(arguments)? };
    super::log_to_stderr(format);
    let _traces = super::trace("buildpool-worker");
    super::serve_on_one_thread(async {
        tracing::info!(name = %config.name, slots = config.slots, coordinator = %config.coordinator, "the worker starts");
        let (handle, shutdown) = Shutdown::new();
        let working = async {
            match buildpool_worker::run(config, shutdown.clone()).await.map_err(|error| of_worker(&error))? {
                WorkerExit::Shutdown => Ok(()),
                WorkerExit::Registered => terminal::print(&format!("{}\n", upgrade::REGISTERED)),
                WorkerExit::Replace(staged) => replace(*staged, shutdown)
                    .await
                    .map_err(|error| Failure::while_doing(POOL, "the worker can't be started again", &error)),
            }
        };
        tokio::select! {
            ended = working => ended?,
            () = pass_signals_on(&handle) => {}
            () = end_of_input(), if trial.is_some() => {
                return Err(Failure::new(POOL, "the worker that tried this program has ended"));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns how this process was started, unless a second start would need the same standard input.
fn restart(arguments: &WorkerArguments) -> Option<Restart> {
    if arguments.join.as_ref().is_some_and(|join| !join.is_visible()) {
        return None;
    }
    let program = settings::program().ok()?.canonicalize().ok()?;
    let file = FileId::at(&program).ok()?;
    Some(Restart { program, file, arguments: std::env::args_os().skip(1).collect() })
}

/// Returns when standard input ends.
async fn end_of_input() {
    let (ended, end) = tokio::sync::oneshot::channel();
    // A thread of its own: a blocked read must not keep the runtime from its end.
    std::thread::spawn(move || {
        // An error counts as the end.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _gone = ended.send(());
    });
    // The sender ends in both cases.
    let _ = end.await;
}

/// Converts an error of the worker. An error that a user must correct gets another exit code than a
/// temporary one. So a service manager does not restart the worker in a loop.
fn of_worker(error: &WorkerError) -> Failure {
    let code = match error {
        WorkerError::Token(_) | WorkerError::Config(_) | WorkerError::Dialler(_) => USAGE,
        WorkerError::DataDirectory(_) | WorkerError::Workspaces(_) | WorkerError::Startup(_) => POOL,
    };
    Failure::from_error(code, error)
}

/// Passes signals on: the first one drains the worker, the second one shortens the drain. Never
/// returns.
async fn pass_signals_on(handle: &ShutdownHandle) {
    loop {
        super::shutdown_requested().await;
        tracing::info!("shutting down: no more jobs are taken");
        handle.request_next_level();
    }
}

/// Hides the local pool from jobs. If jobs run as the worker's user, a program outside the
/// isolation could run commands for them. The local pool does that for every process that can read
/// its directory. The directory is created here, so that a pool that is started later is hidden
/// too.
fn hide_local_pool(config: &mut Config) {
    if !config.isolation.hides_paths() {
        return;
    }
    let made = settings::program().ok().map(|program| {
        let pool = LocalPool::of_this_user(program)?;
        pool.prepare()?;
        Ok::<_, LocalError>(pool.directory().to_owned())
    });
    match made {
        Some(Ok(directory)) => {
            let found = directory.canonicalize().ok();
            config.hidden.extend(found.clone());
            // The user may remove it, and the next command creates it again.
            config.renewed.extend(found);
        }
        // Without a directory, the user has no local pool.
        Some(Err(error)) => terminal::warn(&format!("no local pool is hidden from jobs: {error}")),
        None => {}
    }
}

/// Sets the coordinator from the variable if the file does not contain it. Returns the source of
/// the setting.
///
/// # Errors
/// If the variable is not UTF-8.
pub(super) fn fill_coordinator(config: &mut Config, file: Option<&Path>) -> Result<String, Failure> {
    if config.coordinator.is_empty()
        && let Some(url) = settings::variable(URL_VARIABLE)?
    {
        config.coordinator = url;
        return Ok(URL_VARIABLE.to_owned());
    }
    Ok(settings::key_of("coordinator", file))
}

/// Sets the default data directory: the service's if there is one, else this user's.
pub(super) fn fill_data_directory(config: &mut Config) {
    if config.data_dir.as_os_str().is_empty()
        && let Some(data) =
            super::coordinator::state_directory().or_else(|| Some(directories::data()?.join("worker")))
    {
        config.data_dir = data;
    }
}

fn config(arguments: WorkerArguments) -> Result<Config, Failure> {
    let daemon = arguments.daemon;
    let mut config = match &daemon.config {
        Some(file) => Config::from_file(file).map_err(|error| Failure::from_error(USAGE, &error))?,
        None => Config::new("", PathBuf::new()),
    };
    let is_token_visible =
        arguments.token.is_some() || arguments.join.as_ref().is_some_and(JoinText::is_visible);
    if arguments.token.is_some() || arguments.join.is_some() {
        config.token_file = None;
    }
    let join = arguments.join.map(|join| join.read()).transpose()?;
    let given = arguments.token.map(|token| Given::new(token, "--token"));
    let coordinator_in_file = config.coordinator.clone();
    let in_file = config.token.take().map(|token| Given::of_file(token, daemon.config.as_deref()));
    let (place, given) = match (join, arguments.coordinator) {
        (Some(join), _) => {
            config.coordinator = join.url;
            ("--join".to_owned(), Some(Given::new(join.token, "--join")))
        }
        (None, Some(url)) => {
            config.coordinator = url;
            ("--coordinator".to_owned(), given.or(in_file))
        }
        (None, None) => (fill_coordinator(&mut config, daemon.config.as_deref())?, given.or(in_file)),
    };
    let given = if given.is_some() { given } else { Given::of_variable()? };
    // The setting applies only to the coordinator in the file.
    config.insecure_plain_text &= coordinator_in_file == config.coordinator;
    arguments.trust.apply(&mut config);
    if let Some(name) = arguments.name {
        config.name = name;
    }
    if let Some(slots) = arguments.slots {
        config.slots = slots;
    }
    if arguments.keep_free_bytes.is_some() {
        config.space.free_min_bytes = arguments.keep_free_bytes;
    }
    if let Some(isolation) = arguments.isolation {
        config.isolation = isolation;
    }
    if !arguments.job_users.is_empty() {
        config.job_users = arguments.job_users;
    }
    // Every user of the machine can read a command line.
    if config.isolation == Isolation::User && is_token_visible {
        let text = "with isolation `user`, jobs can read a token on the worker's command line; give it by `token_file` in the configuration or by BUILDPOOL_TOKEN";
        return Err(Failure::new(USAGE, text));
    }
    for label in arguments.labels {
        let (key, value) = label.split_once('=').unwrap_or((&label, ""));
        if key == NAME_LABEL {
            let text = format!(
                "--label {}: `name` is always the worker's name; --name sets it",
                label.escape_debug()
            );
            return Err(Failure::new(USAGE, text));
        }
        config.labels.insert(key.to_owned(), value.to_owned());
    }
    config.resources.extend(arguments.resources);
    config.accepts.extend(arguments.accepts);
    if let Some(data_dir) = daemon.data_dir {
        config.data_dir = data_dir;
    }
    fill_data_directory(&mut config);
    hide_local_pool(&mut config);
    if let Some(protocol) = daemon.protocol {
        config.protocol = protocol;
    }
    if !arguments.no_tools {
        config.found = buildpool_worker::tools::find(&environment::of_worker(&config.env));
    }
    config.check().map_err(|error| Failure::from_error(USAGE, &error))?;
    let url = config.coordinator.parse::<PoolUrl>();
    url.map_err(|error| Failure::while_doing(USAGE, place, &error))?;
    let Some(given) = given else {
        let what_for = format!("by which the worker `{}` could join {}", config.name, config.coordinator);
        return Err(settings::no_token(&what_for, daemon.config.as_deref()));
    };
    config.token = Some(given.check()?);
    Ok(config)
}
