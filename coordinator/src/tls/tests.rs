use super::{REPLACED_MAX, Tls, TlsError, TlsSource, rotate, trusted_certificate};
use buildpool_trust::{Trust, client_config};
use rustls::{ClientConnection, ServerConnection};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

fn own(directory: &std::path::Path) -> TlsSource {
    TlsSource::SelfSigned { directory: directory.to_owned(), names: vec!["pool.example".into()] }
}

#[test]
fn a_certificate_is_made_once_and_kept_for_this_user_only() {
    let directory = tempfile::tempdir().unwrap();
    let first = Tls::open(&own(directory.path())).unwrap();
    let second = Tls::open(&own(directory.path())).unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.token_fingerprint(), second.token_fingerprint());
    assert_ne!(first.token_fingerprint(), Some(first.fingerprint()), "tokens pin the authority");
    for name in ["tls-authority.pem", "tls-certificate.pem", "tls-key.pem"] {
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
    let tls = Tls::open(&TlsSource::Files { certificate: certificate.clone(), key: key.clone() }).unwrap();
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
    let error = Tls::open(&TlsSource::Files { certificate: missing.clone(), key: key.clone() }).unwrap_err();
    assert_eq!(error.to_string(), format!("can't read {}", missing.display()));
    let error = Tls::open(&TlsSource::Files { certificate: key, key: certificate.clone() }).unwrap_err();
    assert!(error.to_string().contains("no certificate or no private key"), "{error}");
    let error =
        Tls::open(&TlsSource::Files { certificate: certificate.clone(), key: certificate }).unwrap_err();
    assert!(matches!(error, TlsError::Pem { .. }), "{error}");
}

/// Returns true if a client that pins this fingerprint can connect.
fn is_trusted(tls: &Tls, fingerprint: &str) -> bool {
    let trust = Trust::fingerprint(fingerprint).unwrap();
    let config = Arc::new(client_config(&trust).unwrap());
    let mut client = ClientConnection::new(config, "pool.example".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(tls.server_config()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        client.write_tls(&mut request).unwrap();
        server.read_tls(&mut request.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        let mut answer = answer.as_slice();
        while !answer.is_empty() {
            client.read_tls(&mut answer).unwrap();
            if client.process_new_packets().is_err() {
                return false;
            }
        }
    }
    true
}

fn leaf_and_chain(directory: &Path) -> Vec<CertificateDer<'static>> {
    let text = std::fs::read(directory.join("tls-certificate.pem")).unwrap();
    CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().unwrap()
}

#[test]
fn other_names_give_another_certificate_of_the_same_authority() {
    let directory = tempfile::tempdir().unwrap();
    let open = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Tls::open(&TlsSource::SelfSigned { directory: directory.path().to_owned(), names }).unwrap()
    };
    let first = open(&[]);
    let named = open(&["pool.example.com", "192.0.2.1", "2001:db8::1"]);
    assert_ne!(first.fingerprint(), named.fingerprint());
    assert_eq!(first.token_fingerprint(), named.token_fingerprint(), "tokens stay valid");
    let asked = ["pool.example.com", "192.0.2.1", "localhost", "other.example.com"].map(str::to_owned);
    assert_eq!(named.missing_names(&asked), ["other.example.com"]);
    assert_eq!(open(&["192.0.2.1"]).fingerprint(), named.fingerprint(), "nothing is missing");
    assert!(first.reload().unwrap(), "a coordinator that runs takes it");
    assert_eq!(first.fingerprint(), named.fingerprint());
}

#[test]
fn an_issue_that_was_interrupted_is_made_good() {
    let directory = tempfile::tempdir().unwrap();
    let first = Tls::open(&own(directory.path())).unwrap();
    let other = tempfile::tempdir().unwrap();
    drop(Tls::open(&own(other.path())).unwrap());
    for name in ["tls-key.pem", "tls-certificate.pem"] {
        std::fs::copy(other.path().join(name), directory.path().join(name)).unwrap();
        let again = Tls::open(&own(directory.path())).unwrap();
        assert_eq!(again.token_fingerprint(), first.token_fingerprint(), "{name}");
    }
}

#[test]
fn a_rotation_keeps_the_authorities_that_tokens_pin_and_forgets_the_oldest() {
    let directory = tempfile::tempdir().unwrap();
    let mut pinned = vec![Tls::open(&own(directory.path())).unwrap().token_fingerprint().unwrap()];
    for _ in 0..=REPLACED_MAX {
        pinned.push(rotate(directory.path(), &["pool.example".to_owned()]).unwrap());
        let tls = Tls::open(&own(directory.path())).unwrap();
        assert_eq!(tls.token_fingerprint().as_ref(), pinned.last());
        assert!(tls.missing_names(&["pool.example".to_owned()]).is_empty());
    }
    let sent: Vec<_> =
        leaf_and_chain(directory.path()).iter().map(|der| blake3::hash(der).to_hex().to_string()).collect();
    assert!(!sent.contains(&pinned[0]), "the limit is {REPLACED_MAX}");
    assert!(pinned[1..].iter().all(|pin| sent.contains(pin)), "{sent:?}");
    let tls = Tls::open(&own(directory.path())).unwrap();
    assert!(pinned[1..].iter().all(|pin| is_trusted(&tls, pin)), "tokens stay valid");
    assert!(!is_trusted(&tls, &pinned[0]));
}

/// The certificate has no authority. Workers that pin it must trust its successor.
#[test]
fn a_certificate_of_an_earlier_version_stays_until_it_is_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(directory.path().join("tls-certificate.pem"), &certificate).unwrap();
    std::fs::write(directory.path().join("tls-key.pem"), key).unwrap();
    let old = Tls::open(&own(directory.path())).unwrap();
    assert_eq!(old.token_fingerprint(), Some(old.fingerprint()));
    assert_eq!(old.missing_names(&["pool.example".to_owned()]), ["pool.example"]);
    assert_eq!(trusted_certificate(directory.path()).unwrap(), Some(certificate));
    rotate(directory.path(), &[]).unwrap();
    let chain = leaf_and_chain(directory.path());
    assert_eq!(chain.last(), Some(made.cert.der()));
    let tls = Tls::open(&own(directory.path())).unwrap();
    for pin in [old.token_fingerprint(), tls.token_fingerprint()] {
        assert!(is_trusted(&tls, &pin.unwrap()));
    }
}

/// Certificates are public, so an impostor can send the authority's certificates after its own.
#[test]
fn an_impostor_that_sends_the_authority_s_certificates_is_not_trusted() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pin = Tls::open(&own(ours.path())).unwrap().token_fingerprint().unwrap();
    rotate(ours.path(), &[]).unwrap();
    drop(Tls::open(&own(theirs.path())).unwrap());
    let certificate = theirs.path().join("tls-certificate.pem");
    let mut chain = leaf_and_chain(theirs.path());
    chain.extend(leaf_and_chain(ours.path()).into_iter().skip(1));
    std::fs::write(&certificate, chain.iter().map(super::pem_of).collect::<String>()).unwrap();
    let key = theirs.path().join("tls-key.pem");
    let impostor = Tls::open(&TlsSource::Files { certificate, key }).unwrap();
    let authority = Tls::open(&own(ours.path())).unwrap();
    for pin in [pin, authority.token_fingerprint().unwrap()] {
        assert!(is_trusted(&authority, &pin) && !is_trusted(&impostor, &pin));
    }
}

/// curl, Python and others build the path with OpenSSL.
#[test]
fn openssl_trusts_the_certificate_by_each_authority_that_a_token_may_pin() {
    let directory = tempfile::tempdir().unwrap();
    let served = directory.path().join("tls-certificate.pem");
    let mut authorities = Vec::new();
    for rotation in 0..=REPLACED_MAX {
        if rotation > 0 {
            rotate(directory.path(), &["pool.example".to_owned()]).unwrap();
        }
        drop(Tls::open(&own(directory.path())).unwrap());
        let file = directory.path().join(format!("{rotation}.pem"));
        std::fs::write(&file, trusted_certificate(directory.path()).unwrap().unwrap()).unwrap();
        authorities.push(file);
    }
    for file in authorities {
        let mut verify = std::process::Command::new("openssl");
        verify.args(["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "pool.example"]);
        let verified = verify.arg("-CAfile").arg(&file).arg("-untrusted").arg(&served).arg(&served).output();
        let Ok(verified) = verified else {
            eprintln!("SKIPPED: openssl is not on this machine");
            return;
        };
        let text = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success(), "{}: {text}", file.display());
    }
}
