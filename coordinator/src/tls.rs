//! The coordinator's certificate: from files, or self-signed by its own authority. Tokens contain
//! the authority's fingerprint.

mod authority;

pub use authority::REPLACED_MAX;

use crate::store::{StoreError, make_directory, setup_lock};
use authority::{Authority, pem_of};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Source of the certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsSource {
    /// PEM files that the operator maintains.
    Files {
        /// The certificate chain, leaf first.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// Created on first use and kept in this directory. Clients verify it by the fingerprint of its
    /// authority.
    SelfSigned {
        /// The data directory.
        directory: PathBuf,
        /// Host names and addresses of the certificate, in addition to `localhost`.
        names: Vec<String>,
    },
}

/// Reason why there is no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be used.
    #[error("can't {doing} {}", .path.display())]
    File {
        /// The attempted operation, as in "can't … PATH".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file contains no certificate or key in PEM form.
    #[error("{} has no certificate or no private key in PEM form", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Error of the parser.
        source: rustls_pki_types::pem::Error,
    },
    /// Certificate and key can't be used together.
    #[error(
        "the certificate {} and the key {} can't be used together",
        .certificate.display(),
        .key.display()
    )]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// A certificate can't be created.
    #[error("can't make a certificate; are the host names valid?")]
    Generate(#[source] rcgen::Error),
    /// The data directory can't be used.
    #[error("can't keep a certificate in the data directory")]
    Store(#[from] StoreError),
}

impl TlsError {
    fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

/// A certificate in use, which can be replaced at any time.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    self_signed: bool,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    seen: Mutex<[Stamp; 2]>,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

impl Current {
    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Attributes that change when a file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Tls {
    /// Loads the certificate, or creates it.
    ///
    /// # Errors
    /// [`TlsError`] with the file and the reason.
    pub fn open(source: &TlsSource) -> Result<Self, TlsError> {
        let (certificate, key, self_signed) = match source {
            TlsSource::Files { certificate, key } => (certificate.clone(), key.clone(), false),
            TlsSource::SelfSigned { directory, names } => {
                let [certificate, key] = own_files(directory);
                make_directory(directory)?;
                let _setup = setup_lock(directory)?;
                ensure_own(directory, names)?;
                (certificate, key, true)
            }
        };
        Self::load(certificate, key, self_signed)
    }

    /// Loads the self-signed certificate if it exists. Creates and issues nothing.
    ///
    /// # Errors
    /// As [`Tls::open`].
    pub fn existing(directory: &Path) -> Option<Result<Self, TlsError>> {
        let [certificate, key] = own_files(directory);
        certificate.exists().then(|| Self::load(certificate, key, true))
    }

    fn load(certificate: PathBuf, key: PathBuf, self_signed: bool) -> Result<Self, TlsError> {
        let seen = stamps(&certificate, &key)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(load(&certificate, &key)?))));
        let resolver: Arc<dyn ResolvesServerCert> = current.clone();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("ring has cipher suites for TLS 1.2 and 1.3")
                .with_no_client_auth()
                .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { certificate, key, self_signed, current, config: Arc::new(config), seen: Mutex::new(seen) })
    }

    /// Returns the configuration for the listener. It remains valid when the certificate is
    /// replaced.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Returns the BLAKE3 of the coordinator's own certificate (DER), in hexadecimal.
    pub fn fingerprint(&self) -> String {
        let certified = self.current.certified();
        let leaf = certified.cert.first().expect("`load` refuses an empty chain");
        blake3::hash(leaf).to_hex().to_string()
    }

    /// Returns the fingerprint that a token must contain: that of the authority, if the certificate
    /// is self-signed. For a certificate of a version without authorities, it is the fingerprint of
    /// that certificate.
    pub fn token_fingerprint(&self) -> Option<String> {
        let certified = self.current.certified();
        let pinned = Authority::own_of(&certified.cert).filter(|_| self.self_signed)?;
        Some(blake3::hash(pinned).to_hex().to_string())
    }

    /// Returns those of the names that the certificate does not cover.
    pub fn missing_names(&self, names: &[String]) -> Vec<String> {
        let certified = self.current.certified();
        certified.cert.first().map(|leaf| missing_names(leaf, names)).unwrap_or_default()
    }

    /// Reloads the certificate if its files have changed, and returns true if it did. New
    /// connections use the new certificate.
    ///
    /// # Errors
    /// [`TlsError`]; the current certificate stays in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.certificate, &self.key)?;
        if now == *seen {
            return Ok(false);
        }
        let certified = load(&self.certificate, &self.key)?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
        *seen = now;
        Ok(true)
    }
}

/// File names of a self-signed certificate in the data directory.
pub(crate) const OWN_FILES: [&str; 3] = [authority::FILE, CERTIFICATE, KEY];
const CERTIFICATE: &str = "tls-certificate.pem";
const KEY: &str = "tls-key.pem";

fn own_files(directory: &Path) -> [PathBuf; 2] {
    [CERTIFICATE, KEY].map(|name| directory.join(name))
}

fn stamps(certificate: &Path, key: &Path) -> Result<[Stamp; 2], TlsError> {
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).map_err(TlsError::file("read", path))?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Ok::<_, TlsError>(Stamp { inode: metadata.ino(), length: metadata.len(), changed })
    };
    Ok([stamp(certificate)?, stamp(key)?])
}

fn load(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, source }
    };
    let bytes = std::fs::read(certificate).map_err(TlsError::file("read", certificate))?;
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(pem(certificate))?;
    if chain.is_empty() {
        return Err(pem(certificate)(rustls_pki_types::pem::Error::NoItemsFound));
    }
    let bytes = std::fs::read(key).map_err(TlsError::file("read", key))?;
    let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(pem(key))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider()).map_err(|source| {
        TlsError::Unusable { certificate: certificate.to_owned(), key: key.to_owned(), source }
    })
}

/// Replaces the authority of a data directory and issues a new listener certificate. Returns the
/// new fingerprint.
///
/// A running coordinator uses it within seconds. Tokens with the fingerprint of one of the last
/// [`REPLACED_MAX`] authorities stay valid.
///
/// # Errors
/// [`TlsError`]. The old authority stays in use.
pub fn rotate(directory: &Path, names: &[String]) -> Result<String, TlsError> {
    make_directory(directory)?;
    let _setup = setup_lock(directory)?;
    let [certificate, key] = own_files(directory);
    let old = match Authority::read(directory)? {
        Some(authority) => authority,
        None if certificate.exists() => Authority::of_earlier_version(&certificate, &key)?,
        None => Authority::create(directory)?,
    };
    let next = old.replace(directory)?;
    issue(&next, directory, names)?;
    Ok(blake3::hash(next.certificate()).to_hex().to_string())
}

/// Returns the certificate (PEM) that a client must trust in order to trust this coordinator. It is
/// the authority's, or the coordinator's own if an earlier version created it. Returns `None`
/// before the first certificate is created.
///
/// # Errors
/// [`TlsError`] if a file can't be read.
pub fn trusted_certificate(directory: &Path) -> Result<Option<String>, TlsError> {
    if let Some(authority) = Authority::read(directory)? {
        return Ok(Some(pem_of(authority.certificate())));
    }
    let [certificate, _] = own_files(directory);
    if !certificate.exists() {
        return Ok(None);
    }
    std::fs::read_to_string(&certificate).map(Some).map_err(TlsError::file("read", certificate))
}

/// Creates the authority and the listener's certificate if they are missing, and issues the latter
/// again if the names have changed. A certificate of an earlier version stays until it is rotated,
/// because workers of that version trust no other.
fn ensure_own(directory: &Path, names: &[String]) -> Result<(), TlsError> {
    let [certificate, key] = own_files(directory);
    let authority = match Authority::read(directory)? {
        Some(authority) => authority,
        None if certificate.exists() => return Ok(()),
        None => Authority::create(directory)?,
    };
    // An interrupted issue may leave a key and a certificate that do not match, or a chain of an
    // older authority.
    let is_current = certificate.exists()
        && load(&certificate, &key).is_ok_and(|certified| {
            certified.cert.split_first().is_some_and(|(leaf, chain)| {
                chain == authority.chain() && missing_names(leaf, names).is_empty()
            })
        });
    if is_current { Ok(()) } else { issue(&authority, directory, names) }
}

fn issue(authority: &Authority, directory: &Path, names: &[String]) -> Result<(), TlsError> {
    let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for name in names {
        if !name.is_empty() && !all.contains(name) {
            all.push(name.clone());
        }
    }
    let [certificate, key] = own_files(directory);
    let (new_key, chain) = authority.issue(&all)?;
    write_private(&key, new_key.as_bytes())?;
    write_private(&certificate, chain.as_bytes())
}

fn missing_names(leaf: &CertificateDer<'_>, names: &[String]) -> Vec<String> {
    let Ok(parsed) = ParsedCertificate::try_from(leaf) else { return names.to_vec() };
    let is_missing = |name: &&String| {
        let subject = ServerName::try_from(name.as_str());
        !name.is_empty() && !subject.is_ok_and(|subject| verify_server_name(&parsed, &subject).is_ok())
    };
    names.iter().filter(is_missing).cloned().collect()
}

/// Writes a file with access for this user only. The rename makes the change atomic.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), TlsError> {
    let next = path.with_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&next, path)
    };
    write().map_err(TlsError::file("write", path))
}

#[cfg(test)]
mod tests;
