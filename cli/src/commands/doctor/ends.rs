//! Checks of a coordinator's machine and of a worker's machine.

use super::{Check, State, disk, free_bytes, mac, private, reach};
use crate::commands::coordinator::{self, URL_FILE};
use crate::commands::worker;
use crate::failure::Failure;
use crate::settings::Given;
use buildpool_client::{PoolUrl, chain};
use buildpool_coordinator::store::limits::JOBS_ROOM_BYTES;
use buildpool_coordinator::store::{self, Depth, Weight};
use buildpool_coordinator::tls::{Tls, TlsError, TlsSource};
use buildpool_coordinator::{Config, Protection};
use buildpool_objects::{Git, Stop};
use buildpool_trust::Trust;
use buildpool_worker::environment;
use buildpool_worker::link::connect::{ConnectError, Dialler, DiallerError, trust};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks a coordinator's data directory and its reported state, also while it runs.
pub(super) async fn coordinator(file: Option<&Path>, data_dir: Option<&Path>, depth: Depth) -> Vec<Check> {
    let config = match coordinator::configuration(file, data_dir.map(Path::to_owned)) {
        Ok(config) => config,
        Err(failure) => {
            let check = Check::new("configuration", State::Failed, failure.message());
            return vec![check.mended_by("correct this key; docs/operating.md lists all of them")];
        }
    };
    let directory = config.data_dir.clone();
    let remarks = store::check(&directory, depth, config.store.url.is_some());
    let runs = remarks.iter().any(|remark| remark.text.starts_with("a coordinator runs here"));
    let mut checks = vec![room(&directory), git()];
    checks.extend(remarks.into_iter().map(|remark| {
        let state = match remark.weight {
            Weight::Note => State::Ok,
            Weight::Warning => State::Warning,
            Weight::Error => State::Failed,
        };
        Check::new("data", state, format!("{}: {}", remark.path.display(), remark.text))
            .mended_by(remark.remedy)
    }));
    checks.extend(shared_store(&config));
    checks.extend(network_time());
    let known = own_certificate(&config, &mut checks);
    if runs {
        checks.extend(answers(&directory, known).await);
    }
    checks
}

/// Checks the PostgreSQL server and the objects that several coordinators share.
fn shared_store(config: &Config) -> Vec<Check> {
    let (Some(url), Some(objects)) = (&config.store.url, &config.store.objects) else { return Vec::new() };
    let server = config.store.server().map_err(|error| chain(&error));
    let leader = server
        .and_then(|server| server.map_or(Ok(None), |server| server.leader().map_err(|error| chain(&error))));
    let postgres = match leader {
        Ok(Some(leader)) => Check::new("postgresql", State::Ok, format!("{url} answers; {leader} leads")),
        Ok(None) => Check::new("postgresql", State::Warning, format!("{url} answers; no coordinator leads"))
            .mended_by("start a coordinator, or wait a few seconds"),
        Err(reason) => Check::new("postgresql", State::Failed, format!("{url}: {reason}"))
            .mended_by("check that the server runs and that this role can log in; see docs/scaling.md"),
    };
    let bucket = match store::check_objects(objects) {
        Ok(()) => Check::new("objects", State::Ok, format!("{objects} can be written, read and cleaned")),
        Err(error) => Check::new("objects", State::Failed, format!("{objects}: {}", chain(&error)))
            .mended_by(
                "set the provider's environment variables as for the coordinator; docs/scaling.md lists them",
            ),
    };
    vec![postgres, bucket]
}

/// Checks the free space for records and logs. A coordinator with less than its reserve refuses jobs.
fn room(directory: &Path) -> Check {
    let check = disk(directory);
    match free_bytes(directory).filter(|free| *free < JOBS_ROOM_BYTES) {
        None => check,
        Some(free) => {
            let text = format!(
                "{free} bytes free for {}; no new job is accepted below {JOBS_ROOM_BYTES}",
                directory.display()
            );
            Check { state: State::Failed, text, ..check }
        }
    }
}

/// Checks for a git that can store snapshots.
fn git() -> Check {
    match Git::find_for_service(&Stop::default()) {
        Ok(git) => Check::new("git", State::Ok, format!("version {}", git.version())),
        Err(error) => {
            let text = format!("jobs on snapshots are refused: {}", chain(&error));
            Check::new("git", State::Failed, text).mended_by(
                "install git in a directory of the service's PATH that only root can write, such as /usr/bin",
            )
        }
    }
}

/// Checks the coordinator's certificate. Returns how to verify it in a connection from here.
fn own_certificate(config: &Config, checks: &mut Vec<Check>) -> Option<Trust> {
    let source = match &config.protection {
        Protection::Off => return None,
        Protection::Automatic => {
            let tls = Tls::existing(&config.data_dir)?;
            checks.extend(tls.as_ref().ok().and_then(|tls| names(tls, config)));
            return own_trust(tls, checks);
        }
        Protection::Files { certificate, key } => {
            checks.push(private(key));
            let read = CertificateDer::from_pem_file(certificate);
            checks.extend(read.ok().map(|der| reach::certificate(&der, Timestamp::now())));
            TlsSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
    };
    own_trust(Tls::open(&source), checks)
}

/// Returns a warning if the certificate lacks the coordinator's names: curl and browsers refuse it.
fn names(tls: &Tls, config: &Config) -> Option<Check> {
    let missing = tls.missing_names(&config.certificate_names());
    let text = format!("not for {}, so curl and browsers refuse it", missing.join(", "));
    let mend =
        "restart the coordinator; a certificate of an earlier version needs `buildpool certificate rotate`";
    (!missing.is_empty()).then(|| Check::new("certificate", State::Warning, text).mended_by(mend))
}

fn own_trust(tls: Result<Tls, TlsError>, checks: &mut Vec<Check>) -> Option<Trust> {
    match tls {
        Ok(tls) => Trust::fingerprint(&tls.fingerprint()),
        Err(error) => {
            let check = Check::new("certificate", State::Failed, chain(&error));
            checks.push(check.mended_by("name a certificate and its key that belong together, PEM both"));
            None
        }
    }
}

/// Checks whether the coordinator answers at its recorded URL.
async fn answers(directory: &Path, known: Option<Trust>) -> Vec<Check> {
    let url = std::fs::read_to_string(directory.join(URL_FILE)).unwrap_or_default();
    // A coordinator that listens on all addresses also listens on loopback.
    let url = url.trim().replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
    let Ok(url) = url.parse::<PoolUrl>() else { return Vec::new() };
    reach::checks(&url, &known.unwrap_or_else(Trust::of_system)).await.0
}

/// Checks whether this machine's clock is synchronized, if systemd reports it.
fn network_time() -> Option<Check> {
    let output = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Check::new("clock", State::Ok, "it is set by the network"),
        _ => {
            let text = "it is not set by the network, so times in results and ends of tokens may be wrong";
            Check::new("clock", State::Warning, text).mended_by("timedatectl set-ntp true")
        }
    })
}

/// Checks the requirements of a worker with this configuration.
pub(super) async fn of_worker(file: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut config = match buildpool_worker::Config::from_file(file) {
        Ok(config) => config,
        Err(error) => {
            let remedy = "write one by `buildpool install worker --write --join URL#TOKEN`";
            checks.push(Check::new("configuration", State::Failed, chain(&error)).mended_by(remedy));
            return checks;
        }
    };
    // The file with the token comes first; the other file may be readable for everyone.
    let with_token = config.secret_files.iter().take(usize::from(config.token.is_some()));
    let with_token: Vec<PathBuf> = with_token.cloned().collect();
    let filled = fill(&mut config, file);
    checks.push(match config.check() {
        Ok(()) => Check::new("configuration", State::Ok, file.display().to_string()),
        Err(error) => Check::new("configuration", State::Failed, chain(&error))
            .mended_by("correct this key in the file; docs/operating.md lists all of them"),
    });
    checks.extend(with_token.iter().chain(&config.hidden).map(|path| private(path)));
    checks.push(disk(&config.data_dir));
    checks.push(limits(&config.data_dir));
    // The worker may be started from another environment than this shell.
    let tools = buildpool_worker::tools::find(&environment::of_service(&config.env));
    checks.push(found(&tools, &buildpool_worker::tools::find(&environment::of_worker(&config.env))));
    if let Err(error) = Git::find() {
        let text = format!("jobs on snapshots can't be laid out: {}", chain(&error));
        let mend = format!("install git {} or newer", buildpool_objects::git::OLDEST);
        checks.push(Check::new("git", State::Failed, text).mended_by(mend));
    }
    if std::env::consts::OS == "macos" {
        checks.extend(mac::checks(&tools));
    }
    match filled {
        Ok(()) => checks.extend(link(&config).await),
        Err(failure) => checks.push(Check::new("configuration", State::Failed, failure.message())),
    }
    checks
}

/// Fills missing settings from the sources that the worker itself uses.
fn fill(config: &mut buildpool_worker::Config, file: &Path) -> Result<(), Failure> {
    worker::fill_data_directory(config);
    worker::fill_coordinator(config, Some(file))?;
    if config.token.is_none() {
        config.token = Given::of_variable()?.map(Given::check).transpose()?;
    }
    Ok(())
}

/// Shows the limits on jobs that the worker found at its last start. They depend on its unit, so this shell can't find them.
fn limits(data_dir: &Path) -> Check {
    match buildpool_worker::daemon::limits::recorded(data_dir) {
        Ok(text) => Check::new("limits", State::Ok, text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = "the limits on jobs are known after the worker's first start";
            Check::new("limits", State::Ok, text)
        }
        Err(error) => {
            let text = format!("the limits on jobs can't be read below {}: {error}", data_dir.display());
            Check::new("limits", State::Warning, text)
        }
    }
}

/// Lists the tools of a worker that the machine starts, and those that only this shell finds.
fn found(tools: &BTreeMap<String, String>, here: &BTreeMap<String, String>) -> Check {
    let listed = |tools: &mut dyn Iterator<Item = (&String, &String)>| {
        tools.map(|(name, version)| format!("{name}={version}")).collect::<Vec<_>>().join(" ")
    };
    let check = Check::new("tools", State::Ok, listed(&mut tools.iter()));
    let only_here = listed(&mut here.iter().filter(|(name, version)| tools.get(*name) != Some(*version)));
    if only_here.is_empty() {
        return check;
    }
    let remedy = "set `PATH` in the table `env` of the file to offer these and let jobs find them";
    Check { text: format!("{}; from this shell only: {only_here}", check.text), ..check }.mended_by(remedy)
}

/// Checks whether the coordinator is reachable and accepts the worker's token.
async fn link(config: &buildpool_worker::Config) -> Vec<Check> {
    let url = match config.coordinator.parse::<PoolUrl>() {
        Ok(url) => url,
        Err(error) => {
            return vec![
                Check::new("reach", State::Failed, chain(&error)).mended_by("correct `coordinator`"),
            ];
        }
    };
    if let Err(error @ DiallerError::PlainBeyondLoopback(_)) = Dialler::new(config) {
        return vec![Check::new("reach", State::Failed, chain(&error))];
    }
    let trust = if url.is_secure() { trust(config).map(Some) } else { Ok(None) };
    let trust = match trust {
        Ok(trust) => trust.unwrap_or_else(Trust::of_system),
        Err(error) => {
            let remedy = "create a new token on the coordinator's machine: it carries the fingerprint";
            return vec![Check::new("certificate", State::Failed, chain(&error)).mended_by(remedy)];
        }
    };
    let (mut checks, is_there) = reach::checks(&url, &trust).await;
    if config.token.is_none() {
        let text = "the file has no token and BUILDPOOL_TOKEN is not set here, so no token was tried";
        let remedy = "name a `token_file`, or see that the worker is started with BUILDPOOL_TOKEN";
        checks.push(Check::new("token", State::Warning, text).mended_by(remedy));
    } else if is_there {
        checks.push(token(config).await);
    }
    checks
}

/// Dials as the worker does, and disconnects before the registration.
async fn token(config: &buildpool_worker::Config) -> Check {
    let dialled = match Dialler::new(config) {
        Ok(dialler) => dialler.connect(dialler.route().current()).await.map(|_| ()),
        Err(error) => return Check::new("token", State::Failed, chain(&error)),
    };
    let remedy = "make one by `buildpool token create --role worker --name NAME` on the coordinator's machine, and write it to `token_file`";
    match dialled {
        Ok(()) => Check::new("token", State::Ok, "the coordinator takes it"),
        Err(error @ (ConnectError::Refused(_) | ConnectError::Unknown | ConnectError::WrongRole(_))) => {
            Check::new("token", State::Failed, error.to_string()).mended_by(remedy)
        }
        Err(error) => Check::new("token", State::Failed, error.to_string()),
    }
}
