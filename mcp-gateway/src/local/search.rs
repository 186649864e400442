//! Finding the local pool, and starting it when there is none.

use super::files::{self, Published};
use super::{LocalError, LocalPool, SUBCOMMAND};
use crate::client::ClientError;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use uuid::Uuid;

/// Longest time until a started pool can be reached; a loaded machine is slow.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often the endpoint file is looked for, at first and in the end.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));
/// After a start that found another pool in place, before the next one.
const START_AGAIN: Duration = Duration::from_millis(200);

/// One look for a pool: it ends with an endpoint that answers, or with the reason why there is none.
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

    /// An endpoint that was published and has not been found dead. Whether it answers is for the caller to see.
    ///
    /// # Errors
    /// When a pool can't be started, ends at its start, or is not there in time.
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

    /// Nobody answers at this endpoint, or somebody else does.
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
                // Another pool has the lock, so the one that did not answer may be alive after all, or just ending.
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

    /// A process that has nothing of ours but its directory and its log. It makes its own session, first of all.
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
