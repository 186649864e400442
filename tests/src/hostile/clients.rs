//! Hostile clients, each with a submit token of its own.

use super::{ANSWER_WITHIN, Attacker, some_id};
use crate::bombs::{self, Bomb};
use crate::{Peer, STRANGER};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

/// Attack of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Fills the queue with jobs whose requirements all differ.
    Requirements,
    /// Fills the queue with jobs of different concurrency groups for hostile workers, and cancels some.
    Groups,
    /// Fills the queue with large variables.
    LargeSpecs,
    /// Reads lists, jobs and logs without a pause.
    Lists,
    /// Asks for lists and takes no answer.
    SlowReader,
    /// Sends frames that are too large, too deep, or never complete.
    Malformed,
    /// Sends snapshots that stand for gigabytes.
    Bombs,
    /// Cancels jobs of others, retries, and names unknown jobs.
    OthersJobs,
}

pub(super) const KINDS: [Kind; super::SUBMITTERS] = [
    Kind::Requirements,
    Kind::Requirements,
    Kind::Groups,
    Kind::LargeSpecs,
    Kind::LargeSpecs,
    Kind::Lists,
    Kind::Lists,
    Kind::SlowReader,
    Kind::SlowReader,
    Kind::Malformed,
    Kind::Bombs,
    Kind::OthersJobs,
];

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Requirements => "requirements",
            Self::Groups => "groups",
            Self::LargeSpecs => "large specs",
            Self::Lists => "lists",
            Self::SlowReader => "slow readers",
            Self::Malformed => "malformed frames",
            Self::Bombs => "snapshot bombs",
            Self::OthersJobs => "jobs of others",
        }
    }
}

/// Connections of a slow reader, and of a sender of incomplete frames.
const CONNECTIONS: usize = 20;
/// Requests that are sent before their answers are read.
const PIPELINED: usize = 32;
/// Time for which a slow reader keeps its connections.
const SLOW_FOR: Duration = Duration::from_secs(15);

pub(super) async fn run(kind: Kind, attacker: Attacker) {
    let bombs = if matches!(kind, Kind::Bombs) { bombs::all() } else { BTreeMap::new() };
    loop {
        match kind {
            Kind::Requirements | Kind::Groups | Kind::LargeSpecs => submits(kind, &attacker).await,
            Kind::Lists => lists(&attacker).await,
            Kind::SlowReader => slow_readers(&attacker).await,
            Kind::Malformed => malformed(&attacker).await,
            Kind::Bombs => send_bombs(&attacker, &bombs).await,
            Kind::OthersJobs => others_jobs(&attacker).await,
        };
    }
}

fn submit(kind: Kind, request: usize) -> Value {
    let mut spec = json!({
        "command": {"argv": ["true"]}, "source": "empty", "wait_for_worker": 3_600_000,
        "selectors": [{"key": "nowhere", "value": some_id()}],
    });
    match kind {
        Kind::Groups => {
            spec["selectors"] = json!([{"key": "hostile"}]);
            spec["concurrency_group"] = some_id().into();
        }
        Kind::LargeSpecs => {
            let value = "x".repeat(if request.is_multiple_of(50) { 900_000 } else { 50_000 });
            spec["selectors"] = json!([{"key": "nowhere", "value": "large"}]);
            spec["env"] = json!({ "LARGE": value });
        }
        _ => {}
    }
    json!({"type": "submit", "request": request, "submit": {"job": some_id(), "spec": spec, "attach": true}})
}

/// Reads this many answers. Returns `None` when the connection has ended.
async fn answers(peer: &mut Peer, count: usize) -> Option<()> {
    for _ in 0..count {
        peer.receive_within(ANSWER_WITHIN).await?;
    }
    Some(())
}

async fn submits(kind: Kind, attacker: &Attacker) -> Option<()> {
    let mut peer = attacker.client().await?;
    let mut request = 0;
    loop {
        for _ in 0..PIPELINED {
            request += 1;
            let message = submit(kind, request);
            let job = message["submit"]["job"].clone();
            peer.send_json(&message).await.then_some(())?;
            if matches!(kind, Kind::Groups) && request.is_multiple_of(4) {
                let cancel =
                    json!({"type": "cancel", "request": request, "job": job, "reason": "x".repeat(900)});
                peer.send_json(&cancel).await.then_some(())?;
            }
            attacker.count();
        }
        answers(&mut peer, PIPELINED).await?;
    }
}

/// One request of each kind that reads.
fn reads(request: usize) -> Value {
    match request % 4 {
        0 => json!({"type": "jobs", "request": request, "limit": 1_000}),
        1 => json!({"type": "workers", "request": request}),
        2 => {
            json!({"type": "jobs", "request": request, "limit": 1_000, "state": "queued", "label": "nowhere"})
        }
        _ => json!({"type": "logs", "request": request, "query": {"job": "0"}}),
    }
}

async fn lists(attacker: &Attacker) -> Option<()> {
    let mut peer = attacker.client().await?;
    let job = some_id();
    let mut own = submit(Kind::Requirements, 1);
    own["submit"]["job"] = job.clone().into();
    peer.send_json(&own).await;
    let mut request = 1;
    loop {
        for number in 0..PIPELINED {
            request += 1;
            let message = match number % 2 {
                0 => reads(request),
                _ => json!({"type": "job", "request": request, "job": job}),
            };
            peer.send_json(&message).await.then_some(())?;
            attacker.count();
        }
        answers(&mut peer, PIPELINED).await?;
    }
}

async fn slow_readers(attacker: &Attacker) -> Option<()> {
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let attacker = attacker.clone();
        connections.spawn(async move {
            let mut peer = attacker.client().await?;
            for request in 1..1_000 {
                let read = reads(request);
                let sent = tokio::time::timeout(Duration::from_secs(1), peer.send_json(&read));
                if !matches!(sent.await, Ok(true)) {
                    break;
                }
                attacker.count();
            }
            tokio::time::sleep(SLOW_FOR).await;
            Some(())
        });
    }
    while connections.join_next().await.is_some() {}
    Some(())
}

async fn malformed(attacker: &Attacker) -> Option<()> {
    let mut incomplete = Vec::new();
    for number in 0..CONNECTIONS {
        let mut peer = attacker.client().await?;
        match number % 4 {
            0 => drop(peer.send("x".repeat(5 << 20)).await),
            1 => drop(peer.send("[".repeat(1 << 20)).await),
            2 => drop(peer.send(vec![0xff_u8; 1 << 20]).await),
            _ => {
                // The beginning of a text frame of almost 4 MiB.
                let header = [0x81, 0xff, 0, 0, 0, 0, 0, 0x3f, 0, 0, 1, 2, 3, 4];
                let frame = [header.as_slice(), &vec![b'x'; 3 << 20]].concat();
                let sent = peer.send_raw(&frame);
                let _taken = tokio::time::timeout(ANSWER_WITHIN, sent).await;
                incomplete.push(peer);
            }
        }
        attacker.count();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    Some(())
}

async fn send_bombs(attacker: &Attacker, bombs: &BTreeMap<String, Bomb>) -> Option<()> {
    let mut peer = attacker.client().await?;
    for (channel, (name, bomb)) in (1..).zip(bombs) {
        let sent = bombs::send(&mut peer, channel, name, bomb);
        tokio::time::timeout(Duration::from_secs(30), sent).await.ok()??;
        attacker.count();
    }
    Some(())
}

async fn others_jobs(attacker: &Attacker) -> Option<()> {
    let mut peer = attacker.client().await?;
    peer.send_json(&json!({"type": "jobs", "request": 1, "limit": 100, "submitter": "honest-0"})).await;
    let listed = peer.receive_within(ANSWER_WITHIN).await?;
    let jobs: Vec<Value> = listed["jobs"].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<Value> = jobs.iter().map(|job| job["job_id"].clone()).collect();
    ids.extend([some_id().into(), "0".into(), STRANGER.into()]);
    for (request, id) in (2..).zip(&ids) {
        let message = match request % 3 {
            0 => json!({"type": "retry", "request": request, "job": id, "new": some_id()}),
            1 => json!({"type": "follow", "request": request, "job": id, "cursor": null}),
            _ => json!({"type": "cancel", "request": request, "job": id, "reason": "hostile"}),
        };
        peer.send_json(&message).await.then_some(())?;
        attacker.count();
    }
    answers(&mut peer, ids.len()).await
}
