//! Selection of the pool: by a flag, a variable or the user's `config.toml`, else the local pool.

use crate::arguments::PoolOptions;
use crate::failure::{Failure, POOL, USAGE};
use crate::terminal;
use buildpool_client::directories;
use buildpool_client::local::LocalPool;
use buildpool_client::{AccessToken, Api, Client, Endpoint, PoolUrl, Target};
use buildpool_protocol::token;
use serde::Deserialize;
use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// Value of `--coordinator` that selects the local pool, regardless of the configuration.
const LOCAL: &str = "local";
/// Flag with the URL of a coordinator.
const URL_FLAG: &str = "--coordinator";
/// Variable with the URL of a coordinator.
pub(crate) const URL_VARIABLE: &str = "BUILDPOOL_URL";
/// Variable with a token.
const TOKEN_VARIABLE: &str = "BUILDPOOL_TOKEN";

/// Client name that this program sends to a pool.
pub(crate) const CLIENT: &str = concat!("buildpool ", env!("CARGO_PKG_VERSION"));

/// `config.toml` in the user's configuration directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    coordinator: Option<String>,
    token: Option<String>,
    ca_file: Option<PathBuf>,
    insecure_plain_text: bool,
}

/// Connects to the pool that the options, the environment and the configuration select. The default
/// is the local pool, which is started if necessary. Prints on stderr which pool it uses, unless it
/// was selected on the command line.
///
/// # Errors
/// An invalid setting, or the reason why the connection failed.
pub(crate) async fn connect(options: &PoolOptions) -> Result<Client, Failure> {
    let chosen = choose(options)?;
    chosen.announce();
    Ok(Client::connect(chosen.target, CLIENT).await?)
}

/// Connects as [`connect`] does, for a command that prints a job's bytes on stderr. It announces
/// the pool only on a terminal.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn connect_for_output(options: &PoolOptions) -> Result<Client, Failure> {
    Ok(Client::connect(target(options)?, CLIENT).await?)
}

/// Connects as [`connect`] does, but never starts the local pool. For commands that are useless on
/// a new pool.
///
/// # Errors
/// As [`connect`]; also if no coordinator is selected and the local pool is not running.
pub(crate) async fn connect_to_running(options: &PoolOptions) -> Result<Client, Failure> {
    let chosen = choose(options)?;
    chosen.announce();
    chosen.connect_to_running().await
}

/// Connects as [`connect`] does, and also returns the endpoint.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn connect_with_endpoint(options: &PoolOptions) -> Result<(Endpoint, Client), Failure> {
    let chosen = choose(options)?;
    chosen.announce();
    let target = chosen.target;
    let client = Client::connect(target.clone(), CLIENT).await?;
    let endpoint = match target {
        Target::Named(endpoint) => endpoint,
        Target::Local(local) => running(&local)?,
    };
    // Of several coordinators, only the leader has the page and the API.
    Ok((Endpoint { url: client.pool().url, ..endpoint }, client))
}

/// Connects as [`connect_to_running`] does, and prints nothing.
///
/// # Errors
/// As [`connect_to_running`].
pub(crate) async fn connect_quietly(options: &PoolOptions) -> Result<Client, Failure> {
    choose(options)?.connect_to_running().await
}

/// Returns the HTTP API of the pool that [`connect_to_running`] would connect to.
///
/// # Errors
/// As [`connect_to_running`].
pub(crate) fn api_of_running(options: &PoolOptions) -> Result<Api, Failure> {
    let chosen = choose(options)?;
    chosen.announce();
    let endpoint = match chosen.target {
        Target::Local(local) => running(&local)?,
        Target::Named(endpoint) => endpoint,
    };
    Ok(Api::new(endpoint))
}

/// Returns the endpoint of the running local pool.
fn running(local: &LocalPool) -> Result<Endpoint, Failure> {
    let is_running = local.is_running().map_err(|error| Failure::from_error(POOL, &error))?;
    let published = local.published().map_err(|error| Failure::from_error(POOL, &error))?;
    published.filter(|_| is_running).map(|published| published.endpoint()).ok_or_else(|| {
        let key = key_of("coordinator", file().as_deref());
        Failure::new(
            POOL,
            format!(
                "this command needs a running pool, and this user's local pool does not run; name a coordinator by --coordinator, {URL_VARIABLE} or {key}"
            ),
        )
    })
}

/// Returns the pool that the options, the environment and the configuration select. A coordinator
/// requires a token. On a terminal, prints which pool it is, unless it was selected on the command
/// line.
///
/// # Errors
/// An invalid setting.
pub(crate) fn target(options: &PoolOptions) -> Result<Target, Failure> {
    let chosen = choose(options)?;
    if io::stderr().is_terminal() {
        chosen.announce();
    }
    Ok(chosen.target)
}

/// A pool and the source of its selection.
pub(crate) struct Chosen {
    pub(crate) target: Target,
    /// `None` if no source selected a pool.
    place: Option<String>,
}

impl Chosen {
    /// Connects, but does not start the local pool.
    async fn connect_to_running(self) -> Result<Client, Failure> {
        let target = match self.target {
            Target::Local(local) => Target::Named(running(&local)?),
            named @ Target::Named(_) => named,
        };
        Ok(Client::connect(target, CLIENT).await?)
    }

    /// Returns a text that names the pool.
    pub(crate) fn name(&self) -> String {
        match &self.target {
            Target::Named(endpoint) => endpoint.url.to_string(),
            Target::Local(_) => "this user's local pool".to_owned(),
        }
    }

    /// Prints the pool that a command uses, unless it was selected on the command line.
    fn announce(&self) {
        let place = self.place.as_deref();
        if place == Some(URL_FLAG) {
            return;
        }
        terminal::warn(&format!("using {} ({})", self.name(), place.unwrap_or("no coordinator is named")));
    }
}

/// Returns true if the options, the environment or the configuration select a pool.
///
/// # Errors
/// An invalid setting.
pub(crate) fn is_named(options: &PoolOptions) -> Result<bool, Failure> {
    Ok(named_url(options, &Settings::read()?)?.is_some())
}

/// Returns the selected pool, else the local one. A coordinator requires a token.
///
/// # Errors
/// An invalid setting.
pub(crate) fn choose(options: &PoolOptions) -> Result<Chosen, Failure> {
    let place = named_url(options, &Settings::read()?)?.map(|(_, place)| place);
    let Some(NamedCoordinator { url, ca_file, token, allow_plain }) = named(options)? else {
        return Ok(Chosen { target: Target::Local(local()?), place });
    };
    let token = token.ok_or_else(|| no_token(&format!("for the coordinator at {url}"), file().as_deref()))?;
    let token = token.check()?.parse().map_err(|error| Failure::from_error(USAGE, &error))?;
    let target = Target::Named(Endpoint { url, token: Some(token), ca_file, certificate: None, allow_plain });
    Ok(Chosen { target, place })
}

/// Returns the pool as [`target`] does, for a gateway. No token is required, because its callers
/// may bring their own.
///
/// # Errors
/// An invalid setting.
pub(crate) fn target_of_gateway(options: &PoolOptions) -> Result<Target, Failure> {
    let Some(NamedCoordinator { url, ca_file, token, allow_plain }) = named(options)? else {
        return local().map(Target::Local);
    };
    let token = token.map(|given| given.token.parse::<AccessToken>()).transpose();
    let token = token.map_err(|error| Failure::from_error(USAGE, &error))?;
    Ok(Target::Named(Endpoint { url, token, ca_file, certificate: None, allow_plain }))
}

/// A selected coordinator.
struct NamedCoordinator {
    url: PoolUrl,
    ca_file: Option<PathBuf>,
    token: Option<Given>,
    allow_plain: bool,
}

/// Returns the URL of a pool, or [`LOCAL`], with the source of the setting.
fn named_url(options: &PoolOptions, settings: &Settings) -> Result<Option<(String, String)>, Failure> {
    if let Some(url) = &options.coordinator {
        return Ok(Some((url.clone(), URL_FLAG.to_owned())));
    }
    if let Some(url) = variable(URL_VARIABLE)? {
        return Ok(Some((url, URL_VARIABLE.to_owned())));
    }
    let of_file = |url: &String| (url.clone(), key_of("coordinator", file().as_deref()));
    Ok(settings.coordinator.as_ref().map(of_file))
}

fn named(options: &PoolOptions) -> Result<Option<NamedCoordinator>, Failure> {
    let settings = Settings::read()?;
    let named = named_url(options, &settings)?;
    // A token in the file is only for the coordinator in the file.
    let is_own = named.as_ref().is_none_or(|(url, _)| Some(url) == settings.coordinator.as_ref());
    let own_token = settings.token.filter(|_| is_own);
    let Some((url, place)) = named.filter(|(url, _)| url != LOCAL) else { return Ok(None) };
    let given = match &options.token {
        Some(token) => Some(Given::new(token, "--token")),
        None => Given::of_variable()?.or_else(|| Some(Given::of_file(own_token?, file().as_deref()))),
    };
    Ok(Some(NamedCoordinator {
        url: url.parse().map_err(|error| Failure::while_doing(USAGE, place, &error))?,
        ca_file: options.ca_file.clone().or(settings.ca_file),
        token: given,
        allow_plain: options.insecure_plain_text || (is_own && settings.insecure_plain_text),
    }))
}

/// Returns the value of a variable, or `None` if it is unset or empty.
///
/// # Errors
/// If the value is not UTF-8: treating it as unset would select another pool than intended.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::new(
            USAGE,
            format!("{name}: its value is not text (UTF-8); set it again, or unset it"),
        )),
    }
}

/// Describes a key of a configuration file as the source of a setting.
pub(crate) fn key_of(key: &str, file: Option<&Path>) -> String {
    let file = file.map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string());
    format!("`{key}` in {file}")
}

/// A token and its source.
pub(crate) struct Given {
    pub(crate) token: String,
    place: String,
}

impl Given {
    /// Returns a token with its source.
    pub(crate) fn new(token: impl Into<String>, place: impl Into<String>) -> Self {
        Self { token: token.into(), place: place.into() }
    }

    /// Returns the token of the environment.
    ///
    /// # Errors
    /// If the variable is not UTF-8.
    pub(crate) fn of_variable() -> Result<Option<Self>, Failure> {
        Ok(variable(TOKEN_VARIABLE)?.map(|token| Self::new(token, TOKEN_VARIABLE)))
    }

    /// Returns a token from a configuration file.
    pub(crate) fn of_file(token: String, path: Option<&Path>) -> Self {
        Self::new(
            token,
            path.map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string()),
        )
    }

    /// Returns the token if its form is valid.
    ///
    /// # Errors
    /// The source of the token and the reason, never the token itself.
    pub(crate) fn check(self) -> Result<String, Failure> {
        let token = self.token.trim();
        match token::parse(token) {
            Ok(_) => Ok(token.to_owned()),
            Err(error) => {
                Err(Failure::new(USAGE, format!("the token in {} is invalid: {error}", self.place)))
            }
        }
    }
}

/// Returns the failure for a missing token.
pub(crate) fn no_token(purpose: &str, file: Option<&Path>) -> Failure {
    let file = file.map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string());
    let text = format!(
        "no token was given {purpose}; pass one with --token, {TOKEN_VARIABLE} or `token` in {file}; `buildpool token create` on the coordinator's machine prints one"
    );
    Failure::new(POOL, text)
}

/// Returns this user's local pool, which this program can start.
///
/// # Errors
/// If there is no directory for it, or this program's path is unknown.
pub(crate) fn local() -> Result<LocalPool, Failure> {
    LocalPool::of_this_user(program()?).map_err(|error| Failure::from_error(POOL, &error))
}

/// Returns the path of this program.
///
/// # Errors
/// If the system does not report it.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::while_doing(POOL, "this program's file can't be found", &error))
}

/// Returns the path of the user's configuration file, whether it exists or not.
pub(crate) fn file() -> Option<PathBuf> {
    Some(directories::configuration()?.join("config.toml"))
}

impl Settings {
    /// Returns true if the configuration contains a token, so that only its owner may read it.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Reads the user's configuration. A missing file gives the defaults.
    ///
    /// # Errors
    /// If the file can't be read or is invalid.
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
        let text = "coordinator = \"wss://pool:1\"\ntoken = \"t\"\nca_file = \"ca.pem\"\ninsecure_plain_text = true\n";
        let expected = Settings {
            coordinator: Some("wss://pool:1".into()),
            token: Some("t".into()),
            ca_file: Some("/home/u/.config/buildpool/ca.pem".into()),
            insecure_plain_text: true,
        };
        assert_eq!(Settings::parse(text, path), Ok(expected));
        assert_eq!(Settings::parse("", path), Ok(Settings::default()));
        let error = Settings::parse("cordinator = \"x\"", path).unwrap_err();
        assert!(error.contains("cordinator") && error.contains("coordinator"), "{error}");
    }
}
