//! Checks whether a coordinator is reachable, whether it is the right one, and whether the clocks
//! agree.

use super::{Check, State};
use buildpool_client::PoolUrl;
use buildpool_protocol::shown::counted;
use buildpool_trust::{Trust, client_config};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{CertificateError, Error as TlsError};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum time for one request.
const WITHIN: Duration = Duration::from_secs(15);
/// Maximum size of the response, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 10;
/// Maximum difference between the clocks. With more, times in results and logs are hard to compare,
/// and tokens and certificates may fail.
const SKEW_MAX: SignedDuration = SignedDuration::from_secs(10);
/// Remaining validity below which a certificate should be renewed.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Result of a request, with its times.
struct Look {
    /// The coordinator's own certificate, DER.
    certificate: Option<Vec<u8>>,
    answer: String,
    sent: Timestamp,
    received: Timestamp,
    took: Duration,
}

/// Sends one request and returns the checks. The second value is true if the coordinator can be
/// used.
pub(super) async fn checks(url: &PoolUrl, trust: &Trust) -> (Vec<Check>, bool) {
    let late = || Err(io::ErrorKind::TimedOut.into());
    let look =
        match tokio::time::timeout(WITHIN, look(url, trust, "/healthz")).await.unwrap_or_else(|_| late()) {
            Ok(look) => look,
            Err(error) => return (vec![unreachable(url, &error)], false),
        };
    let is_ours = look.answer.starts_with("HTTP/1.1 200") && look.answer.ends_with("\r\n\r\nok\n");
    if !url.is_secure() && !look.answer.starts_with("HTTP/") {
        let text = format!("the server at {url} does not accept plain HTTP");
        let remedy = "for a coordinator with TLS use wss://";
        return (vec![Check::new("reach", State::Failed, text).mended_by(remedy)], false);
    }
    if !is_ours {
        let text = format!("{url} answers, and not as a coordinator does");
        let remedy = "correct the address; behind a proxy its path belongs to it, as in wss://HOST/PATH";
        return (vec![Check::new("reach", State::Failed, text).mended_by(remedy)], false);
    }
    let millis = look.took.as_secs_f64() * 1e3;
    let mut checks = vec![Check::new("reach", State::Ok, format!("{url} answers in {millis:.0} ms"))];
    checks.extend(look.certificate.as_ref().map(|der| match trust {
        Trust::Fingerprint(_) => {
            Check::new("certificate", State::Ok, "known by its fingerprint, so its dates do not count")
        }
        Trust::Authorities(_) => certificate(der, look.received),
    }));
    checks.extend(date(&look.answer).map(|theirs| clock(theirs, look.sent, look.received)));
    checks.extend(refusal(url, trust).await);
    (checks, true)
}

/// Returns a failed check if the coordinator accepts no jobs now, with its reason.
pub(super) async fn refusal(url: &PoolUrl, trust: &Trust) -> Option<Check> {
    let look = tokio::time::timeout(WITHIN, look(url, trust, "/readyz")).await.ok()?.ok()?;
    let (head, reason) = look.answer.split_once("\r\n\r\n")?;
    let refuses = head.starts_with("HTTP/1.1 503");
    let check = || {
        Check::new("jobs", State::Failed, reason.trim()).mended_by(
            "free room on the disk of the coordinator's `data_dir`, or lower `retention_bytes` and `artifact_bytes`",
        )
    };
    refuses.then(check)
}

async fn look(url: &PoolUrl, trust: &Trust, path: &str) -> io::Result<Look> {
    let began = Instant::now();
    let unknown = |error: io::Error| io::Error::new(io::ErrorKind::NotFound, error);
    let addresses: Vec<_> = lookup_host((url.host(), url.port())).await.map_err(unknown)?.collect();
    let tcp = TcpStream::connect(addresses.as_slice()).await?;
    if !url.is_secure() {
        return ask(url, path, tcp, None, began).await;
    }
    let settings = client_config(trust).map_err(|error| io::Error::new(error.source.kind(), error))?;
    let name =
        ServerName::try_from(url.host().to_owned()).map_err(|error| unknown(io::Error::other(error)))?;
    let tls = TlsConnector::from(Arc::new(settings)).connect(name, tcp).await?;
    let chain = tls.get_ref().1.peer_certificates();
    let own = chain.and_then(<[_]>::first).map(|der| der.as_ref().to_vec());
    ask(url, path, tls, own, began).await
}

async fn ask(
    url: &PoolUrl,
    path: &str,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    certificate: Option<Vec<u8>>,
    began: Instant,
) -> io::Result<Look> {
    let (path, host) = (url.path(path), url.host());
    let sent = Timestamp::now();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    // A server may close the connection without a TLS `close_notify`; the answer is still valid.
    read.map(|_| ()).or_else(|error| if answer.is_empty() { Err(error) } else { Ok(()) })?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(Look { certificate, answer, sent, received: Timestamp::now(), took: began.elapsed() })
}

/// Explains the error and returns a remedy.
fn unreachable(url: &PoolUrl, error: &io::Error) -> Check {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let (text, remedy) = match (tls, error.kind()) {
        (Some(error), _) => of_tls(error),
        (None, io::ErrorKind::NotFound) => (
            format!("the name {} can't be looked up: {error}", url.host()),
            "correct the name, or this machine's DNS".to_owned(),
        ),
        (None, io::ErrorKind::ConnectionRefused) => (
            "the machine is there, and nothing listens on this port".to_owned(),
            "start the coordinator; its `listen` must be an address that others reach, such as 0.0.0.0:7420"
                .to_owned(),
        ),
        (
            None,
            io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable,
        ) => (
            format!("nothing answers: {error}"),
            format!(
                "see that the machine is on, and that firewalls on the way let TCP port {} through",
                url.port()
            ),
        ),
        (None, _) => (error.to_string(), "see the coordinator's log".to_owned()),
    };
    Check::new("reach", State::Failed, format!("{url} can't be reached: {text}")).mended_by(remedy)
}

/// Name of rustls' error for a CA certificate in place of a server certificate, as
/// `openssl req -x509` creates it.
const CA_AS_END: &str = "CaUsedAsEndEntity";

fn of_tls(error: &TlsError) -> (String, String) {
    use CertificateError as C;
    let (text, remedy) = match error {
        TlsError::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => (
            "its certificate has expired",
            "renew it in its files: the coordinator takes them without a restart",
        ),
        TlsError::InvalidCertificate(C::NotValidYet | C::NotValidYetContext { .. }) => (
            "its certificate is not valid yet by this machine's clock",
            "set the clock: `timedatectl set-ntp true`",
        ),
        TlsError::InvalidCertificate(C::UnknownIssuer) => (
            "its certificate is not signed by an authority that this machine trusts",
            "use a token that was made on this coordinator, which carries the fingerprint, or name the authority by `ca_file`",
        ),
        TlsError::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            ("its certificate is for another name", "dial it by a name that the certificate has")
        }
        TlsError::InvalidCertificate(C::ApplicationVerificationFailure) => (
            "its certificate is not the one that the token vouches for",
            "if the coordinator was set up again, make new tokens on it; else something else answers at this address",
        ),
        TlsError::InvalidCertificate(C::Other(other)) if other.to_string().contains(CA_AS_END) => (
            "its certificate is marked as an authority's, but the server uses it as its own",
            "make it with `-addext basicConstraints=critical,CA:FALSE`, or pin it: `token create --config` on the coordinator's machine prints its fingerprint",
        ),
        TlsError::InvalidMessage(_) => {
            ("the server does not use TLS", "for a coordinator without TLS use ws://")
        }
        _ => return (format!("TLS can't be agreed: {error}"), "see the coordinator's log".to_owned()),
    };
    (text.to_owned(), remedy.to_owned())
}

/// Checks the remaining validity of a certificate.
pub(super) fn certificate(der: &[u8], now: Timestamp) -> Check {
    let Ok((_, parsed)) = X509Certificate::from_der(der) else {
        return Check::new("certificate", State::Warning, "its dates can't be read");
    };
    let ends = Timestamp::from_second(parsed.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
    let left = ends.duration_since(now);
    let remedy = "renew it in its files: the coordinator takes them without a restart";
    let days = left.as_hours() / 24;
    if left.is_negative() {
        return Check::new("certificate", State::Failed, format!("it has expired on {ends}"))
            .mended_by(remedy);
    }
    let text = format!("good for {}, until {ends}", counted(days.unsigned_abs(), "day"));
    if left < EXPIRES_SOON {
        return Check::new("certificate", State::Warning, text).mended_by(remedy);
    }
    Check::new("certificate", State::Ok, text)
}

/// Returns the `Date` header (RFC 9110, section 5.6.7).
fn date(answer: &str) -> Option<Timestamp> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case("date"))?;
    DateTimeParser::new().parse_timestamp(value.trim()).ok()
}

/// Compares two clocks by a response. Its time has whole seconds, and lies between sending and
/// receiving.
fn clock(theirs: Timestamp, sent: Timestamp, received: Timestamp) -> Check {
    let ahead = theirs.duration_since(received);
    let behind = sent.duration_since(theirs) - SignedDuration::from_secs(1);
    let (by, word) = if ahead > behind { (ahead, "behind") } else { (behind, "ahead of") };
    if by <= SKEW_MAX {
        return Check::new("clock", State::Ok, "this clock and the coordinator's agree");
    }
    let text = format!(
        "this clock is {} s {word} the coordinator's, so times in results and in the audit log can't be compared, and tokens and certificates end early or late",
        by.as_secs()
    );
    Check::new("clock", State::Warning, text).mended_by(
        "let both machines set their clocks by the network: `timedatectl set-ntp true`, on a Mac `sudo systemsetup -setusingnetworktime on`",
    )
}

#[cfg(test)]
mod tests {
    use super::{State, certificate, clock, date, of_tls, unreachable};
    use jiff::{SignedDuration, Timestamp};
    use std::io;
    use std::sync::Arc;
    use tokio_rustls::rustls::{CertificateError, Error as TlsError};

    #[test]
    fn clocks_are_compared_within_what_an_answer_can_tell() {
        let now: Timestamp = "2026-01-02T03:04:05.900Z".parse().unwrap();
        let theirs = date("HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\nok\n").unwrap();
        let later = now + SignedDuration::from_millis(300);
        assert_eq!(clock(theirs, now, later).state, State::Ok);
        for (shift, word) in [(60, "behind"), (-60, "ahead of")] {
            let off = clock(theirs + SignedDuration::from_secs(shift), now, later);
            assert_eq!(off.state, State::Warning, "{}", off.text);
            assert!(off.text.contains(word), "{}", off.text);
            assert!(["58 s", "59 s", "60 s"].iter().any(|by| off.text.contains(by)), "{}", off.text);
        }
        let slow = now + SignedDuration::from_secs(120);
        assert_eq!(
            clock(theirs + SignedDuration::from_secs(60), now, slow).state,
            State::Ok,
            "nothing is proven"
        );
        assert_eq!(date("HTTP/1.1 200 OK\r\nDate: yesterday\r\n\r\n"), None);
    }

    #[test]
    fn a_certificate_that_ends_is_seen_before_it_has_ended() {
        let mut parameters = rcgen::CertificateParams::new(vec!["pool.example".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2026, 3, 1);
        let made = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let at = |text: &str| certificate(made.der(), text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:00:00Z").state, State::Ok);
        assert_eq!(at("2026-01-01T00:00:00Z").text, "good for 59 days, until 2026-03-01T00:00:00Z");
        assert_eq!(at("2026-02-20T00:00:00Z").state, State::Warning);
        let over = at("2026-03-02T00:00:00Z");
        assert_eq!(over.state, State::Failed);
        assert!(over.remedy.contains("renew"));
        assert_eq!(certificate(b"no certificate", Timestamp::UNIX_EPOCH).state, State::Warning);
    }

    #[test]
    fn each_failure_says_what_it_means_and_what_to_do() {
        let url = "wss://pool.example:7420".parse().unwrap();
        for (kind, meaning) in [
            (io::ErrorKind::ConnectionRefused, "nothing listens"),
            (io::ErrorKind::TimedOut, "nothing answers"),
            (io::ErrorKind::NotFound, "can't be looked up"),
        ] {
            let check = unreachable(&url, &kind.into());
            assert!(check.text.contains(meaning) && !check.remedy.is_empty(), "{}", check.text);
        }
        for (error, meaning) in [
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidYet, "clock"),
            (CertificateError::UnknownIssuer, "trusts"),
            (CertificateError::NotValidForName, "another name"),
            (CertificateError::ApplicationVerificationFailure, "token vouches"),
            (
                CertificateError::Other(tokio_rustls::rustls::OtherError(Arc::new(io::Error::other(
                    "CaUsedAsEndEntity",
                )))),
                "an authority's",
            ),
        ] {
            let (text, remedy) = of_tls(&TlsError::InvalidCertificate(error));
            assert!(text.contains(meaning) && !remedy.is_empty(), "{text}");
        }
    }
}
