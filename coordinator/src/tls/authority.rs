//! The authority of a coordinator: a self-signed certificate that signs the listener's certificate.
//!
//! Tokens contain the fingerprint of the authority's certificate. So a new listener certificate
//! with other names does not invalidate tokens. An authority can be replaced too: the old one signs
//! the key of the new one, and the listener sends that signature along.

use super::{TlsError, write_private};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// Name of the authority's file in the data directory. It contains the key and then the
/// certificates, its own first.
pub(super) const FILE: &str = "tls-authority.pem";
/// Number of replaced authorities for which tokens stay valid. Each adds two certificates to every
/// TLS handshake.
pub const REPLACED_MAX: usize = 4;
/// Subject name of certificates from versions without authorities (the default of rcgen).
const NAME_BEFORE_AUTHORITIES: &str = "rcgen self signed cert";

/// A signing key, and the certificates that prove its trust.
#[derive(Debug)]
pub(super) struct Authority {
    key: KeyPair,
    name: String,
    /// The authority's own certificate. Then, for each replaced authority, newest first: its
    /// signature of the next one, and its own certificate.
    certificates: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Reads the authority of a data directory. Returns `None` if the directory has no authority.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, TlsError> {
        let path = file(directory);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(TlsError::file("read", &path))?;
        let certificates = certificates_of(&text, &path)?;
        let key = key_of(&text, &path)?;
        Ok(Some(Self { name: name_of(&key), key, certificates }))
    }

    /// Creates an authority and stores it.
    pub(super) fn create(directory: &Path) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(TlsError::Generate)?;
        let name = name_of(&key);
        let own = parameters(&name)?.self_signed(&key).map_err(TlsError::Generate)?;
        let made = Self { key, name, certificates: vec![own.der().clone()] };
        made.write(directory)?;
        Ok(made)
    }

    /// Converts a self-signed certificate of an earlier version into an authority, so that it can
    /// be replaced.
    pub(super) fn of_earlier_version(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| std::fs::read_to_string(path).map_err(TlsError::file("read", path));
        let certificates = certificates_of(&read(certificate)?, certificate)?;
        let key = key_of(&read(key)?, key)?;
        Ok(Self { key, name: NAME_BEFORE_AUTHORITIES.to_owned(), certificates })
    }

    /// Creates the next authority, signs its key, and stores it in place of this one.
    pub(super) fn replace(&self, directory: &Path) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(TlsError::Generate)?;
        let name = name_of(&key);
        let next = parameters(&name)?;
        let own = next.self_signed(&key).map_err(TlsError::Generate)?;
        let signature = next.signed_by(&key, &self.issuer()?).map_err(TlsError::Generate)?;
        let mut certificates = vec![own.der().clone(), signature.der().clone()];
        certificates.extend(self.certificates.iter().cloned());
        certificates.truncate(1 + 2 * REPLACED_MAX);
        let made = Self { key, name, certificates };
        made.write(directory)?;
        Ok(made)
    }

    /// Returns the authority's own certificate.
    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        self.certificates.first().expect("`certificates_of` refuses an empty list")
    }

    /// Returns the certificates that the listener sends after its own.
    ///
    /// The signatures of replaced authorities come first, then each authority's own certificate,
    /// the current one first. OpenSSL uses the first matching issuer, and fails at a self-signed
    /// one that it does not trust. With this order, it finds the path to a replaced authority that
    /// it trusts.
    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        let signatures = self.certificates.iter().skip(1).step_by(2);
        signatures.chain(self.certificates.iter().step_by(2)).cloned().collect()
    }

    /// Returns the current authority's own certificate from a leaf and its [`Self::chain`]. If
    /// there is no chain, returns the leaf.
    pub(super) fn own_of<'a>(sent: &'a [CertificateDer<'static>]) -> Option<&'a CertificateDer<'static>> {
        // A leaf, N signatures, and N + 1 own certificates.
        sent.get(sent.len() / 2)
    }

    /// Creates a key and a certificate for these host names and addresses. Returns both in PEM
    /// form; the certificate is followed by its chain.
    pub(super) fn issue(&self, names: &[String]) -> Result<(String, String), TlsError> {
        let mut leaf = CertificateParams::new(names.to_vec()).map_err(TlsError::Generate)?;
        leaf.distinguished_name.push(DnType::CommonName, "buildpool coordinator");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(TlsError::Generate)?;
        let leaf = leaf.signed_by(&key, &self.issuer()?).map_err(TlsError::Generate)?;
        let chain: String = std::iter::once(leaf.der()).chain(&self.chain()).map(pem_of).collect();
        Ok((key.serialize_pem(), chain))
    }

    fn issuer(&self) -> Result<Issuer<'static, &KeyPair>, TlsError> {
        Ok(Issuer::new(parameters(&self.name)?, &self.key))
    }

    fn write(&self, directory: &Path) -> Result<(), TlsError> {
        let certificates: String = self.certificates.iter().map(pem_of).collect();
        write_private(&file(directory), (self.key.serialize_pem() + &certificates).as_bytes())
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Derives the subject name from the key. Names must differ, so that a verifier finds the right
/// issuer among several.
fn name_of(key: &KeyPair) -> String {
    let digest = blake3::hash(&key.subject_public_key_info()).to_hex();
    format!("buildpool authority {}", &digest[..16])
}

fn parameters(name: &str) -> Result<CertificateParams, TlsError> {
    let mut parameters = CertificateParams::new(Vec::new()).map_err(TlsError::Generate)?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL's strict mode, which Python uses, requires this extension in each certificate that is
    // not self-signed.
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn certificates_of(text: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |source| TlsError::Pem { path: path.to_owned(), source };
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().map_err(wrong)?;
    if certificates.is_empty() {
        return Err(wrong(rustls_pki_types::pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

fn key_of(text: &str, path: &Path) -> Result<KeyPair, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|source| TlsError::Pem { path: path.to_owned(), source })?;
    KeyPair::try_from(&key).map_err(TlsError::Generate)
}

/// Encodes a certificate in PEM form.
pub(super) fn pem_of(certificate: &CertificateDer<'static>) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate.to_vec()), lines)
}
