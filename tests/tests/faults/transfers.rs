//! Tests of interrupted transfers of working trees: bytes that arrived are not sent again.

use buildpool_protocol::limits::TRANSFER_FRAME_BYTES;
use buildpool_tests::{Direction, Finished, Pool, Proxy, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Size of the single, incompressible file of a tree, in bytes.
const TREE_BYTES: u64 = 6_000_000;
/// Upper bound for the other bytes of one connection: handshake, registration, the manifest, the
/// rest of the pack, frame headers, reports.
const WORDS_BYTES: u64 = 32_000;
/// Bytes after which a connection is reset: before the transfer, inside the first frames, in the
/// middle, and near the end.
const CUTS: [u64; 5] = [200, 70_000, 1_000_003, 3_141_592, 5_900_000];

/// Creates a repository in the directory where commands are started.
fn project(pool: &Pool) {
    let init = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(init.success());
}

/// Changes the tree to a new one and returns its checksum.
fn change(pool: &Pool, number: u64) -> String {
    let mut content = vec![0; usize::try_from(TREE_BYTES).unwrap()];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut content);
    fs::write(pool.place().file("noise"), &content).unwrap();
    let sum = Command::new("cksum").arg("noise").current_dir(pool.place().work()).output().unwrap();
    Finished::from(sum).expect(0).out()
}

/// Returns the bytes of partially received files in this directory and below. The coordinator has
/// a directory for each trust class.
fn received(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { received(&entry.path()) } else { metadata.len() })
    });
    bytes.sum()
}

/// Returns the directories for incoming files of a worker, one per project.
fn incoming(data: &Path) -> Vec<PathBuf> {
    let projects = fs::read_dir(data.join("projects")).into_iter().flatten().flatten();
    projects.map(|project| project.path().join("incoming")).collect()
}

/// Resets a connection that is held after `cut` bytes, `carried` in all, once its complete frames
/// are on the receiver's disk. Returns the number of bytes there.
fn strike(proxy: &Proxy, direction: Direction, (cut, carried): (u64, u64), on_disk: impl Fn() -> u64) -> u64 {
    wait_until("all that may pass has passed", || proxy.bytes(direction) == carried);
    // An incomplete last frame cannot be stored.
    let whole = cut.saturating_sub(TRANSFER_FRAME_BYTES as u64 + WORDS_BYTES);
    wait_until("the received bytes are on the disk", || on_disk() >= whole);
    let (lies, resets) = (on_disk(), proxy.resets());
    proxy.reset();
    wait_until("it is cut", || proxy.resets() > resets);
    proxy.heal();
    lies
}

/// Checks that only bytes missing on the disk were sent after the reset.
#[track_caller]
fn check(proxy: &Proxy, direction: Direction, (cut, carried): (u64, u64), lies: u64) {
    let after = proxy.bytes(direction) - carried;
    let most = TREE_BYTES - lies + WORDS_BYTES;
    assert!(
        after <= most,
        "cut after {cut} with {lies} on the disk: {after} bytes, at most {most}; {proxy:?}"
    );
    assert!(after + cut >= TREE_BYTES, "cut after {cut}: {after} bytes more, which can't be all; {proxy:?}");
}

#[test]
fn a_client_that_is_cut_off_while_it_sends_goes_on_where_the_coordinator_is() {
    let pool = Pool::start(1);
    project(&pool);
    let incoming = pool.data("coordinator").join("transfer/incoming");
    // The client does not wait for a pool that it cannot reach at first, so the first reset comes
    // after the handshake.
    for cut in &CUTS[1..] {
        let expected = change(&pool, *cut);
        let proxy = Proxy::start(pool.address());
        let carried = proxy.hold_after(Direction::Up, *cut);
        let mut command = pool.command(&["run", "--", "cksum", "noise"]);
        command.env("BUILDPOOL_URL", proxy.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let lies = strike(&proxy, Direction::Up, (*cut, carried), || received(&incoming));
        let run = Finished::from(child.wait_with_output().unwrap()).expect(0);
        assert_eq!(run.out(), expected, "cut after {cut}");
        check(&proxy, Direction::Up, (*cut, carried), lies);
    }
}

#[test]
fn a_worker_that_is_cut_off_while_it_fetches_goes_on_where_it_is() {
    let mut pool = Pool::start(0);
    project(&pool);
    let proxy = Proxy::start(pool.address());
    pool.add_worker_through(&proxy.url(), Vec::new());
    pool.wait_for_workers();
    let data = pool.data("w0");
    for cut in CUTS {
        let expected = change(&pool, cut);
        let carried = proxy.hold_after(Direction::Down, cut);
        let job = pool.buildpool(&["run", "--detach", "--", "cksum", "noise"]).expect(0).out();
        let on_disk = || incoming(&data).iter().map(|directory| received(directory)).sum();
        let lies = strike(&proxy, Direction::Down, (cut, carried), on_disk);
        let result = pool.wait_for_state(job.trim(), "done");
        assert_eq!((&result["verdict"], &result["attempt"]), (&"passed".into(), &1.into()), "{result}");
        let logs = pool.buildpool(&["logs", job.trim(), "--stream", "stdout"]).expect(0);
        assert_eq!(logs.out(), expected, "cut after {cut}");
        check(&proxy, Direction::Down, (cut, carried), lies);
    }
}

#[test]
fn a_link_that_is_cut_every_few_frames_brings_a_tree_all_the_same() {
    let mut pool = Pool::start(0);
    project(&pool);
    let proxy = Proxy::start(pool.address());
    pool.add_worker_through(&proxy.url(), Vec::new());
    pool.wait_for_workers();
    let mut content = vec![0; 200_000];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    fs::write(pool.place().file("noise"), &content).unwrap();
    let sum = Command::new("cksum").arg("noise").current_dir(pool.place().work()).output().unwrap();
    // Less than one full frame: the transfer makes progress only because the first frames are
    // small.
    proxy.reset_after(70_000);
    let job = pool.buildpool(&["run", "--detach", "--", "cksum", "noise"]).expect(0).out();
    let result = pool.wait_for_state(job.trim(), "done");
    assert_eq!((&result["verdict"], &result["attempt"]), (&"passed".into(), &1.into()), "{result}");
    assert!(proxy.resets() >= 3, "{proxy:?}");
    proxy.heal();
    let logs = pool.buildpool(&["logs", job.trim(), "--stream", "stdout"]).expect(0);
    assert_eq!(logs.out(), Finished::from(sum).expect(0).out());
}
