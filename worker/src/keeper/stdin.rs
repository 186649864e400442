//! The standard input of an attempt: bytes from the worker's daemon go through a bounded buffer into the command's pipe.

use super::messages::StdinWindow;
use buildpool_protocol::limits::STDIN_KEEPER_BYTES;
use buildpool_protocol::stdin::{StdinEnd, new_part};
use std::collections::VecDeque;
use std::io::{self, PipeWriter, Write};

/// Room is announced in steps of this size, in bytes.
const ANNOUNCE_BYTES: u64 = STDIN_KEEPER_BYTES / 4;

pub(super) struct Stdin {
    /// Absent when the command's end is closed, or all bytes are written.
    pipe: Option<PipeWriter>,
    buffer: VecDeque<u8>,
    received: u64,
    hasher: blake3::Hasher,
    end: Option<StdinEnd>,
    /// The limit that was last sent to the worker.
    announced: u64,
}

impl Stdin {
    /// Takes the writing end of a non-blocking pipe.
    pub(super) fn new(pipe: PipeWriter) -> Self {
        Self {
            pipe: Some(pipe),
            buffer: VecDeque::new(),
            received: 0,
            hasher: blake3::Hasher::new(),
            end: None,
            announced: 0,
        }
    }

    /// The pipe, while there is something to write into it.
    pub(super) fn waits_for(&self) -> Option<&PipeWriter> {
        self.pipe.as_ref().filter(|_| !self.buffer.is_empty())
    }

    /// How far the input has come, and up to where the worker may send.
    pub(super) fn window(&self) -> StdinWindow {
        let buffered = self.buffer.len() as u64;
        StdinWindow { received: self.received, until: self.received - buffered + STDIN_KEEPER_BYTES }
    }

    /// The window, if it has room that the worker does not know of.
    pub(super) fn next_announcement(&mut self) -> Option<StdinWindow> {
        let window = self.window();
        let is_new =
            self.pipe.is_some() && self.end.is_none() && window.until >= self.announced + ANNOUNCE_BYTES;
        is_new.then(|| {
            self.announced = window.until;
            window
        })
    }

    /// Takes bytes from `position` on. Known bytes, bytes after a hole and bytes beyond the announced limit are dropped.
    pub(super) fn push(&mut self, position: u64, bytes: &[u8]) {
        let Some(new) = new_part(bytes, position, self.received) else { return };
        if self.end.is_some() || self.received + new.len() as u64 > self.window().until {
            return;
        }
        self.received += new.len() as u64;
        self.hasher.update(new);
        if self.pipe.is_some() {
            self.buffer.extend(new);
        }
        self.write();
    }

    /// Takes the end. One at another position than the last byte comes again.
    pub(super) fn end(&mut self, end: StdinEnd) {
        if end.seal.length == self.received && self.end.is_none() {
            self.end = Some(end);
            self.write();
        }
    }

    /// Writes as much as the pipe takes, and closes it after the last byte.
    pub(super) fn write(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        while !self.buffer.is_empty() {
            match pipe.write(self.buffer.as_slices().0) {
                Ok(written) => drop(self.buffer.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The command has closed its standard input, so nothing reads the rest.
                Err(_) => return self.close(),
            }
        }
        if self.end.is_some() {
            self.pipe = None;
        }
    }

    /// The command reads no more.
    pub(super) fn close(&mut self) {
        self.pipe = None;
        self.buffer = VecDeque::new();
    }

    /// Why the end of the command means nothing: its input was not the submitter's.
    pub(super) fn input_error(&self) -> Option<String> {
        let end = self.end.as_ref()?;
        (end.seal.blake3 != self.hasher.finalize().to_hex().as_str()).then(|| {
            format!(
                "its standard input was damaged on the way: the {} bytes that it got do not match the submitter's checksum",
                self.received
            )
        })
    }

    /// Returns the note for the result about an input that ended early.
    pub(super) fn note(&self) -> Option<String> {
        let end = self.end.as_ref()?;
        let reason = end.reason.as_ref()?;
        Some(format!("standard input ended early, after {} bytes: {reason}", self.received))
    }
}

#[cfg(test)]
mod tests {
    use super::Stdin;
    use buildpool_protocol::limits::STDIN_KEEPER_BYTES;
    use buildpool_protocol::outcome::Seal;
    use buildpool_protocol::stdin::StdinEnd;
    use std::io::{PipeReader, Read};

    fn stdin() -> (PipeReader, Stdin) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        crate::keeper::spawn::set_nonblocking(&writer).expect("a pipe");
        (reader, Stdin::new(writer))
    }

    fn end(bytes: &[u8], reason: Option<&str>) -> StdinEnd {
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        StdinEnd { seal: Seal { length: bytes.len() as u64, blake3 }, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn repeated_and_torn_input_reaches_the_command_once_and_in_order() {
        let (mut reader, mut stdin) = stdin();
        stdin.push(0, b"one ");
        stdin.push(8, b"lost before this");
        stdin.end(end(b"one two", None));
        stdin.push(0, b"one two");
        assert_eq!(stdin.note(), None, "an end at another position is not taken");
        stdin.end(end(b"one two", None));
        let mut got = String::new();
        reader.read_to_string(&mut got).expect("the pipe is closed");
        assert_eq!((got.as_str(), stdin.note()), ("one two", None));
    }

    #[test]
    fn the_result_states_an_early_end_and_a_wrong_checksum_is_damage() {
        let (_reader, mut early) = stdin();
        early.push(0, b"abc");
        early.end(end(b"abc", Some("the client is gone")));
        assert_eq!(
            early.note().as_deref(),
            Some("standard input ended early, after 3 bytes: the client is gone")
        );
        assert_eq!(early.input_error(), None);
        let (_reader, mut wrong) = stdin();
        wrong.push(0, b"abc");
        wrong.end(end(b"abd", None));
        assert!(wrong.input_error().is_some_and(|input_error| input_error.contains("do not match")));
    }

    #[test]
    fn a_command_that_does_not_read_bounds_what_is_taken() {
        let (reader, mut stdin) = stdin();
        let piece = vec![b'x'; 64 << 10];
        let mut taken = 0;
        while stdin.window().received == taken && taken < 4 * STDIN_KEEPER_BYTES {
            stdin.push(taken, &piece);
            taken += piece.len() as u64;
        }
        assert!(stdin.buffer.len() as u64 <= STDIN_KEEPER_BYTES);
        assert!(taken < 2 * STDIN_KEEPER_BYTES, "{taken} bytes were taken");
        drop(reader);
        stdin.write();
        assert!(stdin.waits_for().is_none(), "nothing reads the rest");
    }
}
