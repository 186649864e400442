//! The sending side: messages to frames. A frame is written from the memory that holds its content.

use super::Message;
use super::frame::{Opcode, SENT_HEADER_BYTES_MAX, encode_header};
use buildpool_protocol::frame::BINARY_HEADER_BYTES;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// A frame that is being written.
struct Outgoing {
    /// Header of the frame, and the header of a link's binary frame.
    head: [u8; SENT_HEADER_BYTES_MAX + BINARY_HEADER_BYTES],
    head_bytes: usize,
    body: Bytes,
    /// Bytes of both that are written.
    written: usize,
}

impl Outgoing {
    fn new(opcode: Opcode, start: &[u8], body: Bytes) -> Self {
        let (header, header_bytes) = encode_header(opcode, start.len() + body.len());
        let mut head = [0; SENT_HEADER_BYTES_MAX + BINARY_HEADER_BYTES];
        let head_bytes = header_bytes + start.len();
        head[..header_bytes].copy_from_slice(&header[..header_bytes]);
        head[header_bytes..head_bytes].copy_from_slice(start);
        Self { head, head_bytes, body, written: 0 }
    }

    /// Returns the parts that are not written yet, or `None` if all of it is.
    fn rest(&self) -> Option<[IoSlice<'_>; 2]> {
        let head = &self.head[self.written.min(self.head_bytes)..self.head_bytes];
        let body = &self.body[self.written.saturating_sub(self.head_bytes)..];
        (!head.is_empty() || !body.is_empty()).then(|| [IoSlice::new(head), IoSlice::new(body)])
    }
}

#[derive(Default)]
pub(super) struct Sender {
    present: Option<Outgoing>,
    /// Answer to the last ping or to a close frame. It is sent after the present frame.
    answer: Option<(Opcode, Bytes)>,
    is_closed: bool,
}

impl Sender {
    /// Begins a message. The one before must be written. Nothing is sent after a close frame.
    pub(super) fn begin(&mut self, message: Message) -> io::Result<()> {
        if self.is_closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.present = Some(match message {
            Message::Text(text) => Outgoing::new(Opcode::Text, &[], text.into()),
            Message::Binary(bytes) => Outgoing::new(Opcode::Binary, &[], bytes),
            Message::Headed(header, bytes) => Outgoing::new(Opcode::Binary, &header, bytes),
            Message::Alive => Outgoing::new(Opcode::Pong, &[], Bytes::new()),
            Message::Close => {
                self.is_closed = true;
                Outgoing::new(Opcode::Close, &[], Bytes::new())
            }
        });
        Ok(())
    }

    /// Answers a ping after the present frame. Only the last one needs an answer (RFC 6455, section 5.5.3).
    pub(super) fn answer_ping(&mut self, content: Bytes) {
        if !self.is_closed {
            self.answer = Some((Opcode::Pong, content));
        }
    }

    /// Ends the connection after the present frame, with this content of the close frame.
    pub(super) fn close(&mut self, content: Bytes) {
        if !self.is_closed {
            self.is_closed = true;
            self.answer = Some((Opcode::Close, content));
        }
    }

    /// Completes when all begun frames are passed to the stream.
    pub(super) fn poll_written<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            while let Some(parts) = self.present.as_ref().and_then(Outgoing::rest) {
                let written = ready!(Pin::new(&mut *stream).poll_write_vectored(context, &parts))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                if let Some(present) = &mut self.present {
                    present.written += written;
                }
            }
            self.present = None;
            let Some((opcode, content)) = self.answer.take() else { return Poll::Ready(Ok(())) };
            self.present = Some(Outgoing::new(opcode, &[], content));
        }
    }

    /// Returns true if there is nothing to write.
    pub(super) const fn is_idle(&self) -> bool {
        self.present.is_none() && self.answer.is_none()
    }
}
