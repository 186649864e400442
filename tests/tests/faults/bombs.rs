//! Tests of decompression bombs: trees of few objects with billions of paths, packs that inflate to
//! gigabytes. The coordinator refuses them with the exceeded limit, uses little memory and time,
//! and continues.

use buildpool_tests::{PATIENCE, Peer, Pool, bombs};
use serde_json::json;
use std::process::Command;
use std::time::Instant;

async fn client(pool: &Pool) -> Peer {
    let mut peer = Peer::dial(pool.address(), "/v1/client", Some(pool.token())).await.unwrap();
    peer.send_json(&json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"})).await;
    assert_eq!(peer.receive().await.unwrap()["type"], "registered");
    peer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_are_refused_with_their_figures_and_the_pool_goes_on() {
    let pool = Pool::start(1);
    let mut peer = client(&pool).await;
    let bombs = bombs::all();
    for (channel, (name, found, what)) in (1..).zip([
        ("paths", "11111111110", "paths"),
        ("bytes", "104857600000", "bytes in its files"),
        ("names", "", "bytes in its paths"),
        ("deep", "257", "directories one in another"),
        ("one delta", "21474835204", "bytes in one object of its pack"),
        ("many deltas", "", "bytes in its pack when unpacked"),
    ]) {
        let bomb = &bombs[name];
        let started = Instant::now();
        let answer = bombs::send(&mut peer, channel, name, bomb).await.unwrap();
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(
            (&answer["step"], &answer["error"]["code"]),
            (&json!("failed"), &json!("too_large")),
            "{answer}"
        );
        assert!(message.contains(what) && message.contains(found), "{name}: {message}");
        assert!(started.elapsed() < PATIENCE, "{name} took {:?}", started.elapsed());
        eprintln!("{name}: {} bytes, {:?}: {message}", bomb.pack.len(), started.elapsed());
    }
    let init = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(init.success());
    std::fs::write(pool.place().file("file"), "content\n").unwrap();
    let run = pool.buildpool(&["run", "--", "cat", "file"]).expect(0);
    assert_eq!(run.out(), "content\n");
}
