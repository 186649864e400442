//! Whom to trust: a certificate whose fingerprint the token carries, or authorities from a file.

use super::endpoint::Endpoint;
use super::error::ClientError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep the authorities that they trust; `SSL_CERT_FILE` goes first, as it does for OpenSSL.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// What TLS needs to know for this endpoint.
///
/// # Errors
/// [`ClientError::Authorities`] when the file of authorities can't be read or has none.
pub(super) fn config(endpoint: &Endpoint) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    let fingerprint = endpoint.token.as_ref().and_then(super::endpoint::AccessToken::fingerprint);
    let config = match (&endpoint.ca_file, fingerprint) {
        (None, Some(fingerprint)) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, provider }))
            .with_no_client_auth(),
        (Some(path), _) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
        (None, None) => {
            builder.with_root_certificates(authorities(&system_authorities())?).with_no_client_auth()
        }
    };
    Ok(config)
}

fn system_authorities() -> PathBuf {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named
        .or_else(|| SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists()))
        .unwrap_or_else(|| PathBuf::from(SYSTEM_AUTHORITIES[0]))
}

fn authorities(path: &Path) -> Result<RootCertStore, ClientError> {
    let fail =
        |source: io::Error| ClientError::Authorities { path: path.to_owned(), source: Arc::new(source) };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| match error {
        rustls_pki_types::pem::Error::Io(error) => fail(error),
        other => fail(io::Error::new(io::ErrorKind::InvalidData, other)),
    })?;
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(fail(io::Error::new(
            io::ErrorKind::InvalidData,
            "it has no certificate of an authority",
        )));
    }
    Ok(store)
}

/// Accepts exactly one certificate, whatever name and dates it has: who has its key is the coordinator.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if blake3::hash(end_entity) == blake3::Hash::from_bytes(self.fingerprint) {
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
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
