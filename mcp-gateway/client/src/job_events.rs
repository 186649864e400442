//! The events of a job that a client follows.

use super::channel::JobEvent;
use super::client::Client;
use super::link::Command;
use buildpool_protocol::limits::FOLLOW_WINDOW_BYTES;
use tokio::sync::mpsc;

/// Bytes after which taken output is acknowledged, so that a fast reader causes few messages.
const TAKEN_EVERY: u64 = FOLLOW_WINDOW_BYTES / 4;

/// The events of one submitted or followed job. A call of `next` acknowledges the previous output
/// and lets more arrive. A reader that stops calling it stops only its own output.
#[derive(Debug)]
pub struct JobEvents {
    pub(super) client: Client,
    pub(super) request: u32,
    pub(super) receiver: mpsc::Receiver<JobEvent>,
    /// Attempt and end position of the last returned output.
    pub(super) shown: Option<(u32, u64)>,
    /// Position up to which output was acknowledged.
    pub(super) acknowledged: u64,
}

impl JobEvents {
    /// Returns the next event, or `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<JobEvent> {
        self.acknowledge().await;
        let event = self.receiver.recv().await?;
        match &event {
            JobEvent::Output(output) => {
                if self.shown.is_none_or(|(attempt, _)| attempt != output.attempt) {
                    self.acknowledged = output.from;
                }
                self.shown = Some((output.attempt, output.to));
            }
            JobEvent::Accepted { .. }
            | JobEvent::Progress(_)
            | JobEvent::Attempt(_)
            | JobEvent::End(_)
            | JobEvent::OutputLost(_)
            | JobEvent::Complete(_)
            | JobEvent::Failed(_) => {}
        }
        Some(event)
    }

    async fn acknowledge(&mut self) {
        let Some((attempt, position)) = self.shown else { return };
        if position.saturating_sub(self.acknowledged) < TAKEN_EVERY {
            return;
        }
        let command = Command::Taken { request: self.request, attempt, position };
        if self.client.send(command).await.is_ok() {
            self.acknowledged = position;
        }
    }
}

impl Drop for JobEvents {
    fn drop(&mut self) {
        self.client.forget(self.request);
    }
}
