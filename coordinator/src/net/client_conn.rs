//! The requests of one client. Each request runs in its own task.

use super::admission::Again;
use super::outbox::{Outbox, Queued};
use super::request_context::RequestContext;
use super::websocket::Message;
use super::{admission, follow, requests, stdin};
use crate::app_state::AppState;
use crate::auth::Principal;
use crate::connections::Reply;
use crate::transfer::{self, Peer, PeerKind};
use buildpool_protocol::client_link::{FromClient, Role, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::version::FOLLOW_OF_ONE_STREAM;
use bytes::Bytes;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// Limit on concurrent requests of one connection, including followed logs.
const REQUESTS_MAX: usize = 1024;
/// Capacity of the queue of bulk frames: one waits while another one is sent.
const BULK_MAX: usize = 1;

/// A submit that waits for the pool's reply.
pub(crate) struct Submitted {
    pub(crate) job: JobId,
    /// Whether it is an earlier job, which may have finished.
    pub(crate) reattached: bool,
    pub(crate) wait: bool,
    pub(crate) follow: bool,
    pub(crate) progress: bool,
    /// The submitter sends standard input.
    pub(crate) stdin: bool,
    pub(crate) view: buildpool_protocol::client_link::View,
    pub(crate) watch: watch::Receiver<crate::connections::JobEvent>,
}

/// Queues of a connection's messages to the client.
pub(super) struct ClientQueues {
    pub(super) control: mpsc::Receiver<Queued>,
    pub(super) bulk: mpsc::Receiver<Message>,
    pub(super) transfers: transfer::Out,
}

/// Requests of one client, with or without a WebSocket.
pub(super) struct ClientConnection {
    pub(super) context: RequestContext,
    /// Agreed protocol version.
    protocol: u16,
    pub(super) replies: mpsc::Receiver<Reply>,
    pub(super) tasks: JoinSet<()>,
    transfers: Peer,
    submitted: HashMap<u32, Submitted>,
    /// Position up to which the client has taken each followed log.
    follows: HashMap<u32, watch::Sender<Option<u64>>>,
    /// Requests that wait for the end of a job.
    waits: HashMap<u32, AbortHandle>,
    /// Where the standard input of a submit goes.
    inputs: HashMap<u32, mpsc::Sender<stdin::StdinEvent>>,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.context.shared.connections.remove_client(self.context.connection);
    }
}

impl ClientConnection {
    /// Registers a client.
    pub(super) fn open(
        shared: &Arc<AppState>,
        principal: Principal,
        peer: IpAddr,
        protocol: u16,
    ) -> (Self, ClientQueues) {
        shared.metrics.client_connections.inc();
        let connection = shared.connections.number();
        let replies = shared.connections.add_client(connection);
        let (control, control_out) = Outbox::new(&shared.answer_bytes, &principal.name);
        let (bulk, bulk_out) = mpsc::channel(BULK_MAX);
        let quota = shared.config.quotas.of(&principal.name);
        let class = shared.trust.class_for(&principal);
        let kind = PeerKind::Client {
            snapshot_bytes: quota.snapshot_bytes,
            stored_bytes: quota.stored_snapshot_bytes,
            class,
            principal: Box::new(principal.clone()),
        };
        let (transfers, transfers_out) = Peer::new(shared.clone(), kind);
        let context = RequestContext {
            shared: shared.clone(),
            principal,
            connection,
            peer,
            delivers: true,
            control,
            bulk,
        };
        let connection = Self {
            context,
            protocol,
            replies,
            tasks: JoinSet::new(),
            transfers,
            submitted: HashMap::new(),
            follows: HashMap::new(),
            waits: HashMap::new(),
            inputs: HashMap::new(),
        };
        (connection, ClientQueues { control: control_out, bulk: bulk_out, transfers: transfers_out })
    }

    /// Registers a caller of the HTTP API. A result that it reads does not count as delivered, because a GET changes
    /// nothing (RFC 9110, section 9.2.1).
    pub(super) fn for_api(
        shared: &Arc<AppState>,
        principal: Principal,
        peer: IpAddr,
    ) -> (Self, ClientQueues) {
        let (mut connection, out) = Self::open(shared, principal, peer, shared.config.protocol.max);
        connection.context.delivers = false;
        (connection, out)
    }

    /// Serves the tasks of this connection and the replies of the pool, until the pool ends. Never returns
    /// while the pool runs.
    pub(super) async fn serve_tasks(&mut self) {
        loop {
            tokio::select! {
                reply = self.replies.recv() => match reply {
                    Some(reply) => self.reply(reply).await,
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    pub(super) async fn bytes(&mut self, bytes: &Bytes) -> Result<(), LinkError> {
        let (header, _) = BinaryHeader::decode(bytes)?;
        let content = bytes.slice(BINARY_HEADER_BYTES..);
        match header.kind {
            BinaryKind::Transfer => self.transfers.bytes(header.channel, header.position, content),
            BinaryKind::Stdin => {
                self.pass_stdin(
                    header.channel,
                    stdin::StdinEvent::Bytes { position: header.position, bytes: content },
                )
                .await;
            }
            BinaryKind::Output | BinaryKind::Follow => {
                let text = "only transfer and stdin frames are expected from a client";
                return Err(LinkError::new(ErrorCode::Malformed, text));
            }
        }
        Ok(())
    }

    /// Hands standard input on. Bytes of an input that has ended are dropped.
    async fn pass_stdin(&mut self, request: u32, event: stdin::StdinEvent) {
        let Some(input) = self.inputs.get(&request) else { return };
        if input.send(event).await.is_err() {
            self.inputs.remove(&request);
        }
    }

    pub(super) async fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted { request, job, reattached } => {
                self.context.send(ToClient::Accepted { request, job, reattached }).await;
                if let Some(submitted) = self.submitted.remove(&request) {
                    self.accepted(request, job, Submitted { reattached, ..submitted });
                }
            }
            Reply::Refused { request, error } => {
                if let Some(submitted) = self.submitted.remove(&request) {
                    drop(submitted.watch);
                    self.context.shared.connections.unwatch(submitted.job);
                }
                if error.code == ErrorCode::Forbidden {
                    let actor = self.context.actor();
                    self.context.shared.note_forbidden(actor, "another's job", &error.message);
                }
                self.context.send_error(request, error).await;
            }
            Reply::Acknowledged { request, job } => {
                let context = self.context.clone();
                self.tasks.spawn(async move {
                    match job {
                        Some(job) => requests::job_now(&context, request, job).await,
                        None => requests::workers(&context, request).await,
                    }
                });
            }
        }
    }

    fn accepted(&mut self, request: u32, job: JobId, mut submitted: Submitted) {
        if submitted.job != job {
            submitted.watch = self.context.shared.connections.watch(job);
            submitted.job = job;
        }
        if submitted.follow {
            let (taken, window) = watch::channel(None);
            self.follows.insert(request, taken);
            let plan = follow::Plan {
                request,
                job: submitted.job,
                from: follow::FollowStart::Newest,
                to_end: false,
                only: None,
            };
            self.tasks.spawn(follow::follow(self.context.clone(), plan, window));
        }
        if submitted.stdin {
            let (input, events) = mpsc::channel(stdin::STDIN_EVENTS_MAX);
            self.inputs.insert(request, input);
            self.tasks.spawn(stdin::store(self.context.clone(), request, submitted.job, events));
        }
        if submitted.wait {
            let wait = self.tasks.spawn(requests::wait(self.context.clone(), request, submitted));
            self.waits.insert(request, wait);
        }
    }

    /// Applies the rate limit. Messages that belong to an open request do not count.
    fn check_rate(&self, message: &FromClient) -> Result<(), LinkError> {
        let is_part = matches!(
            message,
            FromClient::Register { .. }
                | FromClient::Transfer(_)
                | FromClient::Taken { .. }
                | FromClient::Unfollow { .. }
                | FromClient::StdinEnd { .. }
        );
        let name = &self.context.principal.name;
        if is_part {
            return Ok(());
        }
        self.context.shared.rates.within(name, Instant::now())
    }

    /// Serves a request. Its answers come through [`ClientQueues`].
    pub(super) async fn request(&mut self, message: FromClient) {
        if self.tasks.len() > REQUESTS_MAX {
            let text =
                format!("{REQUESTS_MAX} requests of this connection are being served; wait for answers");
            let error = LinkError::new(ErrorCode::Exhausted, text);
            return self.context.send(ToClient::Error { request: message.request(), error }).await;
        }
        if let Err(error) = self.check_rate(&message) {
            return self.context.send(ToClient::Error { request: message.request(), error }).await;
        }
        if self.context.principal.role == Role::Read && !requests::only_reads(&message) {
            return requests::refuse_reader(&self.context, &message).await;
        }
        match message {
            FromClient::Register { .. } => {}
            FromClient::Transfer(step) => self.transfers.step(step),
            FromClient::Retry { request, job, new, client_request_id, worker } => {
                let again = Again { new, client_request_id, worker };
                match admission::retry(&self.context, request, &job, again).await {
                    Ok(submitted) => drop(self.submitted.insert(request, submitted)),
                    Err(error) => self.context.send_error(request, error).await,
                }
            }
            FromClient::Submit { request, submit } => {
                match admission::submit(&self.context, request, *submit).await {
                    Ok(submitted) => drop(self.submitted.insert(request, submitted)),
                    Err(error) => self.context.send_error(request, error).await,
                }
            }
            FromClient::Follow { request, job, cursor, attempt, to_end, tail, stream } => {
                let (taken, window) = watch::channel(None);
                self.follows.insert(request, taken);
                let context = self.context.clone();
                let only = stream.only().filter(|_| self.protocol >= FOLLOW_OF_ONE_STREAM);
                self.tasks.spawn(async move {
                    match context.shared.resolve(&context.principal, &job) {
                        Ok(job) => {
                            let from = follow::FollowStart::new(cursor, attempt, tail);
                            let plan = follow::Plan { request, job, from, to_end, only };
                            follow::follow(context, plan, window).await;
                        }
                        Err(error) => context.send_error(request, error).await,
                    }
                });
            }
            FromClient::Taken { request, position } => {
                if let Some(taken) = self.follows.get(&request) {
                    taken.send_replace(Some(position));
                }
            }
            FromClient::Unfollow { request } => self.end_follow(request),
            FromClient::StdinEnd { request, end } => {
                self.pass_stdin(request, stdin::StdinEvent::End(end)).await
            }
            FromClient::Job { request, .. } => {
                let wait = self.tasks.spawn(requests::serve(self.context.clone(), message));
                self.waits.insert(request, wait);
            }
            other => drop(self.tasks.spawn(requests::serve(self.context.clone(), other))),
        }
        // Drop the windows of followers that have ended.
        if self.follows.len() > REQUESTS_MAX {
            self.follows.retain(|_, taken| taken.receiver_count() > 0);
        }
        if self.waits.len() > REQUESTS_MAX {
            self.waits.retain(|_, wait| !wait.is_finished());
        }
    }

    /// Ends a follow or a wait. Dropping the sender ends the follower. An aborted wait does not
    /// send the result, so it does not count as delivered.
    fn end_follow(&mut self, request: u32) {
        self.inputs.remove(&request);
        if self.follows.remove(&request).is_some() {
            return;
        }
        if let Some(wait) = self.waits.remove(&request) {
            wait.abort();
        } else if let Some(submitted) = self.submitted.get_mut(&request) {
            submitted.wait = false;
        }
    }
}
