//! The URL of a PostgreSQL server, and where its password comes from.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Reason why a PostgreSQL server can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The URL is not valid.
    #[error("{0}; valid is postgres://USER@HOST[:PORT]/DATABASE")]
    Url(String),
    /// A file can't be read.
    #[error("can't read {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The certificates of the authorities can't be used.
    #[error("no certificate authority for the connection to PostgreSQL: {0}")]
    Authorities(String),
    /// The thread can't be started.
    #[error("the thread for PostgreSQL can't be started")]
    Thread(#[source] io::Error),
}

/// The URL of a database on a PostgreSQL server, as libpq accepts it. It contains no password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    config: Config,
    /// File with the certificates of authorities, from `sslrootcert`. The system's if `None`.
    authorities: Option<PathBuf>,
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StoreUrl {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
        if !is_url {
            return Err(SourceError::Url("the URL has another scheme than postgres".to_owned()));
        }
        let (url, authorities) = without_authorities(text);
        // Errors of the parser repeat the text, which may contain a password.
        let mut config =
            url.parse::<Config>().map_err(|_| SourceError::Url("the URL does not parse".to_owned()))?;
        if config.get_password().is_some() {
            return Err(SourceError::Url(
                "the URL contains a password; put it into a file, and the path of the file into `password_file`"
                    .to_owned(),
            ));
        }
        if config.get_hosts().is_empty() {
            return Err(SourceError::Url("the URL has no host".to_owned()));
        }
        // `prefer` would continue in plain text if an attacker on the network refuses TLS.
        if config.get_ssl_mode() == SslMode::Prefer && !config.get_hosts().iter().all(is_on_this_machine) {
            config.ssl_mode(SslMode::Require);
        }
        config
            .application_name("buildpool")
            .connect_timeout(Duration::from_secs(3))
            .tcp_user_timeout(Duration::from_secs(5));
        Ok(Self { text: text.to_owned(), config, authorities })
    }
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        Host::Unix(_) => true,
    }
}

/// Splits `sslrootcert=PATH` from a URL.
fn without_authorities(text: &str) -> (String, Option<PathBuf>) {
    let Some((base, query)) = text.split_once('?') else { return (text.to_owned(), None) };
    let mut authorities = None;
    let mut rest = Vec::new();
    for option in query.split('&') {
        match option.strip_prefix("sslrootcert=") {
            Some(path) => authorities = Some(PathBuf::from(path)),
            // This program always compares the name of the server with its certificate.
            None => rest.push(option.replace("sslmode=verify-full", "sslmode=require")),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    (format!("{base}{query}"), authorities)
}

impl StoreUrl {
    /// Reads the password from this file, or from the file that the environment variable `PGPASSFILE` names.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn with_password(mut self, password_file: Option<&Path>) -> Result<Self, SourceError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| SourceError::File { path: path.to_owned(), source })
        };
        if let Some(path) = password_file {
            self.config.password(read(path)?.trim_end_matches(['\r', '\n']));
        } else if let Some(path) = std::env::var_os("PGPASSFILE") {
            let text = read(Path::new(&path))?;
            if let Some(password) = self.password_of(&text) {
                self.config.password(password);
            }
        }
        Ok(self)
    }

    /// Returns the password of the first line `host:port:database:user:password` that fits. `*` fits all.
    fn password_of(&self, file: &str) -> Option<String> {
        let host = match self.config.get_hosts().first()? {
            Host::Tcp(host) => host.clone(),
            Host::Unix(_) => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432).to_string();
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        let wanted = [host.as_str(), &port, database, user];
        file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut fields = fields(line);
            let password = (fields.len() == 5).then(|| fields.pop())??;
            let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
            fits.then_some(password)
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the file with the certificates of authorities.
    pub(super) fn authorities(&self) -> Option<Authorities<'_>> {
        (self.config.get_ssl_mode() != SslMode::Disable).then_some(match &self.authorities {
            Some(path) => Authorities::File(path),
            None => Authorities::System,
        })
    }
}

/// The certificate authorities that may sign the certificate of the server.
#[derive(Clone, Copy)]
pub(super) enum Authorities<'u> {
    System,
    File(&'u Path),
}

/// Splits a line of a password file at colons. A backslash makes the next character part of a field.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let last = fields.len() - 1;
        match character {
            ':' => fields.push(String::new()),
            '\\' => fields[last].extend(characters.next()),
            other => fields[last].push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::StoreUrl;

    #[test]
    fn a_password_comes_from_the_line_that_fits_and_never_from_the_url() {
        let url: StoreUrl = "postgres://pool@db.example:5433/records".parse().unwrap();
        let file = "# comment\nother:5433:records:pool:no\ndb.example:*:records:pool:a\\:b\n*:*:*:*:later";
        assert_eq!(url.password_of(file).as_deref(), Some("a:b"));
        assert_eq!(url.password_of("db.example:5433:records:eve:no"), None);
        for text in ["postgres://pool:hidden@db/records", "mysql://pool@db/x", "postgres:///x?port=hidden"] {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains("postgres://USER@HOST") && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn a_server_on_another_machine_needs_tls() {
        let mode = |text: &str| text.parse::<StoreUrl>().unwrap().config.get_ssl_mode();
        use tokio_postgres::config::SslMode;
        assert_eq!(mode("postgres://pool@db.example/x"), SslMode::Require);
        assert_eq!(mode("postgres://pool@db.example/x?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://pool@127.0.0.1/x"), SslMode::Prefer);
        assert_eq!(mode("postgres://pool@localhost/x"), SslMode::Prefer);
    }

    #[test]
    fn options_of_libpq_are_accepted() {
        let url: StoreUrl =
            "postgres://pool@db/x?sslmode=verify-full&sslrootcert=/etc/ca.pem".parse().unwrap();
        assert_eq!(url.authorities.as_deref(), Some(std::path::Path::new("/etc/ca.pem")));
        assert_eq!(url.config.get_ssl_mode(), tokio_postgres::config::SslMode::Require);
    }
}
