//! A TCP proxy with network faults: connection resets, one dead direction, delayed or trickling
//! bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Size of the copy buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// Direction of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the connecting side.
    Up,
    /// To the connecting side.
    Down,
}

impl Direction {
    const fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// Flow of bytes in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// Immediate.
    #[default]
    Pass,
    /// Stopped without a notification: half of a half-open connection. Held bytes continue when the
    /// flow changes.
    Hold,
    /// Each piece is delayed.
    Delay(Duration),
    /// One byte, then this pause.
    Trickle(Duration),
}

#[derive(Clone, Copy, Default)]
struct Plan {
    flows: [Flow; 2],
    /// Connections of an older generation are reset.
    generation: u64,
    /// In each direction, connections with a smaller number carry no more bytes.
    dead_before: [u64; 2],
    /// True if a new connection is reset immediately.
    refuses: bool,
    /// Resets each connection after this many bytes, both directions together.
    reset_after: Option<u64>,
    /// Limit on the bytes in each direction, over all connections.
    most: [Option<u64>; 2],
}

/// A proxy for one address, with its own port and thread. It ends on drop.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    plan: watch::Sender<Plan>,
    counts: Arc<Counts>,
    _runtime: Runtime,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    resets: AtomicU64,
    bytes: [AtomicU64; 2],
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, generation {}", self.flows, self.generation)
    }
}

impl Proxy {
    /// Starts a proxy to this address that passes all bytes.
    pub fn start(target: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (plan, watched) = watch::channel(Plan::default());
        let counts = Arc::new(Counts::default());
        runtime.spawn(listen(listener, target, watched, Arc::clone(&counts)));
        Self { address, plan, counts, _runtime: runtime }
    }

    /// Returns the URL for `--coordinator`.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the flow of a direction, also for existing connections.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.plan.send_modify(|plan| plan.flows[direction.index()] = flow);
    }

    /// Makes one direction of the existing connections dead forever. Later connections are not
    /// affected.
    pub fn half_open(&self, direction: Direction) {
        let connections = self.connections();
        self.plan.send_modify(|plan| plan.dead_before[direction.index()] = connections);
    }

    /// Ends all faults for later connections and continues held bytes.
    pub fn heal(&self) {
        self.plan.send_modify(|plan| {
            plan.flows = [Flow::Pass; 2];
            plan.refuses = false;
            plan.reset_after = None;
            plan.most = [None; 2];
        });
    }

    /// Resets all existing connections.
    pub fn reset(&self) {
        self.plan.send_modify(|plan| plan.generation += 1);
    }

    /// Resets existing and new connections until [`Self::heal`].
    pub fn refuse(&self) {
        self.plan.send_modify(|plan| {
            plan.generation += 1;
            plan.refuses = true;
        });
    }

    /// Resets each connection after this many bytes, both directions together, until
    /// [`Self::heal`].
    pub fn reset_after(&self, bytes: u64) {
        self.plan.send_modify(|plan| plan.reset_after = Some(bytes));
    }

    /// Holds a direction after this many more bytes, until [`Self::heal`]. Returns the total number
    /// of bytes. The number is exact if only one connection exists at a time.
    pub fn hold_after(&self, direction: Direction, bytes: u64) -> u64 {
        let most = self.bytes(direction) + bytes;
        self.plan.send_modify(|plan| plan.most[direction.index()] = Some(most));
        most
    }

    /// Number of connections made.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Number of connections reset.
    pub fn resets(&self) -> u64 {
        self.counts.resets.load(Ordering::Relaxed)
    }

    /// Number of bytes in a direction, over all connections.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.counts.bytes[direction.index()].load(Ordering::Relaxed)
    }
}

async fn listen(listener: TcpListener, target: SocketAddr, plan: watch::Receiver<Plan>, counts: Arc<Counts>) {
    while let Ok((inner, _)) = listener.accept().await {
        let number = counts.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(carry(inner, target, number, plan.clone(), Arc::clone(&counts)));
    }
}

/// Copies the bytes of one connection until its end.
async fn carry(
    mut inner: TcpStream,
    target: SocketAddr,
    number: u64,
    plan: watch::Receiver<Plan>,
    counts: Arc<Counts>,
) {
    // Without this option, the connection only ends more gracefully.
    let _ = inner.set_zero_linger();
    let begun = *plan.borrow();
    if begun.refuses {
        counts.resets.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let Ok(mut outer) = TcpStream::connect(target).await else { return };
    let _ = outer.set_zero_linger();
    let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
    let carried = Arc::new(AtomicU64::new(0));
    // Owned halves would send an orderly shutdown on drop, before the reset.
    let ((inner_in, inner_out), (outer_in, outer_out)) = (inner.split(), outer.split());
    let lane = |direction, from, to| Lane {
        number,
        direction,
        from,
        to,
        plan: plan.clone(),
        carried: Arc::clone(&carried),
        counts: Arc::clone(&counts),
    };
    let (up, down) = (lane(Direction::Up, inner_in, outer_out), lane(Direction::Down, outer_in, inner_out));
    let mut reset = plan.clone();
    tokio::select! {
        _ = async { tokio::join!(up.run(), down.run()) } => {}
        _ = reset.wait_for(|plan| {
            plan.generation != begun.generation
                || plan.reset_after.is_some_and(|most| carried.load(Ordering::Relaxed) >= most)
        }) => drop(counts.resets.fetch_add(1, Ordering::Relaxed)),
        () = exhausted(&plan, &carried) => drop(counts.resets.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Waits until a connection has reached its byte limit.
async fn exhausted(plan: &watch::Receiver<Plan>, carried: &AtomicU64) {
    loop {
        if plan.borrow().reset_after.is_some_and(|most| carried.load(Ordering::Relaxed) >= most) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// One direction of one connection.
struct Lane<'a> {
    number: u64,
    direction: Direction,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    plan: watch::Receiver<Plan>,
    carried: Arc<AtomicU64>,
    counts: Arc<Counts>,
}

impl Lane<'_> {
    async fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let index = self.direction.index();
            let Some(plan) = self.may_pass().await else { return };
            let (most, pause) = match plan.flows[index] {
                Flow::Trickle(pause) => (1, pause),
                Flow::Delay(pause) => (BUFFER_BYTES, pause),
                Flow::Pass | Flow::Hold => (self.allowed(&plan), Duration::ZERO),
            };
            let count = match self.from.read(&mut buffer[..most]).await {
                Ok(0) | Err(_) => {
                    // The other direction may continue.
                    let _ = self.to.shutdown().await;
                    return;
                }
                Ok(count) => count,
            };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                // The limits may have changed during the read.
                let Some(plan) = self.may_pass().await else { return };
                let (now, later) = rest.split_at(rest.len().min(self.allowed(&plan)));
                if self.to.write_all(now).await.is_err() {
                    return;
                }
                self.carried.fetch_add(now.len() as u64, Ordering::Relaxed);
                self.counts.bytes[index].fetch_add(now.len() as u64, Ordering::Relaxed);
                rest = later;
            }
        }
    }

    /// Returns the number of bytes that may be sent at once, at least one. A connection can so end
    /// or be held within a message.
    fn allowed(&self, plan: &Plan) -> usize {
        let carried = self.carried.load(Ordering::Relaxed);
        let of_connection = plan.reset_after.map(|most| most.saturating_sub(carried));
        let of_all = plan.most[self.direction.index()].map(|most| most.saturating_sub(self.carried_of_all()));
        let least = [of_connection, of_all].into_iter().flatten().min();
        least.and_then(|left| usize::try_from(left).ok()).unwrap_or(BUFFER_BYTES).clamp(1, BUFFER_BYTES)
    }

    /// Returns the bytes of this direction over all connections.
    fn carried_of_all(&self) -> u64 {
        self.counts.bytes[self.direction.index()].load(Ordering::Relaxed)
    }

    /// Waits until this direction may carry bytes. Returns `None` when the proxy ends.
    async fn may_pass(&mut self) -> Option<Plan> {
        let (index, number, carried) = (self.direction.index(), self.number, self.carried_of_all());
        let passes = |plan: &Plan| {
            plan.flows[index] != Flow::Hold
                && number >= plan.dead_before[index]
                && plan.most[index].is_none_or(|most| carried < most)
        };
        self.plan.wait_for(passes).await.map(|plan| *plan).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, Flow, Proxy};
    use crate::wait_until;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    /// Starts an echo server with a proxy.
    fn echo() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut reader = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut reader, &mut stream);
                });
            }
        });
        Proxy::start(address)
    }

    fn said(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
        stream.write_all(text).unwrap();
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).unwrap();
        answer
    }

    #[test]
    fn bytes_pass_and_a_reset_is_one() {
        let proxy = echo();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said(&mut stream, b"hello"), b"hello");
        assert_eq!((proxy.bytes(Direction::Up), proxy.connections()), (5, 1));
        proxy.reset();
        let error = stream.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        proxy.refuse();
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(refused.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        proxy.heal();
        assert_eq!(said(&mut TcpStream::connect(proxy.address()).unwrap(), b"again"), b"again");
    }

    #[test]
    fn each_direction_is_held_by_itself_and_what_was_held_goes_on() {
        for direction in [Direction::Up, Direction::Down] {
            let proxy = echo();
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            assert_eq!(said(&mut stream, b"a"), b"a");
            proxy.set(direction, Flow::Hold);
            stream.write_all(b"b").unwrap();
            if direction == Direction::Down {
                wait_until("the other direction passes", || proxy.bytes(Direction::Up) == 2);
            }
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let error = stream.read(&mut [0; 1]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
            stream.set_read_timeout(None).unwrap();
            proxy.heal();
            let mut answer = [0; 1];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"b");
        }
    }

    #[test]
    fn a_direction_is_held_after_its_bytes_also_on_another_connection() {
        let proxy = echo();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said(&mut stream, b"before"), b"before");
        assert_eq!(proxy.hold_after(Direction::Up, 3), 9);
        stream.write_all(b"12345").unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, proxy.bytes(Direction::Up)), (b"123", 9));
        proxy.reset();
        wait_until("it is reset", || proxy.resets() == 1);
        let mut other = TcpStream::connect(proxy.address()).unwrap();
        other.write_all(b"12").unwrap();
        wait_until("it stands", || proxy.connections() == 2);
        assert_eq!(proxy.bytes(Direction::Up), 9);
        proxy.heal();
        let mut answer = [0; 2];
        other.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, proxy.bytes(Direction::Up)), (b"12", 11));
    }

    #[test]
    fn a_connection_ends_after_its_bytes_and_slow_ones_come_one_by_one() {
        let proxy = echo();
        proxy.set(Direction::Up, Flow::Trickle(Duration::from_millis(1)));
        proxy.set(Direction::Down, Flow::Delay(Duration::from_millis(1)));
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said(&mut stream, b"slowly"), b"slowly");
        proxy.heal();
        proxy.reset_after(20);
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said(&mut stream, b"12345678"), b"12345678");
        wait_until("the connection is reset", || stream.write_all(b"1").is_err());
        assert!(proxy.resets() >= 1);
    }
}
