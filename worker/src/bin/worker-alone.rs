//! A worker without the command line program: `worker-alone CONFIG`, or `worker-alone keeper …` as
//! started by the worker. It is for tests and measurements. Users install `buildpool`.

use buildpool_worker::isolation::as_user;
use buildpool_worker::keeper::{SUBCOMMAND, keeper_main};
use buildpool_worker::{Config, Shutdown, run};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_ref().is_some_and(|first| first == SUBCOMMAND) {
        return ExitCode::from(u8::try_from(keeper_main(arguments)).unwrap_or(1));
    }
    if first.as_ref().is_some_and(|first| first == as_user::SUBCOMMAND) {
        return ExitCode::from(u8::try_from(as_user::as_user_main(arguments)).unwrap_or(1));
    }
    let Some(config) = first else {
        eprintln!("worker-alone: name a configuration file");
        return ExitCode::FAILURE;
    };
    match work(Path::new(&config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker-alone: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(config: &Path) -> Result<(), Box<dyn Error>> {
    let config = Config::from_file(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (handle, shutdown) = Shutdown::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let asking = async {
            while terminate.recv().await.is_some() {
                handle.request_next_level();
            }
        };
        tokio::select! {
            ended = run(config, shutdown) => drop(ended?),
            () = asking => {}
        }
        Ok(())
    })
}
