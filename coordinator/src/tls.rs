//! The coordinator's certificate: from files, or one of its own making, signed by its own authority, whose fingerprint tokens
//! carry.

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
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Where a certificate comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsSource {
    /// From PEM files that somebody else keeps.
    Files {
        /// The chain, the coordinator's own certificate first.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Made on first use and kept in this directory. Clients know it by the fingerprint of its authority.
    SelfSigned {
        /// The data directory.
        directory: PathBuf,
        /// Host names and addresses to write into it, beside `localhost`.
        names: Vec<String>,
    },
}

/// Why there is no usable certificate.
#[derive(Debug)]
pub enum TlsError {
    /// A file can't be used.
    File {
        /// What was tried, as in "can't … PATH".
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file has no certificate or key in PEM form.
    Pem {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// Certificate and key can't be used together.
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// A certificate can't be made.
    Generate(rcgen::Error),
    /// The data directory can't be used.
    Store(StoreError),
}

impl TlsError {
    fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { doing, path, .. } => write!(f, "can't {doing} {}", path.display()),
            Self::Pem { path, .. } => {
                write!(f, "{} has no certificate or no private key in PEM form", path.display())
            }
            Self::Unusable { certificate, key, .. } => write!(
                f,
                "the certificate {} and the key {} can't be used together",
                certificate.display(),
                key.display()
            ),
            Self::Generate(_) => f.write_str("can't make a certificate; are the host names valid?"),
            Self::Store(_) => f.write_str("can't keep a certificate in the data directory"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Pem { source, .. } => Some(source),
            Self::Unusable { source, .. } => Some(source),
            Self::Generate(source) => Some(source),
            Self::Store(source) => Some(source),
        }
    }
}

impl From<StoreError> for TlsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A certificate that is in use, and can be exchanged while it is.
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

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Tls {
    /// Loads the certificate, or makes it.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
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

    /// The certificate of our own making, if there is one. Makes and issues nothing.
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

    /// For the listener. It stays the same when the certificate is exchanged.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// BLAKE3 over the coordinator's own certificate (DER), in hexadecimal.
    pub fn fingerprint(&self) -> String {
        let certified = self.current.certified();
        let leaf = certified.cert.first().expect("`load` refuses an empty chain");
        blake3::hash(leaf).to_hex().to_string()
    }

    /// The fingerprint that a token must carry: the authority's, for a certificate of our own making. Certificates that versions
    /// without an authority made stand for themselves.
    pub fn token_fingerprint(&self) -> Option<String> {
        let certified = self.current.certified();
        let pinned = Authority::own_of(&certified.cert).filter(|_| self.self_signed)?;
        Some(blake3::hash(pinned).to_hex().to_string())
    }

    /// The host names and addresses among these that the certificate is not for.
    pub fn missing_names(&self, names: &[String]) -> Vec<String> {
        let certified = self.current.certified();
        certified.cert.first().map(|leaf| missing_names(leaf, names)).unwrap_or_default()
    }

    /// Takes the certificate anew if its files have changed; true when it did. New connections get the new one.
    ///
    /// # Errors
    /// [`TlsError`]; the certificate that was in use stays.
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

/// Names of the files in the data directory that hold a certificate of the coordinator's own making.
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

/// Replaces the authority of a data directory and issues the listener's certificate again. A coordinator that runs takes it into
/// use within seconds. Tokens that carry the fingerprint of one of the last [`REPLACED_MAX`] authorities stay valid.
/// Returns the new fingerprint.
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

/// The certificate (PEM) that others trust to trust this coordinator: its authority's, or its own where an earlier version made it.
/// None before the first one is made.
///
/// # Errors
/// [`TlsError`] when a file can't be read.
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

/// Makes the authority and the listener's certificate where they are missing, and issues the latter again for other names. A
/// certificate that an earlier version made stays until it is rotated: workers of that version trust it only.
fn ensure_own(directory: &Path, names: &[String]) -> Result<(), TlsError> {
    let [certificate, key] = own_files(directory);
    let authority = match Authority::read(directory)? {
        Some(authority) => authority,
        None if certificate.exists() => return Ok(()),
        None => Authority::create(directory)?,
    };
    // An issue that was interrupted left a key and a certificate that do not belong together, or an older authority's.
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

/// Writes a file for this user only; it is there as a whole or not at all.
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
