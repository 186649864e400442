//! Decides if a client trusts the certificate of a coordinator. A certificate is trusted by its
//! fingerprint, which comes with the token, or by the signature of an authority. Loopback
//! connections need no certificate. Clients and workers both use this crate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files with the system's trusted authorities. `SSL_CERT_FILE` has priority, as in OpenSSL.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Returns true if traffic to this host (a name, or an address without brackets) stays on this
/// machine. Only the names reserved for loopback (RFC 6761) count. Other names may resolve to
/// another address later.
pub fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => {
            address == Ipv6Addr::LOCALHOST || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

/// The method to verify a coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// BLAKE3 hash of its certificate, or of an issuer certificate that it sends along.
    Fingerprint([u8; 32]),
    /// A PEM file with authorities. One of them must have signed the certificate.
    Authorities(PathBuf),
}

impl Trust {
    /// Returns the trusted authorities of this system.
    pub fn of_system() -> Self {
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let found = || SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
        Self::Authorities(named.or_else(found).unwrap_or_else(|| PathBuf::from(SYSTEM_AUTHORITIES[0])))
    }

    /// Parses a fingerprint of 64 hexadecimal digits. Returns `None` for any other text.
    pub fn fingerprint(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self::Fingerprint(*hash.as_bytes()))
    }
}

/// Reason for a failed TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distrust {
    /// The peer does not use TLS.
    NoTls,
    /// The certificate does not match the known fingerprint.
    AnotherCertificate,
    /// No trusted authority signed the certificate, or its name or dates do not match.
    Unvouched,
}

impl Distrust {
    /// Returns the reason for an error of a TLS handshake.
    pub fn from_error(error: &io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(rustls::Error::InvalidMessage(_)) => Self::NoTls,
            Some(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => {
                Self::AnotherCertificate
            }
            _ => Self::Unvouched,
        }
    }
}

/// Error: a file of authorities is not usable.
#[derive(Debug, thiserror::Error)]
#[error("{}: no certificates to trust", .path.display())]
pub struct AuthoritiesError {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// Returns the TLS settings for a connection with this trust.
///
/// # Errors
/// Fails if the file of authorities cannot be read or contains no certificate.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, AuthoritiesError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    Ok(match trust {
        Trust::Fingerprint(fingerprint) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pin {
                fingerprint: blake3::Hash::from_bytes(*fingerprint),
                provider,
            }))
            .with_no_client_auth(),
        Trust::Authorities(path) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
    })
}

/// Reads the authorities of a file. Other content is ignored, as in OpenSSL.
fn authorities(path: &Path) -> Result<RootCertStore, AuthoritiesError> {
    let wrong = |source: io::Error| AuthoritiesError { path: path.to_owned(), source };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| match error {
        pem::Error::Io(error) => wrong(error),
        other => wrong(io::Error::new(io::ErrorKind::InvalidData, other)),
    })?;
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(wrong(io::Error::new(
            io::ErrorKind::InvalidData,
            "it has no certificate of an authority",
        )));
    }
    Ok(store)
}

/// Verifier that accepts the pinned certificate with any issuer, name and dates, and certificates
/// that its key has signed. The peer sends the pinned certificate after its own, so a new
/// certificate needs no new fingerprint. Names are not compared. The handshake signatures, which
/// prove that the peer has its key, are always checked.
#[derive(Debug)]
struct Pin {
    fingerprint: blake3::Hash,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // `blake3::Hash` compares in constant time.
        let is_pinned = |certificate: &CertificateDer<'_>| blake3::hash(certificate) == self.fingerprint;
        if is_pinned(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let another = rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let Some(pinned) = intermediates.iter().find(|certificate| is_pinned(certificate)) else {
            return Err(another);
        };
        let mut anchor = RootCertStore::empty();
        let algorithms = self.provider.signature_verification_algorithms.all;
        let verified = anchor.add(pinned.clone().into_owned()).and_then(|()| {
            let leaf = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(&leaf, &anchor, intermediates, now, algorithms)
        });
        verified.map(|()| ServerCertVerified::assertion()).map_err(|_| another)
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

#[cfg(test)]
mod tests {
    use super::{Pin, Trust, authorities, is_loopback};
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
    use std::sync::Arc;

    #[test]
    fn only_the_pinned_certificate_is_believed() {
        let certificate = CertificateDer::from(b"a certificate".to_vec());
        let verdict = |fingerprint| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let name = ServerName::try_from("anything").expect("a name");
            Pin { fingerprint, provider }
                .verify_server_cert(&certificate, &[], &name, &[], UnixTime::now())
                .is_ok()
        };
        assert!(verdict(blake3::hash(&certificate)));
        assert!(!verdict(blake3::hash(b"another")));
    }

    #[test]
    fn what_stays_on_this_machine_is_told_by_the_host_alone() {
        for host in
            ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost.", "a.localhost"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "192.0.2.2",
            "0.0.0.0",
            "::",
            "fe80::1",
            "::ffff:192.0.2.2",
            "pool",
            "localhost.example",
            "notlocalhost",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_fingerprint_is_64_hexadecimal_digits_and_a_file_without_authorities_is_named() {
        assert_eq!(Trust::fingerprint(&"0a".repeat(32)), Some(Trust::Fingerprint([10; 32])));
        for wrong in ["", "0a", &"0g".repeat(32), &"0a".repeat(33)] {
            assert_eq!(Trust::fingerprint(wrong), None, "{wrong}");
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = authorities(file.path()).expect_err("it has none");
        assert!(error.to_string().contains(file.path().to_str().expect("a text")));
        assert!(error.source.to_string().contains("no certificate"));
        assert!(authorities(std::path::Path::new("/nonexistent")).is_err());
    }
}
