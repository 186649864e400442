//! Memory of messages that a peer has begun and not finished. A message is received before it is
//! parsed, so a peer could hold the largest one on each of its connections. Before a large message is
//! read, its bytes are reserved for the token's name; without room, its connection is not read.

use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use dashmap::DashMap;
use std::pin::Pin;
use std::sync::Arc;
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

/// Bytes that are left for the unfinished messages of each token's name. The number of entries is limited by the number of
/// names.
#[derive(Default)]
pub(crate) struct InboundBytes {
    by_name: DashMap<String, Arc<Semaphore>>,
}

impl InboundBytes {
    /// Returns the room for the messages of a connection with a token of this name.
    pub(super) fn of(&self, name: &str) -> MessageRoom {
        let all = || Arc::new(Semaphore::new(NAME_BYTES_MAX));
        let room = self.by_name.entry(name.to_owned()).or_insert_with(all).clone();
        MessageRoom { room: Some(room), ..MessageRoom::default() }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Room for the present message of a connection. The default has room for each message.
#[derive(Default)]
pub(crate) struct MessageRoom {
    room: Option<Arc<Semaphore>>,
    held: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
}

impl MessageRoom {
    /// Completes when there is room for the rest of the present message. A message gets its room at once: if messages
    /// with a part of their room waited for the rest, they could wait for each other. The length of a message of several
    /// frames is not known before its last frame, so it gets the room of the largest one.
    ///
    /// `declared` counts the bytes of its frames so far; `is_last` is true for the last of them.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, declared: u64, is_last: bool) -> Poll<()> {
        if declared <= SMALL_BYTES || self.held.is_some() {
            return Poll::Ready(());
        }
        let Some(room) = &self.room else { return Poll::Ready(()) };
        let wanted = if is_last { declared.min(MESSAGE_BYTES_MAX as u64) } else { MESSAGE_BYTES_MAX as u64 };
        let waiting = self.waiting.get_or_insert_with(|| {
            Box::pin(room.clone().acquire_many_owned(u32::try_from(wanted).unwrap_or(u32::MAX)))
        });
        let acquired = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        // The semaphore is never closed.
        self.held = acquired.ok();
        Poll::Ready(())
    }

    /// Gives the room back at the end of the message.
    pub(super) fn release(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{InboundBytes, MESSAGE_BYTES_MAX, MessageRoom, NAME_BYTES_MAX};
    use std::task::{Context, Poll, Waker};

    fn has_room(room: &mut MessageRoom, declared: u64, is_last: bool) -> bool {
        room.poll(&mut Context::from_waker(Waker::noop()), declared, is_last) == Poll::Ready(())
    }

    fn left(room: &MessageRoom) -> usize {
        room.room.as_ref().expect("a limit").available_permits()
    }

    #[test]
    fn unfinished_messages_of_a_name_have_a_limit_over_its_connections() {
        let bytes = InboundBytes::default();
        let mut begun: Vec<MessageRoom> = (0..8).map(|_| bytes.of("ada")).collect();
        assert!(begun.iter_mut().all(|room| has_room(room, 4 << 20, true)));
        let mut late = bytes.of("ada");
        assert!(!has_room(&mut late, 4 << 20, true) && !has_room(&mut late, 4 << 20, true));
        assert!(has_room(&mut bytes.of("ada"), 4_096, true), "a small message needs no room");
        assert!(has_room(&mut bytes.of("eve"), 4 << 20, true), "another name has its own");
        begun.pop();
        assert!(has_room(&mut late, 4 << 20, true), "the end of a connection makes room");
        begun[0].release();
        assert_eq!(left(&late), 4 << 20, "the end of a message makes room");
        drop((begun, late));
        assert_eq!(left(&bytes.of("ada")), NAME_BYTES_MAX);
    }

    #[test]
    fn messages_of_several_frames_do_not_wait_for_the_room_of_each_other() {
        let bytes = InboundBytes::default();
        let most = NAME_BYTES_MAX / MESSAGE_BYTES_MAX;
        let frame = MESSAGE_BYTES_MAX as u64 / 4;
        let mut messages: Vec<MessageRoom> = (0..5 * most).map(|_| bytes.of("ada")).collect();
        let mut begun: Vec<&mut MessageRoom> =
            messages.iter_mut().filter_map(|room| has_room(room, frame, false).then_some(room)).collect();
        assert_eq!((begun.len(), left(begun[0])), (most, 0), "each has the room of the largest");
        for room in &mut begun {
            for (declared, is_last) in [(2 * frame, false), (3 * frame, false), (4 * frame, true)] {
                assert!(has_room(room, declared, is_last), "it has its room already");
            }
            room.release();
        }
        let next = messages.iter_mut().map(|room| has_room(room, frame, false)).filter(|has| *has).count();
        assert!(next >= most, "the others go on: {next}");
    }

    #[test]
    fn a_length_that_no_message_has_takes_no_more_than_a_part_of_the_room() {
        let bytes = InboundBytes::default();
        let mut room = bytes.of("ada");
        assert!(has_room(&mut room, u64::MAX, true));
        assert_eq!(left(&room), NAME_BYTES_MAX - MESSAGE_BYTES_MAX);
    }
}
