//! Working trees on their way while the network is cut: what arrived is not sent again.

use buildpool_tests::{Direction, Finished, Pool, Proxy, wait_until};
use std::fs;
use std::process::{Command, Stdio};

/// Bytes of the one file of a tree; no compression makes them fewer.
const TREE_BYTES: u64 = 6_000_000;
/// From here on a cut shows whether what arrived before it counts. How much that was depends on the machine: what waits to
/// be read when a connection is reset is gone. Beginning anew would cost all of it again.
const TELLING: u64 = 1_000_000;
/// After how many bytes a connection is cut: before anything of use was said, inside the first frames, in the middle, and
/// shortly before the end.
const CUTS: [u64; 5] = [200, 70_000, 1_000_003, 3_141_592, 5_900_000];

/// A repository in the directory where commands are started.
fn project(pool: &Pool) {
    let init = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(init.success());
}

/// Another tree than any before; its checksum.
fn change(pool: &Pool, number: u64) -> String {
    let mut content = vec![0; usize::try_from(TREE_BYTES).unwrap()];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut content);
    fs::write(pool.place().file("noise"), &content).unwrap();
    let sum = Command::new("cksum").arg("noise").current_dir(pool.place().work()).output().unwrap();
    Finished::from(sum).expect(0).out()
}

#[test]
fn a_client_that_is_cut_off_while_it_sends_goes_on_where_the_coordinator_is() {
    let pool = Pool::start(1);
    project(&pool);
    // A pool that can't be reached at first is not waited for, so the first cut comes after the greeting.
    for cut in &CUTS[1..] {
        let expected = change(&pool, *cut);
        let proxy = Proxy::start(pool.address());
        proxy.reset_after(*cut);
        let mut command = pool.command(&["run", "--", "cksum", "noise"]);
        command.env("BUILDPOOL_URL", proxy.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_until("it is cut", || proxy.resets() >= 1);
        proxy.heal();
        let run = Finished::from(child.wait_with_output().unwrap()).expect(0);
        assert_eq!(run.out(), expected, "cut after {cut}");
        let sent = proxy.bytes(Direction::Up);
        assert!(sent >= TREE_BYTES, "cut after {cut}: {sent} bytes, {proxy:?}");
        assert!(*cut < TELLING || sent < TREE_BYTES + cut, "cut after {cut}: {sent} bytes, {proxy:?}");
    }
}

#[test]
fn a_worker_that_is_cut_off_while_it_fetches_goes_on_where_it_is() {
    let mut pool = Pool::start(0);
    project(&pool);
    let proxy = Proxy::start(pool.address());
    pool.add_worker_through(&proxy.url(), Vec::new());
    pool.wait_for_workers();
    for cut in CUTS {
        let expected = change(&pool, cut);
        let before = (proxy.bytes(Direction::Down), proxy.resets());
        // All connections before have ended, so their bytes count in none that stands.
        proxy.reset();
        wait_until("the worker's link is reset", || proxy.resets() > before.1);
        pool.wait_for_workers();
        let resets = proxy.resets();
        proxy.reset_after(cut + 20_000);
        let job = pool.buildpool(&["run", "--detach", "--", "cksum", "noise"]).expect(0).out();
        wait_until("it is cut", || proxy.resets() > resets);
        proxy.heal();
        let result = pool.wait_for_state(job.trim(), "done");
        assert_eq!((&result["verdict"], &result["attempt"]), (&"passed".into(), &1.into()), "{result}");
        let logs = pool.buildpool(&["logs", job.trim(), "--stream", "stdout"]).expect(0);
        assert_eq!(logs.out(), expected, "cut after {cut}");
        let fetched = proxy.bytes(Direction::Down) - before.0;
        assert!(fetched >= TREE_BYTES, "cut after {cut}: {fetched} bytes");
        assert!(cut < TELLING || fetched < TREE_BYTES + cut, "cut after {cut}: {fetched} bytes");
    }
}
