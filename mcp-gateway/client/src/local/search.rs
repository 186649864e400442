//! Finds the local pool, and starts it if it is not running.

use super::files::{self, Published};
use super::{LocalError, LocalPool, SUBCOMMAND};
use crate::ClientError;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use uuid::Uuid;

/// Maximum time until a started pool is reachable. A loaded machine is slow.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// First and last interval between checks of the endpoint file.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));
/// Delay before the next start, after a start that found another pool.
const START_AGAIN: Duration = Duration::from_millis(200);

/// A search for a pool. It ends with a reachable endpoint or an error.
#[derive(Debug)]
pub struct Search<'a> {
    pool: &'a LocalPool,
    deadline: Instant,
    starter: Option<Child>,
    start_at: Instant,
    dead: Option<Uuid>,
    last_error: Option<Box<ClientError>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(pool: &'a LocalPool) -> Self {
        let now = Instant::now();
        Self {
            pool,
            deadline: now + READY_WITHIN,
            starter: None,
            start_at: now,
            dead: None,
            last_error: None,
        }
    }

    /// Returns a published endpoint that was not reported dead. The caller must check whether it is
    /// reachable.
    ///
    /// # Errors
    /// If a pool can't be started, ends at its start, or is not ready in time.
    pub async fn next(&mut self) -> Result<Published, LocalError> {
        let mut delay = LOOK_AGAIN.0;
        loop {
            if Instant::now() > self.deadline {
                let (log, source) = (self.pool.log_file(), self.last_error.take());
                return Err(LocalError::NotReady { log, source });
            }
            let published = self.pool.published()?;
            if let Some(published) = published.filter(|found| Some(found.instance) != self.dead) {
                return Ok(published);
            }
            self.start_if_due()?;
            tokio::time::sleep(delay).await;
            delay = (delay * 3 / 2).min(LOOK_AGAIN.1);
        }
    }

    /// Reports that the endpoint is not reachable, or belongs to another process.
    pub fn dead(&mut self, found: &Published, error: ClientError) {
        self.dead = Some(found.instance);
        self.last_error = Some(Box::new(error));
    }

    fn start_if_due(&mut self) -> Result<(), LocalError> {
        let Some(starter) = &mut self.starter else {
            if Instant::now() >= self.start_at {
                self.starter = Some(self.start()?);
            }
            return Ok(());
        };
        let program = || self.pool.program.clone();
        match starter.try_wait().map_err(|source| LocalError::Start { program: program(), source })? {
            None => Ok(()),
            Some(status) if status.success() => {
                // Another pool has the lock. So the unreachable pool may be alive after all, or is
                // just ending.
                self.starter = None;
                self.dead = None;
                self.start_at = Instant::now() + START_AGAIN;
                Ok(())
            }
            Some(status) => {
                let log = self.pool.log_file();
                Err(LocalError::Died { status, last_line: files::last_line(&log), log })
            }
        }
    }

    /// Starts a process that shares only the directory and the log with this one. It first creates
    /// its own session.
    fn start(&self) -> Result<Child, LocalError> {
        let (directory, program) = (&self.pool.directory, &self.pool.program);
        files::prepare(directory)?;
        let log = self.pool.log_file();
        let output =
            files::open_log(&log).map_err(|source| LocalError::File { path: log.clone(), source })?;
        let errors = output.try_clone().map_err(|source| LocalError::File { path: log, source })?;
        Command::new(program)
            .arg(SUBCOMMAND)
            .arg(directory)
            .current_dir(directory)
            .env_remove("BUILDPOOL_URL")
            .env_remove("BUILDPOOL_TOKEN")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|source| LocalError::Start { program: program.clone(), source })
    }
}
