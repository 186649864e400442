//! The WebSocket of a client: its registration, its messages and its end. Control messages are sent
//! before bulk frames.

use super::client_conn::{ClientConnection, ClientQueues};
use super::outbox::{Queued, text_of};
use super::websocket::{Message, WebSocket};
use super::{CLOSE_REASON_WITHIN, agree};
use crate::app_state::{AppState, VERSION};
use crate::auth::Principal;
use crate::transfer::{self, Frame};
use buildpool_protocol::client_link::{FromClient, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame;
use buildpool_protocol::limits::{REGISTER_WITHIN, SILENCE_MAX};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

pub(crate) async fn serve(
    mut socket: Box<WebSocket>,
    shared: Arc<AppState>,
    principal: Principal,
    peer: IpAddr,
) {
    // The rare steps are boxed: an idle connection would hold the memory of the largest one.
    let protocol = match Box::pin(register(&mut socket, &shared, &principal)).await {
        Ok(protocol) => protocol,
        Err(error) => return send_error(&mut socket, error).await,
    };
    let (mut connection, ClientQueues { control, bulk, transfers }) =
        ClientConnection::open(&shared, principal, peer, protocol);
    let (sink, stream) = socket.split();
    let (close, close_reason) = oneshot::channel();
    let writer = tokio::spawn(async move {
        let mut out = SocketOut { sink, control, bulk, transfers };
        tokio::select! {
            biased;
            Ok(error) = close_reason => out.close_with(error).await,
            () = out.write() => {}
        }
    });
    let revoked = connection.run(stream).await;
    drop(connection);
    // All senders are dropped. The last queued message, the reason for the end, is still sent.
    // After a revocation, nothing else is sent.
    if let Some(error) = revoked {
        drop(close.send(error));
    }
    let abort = writer.abort_handle();
    if tokio::time::timeout(REGISTER_WITHIN, writer).await.is_err() {
        abort.abort();
    }
}

async fn send_error(socket: &mut WebSocket, error: LinkError) {
    let text = frame::encode_control(&ToClient::Error { request: None, error });
    // The connection ends here in any case.
    let _gone = tokio::time::timeout(REGISTER_WITHIN, async {
        socket.send(Message::Text(text)).await?;
        socket.send(Message::Close).await
    })
    .await;
}

/// Receives the registration. Returns the agreed protocol version.
async fn register(
    socket: &mut WebSocket,
    shared: &AppState,
    principal: &Principal,
) -> Result<u16, LinkError> {
    let malformed = |text: &str| LinkError::new(ErrorCode::Malformed, text);
    let first = match tokio::time::timeout(REGISTER_WITHIN, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => text,
        Ok(_) => return Err(malformed("the first message must be `register`")),
        Err(_) => return Err(malformed("no `register` came in time")),
    };
    let FromClient::Register { protocol, .. } = frame::decode_control(&first)? else {
        return Err(malformed("the first message must be `register`"));
    };
    let protocol = agree(shared, protocol, "client")?;
    let answer = ToClient::Registered {
        protocol,
        version: VERSION.to_owned(),
        local: shared.config.local,
        role: principal.role,
        stdin: true,
    };
    let sent = socket.send(Message::Text(frame::encode_control(&answer))).await;
    sent.map_err(|_| malformed("the client went away"))?;
    Ok(protocol)
}

/// Outgoing side of the connection.
struct SocketOut {
    sink: SplitSink<Box<WebSocket>, Message>,
    control: mpsc::Receiver<Queued>,
    bulk: mpsc::Receiver<Message>,
    transfers: transfer::Out,
}

impl SocketOut {
    /// Sends until both queues have ended or the client accepts no more data. Control messages go
    /// first.
    async fn write(&mut self) {
        loop {
            let (message, _room) = tokio::select! {
                biased;
                Some(queued) = self.control.recv() => {
                    queued.into_parts()
                }
                Some(message) = self.bulk.recv() => (message, None),
                Some(frame) = self.transfers.recv() => match frame {
                    Frame::Step(step) => {
                        let text = frame::encode_control(&ToClient::Transfer(*step));
                        (Message::Text(text), None)
                    }
                    Frame::Bulk(bytes) => (Message::Binary(*bytes), None),
                },
                else => break,
            };
            // A client that accepts nothing for this long counts as disconnected. It can resume
            // from its cursor.
            if !matches!(tokio::time::timeout(SILENCE_MAX, self.sink.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        // The socket may be closed already.
        let _gone = self.sink.send(Message::Close).await;
    }

    /// Ends the connection, and tries to send the reason.
    async fn close_with(&mut self, error: LinkError) {
        let last = Message::Text(text_of(&ToClient::Error { request: None, error }));
        let _gone = tokio::time::timeout(CLOSE_REASON_WITHIN, async {
            self.sink.send(last).await?;
            self.sink.send(Message::Close).await
        })
        .await;
    }
}

impl ClientConnection {
    /// Serves until the connection ends. Returns the reason if the token is no longer valid.
    pub(super) async fn run(&mut self, stream: SplitStream<Box<WebSocket>>) -> Option<LinkError> {
        let shared = self.context.shared.clone();
        let principal = self.context.principal.clone();
        // Check the token first: a client that accepts no answers would otherwise block this loop.
        tokio::select! {
            biased;
            error = shared.revoked(&principal) => Some(error),
            () = self.work(stream) => None,
        }
    }

    async fn work(&mut self, mut stream: SplitStream<Box<WebSocket>>) {
        loop {
            tokio::select! {
                reply = self.replies.recv() => match reply {
                    Some(reply) => Box::pin(self.reply(reply)).await,
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {}
                () = self.context.control.closed() => return,
                received = tokio::time::timeout(SILENCE_MAX, stream.next()) => match received {
                    Ok(Some(Ok(Message::Text(text)))) => match FromClient::decode(&text) {
                        Ok(message) => Box::pin(self.request(message)).await,
                        Err(answer) => {
                            let ends = matches!(*answer, ToClient::Error { request: None, .. });
                            self.context.send(*answer).await;
                            if ends {
                                return;
                            }
                        }
                    },
                    Ok(Some(Ok(Message::Binary(bytes)))) => if let Err(error) = self.bytes(&bytes).await {
                        return self.context.send(ToClient::Error { request: None, error }).await;
                    },
                    Ok(Some(Ok(Message::Alive | Message::Headed(..)))) => {}
                    // A live client sends pings. A silent one counts as disconnected; its jobs
                    // continue.
                    Ok(Some(Ok(Message::Close) | Err(_)) | None) | Err(_) => return,
                },
            }
        }
    }
}
