//! Webhooks: the events of the pool, sent to URLs that admins name.
//!
//! Each webhook has a place in the stored events, and a queue of deliveries in `webhooks.db`. [`plan`] decides which delivery is
//! sent when. [`post`] sends it, signed as Standard Webhooks defines (<https://www.standardwebhooks.com>). A delivery is
//! removed after it was accepted, so a coordinator that dies in between sends it once more with the same id.

mod address;
mod plan;
mod post;
mod sign;
mod table;

pub(crate) use post::Target;
pub(crate) use table::WEBHOOKS_FILE;
#[cfg(test)]
pub(crate) use table::tests::contract;
pub(crate) use table::{NewWebhook, Webhook, WebhookError, WebhookId, Webhooks};

use crate::app_state::{AppState, rfc3339, wall_ms};
use crate::store::{Event, StoreError};
use buildpool_protocol::error::chain;
use plan::Next;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use table::Delivery;
use tokio::task::{AbortHandle, JoinSet};

/// Events that are read for a webhook at once.
const PAGE_EVENTS: usize = 256;
/// Delay before a retry on a database that can't be read or written.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Longest wait without a look at the queue. A clock that is set forward is noticed within it.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Sends events to webhooks until the coordinator ends. Each webhook has its own task, so that one that answers slowly
/// does not delay others.
pub(crate) async fn serve(shared: Arc<AppState>) {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<WebhookId, AbortHandle> = HashMap::new();
    let mut changes = shared.webhooks.changes();
    loop {
        changes.borrow_and_update();
        match shared.webhooks.list() {
            Ok(webhooks) => {
                let webhooks: Vec<Webhook> =
                    webhooks.into_iter().filter(|webhook| webhook.disabled.is_none()).collect();
                running.retain(|id, task| {
                    let is_kept = webhooks.iter().any(|webhook| webhook.id == *id);
                    if !is_kept {
                        task.abort();
                    }
                    is_kept
                });
                for webhook in webhooks {
                    let id = webhook.id;
                    running.entry(id).or_insert_with(|| tasks.spawn(send_all(shared.clone(), webhook)));
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "webhooks can't be read");
            }
        }
        while tasks.try_join_next().is_some() {}
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Sends the events of one webhook.
async fn send_all(shared: Arc<AppState>, webhook: Webhook) {
    let mut commits = shared.connections.commits();
    loop {
        commits.borrow_and_update();
        let wait = match send_due(&shared, &webhook).await {
            Ok(Some(due_ms)) => {
                Duration::from_millis(u64::try_from(due_ms - wall_ms()).unwrap_or(0)).min(LOOK_EVERY)
            }
            Ok(None) => LOOK_EVERY,
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(webhook = webhook.name, error, "the events of a webhook can't be read");
                tokio::time::sleep(READ_AGAIN_AFTER).await;
                continue;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            changed = commits.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Sends the deliveries that are due. Returns the time of the next one, in milliseconds since 1970.
async fn send_due(shared: &Arc<AppState>, webhook: &Webhook) -> Result<Option<i64>, StoreError> {
    loop {
        let is_more = enqueue(shared, webhook)?;
        let Some(delivery) = shared.webhooks.next_delivery(webhook.id)? else {
            if is_more {
                continue;
            }
            return Ok(None);
        };
        if delivery.next_ms > wall_ms() {
            return Ok(Some(delivery.next_ms));
        }
        let sent = post::send(shared, webhook, &delivery).await;
        settle(shared, webhook, &delivery, sent)?;
    }
}

/// Queues the next events of a webhook. Returns true if there may be more of them.
fn enqueue(shared: &AppState, webhook: &Webhook) -> Result<bool, StoreError> {
    let (position, queued) = shared.webhooks.place(webhook.id)?;
    let room = plan::room(queued);
    if room == 0 {
        return Ok(false);
    }
    let events = shared.reader.events(position, room.min(PAGE_EVENTS))?;
    let Some(newest) = events.last().map(|event| event.id) else { return Ok(false) };
    let is_more = events.len() == room.min(PAGE_EVENTS);
    let missed = events[0].id - position - 1;
    if missed > 0 {
        tracing::warn!(
            webhook = webhook.name,
            missed,
            "events were removed before the webhook's queue had room for them"
        );
    }
    let wanted = events.iter().filter(|event| webhook.selects(event.event.kind));
    let deliveries: Vec<(u64, String)> = wanted.map(|event| (event.id, body(event))).collect();
    shared.webhooks.enqueue(webhook.id, newest, &deliveries, wall_ms())?;
    Ok(is_more)
}

/// Returns the payload of an event, in the form that Standard Webhooks recommends.
fn body(Event { id, event }: &Event) -> String {
    let mut data = event.facts.clone();
    data.insert("id".to_owned(), json!(id));
    json!({ "type": event.kind.name(), "timestamp": rfc3339(event.at_ms), "data": data }).to_string()
}

/// Records the result of a delivery.
fn settle(
    shared: &AppState,
    webhook: &Webhook,
    delivery: &Delivery,
    sent: Result<(), post::PostError>,
) -> Result<(), StoreError> {
    let Err(error) = sent else { return shared.webhooks.delivered(webhook.id, delivery.event) };
    let reason = error.to_string();
    tracing::info!(webhook = webhook.name, event = delivery.event, reason, "a webhook was not delivered");
    if error.is_gone() {
        return shared.webhooks.disable(webhook.id, "the receiver answered 410 Gone");
    }
    match plan::after_failure(wall_ms(), delivery.first_ms, delivery.attempts, jitter()) {
        Next::Retry { at_ms } => shared.webhooks.retry(webhook.id, delivery.event, at_ms, &reason),
        Next::GiveUp => shared.webhooks.give_up(webhook.id, delivery.event, &reason),
    }
}

/// Returns a random number, so that webhooks that failed together are not retried together.
fn jitter() -> u8 {
    getrandom::u32().map_or(0, |random| random.to_le_bytes()[0])
}
