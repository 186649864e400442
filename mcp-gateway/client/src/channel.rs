//! One submitted or followed job on a link: its events, and its continuation on the next link. No
//! I/O.

use super::error::{ClientError, Misbehaviour};
use super::pending::{EVENTS_MAX, Outgoing};
use super::reader::{LogReader, Output};
use super::stdin::{Feed, Piece};
use buildpool_protocol::LinkError;
use buildpool_protocol::client_link::{
    Cursor, FromClient, Progress, StreamChoice, SubmitMessage, ToClient, View,
};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::{JobResult, JobState};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum wait of one poll, if a submit can't be repeated.
const POLL_FOR: Duration = Duration::from_secs(60);

/// An event of a submitted or followed job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The job is stored on disk.
    Accepted {
        /// Id of the job. It differs from the submitted id if the submit matches an earlier job.
        job: JobId,
        /// Whether the submit matches an earlier job.
        reattached: bool,
    },
    /// Progress of the job.
    Progress(Progress),
    /// A new attempt begins. Earlier output belongs to an earlier attempt.
    Attempt(u32),
    /// Output of the job.
    Output(Output),
    /// The log ends at this cursor.
    End(Cursor),
    /// The output can't be followed any more, but the job continues.
    OutputLost(LinkError),
    /// The job is done. The last event.
    Complete(Box<JobResult>),
    /// The request failed. The last event.
    Failed(ClientError),
}

pub(super) type EventSender = mpsc::Sender<JobEvent>;

/// The request that opens a channel.
pub(super) enum Opening {
    Submit(Box<SubmitMessage>),
    Follow {
        job: String,
        cursor: Option<Cursor>,
        attempt: Option<u32>,
        to_end: bool,
        tail: Option<u64>,
        stream: StreamChoice,
    },
}

/// An open submit or follow, with its progress.
pub(super) struct Channel {
    opening: Opening,
    events: EventSender,
    reader: LogReader,
    /// Id of the job after it was accepted.
    accepted: Option<JobId>,
    /// End of the log as announced. Earlier output may still arrive.
    end: Option<Cursor>,
    /// The end of the log was reached.
    ended: bool,
    /// Request number of the output if it differs from the channel's own number.
    follow: Option<u32>,
    /// A follow request that is resent after the consumer has caught up.
    deferred: Option<FromClient>,
    /// A result that arrived before the end of the followed log.
    held: Option<Box<JobResult>>,
    /// The standard input that is sent along.
    stdin: Option<Feed>,
}

/// State of a channel after a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelState {
    Open,
    /// The consumer has dropped its receiver.
    Abandoned,
    Done,
}

impl Opening {
    fn follows(&self) -> bool {
        match self {
            Self::Submit(submit) => submit.follow,
            Self::Follow { .. } => true,
        }
    }

    /// Returns true if the request may select no output at all.
    fn may_be_empty(&self) -> bool {
        matches!(self, Self::Follow { tail: Some(0), .. })
    }

    fn message(&self, request: u32) -> FromClient {
        match self {
            Self::Submit(submit) => FromClient::Submit { request, submit: submit.clone() },
            Self::Follow { job, cursor, attempt, to_end, tail, stream } => FromClient::Follow {
                request,
                job: job.clone(),
                cursor: *cursor,
                attempt: *attempt,
                to_end: *to_end,
                tail: *tail,
                stream: *stream,
            },
        }
    }
}

impl Channel {
    pub(super) fn new(opening: Opening, events: EventSender) -> Self {
        let reader = match &opening {
            Opening::Submit(_) => LogReader::new(None),
            Opening::Follow { cursor, stream, .. } => LogReader::new(*cursor).of(*stream),
        };
        Self {
            opening,
            events,
            reader,
            accepted: None,
            end: None,
            ended: false,
            follow: None,
            deferred: None,
            held: None,
            stdin: None,
        }
    }

    /// With standard input for the job.
    pub(super) fn reading(self, stdin: Option<Feed>) -> Self {
        Self { stdin, ..self }
    }

    /// More standard input.
    pub(super) fn stdin(&mut self, request: u32, piece: Piece, outbox: &mut VecDeque<Outgoing>) {
        if let Some(feed) = &mut self.stdin {
            feed.push(request, piece, outbox);
        }
    }

    /// Returns the `type` of the message that opens the channel.
    pub(super) fn name(&self) -> &'static str {
        match self.opening {
            Opening::Submit(_) => "submit",
            Opening::Follow { .. } => "follow",
        }
    }

    /// Returns the message that opens the channel.
    pub(super) fn message(&self, request: u32) -> FromClient {
        self.opening.message(request)
    }

    /// Records that the consumer has processed output up to a position. Returns the message to
    /// send, if any.
    pub(super) fn taken(&mut self, request: u32, attempt: u32, position: u64) -> Option<FromClient> {
        if self.reader.attempt() != Some(attempt) {
            return None;
        }
        self.reader.taken(position);
        if self.deferred.is_none() {
            return Some(FromClient::Taken { request: self.follow.unwrap_or(request), position });
        }
        if self.reader.has_room() { self.deferred.take() } else { None }
    }

    /// Handles the end of the consumer. Returns the messages to send.
    pub(super) fn left(&self, request: u32) -> impl Iterator<Item = FromClient> + use<> {
        let sends = self.opening.follows() && !self.ended && self.deferred.is_none();
        let log = sends.then(|| self.follow.unwrap_or(request));
        // A result without a receiver must not count as delivered, so that an equal call finds the
        // job.
        let end = matches!(&self.opening, Opening::Submit(submit) if submit.wait).then_some(request);
        log.into_iter().chain(end).map(|request| FromClient::Unfollow { request })
    }

    /// Returns the messages to resend on a new link. The second value is true if the output of an
    /// accepted job now arrives under `alias`.
    pub(super) fn resume(&mut self, request: u32, alias: u32) -> (Vec<FromClient>, bool) {
        (self.follow, self.held, self.end, self.deferred) = (None, None, None, None);
        self.stdin.iter_mut().for_each(Feed::interrupted);
        let (Opening::Submit(submit), Some(job)) = (&self.opening, self.accepted) else {
            let again = self.opening_again(request);
            return (self.now_or_later(again).into_iter().collect(), false);
        };
        let mut said = vec![self.wait_again(request, job, submit)];
        let follows = submit.follow && !self.ended;
        if follows {
            self.follow = Some(alias);
            let again = follow_from(alias, &job, self.reader.cursor());
            said.extend(self.now_or_later(again));
        }
        (said, follows)
    }

    /// Handles a frame of output that arrived under `number`.
    pub(super) fn on_output(
        &mut self,
        number: u32,
        position: u64,
        content: Bytes,
        outbox: &mut VecDeque<Outgoing>,
    ) -> ChannelState {
        let before = self.reader.attempt();
        match self.reader.take(position, content) {
            Ok(output) => {
                if before.is_some_and(|before| before != output.attempt) {
                    self.send_event(JobEvent::Attempt(output.attempt));
                }
                let step = self.send_event(JobEvent::Output(output));
                self.finish_log(step)
            }
            Err(misbehaviour) => {
                outbox.push_back(FromClient::Unfollow { request: number }.into());
                self.fail(ClientError::Misbehaved(misbehaviour))
            }
        }
    }

    /// Ends the channel with this error.
    pub(super) fn fail(&mut self, error: ClientError) -> ChannelState {
        self.send_event(JobEvent::Failed(error));
        ChannelState::Done
    }

    fn opening_again(&self, request: u32) -> FromClient {
        match (&self.opening, self.reader.cursor()) {
            (Opening::Follow { job, to_end, stream, .. }, Some(cursor)) => FromClient::Follow {
                request,
                job: job.clone(),
                cursor: Some(cursor),
                attempt: None,
                to_end: *to_end,
                tail: None,
                stream: *stream,
            },
            (opening, _) => opening.message(request),
        }
    }

    /// Returns the follow request at once, or defers it while the consumer has a whole window to
    /// read.
    fn now_or_later(&mut self, follow: FromClient) -> Option<FromClient> {
        if self.reader.has_room() {
            return Some(follow);
        }
        self.deferred = Some(follow);
        None
    }

    /// Requests the end of an accepted job again. Repeats the submit if the job has the submitted
    /// id.
    fn wait_again(&self, request: u32, job: JobId, submit: &SubmitMessage) -> FromClient {
        if job == submit.job {
            let submit = Box::new(SubmitMessage { follow: false, ..submit.clone() });
            FromClient::Submit { request, submit }
        } else {
            poll(request, &job.to_string())
        }
    }

    /// Handles a message. Under an alias, the message concerns only the output.
    pub(super) fn on_message(
        &mut self,
        request: u32,
        is_alias: bool,
        message: ToClient,
        outbox: &mut VecDeque<Outgoing>,
    ) -> ChannelState {
        match message {
            ToClient::Accepted { job, reattached, .. } => self.on_accepted(job, reattached),
            ToClient::Progress { progress, .. } => self.send_event_if_room(JobEvent::Progress(progress)),
            // The chunks contain the attempt too, in order.
            ToClient::Attempt { .. } => ChannelState::Open,
            ToClient::Stdin { position, until, ended, .. } => {
                if let Some(feed) = &mut self.stdin {
                    feed.on_room(request, (position, until, ended), outbox);
                }
                self.state_after_accept()
            }
            ToClient::End { cursor, .. } => {
                self.end = Some(cursor);
                self.finish_log(ChannelState::Open)
            }
            ToClient::Job { result, .. } if result.state != JobState::Done => {
                outbox.push_back(poll(request, &result.job_id).into());
                ChannelState::Open
            }
            ToClient::Complete { result, .. } | ToClient::Job { result, .. } => self.on_complete(result),
            ToClient::Error { error, .. } if is_alias => {
                self.ended = true;
                let step = self.send_event(JobEvent::OutputLost(error));
                self.release(step)
            }
            ToClient::Error { error, .. } => self.fail(ClientError::Refused(error)),
            ToClient::Registered { .. }
            | ToClient::Redirect { .. }
            | ToClient::Logs { .. }
            | ToClient::Finding { .. }
            | ToClient::Explain { .. }
            | ToClient::Jobs { .. }
            | ToClient::Workers { .. }
            | ToClient::Token { .. }
            | ToClient::Tokens { .. }
            | ToClient::Audit { .. }
            | ToClient::Transfer(_) => {
                let request = self.name();
                self.fail(ClientError::Misbehaved(Misbehaviour::WrongAnswer { request }))
            }
        }
    }

    fn on_accepted(&mut self, job: JobId, reattached: bool) -> ChannelState {
        if self.accepted.replace(job).is_some() {
            return ChannelState::Open;
        }
        let step = self.send_event(JobEvent::Accepted { job, reattached });
        if step == ChannelState::Open { self.state_after_accept() } else { step }
    }

    /// A submit that is only to be accepted ends with that, and with the end of its standard input.
    fn state_after_accept(&self) -> ChannelState {
        let feeds = self.stdin.as_ref().is_some_and(|feed| !feed.has_ended());
        match &self.opening {
            Opening::Submit(submit) if submit.wait || submit.follow || feeds => ChannelState::Open,
            Opening::Submit(_) | Opening::Follow { .. } => ChannelState::Done,
        }
    }

    /// Ends the log after all output before its end has arrived. Messages may overtake output.
    fn finish_log(&mut self, step: ChannelState) -> ChannelState {
        let Some(end) = self.end.take_if(|end| self.reader.has_reached(*end, self.opening.may_be_empty()))
        else {
            return step;
        };
        self.ended = true;
        let step = self.send_event(JobEvent::End(end));
        match &self.opening {
            Opening::Follow { .. } => ChannelState::Done,
            Opening::Submit(submit) if !submit.wait => ChannelState::Done,
            Opening::Submit(_) => self.release(step),
        }
    }

    /// Handles the result. It is the last event, so it waits for the end of the followed log.
    fn on_complete(&mut self, result: Box<JobResult>) -> ChannelState {
        self.held = Some(result);
        if self.opening.follows() && !self.ended {
            ChannelState::Open
        } else {
            self.release(ChannelState::Open)
        }
    }

    fn release(&mut self, step: ChannelState) -> ChannelState {
        match self.held.take() {
            Some(result) => {
                self.send_event(JobEvent::Complete(result));
                ChannelState::Done
            }
            None => step,
        }
    }

    fn send_event(&mut self, event: JobEvent) -> ChannelState {
        match self.events.try_send(event) {
            Ok(()) => ChannelState::Open,
            Err(mpsc::error::TrySendError::Full(_) | mpsc::error::TrySendError::Closed(_)) => {
                ChannelState::Abandoned
            }
        }
    }

    /// Sends an event that a slow consumer can miss.
    fn send_event_if_room(&mut self, event: JobEvent) -> ChannelState {
        if self.events.capacity() < EVENTS_MAX / 2 { ChannelState::Open } else { self.send_event(event) }
    }
}

fn follow_from(request: u32, job: &JobId, cursor: Option<Cursor>) -> FromClient {
    FromClient::Follow {
        request,
        job: job.to_string(),
        cursor,
        attempt: None,
        to_end: false,
        tail: None,
        stream: StreamChoice::Both,
    }
}

fn poll(request: u32, job: &str) -> FromClient {
    FromClient::Job { request, job: job.to_owned(), view: View::default(), wait: POLL_FOR, progress: false }
}
