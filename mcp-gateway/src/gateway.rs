//! State that all connections of a gateway share: the pool, the projects, the currently valid
//! choices (templates, labels), and the clients that are notified of changes.

use crate::config::GatewayConfig;
use crate::pool::Pool;
use crate::render::labels_of;
use crate::tasks::Remembered;
use crate::tools::{self, Choices, ToolError};
use buildpool_client::Client;
use buildpool_client::project::{Configuration, ConfigurationCache, Templates, repository_of};
use buildpool_protocol::client_link::WorkerSummary;
use rmcp::model::Tool;
use rmcp::service::{Peer, RoleServer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Limit on concurrent calls, over all connections.
pub(crate) const CALLS_MAX: usize = 256;
/// Interval at which the configuration is checked.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Interval at which the workers' labels are queried.
const LABELS_EVERY: Duration = Duration::from_secs(30);
/// Limit on notified clients: sessions of older revisions, and subscriptions of the revision
/// without sessions.
const PEERS_MAX: usize = 1_024;

/// State of a gateway.
pub(crate) struct Shared {
    pub(crate) config: GatewayConfig,
    /// Connection with the gateway's own token.
    pub(crate) pool: Arc<Pool>,
    pub(crate) calls: Semaphore,
    /// Limits subscriptions to changes, separately from calls.
    pub(crate) listeners: Semaphore,
    pub(crate) tasks: Remembered,
    /// The project of stdio and of `/mcp`.
    pub(crate) project: Arc<Project>,
    /// Further projects by their name in the URL.
    pub(crate) projects: BTreeMap<String, Arc<Project>>,
}

impl Shared {
    /// Creates the state. `is_confined` means that callers may be other users, so commands must
    /// stay inside the projects.
    pub(crate) fn new(config: GatewayConfig, is_confined: bool) -> Arc<Self> {
        let project = |directory: &PathBuf| Arc::new(Project::new(directory.clone(), is_confined));
        Arc::new(Self {
            pool: Arc::new(Pool::new(config.target.clone())),
            calls: Semaphore::new(CALLS_MAX),
            listeners: Semaphore::new(PEERS_MAX),
            tasks: Remembered::default(),
            project: project(&config.directory),
            projects: config
                .projects
                .iter()
                .map(|(name, directory)| (name.clone(), project(directory)))
                .collect(),
            config,
        })
    }

    /// Updates the choices while it is polled. Files and labels are watched concurrently, so that a
    /// slow pool does not delay files.
    pub(crate) async fn watch(&self) {
        tokio::join!(self.watch_files(), self.watch_labels());
    }

    async fn watch_files(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for project in self.all_projects() {
                project.look().await;
            }
        }
    }

    async fn watch_labels(&self) {
        let mut labels_at: Option<Instant> = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let is_due = labels_at.is_none_or(|at| at.elapsed() >= LABELS_EVERY);
            if is_due && let Some(client) = self.pool_for_listing(labels_at.is_none()).await {
                labels_at = Some(Instant::now());
                if let Ok(workers) = client.workers().await {
                    self.all_projects().for_each(|project| project.saw_workers(&workers));
                }
            }
        }
    }

    fn all_projects(&self) -> impl Iterator<Item = &Arc<Project>> {
        std::iter::once(&self.project).chain(self.projects.values())
    }

    /// Returns a connection for querying labels. The local pool is neither started nor kept alive
    /// for this.
    async fn pool_for_listing(&self, is_first: bool) -> Option<Client> {
        if self.pool.is_local() {
            return if is_first { self.pool.connection().await } else { None };
        }
        self.pool.client().await.ok()
    }
}

/// A project of a gateway.
pub(crate) struct Project {
    directory: PathBuf,
    is_confined: bool,
    configurations: ConfigurationCache,
    labels: Mutex<Vec<String>>,
    choices: watch::Sender<Choices>,
    peers: Mutex<Vec<Peer<RoleServer>>>,
    /// The cached tool list and its choices. It is cached because each HTTP call looks up its tool.
    listing: Mutex<(Choices, Arc<Vec<Tool>>)>,
}

impl Project {
    fn new(directory: PathBuf, is_confined: bool) -> Self {
        let project = Self {
            directory,
            is_confined,
            configurations: ConfigurationCache::default(),
            labels: Mutex::default(),
            choices: watch::Sender::default(),
            peers: Mutex::default(),
            listing: Mutex::default(),
        };
        let choices = project.choices();
        project.choices.send_replace(choices);
        project
    }

    /// Resolves the directory of a call.
    pub(crate) fn directory_of(&self, cwd: Option<&str>) -> Result<PathBuf, ToolError> {
        let wrong = |path: &Path, reason: &str| ToolError::Directory {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let path = self.directory.join(cwd.unwrap_or_default());
        let real = path.canonicalize().map_err(|error| wrong(&path, &error.to_string()))?;
        if !real.is_dir() {
            return Err(wrong(&path, "it is not a directory"));
        }
        let is_inside = || self.directory.canonicalize().is_ok_and(|project| real.starts_with(project));
        if self.is_confined && !is_inside() {
            return Err(wrong(&path, "it is outside of the project; give a path relative to it"));
        }
        Ok(real)
    }

    /// Returns the topmost directory to search for files that select a test or build command: the
    /// root of the repository, else the project. If callers are confined, it is never above the
    /// project.
    pub(crate) fn top_of(&self, directory: &Path) -> PathBuf {
        let project = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        let is_allowed = |root: &&Path| !self.is_confined || root.starts_with(&project);
        match repository_of(directory).filter(is_allowed) {
            Some(root) => root.to_owned(),
            None if directory.starts_with(&project) => project,
            None => directory.to_owned(),
        }
    }

    /// Returns the current configuration for a directory.
    pub(crate) fn configuration_of(&self, directory: &Path) -> Arc<Configuration> {
        self.configurations.load(directory)
    }

    /// Returns the current templates of the project.
    pub(crate) fn templates(&self) -> Templates {
        self.templates_of(&self.directory)
    }

    /// Returns the current templates for a directory.
    pub(crate) fn templates_of(&self, directory: &Path) -> Templates {
        Templates::from_configuration(&self.configuration_of(directory))
    }

    /// Returns the current choices.
    pub(crate) fn choices(&self) -> Choices {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Choices { templates: self.templates().names(), labels }
    }

    /// Returns the list of all tools for the current choices.
    pub(crate) fn listing(&self) -> Arc<Vec<Tool>> {
        let choices = self.choices();
        let mut made = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if made.1.is_empty() || made.0 != choices {
            let tools = Arc::new(tools::listing(&choices));
            *made = (choices, tools);
        }
        made.1.clone()
    }

    /// Stores the labels of these workers.
    pub(crate) fn saw_workers(&self, workers: &[WorkerSummary]) {
        let labels: BTreeSet<String> = workers.iter().flat_map(labels_of).collect();
        *self.labels.lock().unwrap_or_else(PoisonError::into_inner) = labels.into_iter().collect();
    }

    /// Returns a watch on the choices.
    pub(crate) fn changes(&self) -> watch::Receiver<Choices> {
        self.choices.subscribe()
    }

    /// Adds a client of an older revision to the notified clients.
    pub(crate) fn add_peer(&self, peer: Peer<RoleServer>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|peer| !peer.is_transport_closed());
        if peers.len() < PEERS_MAX {
            peers.push(peer);
        }
    }

    /// Checks for changes and notifies the clients.
    async fn look(&self) {
        let choices = self.choices();
        let has_changed = self.choices.send_if_modified(|known| {
            let has_changed = *known != choices;
            *known = choices;
            has_changed
        });
        if !has_changed {
            return;
        }
        let peers: Vec<Peer<RoleServer>> = {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.retain(|peer| !peer.is_transport_closed());
            peers.clone()
        };
        for peer in peers {
            // A closed client is removed at the next change.
            let _ = tokio::time::timeout(LOOK_EVERY, peer.notify_tool_list_changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Project, Shared};
    use crate::config::GatewayConfig;
    use buildpool_client::{AccessToken, Endpoint, Target};
    use std::fs;
    use std::time::Duration;

    #[test]
    fn nothing_decides_from_above_the_repository_or_the_project() {
        let place = tempfile::tempdir().unwrap();
        let up = place.path().canonicalize().unwrap();
        let (sub, inner, nested) =
            (up.join("repo/sub"), up.join("repo/sub/inner"), up.join("repo/sub/nested"));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(nested.join(".git")).unwrap();
        let top = |project: &std::path::Path, is_confined: bool, directory: &std::path::Path| {
            Project::new(project.to_owned(), is_confined).top_of(directory)
        };
        // Outside a repository, only the project's own directory counts.
        assert_eq!(top(&sub, false, &inner), sub);
        assert_eq!(top(&inner, false, &sub), sub);
        fs::create_dir_all(up.join("repo/.git")).unwrap();
        for (is_confined, directory, wanted) in [
            (false, &inner, up.join("repo")),
            (true, &inner, sub.clone()),
            (true, &sub, sub.clone()),
            (true, &nested, nested.clone()),
            (false, &nested, nested.clone()),
        ] {
            assert_eq!(top(&sub, is_confined, directory), wanted, "{is_confined} {}", directory.display());
        }
    }

    #[tokio::test]
    async fn a_changed_file_is_announced_while_the_pool_says_nothing() {
        let token: AccessToken = "bp_x_y".parse().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let target = Target::Named(Endpoint::new("ws://127.0.0.1:1".parse().unwrap(), Some(token)));
        let shared = Shared::new(GatewayConfig::new(target, directory.path()), false);
        let _silent = shared.pool.keep_silent().await;
        let mut changes = shared.project.changes();
        changes.mark_unchanged();
        fs::create_dir(directory.path().join(".buildpool")).unwrap();
        let text = "templates: {mine: {include_regex: x}}";
        fs::write(directory.path().join(".buildpool/config.yaml"), text).unwrap();
        tokio::select! {
            () = shared.watch() => unreachable!("it goes on"),
            changed = changes.changed() => changed.unwrap(),
            () = tokio::time::sleep(Duration::from_secs(30)) => panic!("it waits for the pool"),
        }
        assert!(shared.project.choices().templates.contains(&"mine".to_owned()));
    }
}
