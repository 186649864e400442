//! Serves one request of the API with the code of the client link.

use super::Caller;
use crate::net::client_conn::{ClientConnection, ClientQueues};
use crate::net::outbox::Queued;
use crate::net::websocket::Message;
use buildpool_protocol::client_link::{Cursor, FromClient, JobQuery, ToClient, View};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::{self, BinaryHeader};
use buildpool_protocol::report::JobResult;
use bytes::Bytes;
use std::time::Duration;

/// Number of the only request.
pub(super) const REQUEST: u32 = 1;

/// Sends a message and returns its answer.
///
/// # Errors
/// The refusal of the link, and `unauthorized` if the token is revoked meanwhile.
pub(super) async fn ask(caller: &Caller, mut message: FromClient) -> Result<ToClient, LinkError> {
    message.check()?;
    let (mut connection, mut out) =
        ClientConnection::for_api(&caller.shared, caller.principal.clone(), caller.peer);
    connection.request(message).await;
    loop {
        tokio::select! {
            biased;
            error = caller.shared.revoked(&caller.principal) => return Err(error),
            answer = out.control.recv() => match message_of(answer)? {
                ToClient::Progress { .. } => {}
                answer => return Ok(answer),
            },
            () = connection.serve_tasks() => return Err(ends()),
        }
    }
}

/// Returns the answer in a queue of the link, or the error that it is.
fn message_of(queued: Option<Queued>) -> Result<ToClient, LinkError> {
    let (message, _room) = queued.ok_or_else(ends)?.into_parts();
    let Message::Text(text) = message else { return Err(unexpected()) };
    match frame::decode_control(&text)? {
        ToClient::Error { error, .. } => Err(error),
        answer => Ok(answer),
    }
}

fn ends() -> LinkError {
    LinkError::new(ErrorCode::Unavailable, "the coordinator is shutting down; try again")
}

/// The link answered with another message than the request has.
pub(super) fn unexpected() -> LinkError {
    LinkError::new(ErrorCode::Internal, "the coordinator gave an answer of another kind; this is a defect")
}

/// Returns the state of a job, when it is done or `wait` has passed.
pub(super) async fn job(
    caller: &Caller,
    job: String,
    view: View,
    wait: Duration,
) -> Result<JobResult, LinkError> {
    let message = FromClient::Job { request: REQUEST, job, view, wait, progress: false };
    match ask(caller, message).await? {
        ToClient::Job { result, .. } => Ok(*result),
        _ => Err(unexpected()),
    }
}

/// Returns jobs that match, and where the list continues.
pub(super) async fn jobs(caller: &Caller, query: JobQuery, limit: u32) -> Result<ToClient, LinkError> {
    ask(caller, FromClient::Jobs { request: REQUEST, query, limit }).await
}

/// A part of a followed log.
pub(super) enum FollowedPart {
    /// Chunks, from this position of the attempt's log on.
    Chunks { position: u64, bytes: Bytes },
    /// A new attempt begins.
    Attempt(u32),
    /// The requested part ends.
    End(Cursor),
}

/// A followed log. A part is read only when the reader requests it.
pub(super) struct Following {
    caller: Caller,
    connection: ClientConnection,
    out: ClientQueues,
}

impl Following {
    /// Begins to follow with a [`FromClient::Follow`].
    ///
    /// # Errors
    /// A field above its limit.
    pub(super) async fn begin(caller: Caller, mut message: FromClient) -> Result<Self, LinkError> {
        message.check()?;
        let (mut connection, out) =
            ClientConnection::for_api(&caller.shared, caller.principal.clone(), caller.peer);
        connection.request(message).await;
        Ok(Self { caller, connection, out })
    }

    /// Returns the next part.
    ///
    /// # Errors
    /// The refusal of the link, and `unauthorized` if the token is revoked meanwhile.
    pub(super) async fn next(&mut self) -> Result<FollowedPart, LinkError> {
        let Self { caller, connection, out } = self;
        let part = tokio::select! {
            biased;
            error = caller.shared.revoked(&caller.principal) => return Err(error),
            answer = out.control.recv() => return Err(message_of(answer).map_or_else(|error| error, |_| unexpected())),
            frame = out.bulk.recv() => part_of(frame.ok_or_else(ends)?)?,
            () = connection.serve_tasks() => return Err(ends()),
        };
        if let FollowedPart::Chunks { position, bytes } = &part {
            let position = position + bytes.len() as u64;
            connection.request(FromClient::Taken { request: REQUEST, position }).await;
        }
        Ok(part)
    }
}

fn part_of(message: Message) -> Result<FollowedPart, LinkError> {
    match message {
        Message::Headed(header, bytes) => {
            let (header, _) = BinaryHeader::decode(&header)?;
            Ok(FollowedPart::Chunks { position: header.position, bytes })
        }
        Message::Text(text) => match frame::decode_control::<ToClient>(&text)? {
            ToClient::Attempt { attempt, .. } => Ok(FollowedPart::Attempt(attempt)),
            ToClient::End { cursor, .. } => Ok(FollowedPart::End(cursor)),
            _ => Err(unexpected()),
        },
        _ => Err(unexpected()),
    }
}
