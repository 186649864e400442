//! Answers that wait to be sent to one client, limited in messages and in bytes. Whoever makes an
//! answer waits while there is no room, so a client that takes no answers gets no further ones.

use super::websocket::Message;
use buildpool_protocol::client_link::ToClient;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame;
use buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX;
use dashmap::DashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Largest answer.
pub(crate) const ANSWER_BYTES_MAX: usize = CONTROL_MESSAGE_BYTES_MAX;
/// Maximum messages that wait for one connection.
const MESSAGES_MAX: usize = 256;
/// Maximum bytes of answers of one connection that are made or wait to be sent.
const CONNECTION_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of answers of one token's name, over all its connections.
const NAME_BYTES_MAX: usize = 64 << 20;
/// Messages up to this size need no room: their number is limited, and they must not wait behind large answers.
const SMALL_BYTES: usize = 4 << 10;

const _: () = assert!(ANSWER_BYTES_MAX <= CONNECTION_BYTES_MAX);
const _: () = assert!(CONNECTION_BYTES_MAX <= NAME_BYTES_MAX);

/// Bytes that are left for the answers of each token's name. The number of entries is limited by the
/// number of names.
#[derive(Default)]
pub(crate) struct AnswerBytes {
    by_name: DashMap<String, Arc<Semaphore>>,
}

impl AnswerBytes {
    fn of(&self, name: &str) -> Arc<Semaphore> {
        let all = || Arc::new(Semaphore::new(NAME_BYTES_MAX));
        self.by_name.entry(name.to_owned()).or_insert_with(all).clone()
    }
}

/// Room for one answer, held until the answer is sent.
pub(crate) struct Room {
    parts: [OwnedSemaphorePermit; 2],
}

impl Room {
    /// Gives back the room beyond this many bytes.
    fn shrink(&mut self, bytes: usize) {
        for part in &mut self.parts {
            drop(part.split(part.num_permits().saturating_sub(bytes)));
        }
    }
}

/// An encoded message with its room.
pub(crate) struct Queued {
    text: String,
    /// `None` for a small message.
    room: Option<Room>,
}

impl Queued {
    /// Returns the message, and the room to hold until it is sent.
    pub(crate) fn into_parts(self) -> (Message, Option<Room>) {
        (Message::Text(self.text), self.room)
    }
}

/// The sending side of a connection's queue of control messages.
#[derive(Clone)]
pub(crate) struct Outbox {
    messages: mpsc::Sender<Queued>,
    /// Bytes that are left for the connection and then for its name. A connection without room must
    /// not hold the room of its name.
    left: [Arc<Semaphore>; 2],
}

impl Outbox {
    /// Returns the queue of a new connection of this token's name.
    pub(crate) fn new(bytes: &AnswerBytes, name: &str) -> (Self, mpsc::Receiver<Queued>) {
        let (messages, waiting) = mpsc::channel(MESSAGES_MAX);
        let left = [Arc::new(Semaphore::new(CONNECTION_BYTES_MAX)), bytes.of(name)];
        (Self { messages, left }, waiting)
    }

    /// Waits for the room of an answer. Call it with the largest possible size before the answer is
    /// made.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room> {
        let permits = u32::try_from(bytes).ok()?;
        let [connection, name] = &self.left;
        let connection = connection.clone().acquire_many_owned(permits).await.ok()?;
        let name = name.clone().acquire_many_owned(permits).await.ok()?;
        Some(Room { parts: [connection, name] })
    }

    /// Sends a small message. Returns false if the client has disconnected.
    pub(crate) async fn send(&self, message: &ToClient) -> bool {
        let text = text_of(message);
        let room = if text.len() <= SMALL_BYTES { None } else { self.room(text.len()).await };
        if room.is_none() && text.len() > SMALL_BYTES {
            return false;
        }
        self.messages.send(Queued { text, room }).await.is_ok()
    }

    /// Sends an answer for which there is room. Returns false if the client has disconnected.
    pub(crate) async fn send_in(&self, room: Room, message: &ToClient) -> bool {
        self.send_text(room, text_of(message)).await
    }

    /// Sends an encoded answer for which there is room. Returns false if the client has disconnected.
    pub(crate) async fn send_text(&self, mut room: Room, text: String) -> bool {
        room.shrink(text.len());
        self.messages.send(Queued { text, room: Some(room) }).await.is_ok()
    }

    /// Waits until the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.messages.closed().await;
    }
}

/// Encodes a message. If it exceeds the size limit, an error answers its request instead. Otherwise
/// the client would lose the connection on every retry.
pub(crate) fn text_of(message: &ToClient) -> String {
    let text = frame::encode_control(message);
    if text.len() <= CONTROL_MESSAGE_BYTES_MAX {
        return text;
    }
    let error = LinkError::new(
        ErrorCode::TooLarge,
        format!(
            "the answer takes {} bytes of a message; at most {CONTROL_MESSAGE_BYTES_MAX} are valid: ask for less, as with `--verbosity minimal`",
            text.len()
        ),
    );
    frame::encode_control(&ToClient::Error { request: message.request(), error })
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_BYTES_MAX, AnswerBytes, CONNECTION_BYTES_MAX, NAME_BYTES_MAX, Outbox};
    use buildpool_protocol::client_link::ToClient;
    use futures_util::FutureExt;

    fn answer(bytes: usize) -> ToClient {
        ToClient::Explain { request: 1, text: "x".repeat(bytes) }
    }

    /// Bytes of a large answer.
    const LARGE: usize = 3_500_000;

    #[tokio::test]
    async fn answers_that_a_client_does_not_take_are_limited_in_bytes() {
        let (outbox, mut waiting) = Outbox::new(&AnswerBytes::default(), "ada");
        let mut queued = 0;
        while outbox.room(ANSWER_BYTES_MAX).now_or_never().flatten().is_some() {
            let room = outbox.room(ANSWER_BYTES_MAX).await.expect("free");
            assert!(outbox.send_in(room, &answer(LARGE)).await);
            queued += LARGE;
        }
        let left = CONNECTION_BYTES_MAX - queued;
        assert!(left < 2 * ANSWER_BYTES_MAX, "{queued} bytes wait");
        assert!(outbox.send(&answer(left)).now_or_never().is_none(), "no message of this size has room");
        assert_eq!(outbox.send(&answer(100)).now_or_never(), Some(true), "a small one needs none");
        for _ in 0..2 {
            drop(waiting.recv().await.map(super::Queued::into_parts));
        }
        assert!(outbox.room(ANSWER_BYTES_MAX).now_or_never().flatten().is_some(), "sent answers make room");
    }

    #[tokio::test]
    async fn one_name_has_a_limit_over_its_connections_and_others_do_not_wait_for_it() {
        let bytes = AnswerBytes::default();
        let outboxes: Vec<_> =
            (0..NAME_BYTES_MAX / CONNECTION_BYTES_MAX + 1).map(|_| Outbox::new(&bytes, "ada")).collect();
        let mut rooms = Vec::new();
        for (outbox, _) in &outboxes {
            rooms.extend(std::iter::from_fn(|| outbox.room(ANSWER_BYTES_MAX).now_or_never().flatten()));
        }
        assert_eq!(rooms.len(), NAME_BYTES_MAX / ANSWER_BYTES_MAX);
        let (other, _waiting) = Outbox::new(&bytes, "eve");
        assert!(other.room(ANSWER_BYTES_MAX).now_or_never().flatten().is_some());
        rooms.clear();
        assert!(outboxes[0].0.room(ANSWER_BYTES_MAX).now_or_never().flatten().is_some());
    }
}
