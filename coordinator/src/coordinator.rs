//! Starting and ending.

use crate::auth::Tokens;
use crate::config::{Config, Protection};
use crate::finished::FinishedRing;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::net::listen::{Acceptor, Listener};
use crate::net::rate::Rates;
use crate::net::router::router;
use crate::runtime::{Parts, Runtime, StartError};
use crate::shared::Shared;
use crate::shared::wall_ms;
use crate::store::{Logs, Lookup, Retention, Store, StoreError};
use crate::tls::{Tls, TlsError, TlsSource};
use crate::transfer::TransferStore;
use buildpool_pool::{Input, Pool};
use buildpool_protocol::transfer::SnapshotName;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;

/// How often old logs are removed.
const RETAIN_EVERY: Duration = Duration::from_secs(600);
/// How often the free space is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a pass that freed nothing on a disk that is short of space, the next pass waits this long: a pass lists all logs.
const RETAIN_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How often the certificate's files are looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// A coordinator that listens.
pub struct Coordinator {
    shared: Arc<Shared>,
    listener: Listener,
    thread: std::thread::JoinHandle<()>,
    store: Store,
}

/// Why a coordinator can't start or go on.
#[derive(Debug)]
pub enum CoordinatorError {
    /// The data directory can't be used.
    Store(StoreError),
    /// The certificate can't be used.
    Tls(TlsError),
    /// No thread can be had for the pool.
    Thread(io::Error),
    /// It can't listen there.
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// Serving ended.
    Serve(io::Error),
}

impl fmt::Display for CoordinatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(_) => f.write_str("the data directory can't be used"),
            Self::Tls(_) => f.write_str("the TLS certificate can't be used"),
            Self::Thread(_) => f.write_str("no thread can be had for the pool"),
            Self::Listen { address, .. } => write!(f, "can't listen on {address}"),
            Self::Serve(_) => f.write_str("serving ended"),
        }
    }
}

impl std::error::Error for CoordinatorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Listen { source, .. } | Self::Serve(source) | Self::Thread(source) => Some(source),
        }
    }
}

impl From<StoreError> for CoordinatorError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<StartError> for CoordinatorError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => Self::Store(error),
            StartError::Thread(error) => Self::Thread(error),
        }
    }
}

impl From<TlsError> for CoordinatorError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

/// Runs a coordinator until `shutdown`.
///
/// # Errors
/// [`CoordinatorError`].
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CoordinatorError> {
    let coordinator = Coordinator::start(config).await?;
    tracing::info!(url = %coordinator.url(), "coordinator listens");
    coordinator.serve(shutdown).await
}

impl Coordinator {
    /// Opens the store, restores the pool, and listens. Nothing is served before [`Coordinator::serve`].
    ///
    /// # Errors
    /// [`CoordinatorError`], with the path or address and the reason.
    pub async fn start(config: Config) -> Result<Self, CoordinatorError> {
        let store = Store::open(&config.data_dir)?;
        let retention = retention(&config);
        if store.logs().is_short(&retention) {
            let logs = store.logs();
            // Before anything else writes. A pass that fails is logged, and the next one tries again.
            let _logged = tokio::task::spawn_blocking(move || make_room(&logs, &retention)).await;
        }
        let tokens = Tokens::open(&config.data_dir)?;
        let tls = tls(&config)?.map(Arc::new);
        let listener = Listener::bind(config.listen, acceptor(tls.clone()))
            .await
            .map_err(|source| CoordinatorError::Listen { address: config.listen, source })?;
        let hub = Arc::new(Hub::default());
        let metrics = Arc::new(Metrics::default());
        let finished = Arc::new(FinishedRing::default());
        let pool_config = buildpool_pool::Config {
            lost_after: config.lost_after,
            warm_wait: config.warm_wait,
            local: config.local,
            quotas: config.quotas.clone(),
            approve_workers: config.approve_workers,
            ..buildpool_pool::Config::default()
        };
        let (runtime, thread) = Runtime::start(Parts {
            pool: Pool::new(pool_config, store.epoch_base()),
            writer: store.writer()?,
            hub: hub.clone(),
            logs: store.logs(),
            finished: finished.clone(),
            reader: store.reader(),
            metrics: metrics.clone(),
            tokens: tokens.clone(),
        })?;
        let (reader, logs) = (store.reader(), store.logs());
        let rates = Rates::new(config.requests_per_minute);
        let shared = Arc::new(Shared {
            rates,
            refusal_noted: Mutex::default(),
            forbidden_noted: Mutex::default(),
            transfers: TransferStore::new(&config.data_dir),
            config,
            hub,
            runtime,
            reader,
            logs,
            finished,
            tokens,
            metrics,
            tls,
        });
        Ok(Self { shared, listener, thread, store })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// As `--coordinator` takes it.
    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}", self.address())
    }

    /// What a token carries so that its holder knows this coordinator: set when the certificate is self-signed.
    pub fn fingerprint(&self) -> Option<String> {
        self.shared.token_fingerprint()
    }

    /// Its tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// How busy it is; may be asked while it serves.
    pub fn activity(&self) -> Activity {
        Activity { shared: self.shared.clone() }
    }

    /// Serves until `shutdown`, then grants nothing more and ends. Running jobs go on with their workers.
    ///
    /// # Errors
    /// [`CoordinatorError::Serve`].
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), CoordinatorError> {
        let router = router(self.shared.clone());
        let retention = retention(&self.shared.config);
        let mut upkeep = tokio::task::JoinSet::new();
        upkeep.spawn(retain(self.store.logs(), retention));
        upkeep.spawn(tidy_transfers(self.shared.clone()));
        if let Some(tls) = self.shared.tls.clone() {
            upkeep.spawn(reload(tls));
        }
        let served = tokio::select! {
            served = async { axum::serve(self.listener, router).await } => served.map_err(CoordinatorError::Serve),
            () = shutdown => Ok(()),
        };
        drop(upkeep);
        self.shared.runtime.input(Input::DrainPool { draining: true }).await;
        // The thread ends when the last connection has let go of it; what is on disk is whole at any moment.
        drop(self.thread);
        served
    }
}

/// How busy a coordinator is.
#[derive(Clone)]
pub struct Activity {
    shared: Arc<Shared>,
}

impl Activity {
    /// Jobs that wait or run.
    pub async fn live_jobs(&self) -> usize {
        self.shared.runtime.load().await.live
    }

    /// Connected clients.
    pub fn clients(&self) -> usize {
        self.shared.hub.clients()
    }

    /// Connected workers.
    pub fn workers(&self) -> usize {
        self.shared.hub.workers()
    }
}

/// Decides between plain text and TLS: beyond loopback nothing is plain unless it was said in as many words.
fn tls(config: &Config) -> Result<Option<Tls>, TlsError> {
    let source = match &config.protection {
        Protection::Off => return Ok(None),
        Protection::Automatic if config.listen.ip().is_loopback() && !config.local => return Ok(None),
        Protection::Automatic => {
            TlsSource::SelfSigned { directory: config.data_dir.clone(), names: config.certificate_names() }
        }
        Protection::Files { certificate, key } => {
            TlsSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
    };
    let tls = Tls::open(&source)?;
    let missing = tls.missing_names(&config.certificate_names());
    if !missing.is_empty() {
        tracing::warn!(
            names = missing.join(", "),
            "the TLS certificate does not contain these names, so curl and browsers refuse it; one of the coordinator's own making is issued again by `buildpool certificate rotate`"
        );
    }
    Ok(Some(tls))
}

fn acceptor(tls: Option<Arc<Tls>>) -> Acceptor {
    Box::new(move || tls.as_ref().map(|tls| TlsAcceptor::from(tls.server_config())))
}

fn retention(config: &Config) -> Retention {
    Retention { log_age: config.retention_age, log_bytes: config.retention_bytes, ..Retention::default() }
}

/// Removes old logs at the start, from time to time, and whenever the disk is short of space.
async fn retain(logs: Logs, retention: Retention) {
    loop {
        let pass = {
            let logs = logs.clone();
            move || make_room(&logs, &retention)
        };
        let freed = tokio::task::spawn_blocking(pass).await.unwrap_or_default();
        let passed = Instant::now();
        let again = if freed { LOOK_EVERY } else { RETAIN_AGAIN_AFTER };
        loop {
            // No event reports that a disk fills up or that logs grow old.
            tokio::time::sleep(LOOK_EVERY).await;
            let (short, since) = (logs.is_short(&retention), passed.elapsed());
            if since >= RETAIN_EVERY || (short && since >= again) {
                break;
            }
        }
    }
}

/// Removes old logs. Returns whether the disk has enough free space afterwards or a log was removed.
fn make_room(logs: &Logs, retention: &Retention) -> bool {
    match logs.make_room(retention, wall_ms()) {
        Ok(retained) => retained.logs_evicted > 0 || !logs.is_short(retention),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "old logs can't be removed");
            false
        }
    }
}

/// Removes snapshots and artifacts that nobody can ask for any more, from time to time.
async fn tidy_transfers(shared: Arc<Shared>) {
    loop {
        // So do snapshots and artifacts.
        tokio::time::sleep(RETAIN_EVERY).await;
        let live = shared.runtime.all_live().await;
        let pinned: Vec<SnapshotName> = live
            .iter()
            .filter_map(|live| SnapshotName::of(&live.record.spec.source).ok().flatten())
            .collect();
        let shared = shared.clone();
        // Ended only by the end of the coordinator.
        let _ended = tokio::task::spawn_blocking(move || {
            shared.transfers.tidy(&pinned, |job| {
                !matches!(shared.reader.job(job), Ok(Lookup::Evicted | Lookup::Unknown))
            });
        })
        .await;
    }
}

/// Takes a renewed certificate into use without a restart.
async fn reload(tls: Arc<Tls>) {
    loop {
        // Whoever renews the files tells nobody; a look at two files costs nothing.
        tokio::time::sleep(RELOAD_EVERY).await;
        match tls.reload() {
            Ok(true) => tracing::info!("the TLS certificate was renewed"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the renewed TLS certificate can't be used; the old one stays"
                );
            }
        }
    }
}
