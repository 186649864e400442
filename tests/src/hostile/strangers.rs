//! Hostile peers without a token.

use super::{AGAIN_AFTER, Attacker};
use crate::{Peer, STRANGER};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Connections of one peer at a time.
const CONNECTIONS: usize = 250;
/// Time for which one of them is kept.
const HELD_FOR: Duration = Duration::from_secs(5);

pub(super) async fn run(attacker: Attacker) {
    let mut connections = JoinSet::new();
    for number in 0..CONNECTIONS {
        let attacker = attacker.clone();
        connections.spawn(async move {
            loop {
                if attacker.number == 0 {
                    let _refused = Peer::try_dial(attacker.address, "/v1/client", Some(STRANGER)).await;
                    attacker.count();
                    // Each of them checks the token, which costs the coordinator time.
                    tokio::time::sleep(HELD_FOR / 10).await;
                } else {
                    hold(number, &attacker).await;
                }
            }
        });
    }
    while connections.join_next().await.is_some() {}
}

/// Keeps a connection with an unfinished request until it ends.
async fn hold(number: usize, attacker: &Attacker) {
    let Ok(mut stream) = TcpStream::connect(attacker.address).await else {
        return tokio::time::sleep(AGAIN_AFTER).await;
    };
    attacker.count();
    let begun: &[u8] = match number % 4 {
        0 => b"",
        1 => b"GET /v1/client HTTP/1.1\r\nHost: x\r\nAuthoriz",
        2 => b"\x16\x03\x01\x02\x00\x01\x00\x01",
        _ => b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\n\r\n",
    };
    let mut rest = Vec::new();
    if stream.write_all(begun).await.is_ok() {
        let _ended = tokio::time::timeout(HELD_FOR, stream.read_to_end(&mut rest)).await;
    }
    tokio::time::sleep(AGAIN_AFTER).await;
}
