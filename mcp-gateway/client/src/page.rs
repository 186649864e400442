//! A pool's web page, for a program that opens it: a code that signs a browser in, and connections for the browser.

use super::dial::{from_dial, tls, unauthorized, unreachable};
use super::endpoint::Endpoint;
use super::error::{ClientError, Misbehaviour};
use buildpool_dial::Transport;
use buildpool_protocol::error::{ErrorCode, LinkError};
use serde::Deserialize;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum time of the request for a code.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Limit on the answer. A longer one is not from a coordinator.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The answer, or the problem details of a refused request.
#[derive(Deserialize)]
struct Answer {
    code: String,
    detail: Option<String>,
}

/// Opens a connection for HTTP requests. The coordinator's certificate is verified; no token is sent.
///
/// # Errors
/// It can't be reached, or its certificate is not trusted.
pub async fn connect(endpoint: &Endpoint) -> Result<Transport, ClientError> {
    let tls = tls(endpoint)?;
    buildpool_dial::connect(&endpoint.url, tls).await.map_err(|error| from_dial(endpoint, error))
}

/// Returns a code that a browser can exchange for the endpoint's token, once and within a minute.
///
/// # Errors
/// As [`connect`]; the token is not valid; the coordinator is older than this request.
pub async fn sign_in_code(endpoint: &Endpoint) -> Result<String, ClientError> {
    endpoint.check()?;
    let late = || {
        let error = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        Err(unreachable(&endpoint.url, error))
    };
    tokio::time::timeout(ANSWER_WITHIN, request(endpoint)).await.unwrap_or_else(|_| late())
}

async fn request(endpoint: &Endpoint) -> Result<String, ClientError> {
    let url = &endpoint.url;
    let mut transport = connect(endpoint).await?;
    let token = endpoint.token.as_ref().map(|token| token.expose()).unwrap_or_default();
    let text = format!(
        "POST {} HTTP/1.1\r\nHost: {}:{}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        url.path("/api/v1/sign-in-codes"),
        url.host(),
        url.port()
    );
    let lost = |error| unreachable(url, error);
    transport.write_all(text.as_bytes()).await.map_err(lost)?;
    let mut bytes = Vec::new();
    transport.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await.map_err(lost)?;
    answered(endpoint, &String::from_utf8_lossy(&bytes))
}

/// Returns the code in an HTTP answer. The JSON is found by its braces, so that a proxy may send it in chunks.
fn answered(endpoint: &Endpoint, text: &str) -> Result<String, ClientError> {
    let status = text.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    let body = text.find("\r\n\r\n").map_or("", |at| &text[at..]);
    let json = body.find('{').zip(body.rfind('}')).and_then(|(from, to)| body.get(from..=to));
    let answer = json.and_then(|json| serde_json::from_str::<Answer>(json).ok());
    match (status, answer) {
        (Some(201), Some(answer)) => Ok(answer.code),
        (Some(401), _) => Err(unauthorized(endpoint)),
        (Some(404), _) => {
            let text = "this coordinator is too old to sign a browser in by a code; upgrade it, or enter a token on its page";
            Err(ClientError::Refused(LinkError::new(ErrorCode::NotFound, text)))
        }
        (Some(_), Some(Answer { detail: Some(detail), .. })) => {
            Err(ClientError::Refused(LinkError::new(ErrorCode::Forbidden, detail)))
        }
        (Some(201), None) => {
            Err(ClientError::Misbehaved(Misbehaviour::WrongAnswer { request: "sign-in-codes" }))
        }
        (status, _) => Err(ClientError::NotAPool { url: endpoint.url.clone(), status }),
    }
}

#[cfg(test)]
mod tests {
    use super::answered;
    use crate::{ClientError, Endpoint};

    #[test]
    fn a_code_is_found_and_a_refusal_is_told() {
        let endpoint = Endpoint::new("ws://127.0.0.1:1".parse().unwrap(), None);
        let answer = |text: &str| answered(&endpoint, text);
        let whole = "HTTP/1.1 201 Created\r\ncontent-length: 33\r\n\r\n{\"code\":\"0a1b\",\"valid_secs\":60}";
        assert_eq!(answer(whole).unwrap(), "0a1b");
        let chunked = "HTTP/1.1 201 Created\r\n\r\n20\r\n{\"code\":\"0a1b\",\"valid_secs\":60}\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).unwrap(), "0a1b");
        let refused =
            "HTTP/1.1 429 Too Many Requests\r\n\r\n{\"detail\":\"too many\",\"code\":\"exhausted\"}";
        assert!(answer(refused).unwrap_err().to_string().contains("too many"));
        assert!(answer("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string().contains("too old"));
        let strange = answer("SSH-2.0-OpenSSH\r\n").unwrap_err();
        assert!(matches!(strange, ClientError::NotAPool { status: None, .. }), "{strange}");
    }
}
