//! Floods of connections that show no token, from one address and from many.

use buildpool_tests::{PATIENCE, Pool, wait_until};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Connections that the flood holds open at a time: more than the coordinator gives to peers
/// without a token.
const HELD: usize = 900;
/// Delay before a connection of the flood is opened again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Jobs of the honest client during the flood.
const JOBS: usize = 10;
/// Duration of a job's command on a busy machine.
const JOB_WITHIN: Duration = Duration::from_secs(20);

/// Connects from a chosen loopback address.
async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Keeps one connection open with an unfinished request, and opens the next one when it ends.
async fn hold(number: usize, from: Ipv4Addr, to: SocketAddr, flood: Arc<Flood>) {
    while !flood.is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect(from, to).await else {
            // The machine has no free port. The coordinator closes connections, which frees ports.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        flood.opened.fetch_add(1, Ordering::Relaxed);
        let begun: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /v1/client HTTP/1.1\r\nHost: x\r\nAuthoriz",
            2 => b"\x16\x03\x01\x02\x00\x01\x00\x01",
            _ => b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\n\r\n",
        };
        let mut rest = Vec::new();
        if stream.write_all(begun).await.is_ok() {
            let ended = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut rest)).await;
            flood.closed.fetch_add(u64::from(ended.is_ok()), Ordering::Relaxed);
        }
        drop(stream);
        // Without a pause, the flood takes the processors that the client needs on this machine.
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    opened: AtomicU64,
    closed: AtomicU64,
}

fn descriptors(pool: &Pool) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", pool.coordinator_pid())).unwrap().count()
}

/// Runs jobs of an honest client while a flood from these addresses goes on.
async fn flood(addresses: &[Ipv4Addr]) {
    let pool = Pool::start(1);
    let quiet = descriptors(&pool);
    let (to, flood) = (pool.address(), Arc::new(Flood::default()));
    let mut peers = JoinSet::new();
    for number in 0..HELD {
        peers.spawn(hold(number, addresses[number % addresses.len()], to, flood.clone()));
    }
    tokio::task::block_in_place(|| {
        wait_until("the flood is here", || flood.opened.load(Ordering::Relaxed) > 2 * HELD as u64);
    });
    for number in 0..JOBS {
        let begun = Instant::now();
        let done = tokio::task::block_in_place(|| pool.shell(&format!("echo {number}")));
        assert_eq!(done.expect(0).out(), format!("{number}\n"));
        assert!(begun.elapsed() < JOB_WITHIN, "job {number} took {:?}", begun.elapsed());
        let held = descriptors(&pool).saturating_sub(quiet);
        assert!(held < 512 + 64 + 100, "{held} descriptors beside those of a quiet pool");
    }
    let worker = pool.buildpool(&["workers", "--json"]).expect(0).json();
    assert_eq!(worker[0]["connected"], true, "{worker}");
    flood.is_over.store(true, Ordering::Relaxed);
    assert!(flood.closed.load(Ordering::Relaxed) > 0, "the coordinator ends connections of the flood");
    let ended = tokio::time::timeout(PATIENCE, async { while peers.join_next().await.is_some() {} });
    ended.await.expect("the flood ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_client_works_during_a_flood_from_its_own_address() {
    flood(&[Ipv4Addr::LOCALHOST]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_client_works_during_a_flood_from_many_addresses() {
    let addresses: Vec<Ipv4Addr> = (2..=120).map(|last| Ipv4Addr::new(127, 0, 7, last)).collect();
    flood(&addresses).await;
}
