//! Hostile peers of a coordinator, for the soak test. They run in a process of their own, with a low
//! priority: real ones run on other machines.

mod clients;
mod strangers;
mod workers;

use crate::Peer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// Submit tokens that the peers use.
pub const SUBMITTERS: usize = 12;
/// Worker tokens that the peers use.
pub const WORKERS: usize = 8;
/// Peers without a token.
const STRANGERS: usize = 4;
/// All peers.
pub const PEERS: usize = SUBMITTERS + WORKERS + STRANGERS;

/// Delay before a peer connects again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Target of the peers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Address of the coordinator.
    pub address: SocketAddr,
    /// Submit tokens.
    pub submitters: Vec<String>,
    /// Worker tokens.
    pub workers: Vec<String>,
}

/// Number of attacks by kind.
pub type Attacks = BTreeMap<String, u64>;

/// State of one peer.
#[derive(Clone, Debug)]
struct Attacker {
    address: SocketAddr,
    token: Option<String>,
    /// Number among the peers of its kind.
    number: usize,
    attacks: Arc<AtomicU64>,
}

impl Attacker {
    fn count(&self) {
        self.attacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects with its token.
    async fn dial(&self, path: &str) -> Option<Peer> {
        let peer = Peer::try_dial(self.address, path, self.token.as_deref()).await;
        if peer.is_none() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        peer
    }

    /// Connects as a registered client.
    async fn client(&self) -> Option<Peer> {
        let mut peer = self.dial("/v1/client").await?;
        let register = json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "hostile"});
        peer.send_json(&register).await;
        peer.receive_within(ANSWER_WITHIN).await?;
        Some(peer)
    }
}

/// Attacks until stdin ends. Returns the number of attacks by kind.
pub async fn attack(target: &Target) -> Attacks {
    let counted: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>> = Arc::default();
    let mut peers = JoinSet::new();
    let attacker = |kind: &str, token: Option<&String>, number| {
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let attacks = counted.entry(kind.to_owned()).or_default().clone();
        Attacker { address: target.address, token: token.cloned(), number, attacks }
    };
    for (number, token) in target.submitters.iter().enumerate() {
        let kind = clients::KINDS[number % clients::KINDS.len()];
        peers.spawn(clients::run(kind, attacker(kind.name(), Some(token), number)));
    }
    for (number, token) in target.workers.iter().enumerate() {
        let kind = workers::KINDS[number % workers::KINDS.len()];
        peers.spawn(workers::run(kind, attacker(kind.name(), Some(token), number)));
    }
    for number in 0..STRANGERS {
        peers.spawn(strangers::run(attacker("strangers", None, number)));
    }
    let mut end = Vec::new();
    let _closed = tokio::io::stdin().read_to_end(&mut end).await;
    peers.shutdown().await;
    let counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
    counted.iter().map(|(kind, count)| (kind.clone(), count.load(Ordering::Relaxed))).collect()
}

fn some_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Registers a worker with a new id.
fn register(name: &str, labels: Value) -> Value {
    json!({
        "type": "register", "protocol": {"min": 1, "max": 1}, "worker": some_id(), "boot": some_id(),
        "name": name, "version": "0", "slots": 8, "labels": labels, "resources": {}, "held": [], "condition": {},
    })
}
