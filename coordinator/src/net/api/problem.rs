//! Errors as problem details (RFC 9457).

use crate::net::router::status;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use buildpool_protocol::error::{ErrorCode, LinkError};
use serde::Serialize;
use utoipa::ToSchema;

const MEDIA_TYPE: &str = "application/problem+json";

/// Headers of each response: nothing is cached, and no browser takes a file of a job for a page.
pub(super) const PROTECTION: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
];

/// Seconds after which a refused request may be sent again.
const RETRY_AFTER_SECS: HeaderValue = HeaderValue::from_static("1");

/// A refused request.
#[derive(Debug)]
pub(in crate::net) struct Problem {
    status: StatusCode,
    error: LinkError,
}

/// Problem details of a refused request (RFC 9457). The type is always `about:blank`; `code` distinguishes the errors.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Details {
    /// Meaning of the status.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// The problem: the field, its value and the valid values.
    detail: String,
    /// Error code, for programs.
    code: ErrorCode,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: ErrorCode, text: String) -> Self {
        Self { status, error: LinkError::new(code, text) }
    }

    pub(super) fn invalid(text: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::Invalid, text)
    }

    /// Converts the refusal of a request whose fields have the documented form. Their values are then wrong for a reason
    /// that no schema states, as a glob that leads out of the directory.
    pub(super) fn unusable(error: LinkError) -> Self {
        let status = match error.code {
            ErrorCode::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            code => status(code),
        };
        Self { status, error }
    }
}

impl From<LinkError> for Problem {
    fn from(error: LinkError) -> Self {
        Self { status: status(error.code), error }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, error } = self;
        let title = status.canonical_reason().unwrap_or("Error");
        let details = Details { title, status: status.as_u16(), detail: error.message, code: error.code };
        let body = serde_json::to_string(&details).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS);
        }
        response
    }
}

/// Returns true if a page of another origin sends the request. A browser sends `Origin` with each request of a page
/// except a same-origin GET or HEAD (Fetch standard, section 3.2).
pub(super) fn is_foreign(request: &Request) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    authority.is_none() || authority != host
}
