//! The keeper's end of the socket. No operation blocks.

use super::messages::{FromKeeper, ToKeeper, encode, take};
use crate::limits::KEEPER_BACKLOG_BYTES;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

pub(super) struct Connection {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Limit on the queued bytes.
    backlog_max: usize,
}

impl Connection {
    /// Creates a connection with a greeting. The greeting is queued completely at any length,
    /// because the worker has just connected.
    pub(super) fn open(stream: UnixStream, hello: &FromKeeper) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let outgoing = encode(hello)?;
        let backlog_max = KEEPER_BACKLOG_BYTES + outgoing.len();
        let mut connection = Self { stream, incoming: Vec::new(), outgoing, backlog_max };
        connection.flush()?;
        Ok(connection)
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn wants_to_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads the available bytes. Returns false if the worker has closed the connection.
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

    /// Queues a message and sends as much as possible.
    ///
    /// # Errors
    /// Fails if the worker is gone, or has not read for so long that the backlog exceeds its limit.
    pub(super) fn send(&mut self, message: &FromKeeper) -> io::Result<()> {
        self.outgoing.extend(encode(message)?);
        self.flush()?;
        if self.outgoing.len() > self.backlog_max {
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

#[cfg(test)]
mod tests {
    use super::Connection;
    use crate::keeper::messages::{FromKeeper, GENERATION, HeldAttempt, take};
    use buildpool_protocol::client_link::Secret;
    use buildpool_protocol::ids::{AttemptId, JobId, Lease};
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_greeting_of_any_length_is_said_and_a_worker_that_does_not_read_is_left() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(1)), number: 1 };
        let kept = HeldAttempt {
            lease: Lease { attempt, epoch: 1 },
            log_length: 0,
            ending: false,
            started_at_ms: None,
            held: None,
            stdin: None,
            secrets: BTreeMap::from([("KEY".to_owned(), Secret("x".repeat(2 << 20)))]),
        };
        let hello = FromKeeper::Hello { keeper: 1, pid: 1, kept: Some(kept), generation: GENERATION };
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        let mut connection = Connection::open(ours, &hello).expect("it is begun");
        theirs.set_nonblocking(true).expect("a socket");
        let mut incoming = Vec::new();
        let mut buffer = [0; 64 << 10];
        let received = loop {
            while let Ok(length) = theirs.read(&mut buffer) {
                incoming.extend_from_slice(&buffer[..length]);
            }
            if let Some(message) = take::<FromKeeper>(&mut incoming).expect("well formed") {
                break message;
            }
            assert!(connection.wants_to_write());
            connection.flush().expect("the worker reads");
        };
        assert_eq!(received, hello);
        let ended = FromKeeper::Ended { attempt, account: None };
        assert!((0..1_000_000).any(|_| connection.send(&ended).is_err()), "there is a bound");
    }
}
