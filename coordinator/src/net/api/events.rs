//! Events of the pool, from the stored history.

use super::document::Refused;
use super::problem::Problem;
use super::{Caller, Query};
use crate::app_state::{internal, rfc3339};
use crate::auth::Principal;
use crate::net::request_limits::RequestPermit;
use crate::store::{Event, EventKind};
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::spec::Reads;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Events that are read from the database at once.
const PAGE_EVENTS: usize = 256;
/// Minimum interval between two reads of one follower.
const READ_EVERY: Duration = Duration::from_millis(50);

/// Which events are sent.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Kinds, separated by commas; all if absent.
    #[param(value_type = Option<Kinds>)]
    kinds: Option<String>,
    /// Begins after this event, as `Last-Event-ID`, which has precedence. 0 begins with the oldest stored event. If both are
    /// absent, only new events are sent.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// False ends the answer after the stored events. Default: true.
    follow: Option<bool>,
}

/// Kinds of events, separated by commas.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^(job_state|build_done|worker_joined|worker_lost|worker_drained|token_address)(,(job_state|build_done|worker_joined|worker_lost|worker_drained|token_address))*$")]
pub(super) struct Kinds(#[expect(dead_code, reason = "only its schema is used")] String);

/// An event. Facts have the names of a JobResult, or of the worker or token that they describe.
#[derive(Serialize, ToSchema)]
pub(super) struct EventData {
    /// Id; later events have greater ids.
    id: u64,
    /// Kind of the event.
    kind: EventKind,
    /// Time of the event (RFC 3339).
    at: String,
    /// `job_id`, `state`, `verdict`, `command` and others for a job; `request_id` and `status` for a build; `name` for a
    /// worker; `token`, `name` and `address` for a token.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

/// Id of an event. An empty one is ignored.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^([0-9]{1,18})?$")]
pub(super) struct EventPlace(#[expect(dead_code, reason = "only its schema is used")] String);

/// A server-sent event of the stream. One without data only moves the place of the reader.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct EventFrame {
    /// Id of the event, for `Last-Event-ID`.
    id: Option<String>,
    /// Kind of the event.
    event: Option<String>,
    /// An `EventData` as JSON.
    data: Option<String>,
}

impl From<Event> for EventData {
    fn from(Event { id, event }: Event) -> Self {
        Self { id, kind: event.kind, at: rfc3339(event.at_ms), facts: event.facts }
    }
}

/// Returns the events of the pool, as server-sent events.
///
/// The id of each event continues a broken connection as `Last-Event-ID`, also after a restart of the coordinator: no event
/// is left out or repeated. A token that reads its own jobs only gets the events of these jobs. Events of tokens are for
/// admins.
#[utoipa::path(get, path = "/events", tag = "events", operation_id = "list_events",
    params(EventQuery, ("last-event-id" = Option<EventPlace>, Header, description = "Id of the last event that was received")),
    responses((status = 200, content((EventFrame = "text/event-stream"))), Refused))]
pub(super) async fn get(
    caller: Caller,
    headers: HeaderMap,
    Query(wanted): Query<EventQuery>,
) -> Result<Response, Problem> {
    let kinds = kinds(wanted.kinds.as_deref())?;
    let given = headers.get(&LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("not text"));
    let given = given.filter(|text| !text.is_empty()).map(|text| {
        let wrong = || Problem::invalid(format!("last-event-id: `{}` is not a number", text.escape_debug()));
        text.parse::<u64>().map_err(|_| wrong())
    });
    let after = given.transpose()?.or(wanted.after);
    let range = caller.shared.reader.event_range().map_err(internal)?;
    let after = match after {
        None => range.newest,
        Some(0) => range.oldest - 1,
        Some(after) if after > range.newest => {
            let text = format!("event {after} is not known; the newest event is {}", range.newest);
            return Err(LinkError::new(ErrorCode::NotFound, text).into());
        }
        Some(after) if after + 1 < range.oldest => {
            let text = format!(
                "the events after {after} were removed; the oldest stored event is {}; begin with `after=0`",
                range.oldest
            );
            return Err(LinkError::new(ErrorCode::Evicted, text).into());
        }
        Some(after) => after,
    };
    let place = caller.shared.request_limits.follower(&caller.principal.name)?;
    let commits = caller.shared.connections.commits();
    let follow = wanted.follow.unwrap_or(true);
    let ready = VecDeque::from([sse::Event::default().id(after.to_string())]);
    let reader = EventReader { caller, kinds, after, follow, commits, ready, read_at: None, _place: place };
    Ok(Sse::new(events(reader)).keep_alive(KeepAlive::default()).into_response())
}

fn kinds(text: Option<&str>) -> Result<Option<Vec<EventKind>>, Problem> {
    let parse = |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>();
    text.map(parse).transpose().map_err(|error| Problem::invalid(format!("kinds: {error}")))
}

struct EventReader {
    caller: Caller,
    kinds: Option<Vec<EventKind>>,
    /// Id of the newest event that was read.
    after: u64,
    follow: bool,
    commits: watch::Receiver<u64>,
    ready: VecDeque<sse::Event>,
    read_at: Option<Instant>,
    _place: RequestPermit,
}

impl EventReader {
    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<Result<sse::Event, axum::Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            // Any number of changes, from any number of clients, share one read.
            if let Some(at) = self.read_at {
                tokio::time::sleep_until(at + READ_EVERY).await;
            }
            self.read_at = Some(Instant::now());
            // A commit during the read causes another one.
            self.commits.borrow_and_update();
            let events = match self.caller.shared.reader.events(self.after, PAGE_EVENTS) {
                Ok(events) => events,
                Err(error) => return Some(Err(axum::Error::new(error))),
            };
            let Some(newest) = events.last().map(|event| event.id) else {
                if !self.follow || !self.changed().await {
                    return None;
                }
                continue;
            };
            if events.first().is_some_and(|first| first.id != self.after + 1) {
                // A slow reader: the next events were removed. Its next request gets that as an error.
                return None;
            }
            self.after = newest;
            let wanted = events.into_iter().filter(|event| self.selects(event));
            self.ready = wanted.filter_map(|event| message(event).ok()).collect();
            if self.ready.is_empty() {
                // The reader can continue here after the events that it does not get were removed.
                self.ready.push_back(sse::Event::default().id(newest.to_string()));
            }
        }
    }

    /// Waits for new records. Returns false if the token is revoked or the coordinator ends.
    async fn changed(&mut self) -> bool {
        let caller = &self.caller;
        tokio::select! {
            _revoked = caller.shared.revoked(&caller.principal) => false,
            changed = self.commits.changed() => changed.is_ok(),
        }
    }

    fn selects(&self, event: &Event) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.event.kind))
            && may_see(&self.caller.principal, event)
    }
}

/// Returns true if this principal may see this event.
fn may_see(principal: &Principal, Event { event, .. }: &Event) -> bool {
    match &event.submitter {
        Some(submitter) => principal.only.reads == Reads::All || *submitter == principal.name,
        None => event.kind != EventKind::TokenAddress || principal.role == Role::Admin,
    }
}

fn message(event: Event) -> Result<sse::Event, axum::Error> {
    let (id, name) = (event.id.to_string(), event.event.kind.name());
    sse::Event::default().id(id).event(name).json_data(EventData::from(event))
}

fn events(reader: EventReader) -> impl stream::Stream<Item = Result<sse::Event, axum::Error>> {
    stream::unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((event, reader))
    })
}
