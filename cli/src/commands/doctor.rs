//! `buildpool doctor`: checks the setup. It changes nothing and starts nothing.

mod ends;
mod mac;
mod reach;

use crate::arguments::DoctorArguments;
use crate::commands::coordinator;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::settings::{self, Settings};
use crate::terminal::{self, Colour};
use buildpool_client::local::LocalPool;
use buildpool_client::project::Configuration;
use buildpool_client::{Client, ClientError, Target, chain};
use buildpool_coordinator::store::Depth;
use buildpool_objects::Git;
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Free space below which builds begin to fail, in bytes.
const ROOM_BYTES: u64 = 5_000_000_000;

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// No problem.
    Ok,
    /// A part will not work.
    Warning,
    /// Nothing will work.
    Failed,
}

/// A check and its result.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    text: String,
    /// How to correct the problem; empty if no action is needed.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

impl Check {
    fn new(name: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { name, state, text: text.into(), remedy: String::new() }
    }

    fn mended_by(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// Runs the checks. Exits 1 if one of them failed.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let mut checks = vec![version()];
        checks.extend(match &arguments.worker {
            Some(config) => ends::of_worker(config).await,
            None => match subject(arguments) {
                Subject::Coordinator(file) => {
                    let depth = if arguments.full { Depth::Full } else { Depth::Quick };
                    ends::coordinator(file.as_deref(), arguments.data_dir.as_deref(), depth).await
                }
                Subject::Pool if arguments.full => {
                    let text = "--full: reads the files of a coordinator on this machine; name them by --data-dir or --config";
                    return Err(Failure::new(USAGE, text));
                }
                Subject::Pool => client(arguments).await,
            },
        });
        if arguments.form.json {
            terminal::print_json(&checks)?;
        } else {
            terminal::print(&text(&checks))?;
        }
        let failed = checks.iter().any(|check| check.state == State::Failed);
        Ok(ExitCode::from(if failed { REFUSED } else { 0 }))
    })
}

/// The subject of the checks, unless it is a worker.
enum Subject {
    /// The files of a coordinator on this machine, with its configuration file if there is one.
    Coordinator(Option<PathBuf>),
    /// The pool that this user's commands use.
    Pool,
}

fn subject(arguments: &DoctorArguments) -> Subject {
    if arguments.data_dir.is_some() || arguments.config.is_some() {
        return Subject::Coordinator(arguments.config.clone());
    }
    // An invalid setting is one of the findings about the pool.
    if settings::is_named(&arguments.pool).unwrap_or(true) {
        return Subject::Pool;
    }
    // A user without read access to the file checks the pool in use.
    let file = coordinator::system_file().filter(|file| std::fs::File::open(file).is_ok());
    file.map_or(Subject::Pool, |file| Subject::Coordinator(Some(file)))
}

/// Checks the setup of a client.
async fn client(arguments: &DoctorArguments) -> Vec<Check> {
    let mut checks = configuration();
    checks.extend([git(), project()]);
    match settings::choose(&arguments.pool).map(|chosen| chosen.target) {
        Ok(Target::Named(endpoint)) => {
            if let Err(error) = endpoint.check() {
                checks.push(Check::new("reach", State::Failed, chain(&error)));
                return checks;
            }
            let (found, is_there) = reach::checks(&endpoint.url, &endpoint.trust()).await;
            checks.extend(found);
            if is_there {
                checks.extend(pool(Target::Named(endpoint)).await);
            }
        }
        Ok(Target::Local(local)) => checks.extend(local_pool(&local).await),
        Err(failure) => checks.push(Check::new("pool", State::Failed, failure.message())),
    }
    checks
}

fn version() -> Check {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Check::new("version", State::Ok, format!("buildpool {} on {os} {arch}", env!("BUILDPOOL_VERSION")))
}

fn configuration() -> Vec<Check> {
    let Some(path) = settings::file() else {
        return vec![Check::new("configuration", State::Warning, "this user has no home directory for one")];
    };
    let shown = path.display();
    match Settings::read() {
        Ok(settings) if path.exists() => {
            let read = Check::new("configuration", State::Ok, format!("{shown}"));
            let private = settings.has_token().then(|| private(&path));
            [read].into_iter().chain(private).collect()
        }
        Ok(_) => {
            vec![Check::new("configuration", State::Ok, format!("{shown} is not there, and need not be"))]
        }
        Err(failure) => vec![Check::new("configuration", State::Failed, failure.message())],
    }
}

/// Checks for a git that is new enough for snapshots.
fn git() -> Check {
    match Git::find() {
        Ok(git) => Check::new("git", State::Ok, format!("version {}", git.version())),
        Err(error) => {
            let text = format!("no snapshot can be taken for pools elsewhere: {}", chain(&error));
            Check::new("git", State::Warning, text)
        }
    }
}

fn project() -> Check {
    let Ok(directory) = std::env::current_dir() else {
        return Check::new("project", State::Warning, "the present directory can't be read");
    };
    let configuration = Configuration::load(&directory);
    let mut problems: Vec<String> = configuration.problems().iter().map(ToString::to_string).collect();
    if let (Some(file), Some(text)) = (configuration.file(), configuration.text()) {
        let file = file.display().to_string();
        let loaded = buildpool_digest::templates::parse(&file, text);
        let examples = buildpool_digest::templates::check_examples(&file, &loaded);
        problems.extend(loaded.errors.iter().chain(&examples).map(ToString::to_string));
    }
    match (configuration.file(), problems.is_empty()) {
        (_, false) => Check::new("project", State::Warning, problems.join("; ")),
        (Some(file), true) => Check::new("project", State::Ok, format!("{}", file.display())),
        (None, true) => Check::new("project", State::Ok, "no .buildpool/config.yaml from here upward"),
    }
}

/// Checks that only the owner may read a file.
fn private(path: &Path) -> Check {
    let Ok(metadata) = std::fs::metadata(path) else {
        let text = format!("{} can't be looked at", path.display());
        return Check::new("permissions", State::Warning, text).mended_by("check its path and its owner");
    };
    if metadata.permissions().mode() & 0o077 == 0 {
        return Check::new("permissions", State::Ok, format!("{} is its owner's only", path.display()));
    }
    let mode = if metadata.is_dir() { "700" } else { "600" };
    let text = format!("others on this machine may read {}, which may hold a token", path.display());
    Check::new("permissions", State::Warning, text).mended_by(format!("chmod {mode} '{}'", path.display()))
}

/// Checks the free space for logs and workspaces.
fn disk(directory: &Path) -> Check {
    let Some(free) = free_bytes(directory) else {
        let text = format!("the free space for {} can't be measured", directory.display());
        return Check::new("disk", State::Warning, text);
    };
    let text = format!("{:.1} GB free for {}", free as f64 / 1e9, directory.display());
    if free >= ROOM_BYTES {
        return Check::new("disk", State::Ok, text);
    }
    Check::new("disk", State::Warning, text)
        .mended_by("free some room, or move the data directory to a larger disk")
}

/// Returns the free bytes of the disk of a directory, or of its nearest existing ancestor.
fn free_bytes(directory: &Path) -> Option<u64> {
    let nearest = directory.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    buildpool_worker::platform::disk_room(nearest).ok().map(|room| room.free)
}

/// Checks the local pool, without starting it.
async fn local_pool(local: &LocalPool) -> Vec<Check> {
    let place = format!("in {}, its log in {}", local.directory().display(), local.log_file().display());
    let published = match local.published() {
        Ok(Some(published)) => published,
        Ok(None) => {
            let text = format!("the local pool does not run and will be started when it is needed, {place}");
            return vec![Check::new("pool", State::Ok, text)];
        }
        Err(error) => return vec![Check::new("pool", State::Failed, chain(&error))],
    };
    let place = Check::new(
        "local pool",
        State::Ok,
        format!("version {}, process {}, {place}", published.version, published.pid),
    );
    match Client::connect(Target::Named(published.endpoint()), settings::CLIENT).await {
        Ok(client) => {
            let endpoint = published.endpoint();
            let refusal = reach::refusal(&endpoint.url, &endpoint.trust()).await;
            [place].into_iter().chain(of_client(client).await).chain(refusal).collect()
        }
        // Another process may listen on the port of a dead pool, and does not accept its token.
        Err(error) if local.is_running().unwrap_or(false) => {
            let text = format!("the local pool runs, and can't be used: {}", chain(&error));
            let remedy = format!(
                "`kill {}` ends its process; the next command starts a new one, with a new token",
                published.pid
            );
            vec![place, Check::new("pool", State::Failed, text).mended_by(remedy)]
        }
        Err(error) => {
            let text = format!(
                "the local pool has died and will be started again when it is needed: {}",
                chain(&error)
            );
            vec![place, Check::new("pool", State::Ok, text)]
        }
    }
}

async fn pool(target: Target) -> Vec<Check> {
    match Client::connect(target, settings::CLIENT).await {
        Ok(client) => of_client(client).await,
        Err(error) => {
            let check = Check::new("pool", State::Failed, chain(&error));
            vec![match error {
                ClientError::Unauthorized { .. } => check.mended_by(
                    "get a token of role submit from the pool's administrator: `buildpool token create --role submit --name NAME`",
                ),
                ClientError::VersionMismatch { .. } => {
                    check.mended_by("bring the older of the two programs up to the newer one's version")
                }
                _ => check,
            }]
        }
    }
}

async fn of_client(client: Client) -> Vec<Check> {
    let info = client.pool();
    let started = Instant::now();
    let workers = client.workers().await;
    let (url, version, role) = (&info.url, &info.version, info.role.name());
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let pool = format!("{url}, version {version}, your role is {role}, answers in {millis:.1} ms");
    let workers = match workers {
        Ok(workers) => {
            let connected = workers.iter().filter(|worker| worker.connected).count();
            let text = format!("{connected} of {} connected", workers.len());
            if connected == 0 {
                Check::new("workers", State::Warning, text).mended_by(
                    "start a worker; `buildpool doctor --worker FILE` on its machine lists the missing parts",
                )
            } else {
                Check::new("workers", State::Ok, text)
            }
        }
        Err(error) => Check::new("workers", State::Failed, chain(&error)),
    };
    vec![Check::new("pool", State::Ok, pool), workers]
}

fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let colourful = terminal::is_colourful(&std::io::stdout());
    let lines = checks.iter().map(|check| {
        let (word, colour) = match check.state {
            State::Ok => ("ok     ", Colour::Green),
            State::Warning => ("warning", Colour::Yellow),
            State::Failed => ("failed ", Colour::Red),
        };
        let word = if colourful { colour.paint(word) } else { word.to_owned() };
        let remedy = match check.remedy.as_str() {
            "" => String::new(),
            remedy => format!("{:width$}  to mend: {}\n", "", terminal::one_line(remedy), width = width + 9),
        };
        format!("{word}  {:width$}  {}\n{remedy}", check.name, terminal::one_line(&check.text))
    });
    lines.collect()
}
