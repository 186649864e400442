//! The daemon: maintains the link to the coordinator, gives attempts to keepers, and sends their
//! output.
//!
//! All state is in the agent. Events from the link, from keepers and from disk work change it. The
//! daemon may die at any time. Keepers continue, and the next daemon finds their attempts.

mod agent;
mod attempt;
mod attempt_end;
mod attempt_start;
mod capacity;
mod class_home;
mod data_directory;
mod disk;
mod drain;
mod early_grants;
mod event;
mod fallback_outcome;
mod files;
mod final_outcome;
mod keepers;
mod lease;
pub mod limits;
mod masking;
mod memory;
mod message_size;
mod orders;
mod preparation;
mod previous_starts;
mod shutdown;
mod spans;
mod spare_directories;
mod startup;
mod stdin;
mod survivors;
mod undeletable;
mod upgrading;

pub use data_directory::DataDirectoryError;
pub use shutdown::{Shutdown, ShutdownHandle, ShutdownRequest};

use crate::config::{Config, ConfigError};
use crate::isolation::Isolation;
use crate::isolation::hidden::Hidden;
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, CONTROL_QUEUE, EVENT_QUEUE, FAILOVER_PAUSE_MAX};
use crate::link::connect::{ConnectError, DiallerError};
use crate::link::outbox::Outbox;
use crate::link::reloading_dialler::ReloadingDialler;
use crate::link::session::{self, Disconnect, Incoming};
use crate::link::transfers::Transfers;
use crate::upgrade::Staged;
use crate::workspace::{WorkspaceError, Workspaces};
use agent::Agent;
use buildpool_dial::{Backoff, Route, pause_for};
use buildpool_objects::programs;
use buildpool_protocol::ErrorCode;
use buildpool_protocol::worker_link::ToWorker;
use data_directory::DataDirectory;
use event::Event;
use files::Files;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

/// Error that ends a worker or prevents its start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(ConfigError),
    /// The data directory is not usable.
    #[error(transparent)]
    DataDirectory(DataDirectoryError),
    /// The client for the coordinator cannot be created.
    #[error(transparent)]
    Dialler(DiallerError),
    /// The workspaces are not usable.
    #[error(transparent)]
    Workspaces(WorkspaceError),
    /// The data of earlier attempts cannot be read.
    #[error("the files of earlier attempts can't be read")]
    Startup(#[source] io::Error),
    /// The token is not a valid worker token.
    #[error(transparent)]
    Token(ConnectError),
}

/// Why a worker ended.
#[derive(Debug)]
pub enum WorkerExit {
    /// A shutdown was requested.
    Shutdown,
    /// It registered, in the trial of a new program.
    Registered,
    /// This program should take its place: see [`crate::upgrade::replace`].
    Replace(Box<Staged>),
}

/// Runs a worker until shutdown, or until another program should take its place. An unreachable or refusing coordinator is
/// retried.
///
/// # Errors
/// Fails if the configuration, the data directory or the token is invalid.
pub async fn run(mut config: Config, shutdown: Shutdown) -> Result<WorkerExit, WorkerError> {
    config.check().map_err(WorkerError::Config)?;
    let users = config.users().map_err(WorkerError::Config)?;
    crate::platform::guard_memory();
    if config.isolation != Isolation::None {
        programs::refuse_writable();
    }
    for name in ["git", "gdb", "xcrun"] {
        // Find the programs now, before a job can put its own into a directory of `PATH`.
        debug!("{name}: {:?}", programs::find(name));
    }
    let dialler = ReloadingDialler::new(&config).map_err(WorkerError::Dialler)?;
    if config.keeper_command.is_empty() {
        let own = crate::platform::own_executable().map_err(WorkerError::Startup)?;
        config.keeper_command = vec![own.into(), crate::keeper::SUBCOMMAND.into()];
    }
    let data_directory = DataDirectory::lock(&config.data_dir).map_err(WorkerError::DataDirectory)?;
    let hidden_paths = config.hidden_paths().map_err(WorkerError::Config)?;
    let own = [data_directory.path().to_owned()].into_iter().chain(data_directory.short_socket_directory());
    let hidden = Hidden::find(own.chain(hidden_paths))
        .map_err(|(path, source)| WorkerError::DataDirectory(DataDirectoryError::Io { path, source }))?
        .renewing(&config.renewed);
    let outbox = Arc::new(Outbox::default());
    let transfers = Arc::new(Transfers::default());
    let workspaces = Workspaces::open(data_directory.path()).map_err(WorkerError::Workspaces)?;
    let workspaces = if users.is_empty() { workspaces } else { workspaces.linking_objects() };
    let (events, incoming) = mpsc::channel(EVENT_QUEUE);
    // Before the first keeper, which stays in the group of this process.
    let groups = crate::platform::delegated_groups();
    let in_force = limits::in_force(&groups, &config);
    info!("limits of jobs: {in_force}");
    if let Err(error) = std::fs::write(data_directory.path().join(limits::LIMITS), in_force) {
        warn!("the limits of jobs can't be recorded for `doctor`: {error}");
    }
    let groups = groups.ok();
    let files = Files { workspaces, space: config.space, transfers: Arc::clone(&transfers), groups };
    let mut agent =
        Agent::new(config, data_directory, Arc::clone(&outbox), files, users, hidden, events.clone());
    agent.recover().map_err(WorkerError::Startup)?;
    tokio::select! {
        finish = agent.run(incoming, shutdown) => Ok(finish),
        ended = stay_connected(dialler, &outbox, &transfers, &events) => ended.map(|()| WorkerExit::Shutdown),
    }
}

/// Connects, serves the connection, and reconnects forever. Returns only if the coordinator will
/// certainly never accept this worker.
async fn stay_connected(
    mut dialler: ReloadingDialler,
    outbox: &Outbox,
    transfers: &Transfers,
    events: &mpsc::Sender<Event>,
) -> Result<(), WorkerError> {
    let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
    let mut route = dialler.current().route();
    loop {
        let pause = match dialler.current().connect(route.current()).await {
            Ok(socket) => {
                let (control, receiver) = mpsc::channel(CONTROL_QUEUE);
                if events.send(Event::Connected(control)).await.is_err() {
                    return Ok(());
                }
                let mut answer = RegistrationAnswer::None;
                let wrap = |incoming| match incoming {
                    Incoming::Message(message) => {
                        note_answer(&mut answer, &message);
                        Event::Incoming(message)
                    }
                    Incoming::Stdin { position, content } => Event::Stdin { position, content },
                };
                let peers = dialler.current().peers(route.current());
                let lost = session::serve((socket, &peers), receiver, outbox, transfers, events, wrap).await;
                outbox.disconnected();
                if events.send(Event::Disconnected).await.is_err() {
                    return Ok(());
                }
                info!("{lost}");
                match answer {
                    RegistrationAnswer::Accepted => {
                        route.connected();
                        if matches!(lost, Disconnect::Replaced) {
                            // Another coordinator is dialled next.
                            route.failed();
                        }
                        backoff.reset();
                        backoff.pause(random())
                    }
                    RegistrationAnswer::Redirected(url) => match dialler.current().leader(&url) {
                        Some(leader) if route.redirect(leader.clone()) => {
                            // If the leader is lost, another one leads soon.
                            backoff.limit(FAILOVER_PAUSE_MAX);
                            continue;
                        }
                        _ => pause_after_failure(&mut route, &mut backoff),
                    },
                    RegistrationAnswer::None => pause_after_failure(&mut route, &mut backoff),
                    RegistrationAnswer::Refused => backoff.long_pause(random()),
                }
            }
            Err(error @ ConnectError::WrongRole(_)) => return Err(WorkerError::Token(error)),
            Err(error) if error.is_refusal() => {
                error!("{error}");
                backoff.long_pause(random())
            }
            Err(error) => {
                warn!("{}: {error}", route.current());
                pause_after_failure(&mut route, &mut backoff)
            }
        };
        pause_for(pause).await;
    }
}

/// Returns the pause before the next attempt. It is zero until each coordinator was tried.
fn pause_after_failure(route: &mut Route, backoff: &mut Backoff) -> Duration {
    if route.failed() { backoff.pause(random()) } else { Duration::ZERO }
}

/// The coordinator's answer to a registration.
#[derive(Clone, PartialEq, Eq)]
enum RegistrationAnswer {
    None,
    Accepted,
    Refused,
    /// The coordinator is a standby. The leader has this URL.
    Redirected(String),
}

fn note_answer(answer: &mut RegistrationAnswer, message: &ToWorker) {
    match message {
        ToWorker::Registered { .. } => *answer = RegistrationAnswer::Accepted,
        ToWorker::Redirect { url } => *answer = RegistrationAnswer::Redirected(url.clone()),
        ToWorker::Refused { error } => {
            error!("the coordinator refuses this worker: {error}");
            let is_lasting = matches!(
                error.code,
                ErrorCode::Unauthorized
                    | ErrorCode::Forbidden
                    | ErrorCode::VersionMismatch
                    | ErrorCode::Conflict
                    | ErrorCode::Invalid
            );
            if is_lasting {
                *answer = RegistrationAnswer::Refused;
            }
        }
        ToWorker::Desired { .. }
        | ToWorker::Grant(_)
        | ToWorker::Act(_)
        | ToWorker::Position { .. }
        | ToWorker::StdinEnd { .. }
        | ToWorker::Drain { .. }
        | ToWorker::Upgrade(_)
        | ToWorker::Transfer(_) => {}
    }
}

fn random() -> u64 {
    // Without a source of randomness, the backoff only has no jitter.
    getrandom::u64().unwrap_or(0)
}
