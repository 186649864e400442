//! Which pool a command asks: named by a flag, a variable or the user's `config.toml`, else the local one.

use crate::arguments::PoolOptions;
use crate::failure::{Failure, POOL, USAGE};
use buildpool_gateway::client::{AccessToken, Client, Endpoint, Target};
use buildpool_gateway::directories;
use buildpool_gateway::local::LocalPool;
use serde::Deserialize;
use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// The value of `--coordinator` that means this machine's own pool, whatever is configured.
const LOCAL: &str = "local";

/// How this program names itself to a pool.
pub(crate) const CLIENT: &str = concat!("buildpool ", env!("CARGO_PKG_VERSION"));

/// `config.toml` in the user's configuration directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    coordinator: Option<String>,
    token: Option<String>,
    ca_file: Option<PathBuf>,
}

/// Connects to the pool that the options, the environment and the configuration name.
///
/// # Errors
/// What is wrong with them, or why the pool can't be talked to.
pub(crate) async fn connect(options: &PoolOptions) -> Result<Client, Failure> {
    Ok(Client::connect(target(options)?, CLIENT).await?)
}

/// The pool that the options, the environment and the configuration name.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn target(options: &PoolOptions) -> Result<Target, Failure> {
    let file = Settings::read()?;
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let url = options.coordinator.clone().or_else(|| variable("BUILDPOOL_URL"));
    // A token in the file belongs to the coordinator in the file, not to another one.
    let own_token = if url.is_none() || url == file.coordinator { file.token } else { None };
    let url = url.or(file.coordinator);
    let Some(url) = url.filter(|url| url != LOCAL) else {
        return local().map(Target::Local);
    };
    let token = options.token.clone().or_else(|| variable("BUILDPOOL_TOKEN")).or(own_token);
    let token = token.map(|token| token.parse::<AccessToken>()).transpose();
    Ok(Target::Named(Endpoint {
        url: url.parse().map_err(|error| Failure::of(USAGE, &error))?,
        token: token.map_err(|error| Failure::of(USAGE, &error))?,
        ca_file: options.ca_file.clone().or(file.ca_file),
        certificate: None,
    }))
}

/// This user's local pool, which this program can start.
///
/// # Errors
/// When there is no place for it, or the program can't be named.
pub(crate) fn local() -> Result<LocalPool, Failure> {
    LocalPool::of_this_user(program()?).map_err(|error| Failure::of(POOL, &error))
}

/// This program's file.
///
/// # Errors
/// When the system does not say.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::while_doing(POOL, "this program's file can't be found", &error))
}

/// Where the user's configuration is, whether it is there or not.
pub(crate) fn file() -> Option<PathBuf> {
    Some(directories::configuration()?.join("config.toml"))
}

impl Settings {
    /// Reads the user's configuration; without a file everything is left to other places.
    ///
    /// # Errors
    /// When the file can't be read, or what is wrong in it.
    pub(crate) fn read() -> Result<Self, Failure> {
        let Some(path) = file() else { return Ok(Self::default()) };
        let fail = |reason: String| Failure::new(USAGE, format!("{}: {reason}", path.display()));
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path).map_err(fail),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(fail(error.to_string())),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let mut settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if let (Some(named), Some(directory)) = (&settings.ca_file, path.parent()) {
            settings.ca_file = Some(directory.join(named));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use std::path::Path;

    #[test]
    fn the_file_is_read_whole_and_an_unknown_key_is_named() {
        let path = Path::new("/home/u/.config/buildpool/config.toml");
        let text = "coordinator = \"wss://pool:1\"\ntoken = \"t\"\nca_file = \"ca.pem\"\n";
        let expected = Settings {
            coordinator: Some("wss://pool:1".into()),
            token: Some("t".into()),
            ca_file: Some("/home/u/.config/buildpool/ca.pem".into()),
        };
        assert_eq!(Settings::parse(text, path), Ok(expected));
        assert_eq!(Settings::parse("", path), Ok(Settings::default()));
        let error = Settings::parse("cordinator = \"x\"", path).unwrap_err();
        assert!(error.contains("cordinator") && error.contains("coordinator"), "{error}");
    }
}
