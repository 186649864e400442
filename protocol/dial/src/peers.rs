//! Questions to the coordinators of a pool about their part, without a token.

use crate::{PoolUrl, connect};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time limit for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Limit on the bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

/// The coordinator of a link, and the other coordinators of its pool.
#[derive(Clone, Debug)]
pub struct Peers {
    current: PoolUrl,
    others: Vec<PoolUrl>,
    tls: Option<Arc<ClientConfig>>,
}

impl Peers {
    /// Returns the coordinators of `pool` for a link to `current`.
    pub fn new(pool: &PoolUrl, current: &PoolUrl, tls: Option<Arc<ClientConfig>>) -> Self {
        let others = pool.coordinators().filter(|url| url != current).collect();
        Self { current: current.clone(), others, tls }
    }

    /// Returns true if there are others.
    pub fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns true if another coordinator answers that it leads, and the one of the link gives no answer. So a slow link to a live
    /// leader is kept, also if the pool knows this leader by two URLs.
    pub async fn is_replaced(&self) -> bool {
        let mut asked = JoinSet::new();
        for url in &self.others {
            let asking = leads(url.clone(), self.tls.clone());
            asked.spawn(async { timeout(ANSWER_WITHIN, asking).await.ok().flatten() == Some(true) });
        }
        let asking = leads(self.current.clone(), self.tls.clone());
        let current = timeout(ANSWER_WITHIN, asking).await.ok().flatten();
        current.is_none() && asked.join_all().await.contains(&true)
    }
}

/// Returns true if a coordinator answers `/readyz` with `ready`, and false after another answer. `None` without an answer.
async fn leads(url: PoolUrl, tls: Option<Arc<ClientConfig>>) -> Option<bool> {
    let mut stream = connect(&url, tls).await.ok()?;
    let (path, host) = (url.path("/readyz"), url.host());
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    // TLS connections often end without `close_notify`. The answer is whole then.
    let _end = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    // A proxy may send the body in chunks, so its lines are compared.
    Some(head.starts_with("HTTP/1.1 200") && body.lines().any(|line| line == "ready"))
}

#[cfg(test)]
mod tests {
    use super::Peers;
    use crate::PoolUrl;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Starts a server with this answer. Without one it accepts connections and never reads, as a paused process.
    async fn server(answer: Option<&'static str>) -> PoolUrl {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        tokio::spawn(async move {
            loop {
                let Some(answer) = answer else { std::future::pending().await };
                let (mut stream, _) = listener.accept().await.expect("a peer connects");
                let mut request = [0; 4096];
                let length = stream.read(&mut request).await.expect("a request");
                assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.expect("sent");
            }
        });
        format!("ws://127.0.0.1:{port}").parse().expect("a URL")
    }

    #[tokio::test]
    async fn a_leader_is_replaced_if_it_gives_no_answer_and_another_one_leads() {
        const READY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n";
        const CHUNKED: &str =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nready\n\r\n0\r\n\r\n";
        const STANDBY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nstandby\n";
        const AWAY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 6\r\n\r\nready\n";
        for (current, others, expected) in [
            (None, &[Some(READY)][..], true),
            (None, &[Some(STANDBY), Some(CHUNKED)], true),
            (None, &[Some(STANDBY), None], false),
            (None, &[Some(AWAY)], false),
            (None, &[], false),
            (Some(READY), &[Some(READY)], false),
            (Some(STANDBY), &[Some(READY)], false),
        ] {
            let current_url = server(current).await;
            let mut pool = current_url.to_string();
            for other in others {
                pool = format!("{},{pool}", server(*other).await);
            }
            let peers = Peers::new(&pool.parse().expect("URLs"), &current_url, None);
            assert_eq!(peers.has_others(), !others.is_empty());
            assert_eq!(peers.is_replaced().await, expected, "{current:?} {others:?}");
        }
    }
}
