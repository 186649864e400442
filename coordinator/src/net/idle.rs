//! Timeout for connections that are not a link yet. A connection on which no answer is sent for a
//! while is closed. So a peer that sends nothing, or a request byte by byte, does not hold a
//! descriptor. A connection also ends when its place passes to a newer one. Neither happens while it
//! serves a request with a valid token, such as one that waits for the end of a job.

use super::pending_connections::PendingConnection;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Maximum time without an answer before a connection becomes a link. A link has its own limits.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Start of the response that turns a connection into a link (RFC 9110, 15.2.2).
const SWITCHED: &[u8] = b"HTTP/1.1 101";

/// The requests with a valid token that a connection serves.
#[derive(Default, Debug)]
pub(crate) struct RequestCount {
    serving: AtomicUsize,
    has_ended: AtomicBool,
}

/// One such request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Serving(Arc<RequestCount>);

impl RequestCount {
    pub(crate) fn begin(self: &Arc<Self>) -> Serving {
        self.serving.fetch_add(1, Ordering::AcqRel);
        Serving(self.clone())
    }

    /// Returns true if a request is served, or has ended since the last call: its answer is not sent yet.
    fn is_recent(&self) -> bool {
        self.has_ended.swap(false, Ordering::AcqRel) || self.serving.load(Ordering::Acquire) > 0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.serving.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream with the timeout of this module.
pub(super) struct UntilLink<S> {
    stream: S,
    /// `None` once the connection is a link.
    end: Option<Pin<Box<Sleep>>>,
    /// Released when the connection becomes a link.
    place: Option<PendingConnection>,
    activity: Arc<RequestCount>,
    is_link: bool,
}

impl<S> UntilLink<S> {
    pub(super) fn new(stream: S, place: Option<PendingConnection>, activity: Arc<RequestCount>) -> Self {
        // The timer runs until an answer is sent, not until the next byte arrives.
        let end = Some(Box::pin(tokio::time::sleep(ANSWER_WITHIN)));
        Self { stream, end, place, activity, is_link: false }
    }

    fn answer_within(&mut self, time: Duration) {
        if let Some(end) = &mut self.end {
            end.as_mut().reset(Instant::now() + time);
        }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.is_link {
            return Ok(());
        }
        if self.activity.is_recent() {
            self.place = None;
            self.answer_within(ANSWER_WITHIN);
        }
        if self.place.as_mut().is_some_and(|place| Pin::new(place).poll(context).is_ready()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.end.as_mut().map(|end| end.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Err(io::ErrorKind::TimedOut.into()),
            Some(Poll::Pending) | None => Ok(()),
        }
    }

    fn answered(&mut self, bytes: &[u8]) {
        if self.is_link {
            return;
        }
        if bytes.starts_with(SWITCHED) {
            self.end = None;
            self.place = None;
            self.is_link = true;
        } else {
            self.answer_within(ANSWER_WITHIN);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilLink<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UntilLink<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.answered(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_link {
            return Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        }
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        self.poll_write(context, first)
    }

    fn is_write_vectored(&self) -> bool {
        self.is_link && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestCount, UntilLink};
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    const PAUSE: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn half_a_request_one_byte_at_a_time_is_given_up() {
        let (mut peer, stream) = duplex(64);
        let mut stream = UntilLink::new(stream, None, Arc::default());
        stream.answer_within(PAUSE * 50);
        let trickle = tokio::spawn(async move {
            while peer.write_all(b"x").await.is_ok() {
                sleep(PAUSE).await;
            }
        });
        let mut byte = [0; 1];
        let error = loop {
            if let Err(error) = stream.read_exact(&mut byte).await {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(stream);
        trickle.await.expect("it is told");
    }

    #[tokio::test]
    async fn a_request_with_a_token_has_time_until_its_answer_is_sent() {
        let (mut peer, stream) = duplex(64);
        let activity = Arc::new(RequestCount::default());
        let mut stream = UntilLink::new(stream, None, activity.clone());
        let serving = activity.begin();
        stream.answer_within(PAUSE);
        sleep(PAUSE * 5).await;
        drop(serving);
        stream.write_all(b"HTTP/1.1 200 OK").await.expect("the answer of a request that has just ended");
        let mut heard = [0; 15];
        peer.read_exact(&mut heard).await.expect("whole");
        stream.answer_within(PAUSE);
        sleep(PAUSE * 5).await;
        assert!(stream.write_all(b"x").await.is_err(), "nothing is served now");
    }

    #[tokio::test]
    async fn each_answer_gives_more_time_and_a_link_has_all_of_it() {
        let (mut peer, stream) = duplex(64);
        let mut stream = UntilLink::new(stream, None, Arc::default());
        let until = |stream: &UntilLink<_>| stream.end.as_ref().map(|end| end.deadline());
        let begun: Option<Instant> = until(&stream);
        sleep(PAUSE).await;
        stream.write_all(b"HTTP/1.1 200 OK").await.expect("in time");
        assert!(until(&stream) > begun);
        stream.write_all(b"HTTP/1.1 101 Switching").await.expect("in time");
        assert_eq!(until(&stream), None);
        let mut heard = [0; 37];
        peer.read_exact(&mut heard).await.expect("whole");
        assert!(heard.ends_with(b"HTTP/1.1 101 Switching"));
    }
}
