//! Which certificate is believed: the one whose fingerprint came with the token, or one that a named authority signed.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the coordinator proves that it is the one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Its certificate has this BLAKE3, in hexadecimal.
    Fingerprint(String),
    /// Its certificate is signed by one of those in this file.
    Authority(PathBuf),
}

/// Why no TLS can be set up.
#[derive(Debug)]
pub enum TlsError {
    /// Neither a fingerprint nor a file of authorities is known.
    NobodyTrusted,
    /// A fingerprint that is not 64 hexadecimal digits.
    Fingerprint(String),
    /// The file of authorities can't be read.
    Authority {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The library refuses the settings.
    Settings(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NobodyTrusted => f.write_str(
                "a wss:// coordinator needs a token that carries its fingerprint, or `ca_file`, or `fingerprint`",
            ),
            Self::Fingerprint(text) => {
                write!(f, "`{text}` is no fingerprint; valid are 64 hexadecimal digits")
            }
            Self::Authority { path, reason } => {
                write!(f, "{}: no certificates to trust: {reason}", path.display())
            }
            Self::Settings(_) => f.write_str("TLS cannot be set up"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Settings(source) => Some(source),
            Self::NobodyTrusted | Self::Fingerprint(_) | Self::Authority { .. } => None,
        }
    }
}

/// The settings for a connection that trusts as told.
///
/// # Errors
/// See [`TlsError`].
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Settings)?;
    let config = match trust {
        Trust::Fingerprint(text) => {
            let fingerprint =
                blake3::Hash::from_hex(text).map_err(|_| TlsError::Fingerprint(text.clone()))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pin { fingerprint, provider }))
                .with_no_client_auth()
        }
        Trust::Authority(path) => builder.with_root_certificates(roots(path)?).with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |reason: String| TlsError::Authority { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("the file has none".to_owned()));
    }
    Ok(roots)
}

/// Believes one certificate, whoever signed it and whatever name it has. The signatures of the handshake, which prove
/// that the peer has its key, are checked as always.
#[derive(Debug)]
struct Pin {
    fingerprint: blake3::Hash,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The comparison is in constant time (blake3::Hash).
        if blake3::hash(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
