//! Decompression bombs: snapshots of few bytes that stand for gigabytes.

use crate::Peer;
use buildpool_protocol::frame::{BinaryHeader, BinaryKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// A snapshot that a coordinator must refuse.
#[derive(Clone, Debug)]
pub struct Bomb {
    /// Id of the tree.
    pub tree: String,
    /// The git pack.
    pub pack: Vec<u8>,
}

/// Returns all bombs by name.
pub fn all() -> BTreeMap<String, Bomb> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bombs.py");
    let made = Command::new("python3").arg(script).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: BTreeMap<String, [String; 2]> = serde_json::from_slice(&made.stdout).unwrap();
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    let decode = |text: String| text.as_bytes().chunks(2).map(byte).collect();
    made.into_iter().map(|(name, [tree, pack])| (name, Bomb { tree, pack: decode(pack) })).collect()
}

/// Sends a snapshot and returns the coordinator's final answer, or `None` if the connection ends.
pub async fn send(peer: &mut Peer, channel: u32, name: &str, bomb: &Bomb) -> Option<Value> {
    let Bomb { tree, pack } = bomb;
    let manifest = json!({
        "project": format!("bomb-{name}"), "tree": tree, "head": null, "excludes": "", "files": 1, "bytes": 1,
    });
    let offer =
        json!({"type": "transfer", "step": "offer", "channel": channel, "manifest": manifest, "bases": []});
    peer.send_json(&offer).await;
    let want = peer.receive().await?;
    if want["step"] != "want" {
        return Some(want);
    }
    let begin = json!({
        "type": "transfer", "step": "begin", "channel": channel,
        "subject": {"kind": "snapshot", "manifest": manifest, "base": null},
        "blake3": blake3::hash(pack).to_hex().as_str(), "length": pack.len(),
    });
    peer.send_json(&begin).await;
    loop {
        let answer = peer.receive().await?;
        match answer["step"].as_str() {
            Some("from") => {
                let header = BinaryHeader { kind: BinaryKind::Transfer, channel, position: 0 };
                peer.send([header.encode().as_slice(), pack].concat()).await;
            }
            Some("taken") => {}
            _ => return Some(answer),
        }
    }
}
