//! The context of a request of a client: its sender, and the way of its answers.

use super::outbox::{Outbox, Room, text_of};
use super::websocket::Message;
use crate::app_state::AppState;
use crate::auth::{Actor, Principal};
use buildpool_protocol::client_link::ToClient;
use buildpool_protocol::error::LinkError;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Context of a request's task.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) shared: Arc<AppState>,
    pub(crate) principal: Principal,
    pub(crate) connection: u64,
    /// Address that the connection comes from.
    pub(crate) peer: IpAddr,
    /// Whether a result that is sent counts as delivered to its submitter.
    pub(crate) delivers: bool,
    pub(super) control: Outbox,
    pub(super) bulk: mpsc::Sender<Message>,
}

impl RequestContext {
    /// Returns the party that the audit log names for requests of this connection.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { name: &self.principal.name, peer: Some(self.peer) }
    }

    /// Sends a control message. Does nothing if the client has disconnected.
    pub(crate) async fn send(&self, message: ToClient) {
        let _gone = self.try_send(message).await;
    }

    /// Sends a control message. Returns false if the client has disconnected.
    pub(crate) async fn try_send(&self, message: ToClient) -> bool {
        self.control.send(&message).await
    }

    /// Waits for the room of an answer of at most this size. `None` if the connection ends.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room> {
        self.control.room(bytes).await
    }

    /// Sends a large answer. Returns false if the client has disconnected.
    pub(crate) async fn answer(&self, room: Room, message: ToClient) -> bool {
        self.control.send_in(room, &message).await
    }

    /// Sends an answer that is encoded already. Returns false if the client has disconnected.
    pub(crate) async fn answer_text(&self, room: Room, text: String) -> bool {
        self.control.send_text(room, text).await
    }

    pub(crate) async fn send_error(&self, request: u32, error: LinkError) {
        self.send(ToClient::Error { request: Some(request), error }).await;
    }

    /// Waits until a bulk frame can be sent. Call it before the frame is made: many requests of a connection may wait here.
    /// `None` if the client has disconnected.
    pub(super) async fn bulk_place(&self) -> Option<mpsc::Permit<'_, Message>> {
        self.bulk.reserve().await.ok()
    }

    /// Sends a control message in order with the bulk frames.
    pub(crate) async fn send_in_order(&self, message: &ToClient) {
        let _gone = self.bulk.send(Message::Text(text_of(message))).await;
    }
}
