//! `buildpool worker`

use crate::arguments::WorkerArguments;
use crate::failure::{Failure, POOL, USAGE};
use crate::settings::{self, Given};
use buildpool_gateway::directories;
use buildpool_worker::{Config, Shutdown, ShutdownHandle};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn run(arguments: WorkerArguments) -> Result<ExitCode, Failure> {
    let format = arguments.log_format;
    let config = config(arguments)?;
    super::log_to_stderr(format);
    super::serve_on_one_thread(async {
        tracing::info!(name = %config.name, slots = config.slots, coordinator = %config.coordinator, "the worker starts");
        let (handle, shutdown) = Shutdown::new();
        tokio::select! {
            ended = buildpool_worker::run(config, shutdown) => ended.map_err(|error| Failure::of(POOL, &error))?,
            () = pass_signals_on(&handle) => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The first signal empties the worker, the second hurries it. Never ends.
async fn pass_signals_on(handle: &ShutdownHandle) {
    loop {
        super::asked_to_end().await;
        tracing::info!("asked to end: no more jobs are taken");
        handle.ask_more();
    }
}

fn config(arguments: WorkerArguments) -> Result<Config, Failure> {
    let mut config = match &arguments.config {
        Some(file) => Config::from_file(file).map_err(|error| Failure::of(USAGE, &error))?,
        None => Config::new("", PathBuf::new()),
    };
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(url) = arguments.coordinator.or_else(|| {
        let in_file = !config.coordinator.is_empty();
        variable("BUILDPOOL_URL").filter(|_| !in_file)
    }) {
        config.coordinator = url;
    }
    let given = arguments.token.map(|token| Given::new(token, "--token"));
    let in_file = config.token.take().map(|token| Given::of_file(token, arguments.config.as_deref()));
    let mut given = given.or(in_file).or_else(Given::of_variable);
    if let Some(join) = arguments.join {
        let join = join.read()?;
        (config.coordinator, given) = (join.url, Some(Given::new(join.token, "--join")));
    }
    if let Some(name) = arguments.name {
        config.name = name;
    }
    if let Some(slots) = arguments.slots {
        config.slots = slots;
    }
    if let Some(isolation) = arguments.isolation {
        config.isolation = isolation;
    }
    for label in arguments.labels {
        let (key, value) = label.split_once('=').unwrap_or((&label, ""));
        config.labels.insert(key.to_owned(), value.to_owned());
    }
    config.resources.extend(arguments.resources);
    if let Some(data_dir) = arguments.data_dir {
        config.data_dir = data_dir;
    } else if config.data_dir.as_os_str().is_empty()
        && let Some(data) = directories::data()
    {
        config.data_dir = data.join("worker");
    }
    if let Some(protocol) = arguments.protocol {
        config.protocol = protocol;
    }
    if !arguments.no_tools {
        config.found = buildpool_worker::tools::find();
    }
    config.check().map_err(|error| Failure::of(USAGE, &error))?;
    let Some(given) = given else {
        let what_for = format!("by which the worker `{}` could join {}", config.name, config.coordinator);
        return Err(settings::no_token(&what_for, arguments.config.as_deref()));
    };
    config.token = Some(given.check()?);
    Ok(config)
}
