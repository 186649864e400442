//! The keeper's end of the socket: nothing on it ever waits.

use super::messages::{FromKeeper, ToKeeper, encode, take};
use crate::limits::KEEPER_BACKLOG_BYTES;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

pub(super) struct Connection {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, incoming: Vec::new(), outgoing: Vec::new() })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn wants_to_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads what is there. False when the worker is gone.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => self.incoming.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<ToKeeper>> {
        take(&mut self.incoming)
    }

    /// Queues a message and sends what can be sent.
    ///
    /// # Errors
    /// When the worker is gone, or has not read for so long that the backlog is over its bound.
    pub(super) fn send(&mut self, message: &FromKeeper) -> io::Result<()> {
        self.outgoing.extend(encode(message)?);
        self.flush()?;
        if self.outgoing.len() > KEEPER_BACKLOG_BYTES {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the worker does not read"));
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.outgoing.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
