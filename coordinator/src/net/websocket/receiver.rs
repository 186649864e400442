//! The receiving side: frames to messages. The payload of a long frame is read into the memory of its message.

use super::frame::{FrameHeader, Opcode, check_close, unmask};
use super::{Message, SocketError};
use crate::net::inbound::MessageRoom;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::mem::{MaybeUninit, take};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// Bytes that are read at once where a frame can begin. Small messages come with their header in one read.
const AHEAD_BYTES: usize = 4 << 10;

/// A whole message, or a control frame to answer.
pub(super) enum Received {
    Message(Message),
    Ping(Bytes),
    Pong,
    Close(Bytes),
}

pub(super) struct Receiver {
    /// Maximum length of a message.
    limit: u64,
    room: MessageRoom,
    /// Bytes that were read and do not belong to a frame yet.
    ahead: BytesMut,
    /// The present frame.
    frame: Option<FrameHeader>,
    /// Kind of the present message, between its frames too.
    message: Option<Opcode>,
    /// Bytes of the present message, as its frames declare them.
    declared: u64,
    payload: BytesMut,
    /// Payload of the present control frame: such frames come between those of a message.
    control: BytesMut,
}

impl Receiver {
    pub(super) fn new(limit: usize, room: MessageRoom) -> Self {
        Self {
            limit: limit as u64,
            room,
            ahead: BytesMut::new(),
            frame: None,
            message: None,
            declared: 0,
            payload: BytesMut::new(),
            control: BytesMut::new(),
        }
    }

    /// Returns the size of all buffers.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.ahead.capacity() + self.payload.capacity() + self.control.capacity()
    }

    /// Returns the next message or control frame. `None` if the stream has ended.
    pub(super) fn poll<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Received, SocketError>>> {
        loop {
            let Some(frame) = self.frame else {
                match self.begin_frame() {
                    Err(error) => return Poll::Ready(Some(Err(error))),
                    Ok(true) => continue,
                    Ok(false) => match ready!(self.poll_ahead(stream, context)) {
                        Ok(0) => return Poll::Ready(None),
                        Ok(_) => continue,
                        Err(error) => return Poll::Ready(Some(Err(error.into()))),
                    },
                }
            };
            if frame.length > 0 {
                let is_control = frame.opcode.is_control();
                if !is_control {
                    ready!(self.room.poll(context, self.declared, frame.is_last));
                }
                match ready!(self.poll_payload(frame, stream, context)) {
                    Ok(0) => return Poll::Ready(None),
                    Ok(_) => continue,
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            }
            self.frame = None;
            match self.end_frame(frame) {
                Ok(None) => {}
                Ok(Some(received)) => return Poll::Ready(Some(Ok(received))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// Begins the frame whose header was read. Returns false if more bytes are needed.
    fn begin_frame(&mut self) -> Result<bool, SocketError> {
        let decoded = FrameHeader::decode(&self.ahead).map_err(SocketError::Invalid)?;
        let Some((header, own)) = decoded else { return Ok(false) };
        self.take_ahead(own);
        if !header.opcode.is_control() {
            match (header.opcode, self.message) {
                (Opcode::Continuation, None) => {
                    return Err(SocketError::Invalid("a continuation has no message"));
                }
                (Opcode::Continuation, Some(_)) => {}
                (_, Some(_)) => {
                    return Err(SocketError::Invalid("a message begins before the end of another one"));
                }
                (opcode, None) => self.message = Some(opcode),
            }
            self.declared = self.declared.saturating_add(header.length);
            if self.declared > self.limit {
                return Err(SocketError::TooLong { length: self.declared, limit: self.limit });
            }
        }
        self.frame = Some(header);
        Ok(true)
    }

    /// Reads a few bytes where a frame can begin. Returns 0 at the end of the stream.
    fn poll_ahead<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // On the stack: an idle connection waits here.
        let mut bytes = [const { MaybeUninit::uninit() }; AHEAD_BYTES];
        let mut bytes = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(stream).poll_read(context, &mut bytes))?;
        self.ahead.extend_from_slice(bytes.filled());
        Poll::Ready(Ok(bytes.filled().len()))
    }

    /// Takes a part of the payload. Returns 0 at the end of the stream.
    fn poll_payload<S: AsyncRead + Unpin>(
        &mut self,
        frame: FrameHeader,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let payload = if frame.opcode.is_control() { &mut self.control } else { &mut self.payload };
        // The limit on a message is far below what an address can hold.
        let left = usize::try_from(frame.length).unwrap_or(usize::MAX);
        payload.reserve(left);
        let before = payload.len();
        if self.ahead.is_empty() {
            let mut part = (&mut *payload).limit(left);
            ready!(pin!(stream.read_buf(&mut part)).poll(context))?;
        } else {
            let taken = left.min(self.ahead.len());
            payload.extend_from_slice(&self.ahead[..taken]);
            self.take_ahead(taken);
        }
        let payload = if frame.opcode.is_control() { &mut self.control } else { &mut self.payload };
        let mut mask = frame.mask;
        unmask(&mut payload[before..], &mut mask);
        let taken = payload.len() - before;
        self.frame = Some(FrameHeader { mask, length: frame.length - taken as u64, ..frame });
        Poll::Ready(Ok(taken))
    }

    /// Removes bytes that were used, and the buffer after the last of them.
    fn take_ahead(&mut self, count: usize) {
        self.ahead.advance(count);
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
    }

    fn end_frame(&mut self, frame: FrameHeader) -> Result<Option<Received>, SocketError> {
        if frame.opcode.is_control() {
            let content = take(&mut self.control).freeze();
            return Ok(Some(match frame.opcode {
                Opcode::Ping => Received::Ping(content),
                Opcode::Close => {
                    check_close(&content).map_err(SocketError::Invalid)?;
                    Received::Close(content)
                }
                _ => Received::Pong,
            }));
        }
        if !frame.is_last {
            return Ok(None);
        }
        let payload = take(&mut self.payload);
        self.declared = 0;
        self.room.release();
        Ok(Some(Received::Message(match self.message.take() {
            Some(Opcode::Text) => {
                let text = String::from_utf8(payload.into()).map_err(|_| SocketError::NotUtf8)?;
                Message::Text(text)
            }
            _ => Message::Binary(payload.freeze()),
        })))
    }
}
