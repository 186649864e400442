//! Start and shutdown of the coordinator.

mod error;
mod maintenance;

pub use error::CoordinatorError;

use crate::app_state::AppState;
use crate::auth::Tokens;
use crate::config::{Config, Protection};
use crate::connections::Connections;
use crate::leader::{Candidate, Gate, Leadership, lost};
use crate::logtext::LineIndexes;
use crate::metrics::Metrics;
use crate::net::descriptors::Descriptors;
use crate::net::forward::Forwarder;
use crate::net::inbound::InboundBytes;
use crate::net::links::Links;
use crate::net::listen::{Acceptor, Listener};
use crate::net::load::Loads;
use crate::net::outbox::AnswerBytes;
use crate::net::rate::{Rates, Volumes};
use crate::net::request_limits::RequestLimits;
use crate::net::router::{PeerAddress, router};
use crate::net::sign_in::SignIns;
use crate::net::standby;
use crate::recent_jobs::RecentJobs;
use crate::revocations;
use crate::runtime::{Components, Runtime};
use crate::stdin::Inputs;
use crate::store::{Lookup, Retention, Server, Store, StoreError, TestRuns, make_directory};
use crate::test_history::{SharedRuns, TestHistory};
use crate::tls::{Tls, TlsError, TlsSource};
use crate::transfer::TransferStore;
use crate::trust::Trust;
use crate::webhooks::{self, Webhooks};
use buildpool_pool::{Input, Pool};
use maintenance::{make_room, reload, retain, tidy_transfers};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Logs that are copied to the shared objects at a time. Each takes a thread and up to 32 MiB.
const PUBLISHING_MAX: usize = 8;
/// Time in which a leader that could not open its records gives its lease back. After that, the lease runs out.
const RESIGN_WITHIN: Duration = Duration::from_secs(2);
/// Limit of [`RunEnd::wait`]: a question to a PostgreSQL server that does not answer ends after five seconds.
const TASKS_END_WITHIN: Duration = Duration::from_secs(10);

/// A started coordinator, with an open listener.
pub struct Coordinator {
    shared: Arc<AppState>,
    listener: Listener,
    thread: std::thread::JoinHandle<()>,
    store: Store,
    /// `None` if it shares its records with no other coordinator.
    leadership: Option<Leadership>,
}

/// The end of all tasks of a coordinator ([`Coordinator::end`]).
#[derive(Debug)]
pub struct RunEnd(watch::Receiver<()>);

impl RunEnd {
    /// Waits until no task of the coordinator is left, but not for ever: the caller drops the runtime then. A task that
    /// goes on in a runtime that shuts down panics.
    pub async fn wait(mut self) {
        // Nothing is ever sent. The error means that the sender was dropped.
        let _ended = tokio::time::timeout(TASKS_END_WITHIN, self.0.changed()).await;
    }
}

/// A coordinator with an open listener that shares its records with others and does not lead yet.
pub struct Standby {
    config: Config,
    front: Front,
    server: Server,
    leadership: Leadership,
}

/// Parts of an earlier run that a coordinator uses when it starts over.
#[derive(Debug)]
pub struct EarlierRun {
    /// The open listener ([`Standby::socket`]), so that no connection is refused meanwhile.
    pub socket: std::net::TcpListener,
    /// Set to true when the earlier runtime has ended. The coordinator does not lead before.
    pub has_ended: Arc<AtomicBool>,
    /// Pause before it competes for the leadership ([`CoordinatorError::starts_over`]).
    pub pause: Duration,
}

/// The open listener, its certificate and its limits.
struct Front {
    /// Another handle of the listener.
    socket: std::net::TcpListener,
    listener: Listener,
    tls: Option<Arc<Tls>>,
    descriptors: Descriptors,
}

impl Front {
    async fn open(config: &Config, socket: Option<std::net::TcpListener>) -> Result<Self, CoordinatorError> {
        let descriptors = Descriptors::reserve().map_err(CoordinatorError::Descriptors)?;
        make_directory(&config.data_dir)?;
        let tls = tls(config)?.map(Arc::new);
        let bind = async || -> io::Result<(std::net::TcpListener, Listener)> {
            let socket = match socket {
                Some(socket) => socket,
                None => TcpListener::bind(config.listen).await?.into_std()?,
            };
            let other = socket.try_clone()?;
            Ok((other, Listener::start(socket, acceptor(tls.clone()), descriptors.pending_connections)?))
        };
        let bound = bind().await;
        let (socket, listener) =
            bound.map_err(|source| CoordinatorError::Listen { address: config.listen, source })?;
        Ok(Self { socket, listener, tls, descriptors })
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}", self.listener.address())
    }
}

impl Standby {
    /// Competes for the leadership, and listens. Connections are answered only in [`Standby::elected`].
    ///
    /// # Errors
    /// [`CoordinatorError`]. [`CoordinatorError::NotShared`] if the configuration names no server.
    pub async fn start(config: Config) -> Result<Self, CoordinatorError> {
        Self::start_after(config, None).await
    }

    /// As [`Standby::start`], after an earlier run in this process.
    ///
    /// # Errors
    /// As [`Standby::start`]
    pub async fn start_after(config: Config, earlier: Option<EarlierRun>) -> Result<Self, CoordinatorError> {
        let server = config.store.server()?.ok_or(CoordinatorError::NotShared)?;
        let (socket, gate) =
            earlier.map_or_else(Default::default, |EarlierRun { socket, has_ended, pause }| {
                (Some(socket), Gate { has_ended: Some(has_ended), not_before: Some(Instant::now() + pause) })
            });
        let front = Front::open(&config, socket).await?;
        let advertised = config.store.advertise.as_ref().or(config.public_url.as_ref());
        let url = advertised.map_or_else(|| front.url(), ToString::to_string);
        let leadership =
            Candidate::start(&server, url, config.store.lease, gate).map_err(CoordinatorError::Thread)?;
        Ok(Self { config, front, server, leadership })
    }

    /// Returns the URL of the listener.
    pub fn url(&self) -> String {
        self.front.url()
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.front.listener.address()
    }

    /// Returns a handle of the listener, for [`EarlierRun`].
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn socket(&self) -> io::Result<std::net::TcpListener> {
        self.front.socket.try_clone()
    }

    /// Sends connections to the leader until this coordinator leads.
    ///
    /// # Errors
    /// [`CoordinatorError`]. Start again after one with [`CoordinatorError::starts_over`].
    pub async fn elected(self) -> Result<Coordinator, CoordinatorError> {
        tokio::select! {
            served = self.answer() => served?,
            () = self.leadership.won() => {}
            () = self.leadership.lost() => return Err(CoordinatorError::Replaced),
        }
        let leadership = self.leadership.clone();
        match Coordinator::open(self.config, self.front, Some((self.server, self.leadership))).await {
            Err(CoordinatorError::Store(source @ StoreError::Database { .. })) => {
                // Without an answer in time, the lease runs out.
                let _unanswered = tokio::time::timeout(RESIGN_WITHIN, leadership.resign()).await;
                Err(CoordinatorError::Unopened(source))
            }
            opened => opened,
        }
    }

    /// Sends connections to the leader, or passes them on.
    async fn answer(&self) -> Result<(), CoordinatorError> {
        let (listener, links_max) = (self.front.listener.clone(), self.front.descriptors.links);
        if self.config.store.proxy {
            // Each connection needs two descriptors.
            let protection = &self.config.protection;
            let forwarder = Forwarder::new(self.leadership.clone(), protection, links_max / 2);
            forwarder.map_err(CoordinatorError::Certificates)?.serve(listener).await;
            return Ok(());
        }
        let router = standby::router(self.leadership.clone(), links_max).into_make_service();
        axum::serve(listener, router).await.map_err(CoordinatorError::Serve)
    }
}

/// Runs a coordinator until `shutdown` completes.
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
    /// Opens the store, restores the pool, and listens. Connections are served only after
    /// [`Coordinator::serve`]. One of several coordinators waits here until it is the leader.
    ///
    /// # Errors
    /// [`CoordinatorError`], with the path or address and the reason.
    pub async fn start(config: Config) -> Result<Self, CoordinatorError> {
        if config.store.url.is_some() {
            return Standby::start(config).await?.elected().await;
        }
        let front = Front::open(&config, None).await?;
        Self::open(config, front, None).await
    }

    async fn open(
        config: Config,
        Front { socket: _, listener, tls, descriptors }: Front,
        shared: Option<(Server, Leadership)>,
    ) -> Result<Self, CoordinatorError> {
        let (server, leadership) = shared.unzip();
        let store = match (&server, &config.store.objects) {
            (Some(server), Some(objects)) => {
                Store::open_shared(&config.data_dir, server, objects, std::env::vars())?
            }
            (_, _) => Store::open(&config.data_dir)?,
        };
        let retention = retention(&config);
        if store.logs().is_short(&retention) {
            let logs = store.logs();
            // Free space before anything else writes. A failed pass is logged, and the next one
            // retries.
            let _logged = tokio::task::spawn_blocking(move || make_room(&logs, &retention)).await;
        }
        let (tokens, webhooks) = match &server {
            Some(server) => (Tokens::open_on(server)?, Webhooks::open_on(server)?),
            None => (Tokens::open(&config.data_dir)?, Webhooks::open(&config.data_dir)?),
        };
        if let Some(objects) = store.objects() {
            // A bucket that does not answer must not delay a new leader. It is tried again with each log, and jobs wait in
            // `sealing` meanwhile.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = objects.probe() {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "the shared objects can't be used");
                }
            });
        }
        let transfers = TransferStore::new(&config.data_dir, store.objects());
        let branches = transfers.clone();
        let place = server.as_ref().map_or_else(String::new, |server| server.url().to_string());
        let runs = SharedRuns { place, rows: TestRuns::new(store.reader()) };
        let tests = TestHistory::open(&config.data_dir, runs, move |spec| branches.branch(spec))?;
        let connections = Arc::new(Connections::default());
        let metrics = Arc::new(Metrics::default());
        let finished = Arc::new(RecentJobs::default());
        let logs = store.logs();
        let free = Box::new(move || logs.free_bytes());
        let inputs = Arc::new(Inputs::new(&config.data_dir, store.objects(), config.lost_after, free));
        let records = store.reader();
        inputs.remove_stale(|job| match records.job(job) {
            Ok(Lookup::Found(record)) => record.done.is_none(),
            Ok(Lookup::Evicted | Lookup::Unknown) => false,
            Err(_) => true,
        });
        let pool_config = buildpool_pool::Config {
            lost_after: config.lost_after,
            warm_wait: config.warm_wait,
            local: config.local,
            quotas: config.quotas.clone(),
            approve_workers: config.approve_workers,
            ..buildpool_pool::Config::default()
        };
        let (runtime, thread) = Runtime::start(Components {
            pool: Pool::new(pool_config, store.epoch_base()),
            writer: store.writer()?,
            connections: connections.clone(),
            logs: store.logs(),
            finished: finished.clone(),
            reader: store.reader(),
            metrics: metrics.clone(),
            tokens: tokens.clone(),
            inputs: inputs.clone(),
            tests: tests.clone(),
            leadership: leadership.clone(),
        })?;
        let leads = leadership.clone();
        let (reader, logs) = (store.reader(), store.logs());
        let rates = Rates::new(config.requests_per_minute);
        let shared = Arc::new(AppState {
            rates,
            volumes: Volumes::default(),
            links: Links::new(descriptors.links, config.connections_per_address.get() as usize),
            answer_bytes: AnswerBytes::default(),
            inbound_bytes: InboundBytes::default(),
            publishing: Semaphore::new(PUBLISHING_MAX),
            request_limits: RequestLimits::default(),
            line_indexes: LineIndexes::default(),
            loads: Loads::default(),
            sign_ins: SignIns::default(),
            addresses: Mutex::default(),
            refusal_noted: Mutex::default(),
            forbidden_noted: Mutex::default(),
            transfers,
            trust: Trust { is_local: config.local, ..config.trust.clone() },
            inputs,
            config,
            connections,
            runtime,
            reader,
            logs,
            finished,
            tokens,
            webhooks,
            tests,
            metrics,
            tls,
            leadership: leads,
            in_use: watch::Sender::new(()),
        });
        Ok(Self { shared, listener, thread, store, leadership })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the URL in the form that `--coordinator` accepts.
    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}", self.address())
    }

    /// Returns the fingerprint that new tokens contain, so that their holders can verify this
    /// coordinator. Set only if the certificate is self-signed.
    pub fn fingerprint(&self) -> Option<String> {
        self.shared.token_fingerprint()
    }

    /// Returns its tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// Returns the end of its tasks, for a caller that starts over after [`CoordinatorError::Replaced`].
    pub fn end(&self) -> RunEnd {
        RunEnd(self.shared.in_use.subscribe())
    }

    /// Returns a handle that reports the activity, also while the coordinator serves.
    pub fn activity(&self) -> Activity {
        Activity { shared: self.shared.clone() }
    }

    /// Serves until `shutdown` completes, then stops granting and ends. Running jobs continue on
    /// their workers.
    ///
    /// # Errors
    /// [`CoordinatorError::Serve`]. [`CoordinatorError::Replaced`] if another coordinator is the leader: all connections
    /// are closed, and the caller must wait for [`RunEnd`] and drop the runtime of this one before another run leads.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), CoordinatorError> {
        let sockets = self.listener.sockets().clone();
        let router = router(self.shared.clone()).into_make_service_with_connect_info::<PeerAddress>();
        let retention = retention(&self.shared.config);
        let mut upkeep = tokio::task::JoinSet::new();
        upkeep.spawn(retain(self.store.logs(), retention));
        upkeep.spawn(tidy_transfers(self.shared.clone()));
        upkeep.spawn(revocations::end_jobs(self.shared.clone()));
        upkeep.spawn(webhooks::serve(self.shared.clone()));
        upkeep.spawn(crate::memory::release_free_memory());
        if let Some(tls) = self.shared.tls.clone() {
            upkeep.spawn(reload(tls));
        }
        let served = tokio::select! {
            served = async { axum::serve(self.listener, router).await } => served.map_err(CoordinatorError::Serve),
            () = shutdown => Ok(()),
            () = lost(self.leadership.as_ref()) => {
                // Tasks that wait for PostgreSQL or the bucket end too.
                sockets.shut_down();
                self.store.close_shared();
                Err(CoordinatorError::Replaced)
            }
        };
        drop(upkeep);
        self.shared.runtime.input(Input::DrainPool { draining: true }).await;
        if let (Ok(()), Some(leadership)) = (&served, &self.leadership) {
            leadership.resign().await;
            sockets.shut_down();
        }
        // The thread ends when the last connection has dropped its handle. The data on disk is
        // consistent at any moment.
        drop(self.thread);
        served
    }
}

/// Reports the activity of a coordinator.
#[derive(Clone)]
pub struct Activity {
    shared: Arc<AppState>,
}

impl Activity {
    /// Returns the number of live jobs.
    pub async fn live_jobs(&self) -> usize {
        self.shared.runtime.load().await.live
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.shared.connections.clients()
    }

    /// Returns the number of connected workers.
    pub fn workers(&self) -> usize {
        self.shared.connections.workers()
    }
}

/// Chooses between plain connections and TLS. Beyond loopback, connections are plain only if the
/// configuration sets it explicitly.
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
