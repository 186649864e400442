//! Configuration of a coordinator.

use crate::public_url::PublicUrl;
use crate::store::{ObjectsUrl, Server, SourceError, StoreUrl};
use crate::trust::Trust;
use buildpool_pool::{Quota, Quotas};
use buildpool_protocol::limits;
use buildpool_protocol::spec::check_name;
use buildpool_protocol::version::VersionRange;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Valid listen addresses, for error messages.
pub const VALID_ADDRESSES: &str =
    "an IP address and a port, as 127.0.0.1:7420, 0.0.0.0:7420 (each interface) or [::1]:7420";

/// Default of `connections_per_address`: the agents and workers of a site behind one address fit.
const CONNECTIONS_PER_ADDRESS: NonZeroU32 = NonZeroU32::new(1_024).unwrap();

/// Configuration of a coordinator.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// URL by which others reach the coordinator. Its host is a name of the certificate, and join
    /// lines contain it.
    pub public_url: Option<PublicUrl>,
    /// Directory of records and logs.
    pub data_dir: PathBuf,
    /// Certificate and key files in PEM form. Without them, a certificate is created if TLS is
    /// required.
    pub protection: Protection,
    /// Time without contact after which an attempt may be granted again.
    pub lost_after: Duration,
    /// Maximum time that a job waits for a busy worker with a warm workspace.
    pub warm_wait: Duration,
    /// Whether jobs may run in place: coordinator, worker and clients are on one machine.
    pub local: bool,
    /// Maximum age of logs.
    pub retention_age: Duration,
    /// Maximum total size of logs, in bytes. The oldest logs are removed first.
    pub retention_bytes: u64,
    /// Maximum total size of artifacts, in bytes. Those of the oldest jobs are removed first.
    pub artifact_bytes: u64,
    /// Maximum time that the log of an ended attempt waits for a disk that refuses it.
    pub log_wait: Duration,
    /// Limits for each submitter.
    pub quotas: Quotas,
    /// Whether `/metrics` is served without a token.
    pub open_metrics: bool,
    /// Supported protocol versions: those of this build. Tests of mixed versions use another range.
    pub protocol: VersionRange,
    /// Whether a new worker waits for `buildpool workers approve NAME`.
    pub approve_workers: bool,
    /// Trust classes: the submitters that share workspaces and caches.
    pub trust: Trust,
    /// Maximum requests of one principal per minute. No limit if absent.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum links from one address, except loopback addresses.
    pub connections_per_address: NonZeroU32,
    /// Whether webhooks may use plain HTTP and addresses of private networks.
    pub webhook_private_addresses: bool,
    /// Where records and objects are kept.
    pub store: StoreConfig,
}

/// Where records and objects are kept, and how coordinators that share them find each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// PostgreSQL server that holds the records. SQLite in the data directory if absent.
    pub url: Option<StoreUrl>,
    /// Where all coordinators share logs, snapshots and artifacts. The data directory if absent.
    pub objects: Option<ObjectsUrl>,
    /// File with the password for the server.
    pub password_file: Option<PathBuf>,
    /// URL at which workers and clients reach this coordinator.
    pub advertise: Option<PublicUrl>,
    /// Time after which another coordinator leads if this one does not answer.
    pub lease: Duration,
    /// Whether a standby passes connections on to the leader, instead of naming it.
    pub proxy: bool,
}

/// Default of `lease_secs`.
const LEASE: Duration = Duration::from_secs(3);
/// Valid values of `lease_secs`. A shorter lease ends with each pause of the server.
const LEASE_SECS: std::ops::RangeInclusive<u64> = 1..=60;

impl StoreConfig {
    /// Returns access to the PostgreSQL server, or `None` if the records are in the data directory.
    ///
    /// # Errors
    /// If the password or the certificates of the authorities can't be read.
    pub fn server(&self) -> Result<Option<Server>, SourceError> {
        let Some(url) = self.url.clone() else { return Ok(None) };
        url.with_password(self.password_file.as_deref()).and_then(Server::new).map(Some)
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { url: None, objects: None, password_file: None, advertise: None, lease: LEASE, proxy: false }
    }
}

/// Protection of connections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Protection {
    /// TLS with a self-signed certificate beyond loopback and in a local pool; otherwise plain on
    /// loopback.
    #[default]
    Automatic,
    /// TLS with these files.
    Files {
        /// Certificate chain in PEM form.
        certificate: PathBuf,
        /// Private key in PEM form.
        key: PathBuf,
    },
    /// Plain on every address. For use behind a proxy that terminates TLS; it must be set
    /// explicitly.
    Off,
}

impl Config {
    /// Returns the defaults for a data directory.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            public_url: None,
            data_dir,
            protection: Protection::default(),
            lost_after: limits::LOST_AFTER,
            warm_wait: Duration::from_secs(5),
            local: false,
            retention_age: limits::RETENTION_AGE,
            retention_bytes: limits::RETENTION_BYTES,
            artifact_bytes: limits::RETENTION_BYTES,
            log_wait: Duration::from_secs(60),
            quotas: Quotas { everybody: Quota::standard(), ..Quotas::default() },
            open_metrics: false,
            protocol: VersionRange::ours(),
            approve_workers: false,
            trust: Trust::default(),
            requests_per_minute: None,
            connections_per_address: CONNECTIONS_PER_ADDRESS,
            webhook_private_addresses: false,
            store: StoreConfig::default(),
        }
    }

    /// Returns the host names and addresses for a self-signed certificate, without those of the
    /// loopback interface.
    pub fn certificate_names(&self) -> Vec<String> {
        let address = Some(self.listen.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
        address.into_iter().chain(self.public_url.as_ref().map(|url| url.host.clone())).collect()
    }

    /// Reads a TOML file on top of these values. Relative paths in it start at its directory.
    ///
    /// # Errors
    /// [`ConfigError`] with the file, the key and the valid values.
    pub fn read(self, path: &Path) -> Result<Self, ConfigError> {
        let wrong = |reason: String| ConfigError { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let place = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
        self.merge(&text, place.parent().unwrap_or(Path::new("/"))).map_err(wrong)
    }

    fn merge(mut self, text: &str, directory: &Path) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if let Some(listen) = file.listen {
            let wrong = |_| format!("listen: `{}`: valid are {VALID_ADDRESSES}", listen.escape_debug());
            self.listen = listen.parse().map_err(wrong)?;
        }
        if let Some(url) = file.public_url {
            self.public_url = Some(url.parse().map_err(|reason| format!("public_url: {reason}"))?);
        }
        if let Some(data_dir) = file.data_dir {
            self.data_dir = directory.join(data_dir);
        }
        self.protection = match (file.tls_cert, file.tls_key, file.insecure_plain_text) {
            (None, None, None | Some(false)) => self.protection,
            (None, None, Some(true)) => Protection::Off,
            (Some(certificate), Some(key), None | Some(false)) => {
                Protection::Files { certificate: directory.join(certificate), key: directory.join(key) }
            }
            (Some(_), Some(_), Some(true)) => {
                return Err("insecure_plain_text: not together with tls_cert".to_owned());
            }
            (Some(_), None, _) => return Err("tls_key: missing, but tls_cert is set".to_owned()),
            (None, Some(_), _) => return Err("tls_cert: missing, but tls_key is set".to_owned()),
        };
        if let Some(secs) = file.lost_after_secs {
            let least = limits::SILENCE_MAX + limits::SELF_FENCE_MARGIN;
            if secs <= least.as_secs() {
                return Err(format!(
                    "lost_after_secs: {secs} is too short; valid is more than {}",
                    least.as_secs()
                ));
            }
            self.lost_after = Duration::from_secs(secs);
        }
        if let Some(secs) = file.warm_wait_secs {
            self.warm_wait = Duration::from_secs(secs);
        }
        if let Some(days) = file.retention_days {
            self.retention_age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        }
        if let Some(bytes) = file.retention_bytes {
            self.retention_bytes = bytes;
        }
        if let Some(bytes) = file.artifact_bytes {
            self.artifact_bytes = bytes;
        }
        if let Some(secs) = file.log_wait_secs {
            self.log_wait = Duration::from_secs(secs);
        }
        if let Some(approve) = file.approve_workers {
            self.approve_workers = approve;
        }
        self.connections_per_address = file.connections_per_address.unwrap_or(self.connections_per_address);
        self.requests_per_minute = file.requests_per_minute.or(self.requests_per_minute);
        self.webhook_private_addresses =
            file.webhook_private_addresses.unwrap_or(self.webhook_private_addresses);
        if let Some(open) = file.open_metrics {
            self.open_metrics = open;
        }
        self.store = file.store.unwrap_or_default().read(directory)?;
        if let Some(url) = file.advertise {
            self.store.advertise = Some(url.parse().map_err(|reason| format!("advertise: {reason}"))?);
        }
        self.store.proxy = file.proxy.unwrap_or(self.store.proxy);
        if self.store.proxy && self.store.url.is_none() {
            return Err(
                "proxy: only a coordinator with `store.url` passes connections on; set [store], or remove it"
                    .into(),
            );
        }
        if let Some(secs) = file.lease_secs {
            if !LEASE_SECS.contains(&secs) {
                return Err(format!("lease_secs: {secs}: valid are 1 to 60"));
            }
            self.store.lease = Duration::from_secs(secs);
        }
        self.trust = Trust::read(file.trust.as_deref(), file.teams)?;
        if let Some(quota) = file.quota {
            self.quotas.everybody = quota.read("quota")?.or(Quota::standard());
        }
        for (name, quota) in file.quota_of {
            check_name("quota_of", &name).map_err(|error| error.to_string())?;
            let quota = quota.read(&format!("quota_of.{name}"))?;
            self.quotas.submitters.insert(name, quota);
        }
        Ok(self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    insecure_plain_text: Option<bool>,
    lost_after_secs: Option<u64>,
    warm_wait_secs: Option<u64>,
    retention_days: Option<u32>,
    retention_bytes: Option<u64>,
    artifact_bytes: Option<u64>,
    log_wait_secs: Option<u64>,
    open_metrics: Option<bool>,
    approve_workers: Option<bool>,
    requests_per_minute: Option<NonZeroU32>,
    connections_per_address: Option<NonZeroU32>,
    webhook_private_addresses: Option<bool>,
    store: Option<StoreTable>,
    advertise: Option<String>,
    lease_secs: Option<u64>,
    proxy: Option<bool>,
    trust: Option<String>,
    #[serde(default)]
    teams: BTreeMap<String, Vec<String>>,
    quota: Option<QuotaTable>,
    #[serde(default)]
    quota_of: BTreeMap<String, QuotaTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct StoreTable {
    url: Option<String>,
    objects: Option<String>,
    password_file: Option<PathBuf>,
}

impl StoreTable {
    fn read(self, directory: &Path) -> Result<StoreConfig, String> {
        let url = self.url.map(|url| url.parse::<StoreUrl>().map_err(|error| format!("store.url: {error}")));
        let objects = self
            .objects
            .map(|objects| objects.parse::<ObjectsUrl>().map_err(|error| format!("store.objects: {error}")));
        let (url, objects) = (url.transpose()?, objects.transpose()?);
        if url.is_some() != objects.is_some() {
            return Err("store: `url` and `objects` are set together or not at all".to_owned());
        }
        let password_file = self.password_file.map(|path| directory.join(path));
        Ok(StoreConfig { url, objects, password_file, ..StoreConfig::default() })
    }
}

/// Limits for submitters. A missing key means no limit; in `quota_of`, it means the value of
/// `quota`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaTable {
    queued_jobs: Option<usize>,
    running_jobs: Option<usize>,
    job_secs: Option<u64>,
    log_bytes: Option<u64>,
    snapshot_bytes: Option<u64>,
    stored_snapshot_bytes: Option<u64>,
}

impl QuotaTable {
    fn read(self, place: &str) -> Result<Quota, String> {
        let least = [
            ("running_jobs", self.running_jobs.map(|jobs| jobs as u64), 1),
            ("job_secs", self.job_secs, 1),
            ("log_bytes", self.log_bytes, limits::LOG_BYTES_MIN),
        ];
        for (key, value, least) in least {
            if let Some(value) = value.filter(|value| *value < least) {
                return Err(format!("{place}.{key}: {value} is too little; valid is {least} or more"));
            }
        }
        Ok(Quota {
            queued_jobs: self.queued_jobs,
            running_jobs: self.running_jobs,
            job_time: self.job_secs.map(Duration::from_secs),
            log_bytes: self.log_bytes,
            snapshot_bytes: self.snapshot_bytes,
            stored_snapshot_bytes: self.stored_snapshot_bytes,
        })
    }
}

/// A configuration file that can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {}", .path.display(), .reason)]
pub struct ConfigError {
    /// Path of the file.
    pub path: PathBuf,
    /// The key and the reason.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::{Config, Protection};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_file_is_laid_over_the_defaults_and_bad_values_name_their_key() {
        let merge = |text: &str| Config::new("/data".into()).merge(text, Path::new("/etc/pool"));
        let merged = merge("listen = \"0.0.0.0:1\"\nlost_after_secs = 600\ninsecure_plain_text = true")
            .expect("valid");
        assert_eq!(merged.listen.port(), 1);
        assert_eq!(merged.lost_after, Duration::from_secs(600));
        assert_eq!(merged.protection, Protection::Off);
        let named =
            merge("listen = \"192.0.2.1:1\"\npublic_url = \"wss://pool.example.com:7420\"").expect("valid");
        assert_eq!(named.certificate_names(), ["192.0.2.1", "pool.example.com"]);
        let merged = merge("[quota]\nqueued_jobs = 5\njob_secs = 60\n[quota_of.ci]\nqueued_jobs = 50");
        let quotas = merged.expect("valid").quotas;
        assert_eq!((quotas.of("ada").queued_jobs, quotas.of("ci").queued_jobs), (Some(5), Some(50)));
        assert_eq!(quotas.of("ci").job_time, Some(Duration::from_secs(60)), "the rest is as for everybody");
        let files =
            merge("tls_cert = \"a.pem\"\ntls_key = \"/keys/a.pem\"\ndata_dir = \"data\"").expect("valid");
        assert_eq!(files.data_dir, Path::new("/etc/pool/data"), "paths are relative to the file");
        let (certificate, key) = ("/etc/pool/a.pem".into(), "/keys/a.pem".into());
        assert_eq!(files.protection, Protection::Files { certificate, key });
        for (text, key) in [
            ("lost_after_secs = 5", "lost_after_secs"),
            ("listen = \"localhost:7420\"", "listen: `localhost:7420`: valid are an IP address and a port"),
            ("public_url = \"pool\"", "public_url: `pool`: valid is wss://HOST:PORT"),
            ("tls_cert = \"a\"", "tls_key"),
            ("tls_key = \"a\"", "tls_cert"),
            ("colour = \"red\"", "colour"),
            ("[quota]\nrunning_jobs = 0", "quota.running_jobs"),
            ("[quota]\njobs = 1", "jobs"),
            ("connections_per_address = 0", "connections_per_address"),
            ("trust = \"all\"", "trust"),
            ("[teams]\na = [\"ada\"]\nb = [\"ada\"]", "teams.b"),
            ("[quota_of.ada]\nlog_bytes = 1", "quota_of.ada.log_bytes"),
            ("[quota_of.\"a b\"]\njob_secs = 1", "quota_of"),
            ("lease_secs = 0", "lease_secs: 0: valid are 1 to 60"),
            ("advertise = \"a\"", "advertise"),
            (
                "[store]\nurl = \"postgres://a:b@db/x\"\nobjects = \"file:///o\"",
                "store.url: the URL contains a password",
            ),
            ("[store]\nobjects = \"ftp://a\"", "store.objects: `ftp://a`"),
            ("[store]\nurl = \"postgres://a@db/x\"", "set together"),
            ("proxy = true", "only a coordinator with `store.url`"),
        ] {
            let reason = merge(text).expect_err(text);
            assert!(reason.contains(key), "{text}: {reason}");
        }
    }
}
