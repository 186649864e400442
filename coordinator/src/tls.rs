//! The coordinator's certificate: from files, or one of its own making whose fingerprint travels in join tokens.

use crate::store::{StoreError, make_directory, setup_lock};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
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
    /// Made on first use and kept in this directory. Clients know it by its fingerprint.
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
                if !certificate.exists() {
                    generate(&certificate, &key, names)?;
                }
                (certificate, key, true)
            }
        };
        Self::load(certificate, key, self_signed)
    }

    /// The certificate of our own making, if there is one.
    pub(crate) fn existing(directory: &Path) -> Option<Result<Self, TlsError>> {
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

    /// The fingerprint that a token must carry: only a certificate of our own making needs it.
    pub fn token_fingerprint(&self) -> Option<String> {
        self.self_signed.then(|| self.fingerprint())
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

fn own_files(directory: &Path) -> [PathBuf; 2] {
    ["tls-certificate.pem", "tls-key.pem"].map(|name| directory.join(name))
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

fn generate(certificate: &Path, key: &Path, names: &[String]) -> Result<(), TlsError> {
    let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    all.extend(names.iter().filter(|name| !name.is_empty()).cloned());
    all.dedup();
    let made = rcgen::generate_simple_self_signed(all).map_err(TlsError::Generate)?;
    // The key first: as long as the certificate is not there, both are made anew.
    write_private(key, made.signing_key.serialize_pem().as_bytes())?;
    write_private(certificate, made.cert.pem().as_bytes())
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
mod tests {
    use super::{Tls, TlsError, TlsSource};
    use std::os::unix::fs::PermissionsExt;

    fn own(directory: &std::path::Path) -> TlsSource {
        TlsSource::SelfSigned { directory: directory.to_owned(), names: vec!["pool.example".into()] }
    }

    #[test]
    fn a_certificate_is_made_once_and_kept_for_this_user_only() {
        let directory = tempfile::tempdir().unwrap();
        let first = Tls::open(&own(directory.path())).unwrap();
        let second = Tls::open(&own(directory.path())).unwrap();
        assert_eq!(first.fingerprint(), second.fingerprint());
        assert_eq!(first.token_fingerprint(), Some(first.fingerprint()));
        for name in ["tls-certificate.pem", "tls-key.pem"] {
            let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_certificate_is_exchanged_while_it_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, theirs) = (directory.path().join("a"), directory.path().join("b"));
        let first = Tls::open(&own(&ours)).unwrap();
        let other = Tls::open(&own(&theirs)).unwrap();
        let (certificate, key) = (ours.join("tls-certificate.pem"), ours.join("tls-key.pem"));
        let tls =
            Tls::open(&TlsSource::Files { certificate: certificate.clone(), key: key.clone() }).unwrap();
        assert_eq!(tls.token_fingerprint(), None);
        assert!(!tls.reload().unwrap());

        // Half of a change: the old pair stays in use.
        std::fs::rename(theirs.join("tls-certificate.pem"), &certificate).unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Unusable { .. })));
        assert_eq!(tls.fingerprint(), first.fingerprint());
        std::fs::rename(theirs.join("tls-key.pem"), &key).unwrap();
        assert!(tls.reload().unwrap());
        assert_eq!(tls.fingerprint(), other.fingerprint());
    }

    #[test]
    fn a_file_that_is_missing_or_no_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        drop(Tls::open(&own(directory.path())).unwrap());
        let (certificate, key) =
            (directory.path().join("tls-certificate.pem"), directory.path().join("tls-key.pem"));
        let missing = directory.path().join("none.pem");
        let error =
            Tls::open(&TlsSource::Files { certificate: missing.clone(), key: key.clone() }).unwrap_err();
        assert_eq!(error.to_string(), format!("can't read {}", missing.display()));
        let error = Tls::open(&TlsSource::Files { certificate: key, key: certificate.clone() }).unwrap_err();
        assert!(error.to_string().contains("no certificate or no private key"), "{error}");
        let error =
            Tls::open(&TlsSource::Files { certificate: certificate.clone(), key: certificate }).unwrap_err();
        assert!(matches!(error, TlsError::Pem { .. }), "{error}");
    }
}
