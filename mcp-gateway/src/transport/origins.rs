//! Host and origin checks. Requests must use a host name of this gateway; requests of web pages
//! must come from an allowed origin. The checks run first, so that other requests get no
//! information about tokens, addresses or sessions.

use crate::config::HttpConfig;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

/// Methods that a web page may use.
const METHODS: &str = "GET, POST, DELETE";
/// Headers that a web page may read.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate";
/// Time that a browser may cache the answer to a preflight request, in seconds.
const REMEMBERED_SECS: &str = "600";

/// Allowed hosts and origins.
pub(super) struct AllowedOrigins {
    /// Host names of the gateway, without a port, or with the only allowed one.
    pub(super) hosts: Vec<String>,
    /// Origins of web pages that may send requests and read the answers.
    pages: Vec<String>,
    /// Whether pages of this machine may send requests too. Browsers do not let them read the
    /// answers.
    is_loopback: bool,
}

impl AllowedOrigins {
    pub(super) fn new(http: &HttpConfig, address: SocketAddr) -> Arc<Self> {
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(http.hosts.iter().cloned());
        Arc::new(Self { hosts, pages: http.origins.clone(), is_loopback: address.ip().is_loopback() })
    }

    /// Returns the allowed origins as patterns; a star matches any port.
    pub(super) fn origins(&self) -> Vec<String> {
        let own = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned);
        self.pages.iter().cloned().chain(own.into_iter().filter(|_| self.is_loopback)).collect()
    }

    fn is_ours(&self, headers: &HeaderMap) -> bool {
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let Some(named) = named.filter(|named| !named.as_str().contains('@')) else { return false };
        let bare = named.host().trim_start_matches('[').trim_end_matches(']');
        self.hosts
            .iter()
            .any(|host| host.eq_ignore_ascii_case(bare) || host.eq_ignore_ascii_case(named.as_str()))
    }

    fn is_welcome(&self, origin: &str) -> bool {
        self.is_page(origin) || self.origins().iter().any(|pattern| matches(pattern, origin))
    }

    fn is_page(&self, origin: &str) -> bool {
        self.pages.iter().any(|page| matches(page, origin))
    }
}

fn matches(pattern: &str, origin: &str) -> bool {
    let Some(without_port) = pattern.strip_suffix(":*") else { return pattern.eq_ignore_ascii_case(origin) };
    let is_port = |rest: &str| {
        rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
    };
    origin.get(..without_port.len()).is_some_and(|start| start.eq_ignore_ascii_case(without_port))
        && is_port(&origin[without_port.len()..])
}

/// Refuses requests with another host or origin, and adds CORS headers for the allowed pages.
pub(super) async fn check(
    State(allowed): State<Arc<AllowedOrigins>>,
    request: Request,
    next: Next,
) -> Response {
    if !allowed.is_ours(request.headers()) {
        let text = "this gateway is not reached by that name; `--http-host` allows more";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let Some(origin) = origin else { return next.run(request).await };
    let text = origin.to_str().unwrap_or_default();
    if !allowed.is_welcome(text) {
        let text = "requests of web pages of that origin are refused; `--http-origin` allows more";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    if !allowed.is_page(text) {
        return next.run(request).await;
    }
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let is_question = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response =
        if is_question { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let mut say = |name: HeaderName, value: HeaderValue| response.headers_mut().append(name, value);
    say(header::VARY, HeaderValue::from_static("origin"));
    say(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    say(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    if is_question {
        say(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        say(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED_SECS));
        if let Some(wanted) = wanted {
            say(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_fits_its_origin_and_no_longer_one() {
        for (pattern, origin, fits) in [
            ("https://app.example", "https://APP.example", true),
            ("https://app.example", "https://app.example:1", false),
            ("https://app.example", "https://app.example.evil", false),
            ("http://localhost:*", "http://localhost", true),
            ("http://localhost:*", "http://localhost:5173", true),
            ("http://localhost:*", "http://localhost.evil:5173", false),
            ("http://localhost:*", "http://localhost:5173/x", false),
            ("http://localhost:*", "https://localhost:5173", false),
            ("http://localhost:*", "null", false),
        ] {
            assert_eq!(matches(pattern, origin), fits, "{pattern} {origin}");
        }
    }
}
