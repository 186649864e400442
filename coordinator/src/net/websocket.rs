//! The coordinator's end of a WebSocket (RFC 6455), without extensions.
//!
//! An idle connection holds no buffer. The payload of a long frame is read from the socket into the memory of its message.
//! A frame is written from the memory that holds its content, which several connections can share.

mod frame;
mod receiver;
mod sender;
mod upgrade;

use super::inbound::MessageRoom;
use buildpool_protocol::frame::BINARY_HEADER_BYTES;
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use futures_util::{Sink, Stream};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use receiver::{Received, Receiver};
use sender::Sender;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use upgrade::Upgrade;

/// A message of a link.
#[derive(Debug)]
pub(crate) enum Message {
    /// A control message of the link.
    Text(String),
    /// A binary frame of the link.
    Binary(Bytes),
    /// A binary frame of the link to send: its header, and content that others may share.
    Headed([u8; BINARY_HEADER_BYTES], Bytes),
    /// A ping, which is answered already, or a pong. It shows that the peer is alive.
    Alive,
    /// The end of the connection.
    Close,
}

/// Reason why a connection ends without a close frame of the peer.
#[derive(thiserror::Error, Debug)]
pub(crate) enum SocketError {
    #[error("the peer sent a frame that RFC 6455 forbids: {0}")]
    Invalid(&'static str),
    #[error("the peer sent a text that is not UTF-8")]
    NotUtf8,
    #[error("the peer began a message of {length} bytes; at most {limit} are valid")]
    TooLong { length: u64, limit: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SocketError {
    /// Returns the status code of the close frame (RFC 6455, section 7.4.1). `None` if the connection is broken.
    const fn code(&self) -> Option<u16> {
        match self {
            Self::Invalid(_) => Some(1002),
            Self::NotUtf8 => Some(1007),
            Self::TooLong { .. } => Some(1009),
            Self::Io(_) => None,
        }
    }
}

/// The tasks that wait until the stream takes bytes. A stream wakes only the last task that wrote to it, and both the task
/// that sends and the one that answers pings write.
#[derive(Default)]
struct Writers {
    sending: AtomicWaker,
    answering: AtomicWaker,
}

impl Wake for Writers {
    fn wake(self: Arc<Self>) {
        self.sending.wake();
        self.answering.wake();
    }
}

/// A connection that is a WebSocket. One task may send while another one receives.
pub(crate) struct WebSocket<S = TokioIo<Upgraded>> {
    stream: S,
    receiver: Receiver,
    sender: Sender,
    writers: Arc<Writers>,
    /// Wakes `writers`.
    waker: Waker,
    /// No message follows.
    has_ended: bool,
    /// An answer was begun and not yet flushed.
    must_flush: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// A message of more than `limit` bytes ends the connection.
    pub(super) fn new(stream: S, limit: usize, room: MessageRoom) -> Self {
        let writers = Arc::<Writers>::default();
        Self {
            stream,
            receiver: Receiver::new(limit, room),
            sender: Sender::default(),
            waker: writers.clone().into(),
            writers,
            has_ended: false,
            must_flush: false,
        }
    }

    /// Receives a message. `None` after the end of the connection. No bytes are lost if the future is dropped.
    pub(super) async fn recv(&mut self) -> Option<Result<Message, SocketError>> {
        std::future::poll_fn(|context| self.poll_received(context)).await
    }

    fn poll_received(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Message, SocketError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        self.continue_answer(context);
        let Some(received) = ready!(self.receiver.poll(&mut self.stream, context)) else {
            self.has_ended = true;
            return Poll::Ready(None);
        };
        let message = match received {
            Ok(Received::Message(message)) => return Poll::Ready(Some(Ok(message))),
            Ok(Received::Pong) => return Poll::Ready(Some(Ok(Message::Alive))),
            Ok(Received::Ping(content)) => {
                self.sender.answer_ping(content);
                Ok(Message::Alive)
            }
            Ok(Received::Close(content)) => {
                self.has_ended = true;
                self.sender.close(content);
                Ok(Message::Close)
            }
            Err(error) => {
                self.has_ended = true;
                if let Some(code) = error.code() {
                    self.sender.close(Bytes::copy_from_slice(&code.to_be_bytes()));
                }
                Err(error)
            }
        };
        self.continue_answer(context);
        Poll::Ready(Some(message))
    }

    /// Writes the answer to a ping or to a close frame as far as the stream takes it.
    fn continue_answer(&mut self, context: &Context<'_>) {
        self.must_flush |= !self.sender.is_idle();
        if self.must_flush {
            self.writers.answering.register(context.waker());
            // TLS may hold the bytes of a written frame. An error ends the next read or write too.
            self.must_flush = self.poll_flushed().is_pending();
        }
    }

    /// Completes when all begun frames are passed to the stream.
    fn poll_written(&mut self) -> Poll<io::Result<()>> {
        self.sender.poll_written(&mut self.stream, &mut Context::from_waker(&self.waker))
    }

    /// Completes when all begun frames are passed to the system.
    fn poll_flushed(&mut self) -> Poll<io::Result<()>> {
        ready!(self.poll_written())?;
        Pin::new(&mut self.stream).poll_flush(&mut Context::from_waker(&self.waker))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for WebSocket<S> {
    type Item = Result<Message, SocketError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_received(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Message> for WebSocket<S> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writers.sending.register(context.waker());
        self.poll_written()
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> io::Result<()> {
        self.sender.begin(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writers.sending.register(context.waker());
        self.poll_flushed()
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
