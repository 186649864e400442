//! Memory of messages that a peer has begun and not finished. A message is received before it is
//! parsed, so a peer could hold the largest one on each of its connections. Before a large message is
//! read, its bytes are reserved for the token's name; without room, its connection is not read.

use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use dashmap::DashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum bytes of unfinished messages of one token's name, over all its connections.
const NAME_BYTES_MAX: usize = 32 << 20;
/// Maximum bytes of a message. The connection refuses a longer one.
pub(super) const MESSAGE_BYTES_MAX: usize = if CONTROL_MESSAGE_BYTES_MAX > BINARY_FRAME_BYTES_MAX {
    CONTROL_MESSAGE_BYTES_MAX
} else {
    BINARY_FRAME_BYTES_MAX
};
const _: () = assert!(MESSAGE_BYTES_MAX <= NAME_BYTES_MAX);
/// Messages up to this size need no room: the number of connections is limited.
const SMALL_BYTES: u64 = 4 << 10;
/// Longest header of a frame (RFC 6455, 5.2).
const HEADER_BYTES_MAX: usize = 14;

/// Bytes that are left for the unfinished messages of each token's name. The number of entries is limited by the number of
/// names.
#[derive(Default)]
pub(crate) struct InboundBytes {
    by_name: DashMap<String, Arc<Semaphore>>,
}

impl InboundBytes {
    pub(super) fn of(&self, name: &str) -> Arc<Semaphore> {
        let all = || Arc::new(Semaphore::new(NAME_BYTES_MAX));
        self.by_name.entry(name.to_owned()).or_insert_with(all).clone()
    }
}

/// Room of the name whose token a connection has shown. It is set when the token is checked.
pub(crate) type NameRoom = Arc<OnceLock<Arc<Semaphore>>>;

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Follows the frames that a peer sends (RFC 6455, 5.2), and reserves room for its messages.
pub(super) struct Inbound {
    room: NameRoom,
    header: [u8; HEADER_BYTES_MAX],
    /// Bytes of the present header that have been read.
    header_bytes: usize,
    /// Bytes of the present frame that are still to come.
    left: u64,
    /// True if the present or latest data frame ends its message.
    is_last: bool,
    /// True if the present frame belongs to a message: control frames come between its frames.
    is_data: bool,
    /// Bytes of the present message, as its frames declare them.
    message: u64,
    held: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
}

impl Inbound {
    pub(super) fn new(room: NameRoom) -> Self {
        Self {
            room,
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            left: 0,
            is_last: false,
            is_data: false,
            message: 0,
            held: None,
            waiting: None,
        }
    }

    /// Completes when there is room for the rest of the present message. A message gets its room at once: if messages
    /// with a part of their room waited for the rest, they could wait for each other. The length of a message of several
    /// frames is not known before its last frame, so it gets the room of the largest one.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.message <= SMALL_BYTES || self.left == 0 {
            return Poll::Ready(());
        }
        let Some(room) = self.room.get().filter(|_| self.held.is_none()) else { return Poll::Ready(()) };
        let known = self.message.min(MESSAGE_BYTES_MAX as u64);
        let wanted = if self.is_last { known } else { MESSAGE_BYTES_MAX as u64 };
        let waiting = self.waiting.get_or_insert_with(|| {
            Box::pin(room.clone().acquire_many_owned(u32::try_from(wanted).unwrap_or(u32::MAX)))
        });
        let acquired = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        // The semaphore is never closed.
        self.held = acquired.ok();
        Poll::Ready(())
    }

    /// Follows bytes that were read.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                bytes = &bytes[taken..];
                self.left -= taken as u64;
                if self.left == 0 {
                    self.frame_ended();
                }
                continue;
            }
            self.header[self.header_bytes] = bytes[0];
            self.header_bytes += 1;
            bytes = &bytes[1..];
            if self.header_bytes == header_length(&self.header[..self.header_bytes]) {
                self.frame_begun();
            }
        }
    }

    fn frame_begun(&mut self) {
        let header = &self.header[..self.header_bytes];
        let opcode = header[0] & 0x0f;
        self.is_data = opcode < 8;
        self.left = payload_length(header);
        self.header_bytes = 0;
        if self.is_data {
            self.is_last = header[0] & 0x80 != 0;
            self.message = self.message.saturating_add(self.left);
        }
        if self.left == 0 {
            self.frame_ended();
        }
    }

    fn frame_ended(&mut self) {
        if self.is_data && self.is_last {
            self.message = 0;
            self.held = None;
        }
    }
}

/// Returns the length of a header that begins with these bytes, at least two.
fn header_length(header: &[u8]) -> usize {
    let Some(second) = header.get(1) else { return 2 };
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & 0x80 != 0 { 4 } else { 0 }
}

fn payload_length(header: &[u8]) -> u64 {
    let extended =
        |count: usize| header[2..2 + count].iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
    match header[1] & 0x7f {
        126 => extended(2),
        127 => extended(8),
        length => u64::from(length),
    }
}

/// Watches the request that turns a connection into a link. A peer must wait for the answer before it sends frames
/// (RFC 6455, 4.1): [`Inbound`] would miss frames that came with the request.
#[derive(Default)]
pub(super) struct Head {
    /// Bytes of the end of a head that were read last.
    matched: usize,
    has_more: bool,
}

const HEAD_END: &[u8] = b"\r\n\r\n";

impl Head {
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.matched == HEAD_END.len() {
                self.has_more = true;
                return;
            }
            self.matched = match HEAD_END[self.matched] == *byte {
                true => self.matched + 1,
                false => usize::from(*byte == HEAD_END[0]),
            };
        }
    }

    /// Returns true if nothing was read behind the head since the last answer.
    pub(super) const fn is_alone(&self) -> bool {
        !self.has_more
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, Inbound, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, NameRoom};
    use std::sync::{Arc, OnceLock};
    use std::task::{Context, Poll, Waker};
    use tokio::sync::Semaphore;

    fn room() -> (NameRoom, Arc<Semaphore>) {
        let all = Arc::new(Semaphore::new(NAME_BYTES_MAX));
        let room: NameRoom = Arc::new(OnceLock::new());
        room.set(all.clone()).expect("once");
        (room, all)
    }

    fn has_room(inbound: &mut Inbound) -> bool {
        inbound.poll_room(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    /// The header of a masked frame.
    fn header(first: u8, length: u64) -> Vec<u8> {
        let mut header = vec![first];
        match length {
            0..126 => header.push(0x80 | length as u8),
            126..0x1_0000 => {
                header.push(0x80 | 126);
                header.extend((length as u16).to_be_bytes());
            }
            _ => {
                header.push(0x80 | 127);
                header.extend(length.to_be_bytes());
            }
        }
        header.extend([1, 2, 3, 4]);
        header
    }

    #[test]
    fn a_large_message_holds_its_room_until_its_end_in_parts_of_any_size() {
        for part in [1, 3, 1_000, usize::MAX] {
            let (room, all) = room();
            let mut inbound = Inbound::new(room);
            let mut bytes = header(0x81, 5);
            bytes.extend(b"hello");
            // Two frames of one message, with a ping between them.
            bytes.extend(header(0x02, 70_000));
            bytes.extend(vec![0; 70_000]);
            bytes.extend(header(0x89, 3));
            bytes.extend(b"png");
            bytes.extend(header(0x80, 300));
            bytes.extend(vec![0; 299]);
            for some in bytes.chunks(part) {
                assert!(has_room(&mut inbound));
                inbound.read(some);
            }
            assert!(has_room(&mut inbound));
            if part != usize::MAX {
                assert_eq!(NAME_BYTES_MAX - all.available_permits(), MESSAGE_BYTES_MAX, "parts of {part}");
            }
            inbound.read(&[0]);
            assert_eq!(all.available_permits(), NAME_BYTES_MAX, "parts of {part}");
        }
    }

    #[test]
    fn unfinished_messages_of_a_name_have_a_limit_over_its_connections() {
        let (room, all) = room();
        let begin = || {
            let mut inbound = Inbound::new(room.clone());
            inbound.read(&header(0x81, 4 << 20));
            inbound
        };
        let mut begun: Vec<Inbound> = (0..8).map(|_| begin()).collect();
        assert!(begun.iter_mut().all(has_room));
        let mut late = begin();
        assert!(!has_room(&mut late) && !has_room(&mut late));
        let mut small = Inbound::new(room.clone());
        small.read(&header(0x81, 4_096));
        assert!(has_room(&mut small), "a small message needs no room");
        begun.pop();
        assert!(has_room(&mut late), "the end of a connection makes room");
        drop((begun, late));
        assert_eq!(all.available_permits(), NAME_BYTES_MAX);
    }

    #[test]
    fn messages_of_several_frames_do_not_wait_for_the_room_of_each_other() {
        let (room, all) = room();
        let most = NAME_BYTES_MAX / MESSAGE_BYTES_MAX;
        let frame = MESSAGE_BYTES_MAX / 4;
        let mut messages: Vec<Inbound> = (0..5 * most)
            .map(|_| {
                let mut inbound = Inbound::new(room.clone());
                inbound.read(&header(0x01, frame as u64));
                inbound
            })
            .collect();
        let mut begun: Vec<&mut Inbound> =
            messages.iter_mut().filter_map(|m| has_room(m).then_some(m)).collect();
        assert_eq!((begun.len(), all.available_permits()), (most, 0), "each has the room of the largest");
        for inbound in &mut begun {
            for first in [0x00, 0x00, 0x80] {
                inbound.read(&vec![0; frame]);
                inbound.read(&header(first, frame as u64));
                assert!(has_room(inbound), "it has its room already");
            }
            inbound.read(&vec![0; frame]);
        }
        let next = messages.iter_mut().map(has_room).filter(|has_room| *has_room).count();
        assert!(next >= most, "the others go on: {next}");
    }

    #[test]
    fn frames_that_come_with_the_request_are_seen() {
        let is_alone = |texts: &[&[u8]]| {
            let mut head = Head::default();
            texts.iter().for_each(|text| head.read(text));
            head.is_alone()
        };
        assert!(is_alone(&[b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]));
        assert!(is_alone(&[b"GET / HTTP/1.1\r\nHost: x\r", b"\n\r", b"\n"]));
        assert!(is_alone(&[b"GET / HTTP/1.1\r\r\n\r\n"]));
        assert!(!is_alone(&[b"GET / HTTP/1.1\r\n\r\n", b"\x81"]));
        assert!(!is_alone(&[b"GET / HTTP/1.1\r\n\r\nxx\r\n\r\n"]));
    }

    #[test]
    fn a_length_that_no_message_has_takes_no_more_than_a_part_of_the_room() {
        let (room, all) = room();
        let mut inbound = Inbound::new(room);
        inbound.read(&header(0x81, u64::MAX));
        assert!(has_room(&mut inbound));
        assert_eq!(all.available_permits(), NAME_BYTES_MAX - MESSAGE_BYTES_MAX);
    }
}
