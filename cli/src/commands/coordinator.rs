//! `buildpool coordinator`

mod migrate;

use crate::arguments::{CoordinatorAction, CoordinatorArguments, DataPlace};
use crate::failure::{Failure, POOL, USAGE};
use crate::terminal;
use buildpool_client::directories;
use buildpool_coordinator::{Config, Coordinator, CoordinatorError, EarlierRun, Protection, Standby};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Name of the file in the data directory with the coordinator's last listen URL.
pub(crate) const URL_FILE: &str = "url";
/// Name of the file in the data directory with the paths of the certificate files, if the
/// certificate is not self-signed.
const CERTIFICATE_FILE: &str = "certificate-files";

/// Configuration file of the machine's unit.
const SYSTEM_FILE: &str = "/etc/buildpool/coordinator.toml";
/// Data directory that systemd creates for the machine's unit.
const SYSTEM_DATA: &str = "/var/lib/buildpool";

pub(crate) fn run(arguments: CoordinatorArguments) -> Result<ExitCode, Failure> {
    if let Some(CoordinatorAction::Migrate(arguments)) = &arguments.action {
        return migrate::run(arguments);
    }
    let format = arguments.daemon.log_format;
    let config = config(arguments)?;
    let (data_dir, protection) = (config.data_dir.clone(), config.protection.clone());
    super::log_to_stderr(format);
    let _traces = super::trace("buildpool-coordinator");
    let announce = |url: String| {
        // `token create` reads the URL from this file. Without it, the join line contains a
        // placeholder.
        let _ = write_private(&data_dir, URL_FILE, &url);
        let _ = record_certificate(&data_dir, &protection);
        tracing::info!(%url, version = env!("CARGO_PKG_VERSION"), "the coordinator listens");
        // A caller that uses port 0 needs the URL. An error means that stdout is closed.
        let _ = terminal::print(&format!("{url}\n"));
    };
    if config.store.url.is_some() {
        return run_shared(config, announce);
    }
    super::serve(async {
        let coordinator =
            Coordinator::start(config).await.map_err(|error| Failure::from_error(POOL, &error))?;
        announce(coordinator.url());
        coordinator
            .serve(super::shutdown_requested())
            .await
            .map_err(|error| Failure::from_error(POOL, &error))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs one of several coordinators. When it is not the leader any more, it starts over as a standby in a new runtime:
/// the end of the old one ends each task. That may take seconds, so the new one redirects connections meanwhile, and leads
/// only after that.
fn run_shared(config: Config, announce: impl FnOnce(String)) -> Result<ExitCode, Failure> {
    let mut announce = Some(announce);
    let mut earlier: Option<EarlierRun> = None;
    loop {
        let runtime = super::daemon_runtime()?;
        let (after, mut tasks_end) = (earlier.take(), None);
        let ended = super::serve_on(&runtime, async {
            let failed = |error: CoordinatorError| Failure::from_error(POOL, &error);
            let standby = Standby::start_after(config.clone(), after).await.map_err(failed)?;
            let socket = standby.socket();
            if let Some(announce) = announce.take() {
                announce(standby.url());
            }
            let mut shutdown = Box::pin(super::shutdown_requested());
            let elected = tokio::select! {
                elected = standby.elected() => elected,
                () = &mut shutdown => return Ok(ExitCode::SUCCESS),
            };
            let served = match elected {
                Ok(coordinator) => {
                    tasks_end = Some(coordinator.end());
                    coordinator.serve(shutdown).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = &served
                && let Some(pause) = error.starts_over()
            {
                tracing::warn!(
                    error = error as &dyn std::error::Error,
                    "this coordinator continues as a standby"
                );
                let socket = socket.map_err(|error| Failure::from_error(POOL, &error))?;
                earlier = Some(EarlierRun { socket, has_ended: Arc::default(), pause });
            } else {
                served.map_err(failed)?;
            }
            Ok(ExitCode::SUCCESS)
        })?;
        let Some(EarlierRun { has_ended, .. }) = &earlier else { return Ok(ended) };
        let has_ended = has_ended.clone();
        std::thread::Builder::new()
            .name("earlier-run".to_owned())
            .spawn(move || {
                if let Some(end) = tasks_end {
                    runtime.block_on(end.wait());
                }
                drop(runtime);
                has_ended.store(true, Ordering::Release);
            })
            .map_err(|error| Failure::from_error(POOL, &error))?;
    }
}

/// Writes a file in the data directory with access for this user only.
fn write_private(data_dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(data_dir.join(name))?;
    file.write_all(text.as_bytes())
}

/// Records the certificate files, for a `token create` that does not know the configuration.
fn record_certificate(data_dir: &Path, protection: &Protection) -> io::Result<()> {
    let Protection::Files { certificate, key } = protection else {
        return std::fs::remove_file(data_dir.join(CERTIFICATE_FILE));
    };
    let absolute = |path: &Path| std::path::absolute(path).map(|path| path.display().to_string());
    write_private(data_dir, CERTIFICATE_FILE, &format!("{}\n{}\n", absolute(certificate)?, absolute(key)?))
}

/// Returns the certificate files of the last start, if the certificate was not self-signed.
pub(crate) fn recorded_certificate(data_dir: &Path) -> Option<Protection> {
    let text = std::fs::read_to_string(data_dir.join(CERTIFICATE_FILE)).ok()?;
    let (certificate, key) = text.trim_end().split_once('\n')?;
    Some(Protection::Files { certificate: certificate.into(), key: key.into() })
}

fn config(arguments: CoordinatorArguments) -> Result<Config, Failure> {
    let daemon = arguments.daemon;
    let mut config = configuration(daemon.config.as_deref(), daemon.data_dir)?;
    if let Some(listen) = arguments.listen {
        config.listen = listen;
    }
    if let (Some(certificate), Some(key)) = (arguments.tls_cert, arguments.tls_key) {
        config.protection = Protection::Files { certificate, key };
    }
    if let Some(protocol) = daemon.protocol {
        config.protocol = protocol;
    }
    Ok(config)
}

/// Reads the configuration file on top of the defaults. `data_dir` overrides the file.
///
/// # Errors
/// If the file is invalid, or no data directory is known.
pub(crate) fn configuration(file: Option<&Path>, data_dir: Option<PathBuf>) -> Result<Config, Failure> {
    let of_unit = file.filter(|file| *file == Path::new(SYSTEM_FILE)).map(|_| PathBuf::from(SYSTEM_DATA));
    let of_user = || directories::data().map(|data| data.join("coordinator"));
    let default = state_directory().or(of_unit).or_else(of_user);
    let mut config = Config::new(data_dir.clone().or(default).unwrap_or_default());
    if let Some(file) = file {
        config = config.read(file).map_err(|error| Failure::from_error(USAGE, &error))?;
    }
    if let Some(data_dir) = data_dir {
        config.data_dir = data_dir;
    }
    if config.data_dir.as_os_str().is_empty() {
        return Err(Failure::new(
            USAGE,
            "there is no home directory to keep records in; name one by --data-dir",
        ));
    }
    // Child processes (git) run in other directories, so relative paths would not work.
    config.data_dir = std::path::absolute(&config.data_dir).unwrap_or(config.data_dir);
    Ok(config)
}

/// Returns the configuration file of this machine's service, if it exists.
pub(crate) fn system_file() -> Option<PathBuf> {
    Some(PathBuf::from(SYSTEM_FILE)).filter(|file| file.exists())
}

/// Returns the directory that systemd created for this service (systemd.exec(5),
/// `StateDirectory=`). Ignores the directory of another service that started this process.
pub(crate) fn state_directory() -> Option<PathBuf> {
    std::env::var_os("STATE_DIRECTORY").map(PathBuf::from).filter(|path| is_own(path))
}

fn is_own(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.is_absolute() && name.is_some_and(|name| name.starts_with("buildpool"))
}

/// Returns the configuration of a coordinator on this machine, with the certificate that it used
/// last.
///
/// # Errors
/// As [`configuration`].
pub(crate) fn configuration_of(place: &DataPlace) -> Result<Config, Failure> {
    let unnamed = place.config.is_none() && place.data_dir.is_none();
    let file = place.config.clone().or_else(|| system_file().filter(|_| unnamed));
    let mut config = configuration(file.as_deref(), place.data_dir.clone())?;
    if file.is_none()
        && let Some(protection) = recorded_certificate(&config.data_dir)
    {
        config.protection = protection;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::{configuration, is_own};
    use std::path::Path;

    #[test]
    fn the_directory_of_another_service_is_not_taken() {
        assert!(is_own(Path::new("/var/lib/buildpool-worker")));
        for other in ["/var/lib/runner", "buildpool", "/var/lib/buildpool:/var/lib/runner"] {
            assert!(!is_own(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_data_directory_is_absolute_however_it_is_named() {
        let config = configuration(None, Some("data".into())).expect("it is named");
        let here = std::env::current_dir().expect("there is one");
        assert_eq!(config.data_dir, here.join("data"));
        let config = configuration(None, Some("/var/data".into())).expect("it is named");
        assert_eq!(config.data_dir, Path::new("/var/data"));
    }
}
