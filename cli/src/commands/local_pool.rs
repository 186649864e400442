//! The hidden `buildpool local-pool`: a coordinator and one worker in one process. It ends when it
//! is not needed any more.

use crate::arguments::{LocalPoolArguments, LogFormat};
use crate::failure::{Failure, POOL, USAGE};
use crate::settings;
use buildpool_client::local::{IDLE_VARIABLE, LocalPool, Lock, Published};
use buildpool_coordinator::auth::{JobsAfter, LOCAL, LOCAL_WORKER};
use buildpool_coordinator::{Activity, Coordinator};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::limits::LOCAL_POOL_IDLE;
use buildpool_worker::{Shutdown, ShutdownRequest, WorkerError, WorkerExit};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval at which it checks whether it is needed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Idle time after its program was replaced. It is short, so that the next start uses the new
/// version.
const IDLE_AFTER_REPLACEMENT: Duration = Duration::from_secs(2);
/// Interval and limit of the wait for its worker at the start.
const JOIN_LOOK_EVERY: Duration = Duration::from_millis(1);
const JOIN_WITHIN: Duration = Duration::from_secs(20);
/// Maximum time for its worker to end.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Serves the pool. Returns success at once if another pool has the directory.
pub(crate) fn run(arguments: &LocalPoolArguments) -> Result<ExitCode, Failure> {
    detach();
    let pool = LocalPool::at(arguments.directory.clone(), settings::program()?);
    let lock = Lock::take(&pool).map_err(|error| Failure::from_error(POOL, &error))?;
    let Some(lock) = lock else { return Ok(ExitCode::SUCCESS) };
    let idle_limit = idle_limit()?;
    super::log_to_stderr(LogFormat::Text);
    let _traces = super::trace("buildpool-local-pool");
    super::serve(serve(pool, lock, idle_limit))
}

/// Leaves the starter's session and closes inherited descriptors. A pipe that stays open here would
/// block its reader forever.
fn detach() {
    // Fails only for a process group leader, which has no terminal to leave.
    let _ = nix::unistd::setsid();
    let Ok(open) = std::fs::read_dir("/dev/fd") else { return };
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let inherited: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in inherited {
        // An error is possible for the directory that was just read, which is closed already.
        let _ = nix::unistd::close(number);
    }
}

fn idle_limit() -> Result<Duration, Failure> {
    match std::env::var(IDLE_VARIABLE) {
        Err(_) => Ok(LOCAL_POOL_IDLE),
        Ok(text) => text.parse().map(Duration::from_secs).map_err(|_| {
            Failure::new(USAGE, format!("{IDLE_VARIABLE}: `{text}` is not a whole number of seconds"))
        }),
    }
}

async fn serve(pool: LocalPool, lock: Lock, idle_limit: Duration) -> Result<ExitCode, Failure> {
    let directory = pool.directory();
    let mut config = buildpool_coordinator::Config::new(directory.join("coordinator"));
    config.listen.set_port(0);
    config.local = true;
    let coordinator = Coordinator::start(config).await.map_err(|error| Failure::from_error(POOL, &error))?;
    let token = fresh_token(&coordinator, Role::Admin, LOCAL)?;
    let worker_token = fresh_token(&coordinator, Role::Worker, LOCAL_WORKER)?;
    let url = coordinator.url();
    let published = Published {
        url: url.parse().map_err(|error| Failure::from_error(POOL, &error))?,
        token: token.parse().map_err(|error| Failure::from_error(POOL, &error))?,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: uuid::Uuid::now_v7(),
    };
    let mut worker = buildpool_worker::Config::new(url, directory.join("worker"));
    worker.token = Some(worker_token);
    worker.slots =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    let (worker_handle, worker_shutdown) = Shutdown::new();
    let mut worker = tokio::spawn(buildpool_worker::run(worker, worker_shutdown));
    let watch = IdleWatch { lock, published, activity: coordinator.activity(), idle_limit };
    tracing::info!(url = %watch.published.url, version = env!("CARGO_PKG_VERSION"), "the local pool listens");
    let (not_needed, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = coordinator.serve(async {
        // A closed channel means that watching has ended too.
        let _ = ended.await;
    });
    let watching = async {
        let result = tokio::select! {
            result = watch.until_not_needed() => result,
            ended = &mut worker => Err(worker_failure(ended)),
        };
        watch.lock.withdraw();
        worker_handle.request(ShutdownRequest::Exit);
        if result.is_ok() && tokio::time::timeout(LEAVE_WITHIN, worker).await.is_err() {
            tracing::warn!("the worker does not leave in time");
        }
        drop(not_needed);
        result
    };
    let (served, watched) = tokio::join!(serving, watching);
    served.map_err(|error| Failure::from_error(POOL, &error))?;
    watched?;
    tracing::info!("the local pool ends");
    Ok(ExitCode::SUCCESS)
}

fn worker_failure(ended: Result<Result<WorkerExit, WorkerError>, tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(Ok(_)) => Failure::new(POOL, "the worker ended without a request"),
        Ok(Err(error)) => Failure::while_doing(POOL, "the worker ended", &error),
        Err(error) => Failure::while_doing(POOL, "the worker ended", &error),
    }
}

/// Creates a token for this start, and revokes those of earlier starts.
fn fresh_token(coordinator: &Coordinator, role: Role, name: &str) -> Result<String, Failure> {
    let fail = |error: &dyn std::error::Error| Failure::while_doing(POOL, "a token can't be made", error);
    let (tokens, fingerprint) = (coordinator.tokens(), coordinator.fingerprint());
    // A failure means that there is no token to revoke.
    let _ = tokens.revoke(name, JobsAfter::Continue, LOCAL);
    let created =
        tokens.create(role, name, None, fingerprint.as_deref(), LOCAL).map_err(|error| fail(&error))?;
    Ok(created.token)
}

/// Checks whether the pool is needed.
struct IdleWatch {
    lock: Lock,
    published: Published,
    activity: Activity,
    idle_limit: Duration,
}

impl IdleWatch {
    /// Publishes the pool and waits until it is idle for long enough or receives a signal. Then the
    /// pool is withdrawn.
    async fn until_not_needed(&self) -> Result<(), Failure> {
        let publish =
            || self.lock.publish(&self.published).map_err(|error| Failure::from_error(POOL, &error));
        self.worker_is_there().await?;
        publish()?;
        let program = Program::now();
        let mut shutdown = std::pin::pin!(super::shutdown_requested());
        let mut idle_since = None;
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                // Idleness is an absence of events, so check periodically.
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.is_busy().await {
                idle_since = None;
                continue;
            }
            let limit = if program == Program::now() { self.idle_limit } else { IDLE_AFTER_REPLACEMENT };
            if idle_since.get_or_insert_with(Instant::now).elapsed() < limit {
                continue;
            }
            self.lock.withdraw();
            // A client may have found the pool at the last moment.
            if !self.is_busy().await {
                break;
            }
            idle_since = None;
            publish()?;
        }
        Ok(())
    }

    /// Waits for the worker. Before that, a job would be refused because no worker could run it.
    async fn worker_is_there(&self) -> Result<(), Failure> {
        let joined = async {
            while self.activity.workers() == 0 {
                // This happens once in the life of a pool, for a few milliseconds, so polling is
                // sufficient.
                tokio::time::sleep(JOIN_LOOK_EVERY).await;
            }
        };
        let joined = tokio::time::timeout(JOIN_WITHIN, joined).await;
        joined.map_err(|_| {
            Failure::new(POOL, "the local pool's worker does not join it; the lines above have the reason")
        })
    }

    async fn is_busy(&self) -> bool {
        self.activity.clients() > 0 || self.activity.live_jobs().await > 0
    }
}

/// The program file of this process, to detect a replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Program {
    path: Option<PathBuf>,
    file: Option<(u64, u64, i64)>,
}

impl Program {
    fn now() -> Self {
        let path = std::env::current_exe().ok();
        let metadata = path.as_ref().and_then(|path| std::fs::metadata(path).ok());
        let file = metadata.map(|metadata| (metadata.dev(), metadata.ino(), metadata.mtime_nsec()));
        Self { path, file }
    }
}
