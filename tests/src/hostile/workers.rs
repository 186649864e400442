//! Hostile workers, each with a worker token of its own.

use super::{ANSWER_WITHIN, Attacker, register, some_id};
use crate::Peer;
use serde_json::{Value, json};

/// Attack of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Registers new names with many labels, and keeps some connected.
    Names,
    /// Reports attempts that it never received.
    FalseReports,
    /// Declines each grant, or never confirms it.
    Declines,
    /// Sends output and requests for snapshots of others.
    Output,
    /// Sends registrations that are not valid.
    Malformed,
}

pub(super) const KINDS: [Kind; super::WORKERS] = [
    Kind::Names,
    Kind::Names,
    Kind::Names,
    Kind::FalseReports,
    Kind::FalseReports,
    Kind::Declines,
    Kind::Output,
    Kind::Malformed,
];

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Names => "worker names",
            Self::FalseReports => "false reports",
            Self::Declines => "declined grants",
            Self::Output => "false output",
            Self::Malformed => "malformed workers",
        }
    }
}

/// Connected workers of one token at a time.
const CONNECTED: usize = 200;
/// Attempts in one false report.
const HELD: usize = 500;

pub(super) async fn run(kind: Kind, attacker: Attacker) {
    loop {
        match kind {
            Kind::Names => names(&attacker).await,
            Kind::FalseReports => false_reports(&attacker).await,
            Kind::Declines => declines(&attacker).await,
            Kind::Output => output(&attacker).await,
            Kind::Malformed => malformed(&attacker).await,
        };
    }
}

/// Connects as a worker with a new name. Returns `None` if it is refused.
async fn worker(attacker: &Attacker, mut labels: Value) -> Option<Peer> {
    labels["hostile"] = "yes".into();
    let mut peer = attacker.dial("/v1/worker").await?;
    peer.send_json(&register(&format!("hostile-{}", some_id()), labels)).await;
    let answer = peer.receive_within(ANSWER_WITHIN).await?;
    (answer["type"] == "registered").then_some(peer)
}

async fn names(attacker: &Attacker) -> Option<()> {
    let mut connected = Vec::new();
    while connected.len() < CONNECTED {
        let labels = (0..60).map(|number| (format!("label-{number}"), "x".repeat(200).into()));
        let labels: serde_json::Map<String, Value> = labels.collect();
        connected.extend(worker(attacker, labels.into()).await);
        attacker.count();
        if attacker.number == 0 {
            // This one has many names, one after the other.
            connected.clear();
        }
    }
    Some(())
}

fn lease() -> Value {
    json!({"attempt": {"job": some_id(), "number": 1}, "epoch": 1})
}

async fn false_reports(attacker: &Attacker) -> Option<()> {
    let mut peer = worker(attacker, json!({})).await?;
    let held = |_| json!({"lease": lease(), "state": "running", "log_length": 0});
    loop {
        let held: Vec<Value> = (0..HELD).map(held).collect();
        let report = json!({"type": "report", "held": held, "condition": {}});
        peer.send_json(&report).await.then_some(())?;
        attacker.count();
        let complete = json!({
            "type": "complete", "lease": lease(), "outcome": {"ending": {"exited": {"code": 0}}},
        });
        peer.send_json(&complete).await.then_some(())?;
        peer.receive_within(ANSWER_WITHIN).await?;
    }
}

async fn declines(attacker: &Attacker) -> Option<()> {
    let mut peer = worker(attacker, json!({})).await?;
    loop {
        let message = peer.receive_within(ANSWER_WITHIN * 2).await?;
        if message["type"] == "grant" {
            let decline = json!({"type": "decline", "lease": message["lease"], "reason": "x".repeat(10_000)});
            peer.send_json(&decline).await.then_some(())?;
            peer.send_json(&json!({"type": "report", "held": [], "condition": {}})).await.then_some(())?;
            attacker.count();
        }
    }
}

async fn output(attacker: &Attacker) -> Option<()> {
    let mut peer = worker(attacker, json!({})).await?;
    for channel in 1..2_000_u32 {
        let fetch = json!({
            "type": "transfer", "step": "fetch_snapshot", "channel": channel, "project": "any",
            "tree": "0".repeat(40), "trees": [], "heads": [],
        });
        peer.send_json(&fetch).await.then_some(())?;
        attacker.count();
        if channel.is_multiple_of(16) {
            peer.receive_within(ANSWER_WITHIN).await?;
        }
    }
    // An output frame with an unknown chunk ends the connection.
    peer.send(vec![1_u8; 64 << 10]).await.then_some(())
}

async fn malformed(attacker: &Attacker) -> Option<()> {
    let mut peer = attacker.dial("/v1/worker").await?;
    let labels = (0..300).map(|number| (format!("label-{number}"), "x".repeat(3_000).into()));
    let labels: serde_json::Map<String, Value> = labels.collect();
    peer.send_json(&register(&"n".repeat(5_000), labels.into())).await;
    attacker.count();
    peer.receive_within(ANSWER_WITHIN).await.map(drop)
}
