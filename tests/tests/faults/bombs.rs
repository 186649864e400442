//! Tests of decompression bombs: trees of few objects with billions of paths, packs that inflate to
//! gigabytes. The coordinator refuses them with the exceeded limit, uses little memory and time,
//! and continues.

use buildpool_protocol::frame::{BinaryHeader, BinaryKind};
use buildpool_tests::{PATIENCE, Peer, Pool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

/// Returns the output of a Python script: name, tree and pack of each bomb.
fn bombs() -> BTreeMap<String, (String, Vec<u8>)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bombs.py");
    let made = Command::new("python3").arg(script).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: BTreeMap<String, [String; 2]> = serde_json::from_slice(&made.stdout).unwrap();
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    let decode = |text: String| text.as_bytes().chunks(2).map(byte).collect();
    made.into_iter().map(|(name, [tree, pack])| (name, (tree, decode(pack)))).collect()
}

async fn client(pool: &Pool) -> Peer {
    let mut peer = Peer::dial(pool.address(), "/v1/client", Some(pool.token())).await.unwrap();
    peer.say_json(&json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"})).await;
    assert_eq!(peer.hear().await.unwrap()["type"], "registered");
    peer
}

/// Sends a snapshot and returns the coordinator's final answer.
async fn send(peer: &mut Peer, channel: u32, name: &str, tree: &str, pack: &[u8]) -> Value {
    let manifest = json!({
        "project": format!("bomb-{name}"), "tree": tree, "head": null, "excludes": "", "files": 1, "bytes": 1,
    });
    let offer =
        json!({"type": "transfer", "step": "offer", "channel": channel, "manifest": manifest, "bases": []});
    peer.say_json(&offer).await;
    let want = peer.hear().await.unwrap();
    assert_eq!(want["step"], "want", "{want}");
    let begin = json!({
        "type": "transfer", "step": "begin", "channel": channel,
        "subject": {"kind": "snapshot", "manifest": manifest, "base": null},
        "blake3": blake3::hash(pack).to_hex().as_str(), "length": pack.len(),
    });
    peer.say_json(&begin).await;
    loop {
        let answer = peer.hear().await.unwrap();
        match answer["step"].as_str() {
            Some("from") => {
                let header = BinaryHeader { kind: BinaryKind::Transfer, channel, position: 0 };
                peer.say([header.encode().as_slice(), pack].concat()).await;
            }
            Some("taken") => {}
            _ => return answer,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_are_refused_with_their_figures_and_the_pool_goes_on() {
    let pool = Pool::start(1);
    let mut peer = client(&pool).await;
    let bombs = bombs();
    for (channel, (name, found, what)) in (1..).zip([
        ("paths", "11111111110", "paths"),
        ("bytes", "104857600000", "bytes in its files"),
        ("names", "", "bytes in its paths"),
        ("deep", "257", "directories one in another"),
        ("one delta", "21474835204", "bytes in one object of its pack"),
        ("many deltas", "", "bytes in its pack when unpacked"),
    ]) {
        let (tree, pack) = &bombs[name];
        let started = Instant::now();
        let answer = send(&mut peer, channel, name, tree, pack).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(
            (&answer["step"], &answer["error"]["code"]),
            (&json!("failed"), &json!("too_large")),
            "{answer}"
        );
        assert!(message.contains(what) && message.contains(found), "{name}: {message}");
        assert!(started.elapsed() < PATIENCE, "{name} took {:?}", started.elapsed());
        eprintln!("{name}: {} bytes, {:?}: {message}", pack.len(), started.elapsed());
    }
    let init = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(init.success());
    std::fs::write(pool.place().file("file"), "content\n").unwrap();
    let run = pool.buildpool(&["run", "--", "cat", "file"]).expect(0);
    assert_eq!(run.out(), "content\n");
}
