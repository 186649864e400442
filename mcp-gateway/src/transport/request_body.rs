//! Reads the rest of a request that was answered early. After a refusal, the client still sends the
//! rest, and reuses the connection.

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::stream::{self, Stream as _, StreamExt as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum bytes of the rest that are read.
const REST_BYTES_MAX: usize = 1 << 20;
/// Maximum time to wait for the rest.
const REST_WAIT: Duration = Duration::from_secs(1);

/// Reads the unread rest of the request before the response is sent. Otherwise the server would
/// close the connection, and the client's next request would be lost. If the rest is too long or
/// too slow, the response closes the connection explicitly.
pub(super) async fn read(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let rest = Arc::new(Mutex::new(body.into_data_stream()));
    let shared = Arc::clone(&rest);
    let body = Body::from_stream(stream::poll_fn(move |cx| {
        Pin::new(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner)).poll_next(cx)
    }));
    let mut response = next.run(Request::from_parts(head, body)).await;
    // If the handler still holds the body, it continues to read.
    if let Some(rest) = Arc::into_inner(rest) {
        let rest = rest.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !ends(rest).await {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
    response
}

/// Returns true if the stream ends within the limits.
async fn ends(mut rest: BodyDataStream) -> bool {
    let mut read = 0;
    let reading = async {
        while let Some(chunk) = rest.next().await {
            let Ok(chunk) = chunk else { return false };
            read += chunk.len();
            if read > REST_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(REST_WAIT, reading).await.unwrap_or(false)
}
