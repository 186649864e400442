//! Standard input for a submitted job: kept until the coordinator has it on its disk, so that a reconnect loses nothing.

use super::client::Client;
use super::error::ClientError;
use super::link::Command;
use super::pending::Outgoing;
use buildpool_protocol::client_link::FromClient;
use buildpool_protocol::limits::STDIN_FRAME_BYTES;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::stdin::{StdinEnd, frame_to_coordinator};
use bytes::Bytes;
use std::collections::VecDeque;
use tokio::sync::watch;

/// Input from the application.
pub(super) enum Piece {
    Bytes(Bytes),
    End(StdinEnd),
}

/// How far the coordinator lets the client send. All positions are offsets in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Room {
    until: u64,
    /// Nothing more is needed.
    ended: bool,
}

/// The input of one submit on its way. No I/O.
pub(super) struct Feed {
    /// Bytes that the coordinator may not have, from `base` on.
    kept: VecDeque<Bytes>,
    base: u64,
    /// Position up to which the bytes are sent on this link. `None` until the coordinator has sent a position.
    sent: Option<u64>,
    end: Option<StdinEnd>,
    end_sent: bool,
    room: watch::Sender<Room>,
}

impl Feed {
    pub(super) fn new() -> (Self, watch::Receiver<Room>) {
        let (room, receiver) = watch::channel(Room::default());
        let feed = Self { kept: VecDeque::new(), base: 0, sent: None, end: None, end_sent: false, room };
        (feed, receiver)
    }

    /// Handles a new link: sending begins at the coordinator's position.
    pub(super) fn interrupted(&mut self) {
        (self.sent, self.end_sent) = (None, false);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.room.borrow().ended
    }

    pub(super) fn push(&mut self, request: u32, piece: Piece, outbox: &mut VecDeque<Outgoing>) {
        match piece {
            Piece::Bytes(bytes) => self.kept.push_back(bytes),
            Piece::End(end) => self.end = Some(end),
        }
        self.send(request, outbox);
    }

    /// Handles the coordinator's stored position and its permission to send.
    pub(super) fn on_room(
        &mut self,
        request: u32,
        (position, until, ended): (u64, u64, bool),
        outbox: &mut VecDeque<Outgoing>,
    ) {
        while let Some(first) = self.kept.front().filter(|first| self.base + first.len() as u64 <= position) {
            self.base += first.len() as u64;
            self.kept.pop_front();
        }
        if ended {
            self.kept.clear();
        }
        self.sent.get_or_insert(position);
        self.room.send_replace(Room { until, ended });
        self.send(request, outbox);
    }

    fn send(&mut self, request: u32, outbox: &mut VecDeque<Outgoing>) {
        let Room { until, ended } = *self.room.borrow();
        let Some(mut sent) = self.sent.filter(|_| !ended) else { return };
        let mut at = self.base;
        for bytes in &self.kept {
            let end = at + bytes.len() as u64;
            let mut rest = bytes
                .slice(usize::try_from(sent.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len())..);
            while !rest.is_empty() && sent < until {
                let room = usize::try_from(until - sent).unwrap_or(usize::MAX);
                let part = rest.split_to(rest.len().min(STDIN_FRAME_BYTES).min(room));
                outbox.push_back(Outgoing::Frame(frame_to_coordinator(request, sent, &part).into()));
                sent += part.len() as u64;
            }
            at = end;
        }
        self.sent = Some(sent);
        if let Some(end) = self.end.clone().filter(|end| end.seal.length <= sent && !self.end_sent) {
            self.end_sent = true;
            outbox.push_back(FromClient::StdinEnd { request, end }.into());
        }
    }
}

/// Hands over the standard input of a submitted job. Dropped without [`StdinWriter::finish`], the job waits for more until
/// the coordinator gives up on this client.
#[derive(Debug)]
pub struct StdinWriter {
    client: Client,
    request: u32,
    room: watch::Receiver<Room>,
    written: u64,
    hasher: blake3::Hasher,
}

impl StdinWriter {
    pub(super) fn new(client: Client, request: u32, room: watch::Receiver<Room>) -> Self {
        Self { client, request, room, written: 0, hasher: blake3::Hasher::new() }
    }

    /// Hands over bytes, as soon as there is room for them. False when nothing reads them any more.
    pub async fn write(&mut self, bytes: Bytes) -> bool {
        let written = self.written;
        match self.room.wait_for(|room| room.ended || room.until > written).await {
            Ok(room) if !room.ended => {}
            Ok(_) | Err(_) => return false,
        }
        self.written += bytes.len() as u64;
        self.hasher.update(&bytes);
        self.send(Piece::Bytes(bytes)).await.is_ok()
    }

    /// Declares the end, and returns when the coordinator has all of it or the job needs no more. `reason` is for an input
    /// that could not be read to its end.
    pub async fn finish(mut self, reason: Option<String>) {
        let blake3 = self.hasher.finalize().to_hex().to_string();
        let end = StdinEnd { seal: Seal { length: self.written, blake3 }, reason };
        if self.send(Piece::End(end)).await.is_ok() {
            // An error means that the job is over for this client.
            let _over = self.room.wait_for(|room| room.ended).await;
        }
    }

    async fn send(&self, piece: Piece) -> Result<(), ClientError> {
        self.client.send(Command::Stdin { request: self.request, piece }).await
    }
}

#[cfg(test)]
mod tests {
    use super::{Feed, Piece};
    use crate::pending::Outgoing;
    use buildpool_protocol::client_link::FromClient;
    use buildpool_protocol::frame::BinaryHeader;
    use buildpool_protocol::outcome::Seal;
    use buildpool_protocol::stdin::StdinEnd;
    use std::collections::VecDeque;

    /// The bytes and the end in an outbox, in words.
    fn said(outbox: &mut VecDeque<Outgoing>) -> Vec<String> {
        let say = |outgoing| match outgoing {
            Outgoing::Frame(frame) => {
                let (header, bytes) = BinaryHeader::decode(&frame).expect("a frame");
                format!("{}:{}", header.position, String::from_utf8_lossy(bytes))
            }
            Outgoing::Control(FromClient::StdinEnd { end, .. }) => format!("end {}", end.seal.length),
            Outgoing::Control(other) => panic!("{other:?}"),
        };
        outbox.drain(..).map(say).collect()
    }

    #[test]
    fn a_new_link_gets_what_the_coordinator_lacks_and_the_end_again() {
        let (mut feed, room) = Feed::new();
        let mut outbox = VecDeque::new();
        for text in ["abc", "def"] {
            feed.push(1, Piece::Bytes(text.into()), &mut outbox);
        }
        assert!(said(&mut outbox).is_empty(), "the coordinator has stated no position");
        feed.on_room(1, (0, 5, false), &mut outbox);
        assert_eq!(said(&mut outbox), ["0:abc", "3:de"], "no more than there is room for");
        let end = StdinEnd { seal: Seal { length: 6, blake3: String::new() }, reason: None };
        feed.push(1, Piece::End(end), &mut outbox);
        feed.on_room(1, (5, 9, false), &mut outbox);
        assert_eq!(said(&mut outbox), ["5:f", "end 6"]);
        feed.interrupted();
        feed.on_room(1, (4, 9, false), &mut outbox);
        assert_eq!(said(&mut outbox), ["4:ef", "end 6"]);
        feed.on_room(1, (6, 9, true), &mut outbox);
        assert!(feed.has_ended() && feed.kept.is_empty() && said(&mut outbox).is_empty());
        drop(room);
    }
}
