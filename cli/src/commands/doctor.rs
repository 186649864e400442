//! `buildpool doctor`: looks at what has to be right, changes nothing, starts nothing.

use crate::arguments::DoctorArguments;
use crate::failure::{Failure, REFUSED};
use crate::settings::{self, Settings};
use crate::terminal::{self, Colour};
use buildpool_gateway::client::{Client, Target, chain};
use buildpool_gateway::local::LocalPool;
use buildpool_gateway::project::Configuration;
use serde::Serialize;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// How something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// As it should be.
    Ok,
    /// Something will not work.
    Warning,
    /// Nothing will work.
    Failed,
}

/// Something that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    text: String,
}

impl Check {
    fn new(name: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { name, state, text: text.into() }
    }
}

/// Exits 1 when something failed.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let mut checks = vec![version(), configuration(), git(), project()];
        match settings::target(&arguments.pool) {
            Ok(Target::Named(endpoint)) => checks.extend(pool(Target::Named(endpoint)).await),
            Ok(Target::Local(local)) => checks.extend(local_pool(&local).await),
            Err(failure) => checks.push(Check::new("pool", State::Failed, failure.message())),
        }
        if arguments.form.json {
            terminal::print_json(&checks)?;
        } else {
            terminal::print(&text(&checks))?;
        }
        let failed = checks.iter().any(|check| check.state == State::Failed);
        Ok(ExitCode::from(if failed { REFUSED } else { 0 }))
    })
}

fn version() -> Check {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Check::new("version", State::Ok, format!("buildpool {} on {os} {arch}", env!("CARGO_PKG_VERSION")))
}

fn configuration() -> Check {
    let Some(path) = settings::file() else {
        return Check::new("configuration", State::Warning, "this user has no home directory for one");
    };
    let shown = path.display();
    match Settings::read() {
        Ok(_) if path.exists() => Check::new("configuration", State::Ok, format!("{shown}")),
        Ok(_) => Check::new("configuration", State::Ok, format!("{shown} is not there, and need not be")),
        Err(failure) => Check::new("configuration", State::Failed, failure.message()),
    }
}

/// Snapshots are made by git.
fn git() -> Check {
    match Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => {
            Check::new("git", State::Ok, terminal::one_line(&String::from_utf8_lossy(&output.stdout)))
        }
        Ok(output) => {
            Check::new("git", State::Warning, format!("`git --version` ends with {}", output.status))
        }
        Err(error) => Check::new(
            "git",
            State::Warning,
            format!("git can't be run, so no snapshot can be taken for pools elsewhere: {error}"),
        ),
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

/// Says how the pool of this machine is, without starting it.
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
        Ok(client) => [place].into_iter().chain(of_client(client).await).collect(),
        Err(error) => {
            let text = format!(
                "the local pool has died and will be started anew when it is needed: {}",
                chain(&error)
            );
            vec![place, Check::new("pool", State::Ok, text)]
        }
    }
}

async fn pool(target: Target) -> Vec<Check> {
    match Client::connect(target, settings::CLIENT).await {
        Ok(client) => of_client(client).await,
        Err(error) => vec![Check::new("pool", State::Failed, chain(&error))],
    }
}

async fn of_client(client: Client) -> Vec<Check> {
    let info = client.pool();
    let asked = Instant::now();
    let workers = client.workers().await;
    let (url, version, role) = (&info.url, &info.version, info.role.name());
    let millis = asked.elapsed().as_secs_f64() * 1e3;
    let pool = format!("{url}, version {version}, your role is {role}, answers in {millis:.1} ms");
    let workers = match workers {
        Ok(workers) => {
            let connected = workers.iter().filter(|worker| worker.connected).count();
            let state = if connected == 0 { State::Warning } else { State::Ok };
            Check::new("workers", state, format!("{connected} of {} connected", workers.len()))
        }
        Err(error) => Check::new("workers", State::Failed, chain(&error)),
    };
    vec![Check::new("pool", State::Ok, pool), workers]
}

fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let colourful = terminal::is_colourful();
    let lines = checks.iter().map(|check| {
        let (word, colour) = match check.state {
            State::Ok => ("ok     ", Colour::Green),
            State::Warning => ("warning", Colour::Yellow),
            State::Failed => ("failed ", Colour::Red),
        };
        let word = if colourful { colour.paint(word) } else { word.to_owned() };
        format!("{word}  {:width$}  {}\n", check.name, terminal::one_line(&check.text))
    });
    lines.collect()
}
