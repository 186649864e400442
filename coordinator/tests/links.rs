//! Tests of the coordinator over real sockets. The worker and the client send single messages.

use buildpool_coordinator::auth::{JobsAfter, Tokens};
use buildpool_coordinator::{Config, Coordinator};
use buildpool_protocol::client_link::{FromClient, Role, StreamChoice, SubmitMessage, ToClient, View};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::frame::{self, BinaryHeader, BinaryKind};
use buildpool_protocol::ids::{AttemptId, BootId, JobId, Lease, WorkerId};
use buildpool_protocol::outcome::{Ending, Outcome, Seal};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
use buildpool_protocol::report::{JobState, Verdict};
use buildpool_protocol::spec::{Command, JobSpec, Selector, Source};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{
    Condition, Desired, FromWorker, Grant, Held, HeldState, Register, ToWorker,
};
use futures_util::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

struct Pool {
    address: SocketAddr,
    submit: String,
    worker: String,
    tokens: Tokens,
    directory: tempfile::TempDir,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Pool {
    async fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory")).await
    }

    async fn start_in(directory: tempfile::TempDir) -> Self {
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            ..Config::new(directory.path().join("coordinator"))
        };
        let coordinator = Coordinator::start(config).await.expect("it starts");
        let token =
            |role, name| coordinator.tokens().create(role, name, None, None, "test").expect("a token").token;
        let (submit, worker) = (token(Role::Submit, "ada"), token(Role::Worker, "mac-1"));
        let (address, tokens) = (coordinator.address(), coordinator.tokens().clone());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let served = tokio::spawn(async move {
            coordinator.serve(async { drop(stopped.await) }).await.expect("it serves");
        });
        Self { address, submit, worker, tokens, directory, stop, served }
    }

    async fn dial(&self, path: &str, token: &str) -> Peer {
        self.try_dial(path, token).await.expect("connected")
    }

    async fn try_dial(&self, path: &str, token: &str) -> Result<Peer, tokio_tungstenite::tungstenite::Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().expect("a request");
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| Peer(socket))
    }

    async fn client(&self) -> Peer {
        self.client_with(&self.submit).await
    }

    async fn client_with(&self, token: &str) -> Peer {
        let mut peer = self.dial("/v1/client", token).await;
        peer.send(&FromClient::Register { protocol: VersionRange::ours(), client: "test".into() }).await;
        assert!(matches!(peer.receive().await, ToClient::Registered { .. }));
        peer
    }

    async fn worker(&self, worker: WorkerId, boot: BootId, held: Vec<Held>) -> (Peer, Vec<Desired>) {
        let mut peer = self.dial("/v1/worker", &self.worker).await;
        peer.send(&FromWorker::Register(Box::new(Register {
            protocol: VersionRange::ours(),
            worker,
            boot,
            earlier: Vec::new(),
            name: "mac-1".into(),
            version: "0".into(),
            slots: 2,
            labels: BTreeMap::from([("os".into(), "macos".into())]),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            held,
            condition: Condition::default(),
        })))
        .await;
        match peer.receive().await {
            ToWorker::Registered { desired, .. } => (peer, desired),
            other => panic!("{other:?}"),
        }
    }
}

struct Peer(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Peer {
    async fn send<M: serde::Serialize>(&mut self, message: &M) {
        self.0.send(Message::text(frame::encode_control(message))).await.expect("sent");
    }

    async fn next(&mut self) -> Message {
        tokio::time::timeout(PATIENCE, self.0.next()).await.expect("in time").expect("open").expect("whole")
    }

    async fn receive<M: serde::de::DeserializeOwned + buildpool_protocol::limiter::Limited>(&mut self) -> M {
        match self.next().await {
            Message::Text(text) => frame::decode_control(&text).expect("understood"),
            other => panic!("not a control message: {other:?}"),
        }
    }

    async fn granted(&mut self) -> Grant {
        match self.receive().await {
            ToWorker::Grant(grant) => *grant,
            other => panic!("not a grant: {other:?}"),
        }
    }

    async fn output(&mut self, position: u64, chunks: &[u8]) {
        let header = BinaryHeader { kind: BinaryKind::Output, channel: 0, position };
        let frame: Vec<u8> = [&header.encode()[..], chunks].concat();
        self.0.send(Message::binary(frame)).await.expect("sent");
    }
}

fn chunk(grant: &Grant, stream: Stream, sequence: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let header = ChunkHeader {
        attempt: grant.lease.attempt,
        stream,
        kind: ChunkKind::Data,
        length: u32::try_from(bytes.len()).expect("short"),
        elapsed_ms: 1,
        sequence,
        offset,
    };
    [&header.encode()[..], bytes].concat()
}

fn outcome(ending: Ending, stdout: &[u8], stderr: &[u8], log_length: usize) -> Box<Outcome> {
    let seal =
        |bytes: &[u8]| Seal { length: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() };
    Box::new(Outcome {
        started_at_ms: Some(1_000),
        duration: Duration::from_secs(1),
        log_length: log_length as u64,
        ..Outcome::new(ending, 2_000, [seal(stdout), seal(stderr)])
    })
}

fn ids() -> (WorkerId, BootId) {
    (WorkerId::from_uuid(Uuid::now_v7()), BootId::from_uuid(Uuid::now_v7()))
}

fn submit(spec: JobSpec) -> (JobId, FromClient) {
    let job = JobId::from_uuid(Uuid::now_v7());
    let submit = SubmitMessage {
        job,
        spec,
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        wait: true,
        follow: true,
        progress: false,
    };
    (job, FromClient::Submit { request: 7, submit: Box::new(submit) })
}

fn echo() -> JobSpec {
    JobSpec::new(Command::Argv(vec!["echo".into(), "hi".into()]), Source::Empty)
}

/// Collects all messages of a client until `complete`: followed bytes by stream, and the result.
async fn to_completion(client: &mut Peer) -> ([Vec<u8>; 2], buildpool_protocol::JobResult) {
    let mut streams = [Vec::new(), Vec::new()];
    let (mut result, mut ended) = (None, false);
    while result.is_none() || !ended {
        match client.next().await {
            Message::Binary(bytes) => {
                let (header, mut chunks) = BinaryHeader::decode(&bytes).expect("a frame");
                assert_eq!((header.kind, header.channel), (BinaryKind::Follow, 7));
                while let Ok((header, payload)) = ChunkHeader::decode(chunks) {
                    streams[header.stream.index()].extend_from_slice(payload);
                    chunks = &chunks[usize::try_from(header.size()).expect("small")..];
                }
            }
            Message::Text(text) => match frame::decode_control(&text).expect("understood") {
                ToClient::Complete { result: complete, .. } => result = Some(*complete),
                ToClient::End { .. } => ended = true,
                ToClient::Accepted { .. } => {}
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    (streams, result.expect("complete"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_to_a_worker_and_its_answer_comes_back() {
    let pool = Pool::start().await;
    let (worker, boot) = ids();
    let (mut mac, _) = pool.worker(worker, boot, Vec::new()).await;
    let mut client = pool.client().await;
    let (job, message) = submit(echo());
    client.send(&message).await;
    let grant = mac.granted().await;
    assert_eq!(grant.lease.attempt.job, job);
    assert_eq!(grant.lease.attempt.number, 1);
    let chunks =
        [chunk(&grant, Stream::Stdout, 0, 0, b"hi\n"), chunk(&grant, Stream::Stderr, 1, 0, b"warn\n")]
            .concat();
    mac.output(0, &chunks).await;
    let ended = outcome(Ending::Exited { code: 0 }, b"hi\n", b"warn\n", chunks.len());
    mac.send(&FromWorker::Complete { lease: grant.lease, outcome: ended }).await;
    let (streams, result) = to_completion(&mut client).await;
    assert_eq!(streams, [b"hi\n".to_vec(), b"warn\n".to_vec()]);
    assert_eq!((result.verdict, result.exit_code, result.success), (Some(Verdict::Passed), Some(0), true));
    assert_eq!((result.state, result.worker.as_deref(), result.attempt), (JobState::Done, Some("mac-1"), 1));
    assert!(matches!(mac.receive().await, ToWorker::Act(Desired::Forget { lease }) if lease == grant.lease));
    client
        .send(&FromClient::Job {
            request: 8,
            job: job.to_string(),
            view: View::default(),
            wait: Duration::ZERO,
            progress: false,
        })
        .await;
    match client.receive().await {
        ToClient::Job { request: 8, result: again } => assert_eq!(*again, result),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_with_a_hole_or_a_wrong_checksum_is_asked_for_again() {
    let pool = Pool::start().await;
    let (worker, boot) = ids();
    let (mut mac, _) = pool.worker(worker, boot, Vec::new()).await;
    let mut client = pool.client().await;
    client.send(&submit(echo()).1).await;
    let grant = mac.granted().await;
    let (first, second) =
        (chunk(&grant, Stream::Stdout, 0, 0, b"one\n"), chunk(&grant, Stream::Stdout, 1, 4, b"two\n"));
    mac.output(first.len() as u64, &second).await;
    assert!(matches!(mac.receive().await, ToWorker::Position { position: 0, .. }));
    mac.output(0, &first).await;
    let ended = outcome(Ending::Exited { code: 1 }, b"one\ntwo\n", b"", first.len() + second.len());
    mac.send(&FromWorker::Complete { lease: grant.lease, outcome: ended.clone() }).await;
    assert!(
        matches!(mac.receive().await, ToWorker::Position { position, .. } if position == first.len() as u64)
    );
    mac.output(first.len() as u64, &second).await;
    // A repeat is dropped.
    mac.output(0, &first).await;
    let lie = outcome(Ending::Exited { code: 1 }, b"one\nTWO\n", b"", first.len() + second.len());
    mac.send(&FromWorker::Complete { lease: grant.lease, outcome: lie }).await;
    assert!(matches!(mac.receive().await, ToWorker::Position { position: 0, .. }));
    mac.output(0, &[first, second].concat()).await;
    mac.send(&FromWorker::Complete { lease: grant.lease, outcome: ended }).await;
    let (_, result) = to_completion(&mut client).await;
    assert_eq!((result.verdict, result.exit_code), (Some(Verdict::Failed), Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_coordinator_goes_on_with_the_attempt() {
    let pool = Pool::start().await;
    let (worker, boot) = ids();
    let (mut mac, _) = pool.worker(worker, boot, Vec::new()).await;
    let mut client = pool.client().await;
    let (job, message) = submit(echo());
    client.send(&message).await;
    let grant = mac.granted().await;
    let first = chunk(&grant, Stream::Stdout, 0, 0, b"one\n");
    mac.output(0, &first).await;
    client
        .send(&FromClient::Follow {
            request: 9,
            job: job.to_string(),
            cursor: None,
            attempt: None,
            to_end: false,
            tail: None,
            stream: StreamChoice::Both,
        })
        .await;
    while !matches!(client.next().await, Message::Binary(_)) {}
    pool.stop.send(()).expect("it serves");
    pool.served.await.expect("it ends");
    drop((mac, client));

    let pool = Pool::start_in(pool.directory).await;
    let held = Held {
        lease: grant.lease,
        state: HeldState::Running,
        log_length: 4,
        started_at_ms: Some(1),
        output_held: None,
    };
    let (mut mac, desired) = pool.worker(worker, boot, vec![held]).await;
    let Some(Desired::Continue { position, .. }) = desired.first() else { panic!("{desired:?}") };
    let mut client = pool.client().await;
    let FromClient::Submit { submit, .. } = message else { panic!("a submit") };
    client.send(&FromClient::Submit { request: 7, submit }).await;
    let second = chunk(&grant, Stream::Stdout, 1, 4, b"two\n");
    let all = [first, second].concat();
    mac.output(*position, &all[usize::try_from(*position).expect("small")..]).await;
    let ended = outcome(Ending::Exited { code: 0 }, b"one\ntwo\n", b"", all.len());
    mac.send(&FromWorker::Complete { lease: grant.lease, outcome: ended }).await;
    let (streams, result) = to_completion(&mut client).await;
    assert_eq!(streams[0], b"one\ntwo\n");
    assert_eq!(result.job_id, job.to_string());
    assert_eq!(result.verdict, Some(Verdict::Passed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_served_is_refused_with_a_reason() {
    let pool = Pool::start().await;
    for (path, token) in [
        ("/v1/client", "bp_nonsense"),
        ("/v1/client", pool.worker.as_str()),
        ("/v1/worker", pool.submit.as_str()),
    ] {
        assert!(pool.try_dial(path, token).await.is_err(), "{path} with {token}");
    }
    let mut client = pool.dial("/v1/client", &pool.submit).await;
    client
        .send(&FromClient::Register { protocol: VersionRange { min: 90, max: 99 }, client: "future".into() })
        .await;
    assert!(
        matches!(client.receive().await, ToClient::Error { error, .. } if error.code == ErrorCode::VersionMismatch)
    );
    let mut client = pool.client().await;
    let (_, message) =
        submit(JobSpec { selectors: vec![Selector { key: "moon".into(), value: None }], ..echo() });
    client.send(&message).await;
    let (_, result) = to_completion(&mut client).await;
    assert_eq!(result.verdict, Some(Verdict::Rejected));
    assert!(result.cause.is_some_and(|cause| cause.text.contains("no worker")));
    let unknown = JobId::from_uuid(Uuid::now_v7());
    client
        .send(&FromClient::Job {
            request: 3,
            job: unknown.to_string(),
            view: View::default(),
            wait: Duration::ZERO,
            progress: false,
        })
        .await;
    assert!(
        matches!(client.receive().await, ToClient::Error { request: Some(3), error } if error.code == ErrorCode::UnknownJob)
    );
    let (_, message) = submit(JobSpec { env: BTreeMap::from([("A=B".into(), String::new())]), ..echo() });
    client.send(&message).await;
    assert!(
        matches!(client.receive().await, ToClient::Error { error, .. } if error.code == ErrorCode::Invalid && error.message.contains("env"))
    );
}

/// Returns a job that waits for an unknown worker.
fn patient() -> JobSpec {
    JobSpec { wait_for_worker: Some(Duration::from_secs(3600)), ..echo() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_in_the_audit_log_once_and_only_if_it_is_one() {
    let pool = Pool::start().await;
    let mut client = pool.client().await;
    let (ended, kept) = (submit(patient()), submit(patient()));
    for (_, message) in [&ended, &kept] {
        client.send(message).await;
        assert!(matches!(client.receive().await, ToClient::Accepted { .. }));
    }
    let cancel =
        |job: JobId, request| FromClient::Cancel { request, job: job.to_string(), reason: "enough".into() };
    for request in 100..200 {
        client.send(&cancel(JobId::from_uuid(Uuid::now_v7()), request)).await;
        assert!(
            matches!(client.receive().await, ToClient::Error { error, .. } if error.code == ErrorCode::UnknownJob)
        );
    }
    for request in 200..203 {
        client.send(&cancel(ended.0, request)).await;
        while !matches!(client.next().await, Message::Text(text) if text.contains("\"job\"")) {}
    }
    let eve = pool.tokens.create(Role::Submit, "eve", None, None, "test").expect("a token").token;
    let mut eve = pool.client_with(&eve).await;
    eve.send(&cancel(kept.0, 1)).await;
    assert!(
        matches!(eve.receive().await, ToClient::Error { error, .. } if error.code == ErrorCode::Forbidden)
    );
    let entries = pool.tokens.audit_tail(100).expect("an audit log");
    let shown: Vec<_> = entries.iter().map(|entry| (entry.actor.as_str(), entry.action.as_str())).collect();
    let made = ("test", "token_create");
    let submitted = ("ada", "submit");
    let expected = [("eve", "refused"), made, ("ada", "cancel_request"), submitted, submitted, made, made];
    assert_eq!(shown, expected);
    assert_eq!((entries[2].subject.clone(), entries[2].detail.as_str()), (ended.0.to_string(), "enough"));
}

/// Sends a message repeatedly without reading answers, until the peer accepts no more.
async fn until_stuck(peer: &mut Peer, message: &impl serde::Serialize) {
    let text = frame::encode_control(message);
    let quiet = Duration::from_secs(1);
    while tokio::time::timeout(quiet, peer.0.send(Message::text(text.clone()))).await.is_ok() {}
}

/// Far less than the time after which a blocked connection is closed.
const CUT_WITHIN: Duration = Duration::from_secs(15);

async fn is_cut(peer: &Peer) -> bool {
    let MaybeTlsStream::Plain(socket) = peer.0.get_ref() else { panic!("plain") };
    let cut = async {
        while socket.take_error().expect("asked").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_WITHIN, cut).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_cuts_a_peer_that_takes_no_answers() {
    let pool = Pool::start().await;
    let mut client = pool.client().await;
    // The refusal repeats the name.
    let job = "-".repeat(16 << 10);
    until_stuck(&mut client, &FromClient::Cancel { request: 1, job, reason: String::new() }).await;
    pool.tokens.revoke("ada", JobsAfter::End, "test").expect("revoked");
    assert!(is_cut(&client).await, "a client");

    let (id, boot) = ids();
    let (mut worker, _) = pool.worker(id, boot, Vec::new()).await;
    let lease =
        |number| Lease { attempt: AttemptId { job: JobId::from_uuid(Uuid::now_v7()), number }, epoch: 1 };
    let held = |number| Held {
        lease: lease(number),
        state: HeldState::Running,
        log_length: 0,
        started_at_ms: None,
        output_held: None,
    };
    let report = FromWorker::Report { held: (1..1_000).map(held).collect(), condition: Condition::default() };
    until_stuck(&mut worker, &report).await;
    pool.tokens.revoke("mac-1", JobsAfter::End, "test").expect("revoked");
    assert!(is_cut(&worker).await, "a worker");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_names_the_tokens_that_it_revoked() {
    let pool = Pool::start().await;
    let create = |role, name| pool.tokens.create(role, name, None, None, "test").expect("a token");
    let (admin, first) = (create(Role::Admin, "root").token, create(Role::Submit, "ci").id);
    let mut client = pool.client_with(&admin).await;
    let mut second = None;
    for token in [first.to_string(), "ci".to_owned()] {
        client.send(&FromClient::TokenRevoke { request: 1, token, keep_jobs: false }).await;
        let ToClient::Tokens { revoked, .. } = client.receive().await else { panic!("no tokens") };
        assert_eq!(revoked, [second.unwrap_or(first)]);
        second = Some(create(Role::Submit, "ci").id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_valid_token_ends_its_connection() {
    let pool = Pool::start().await;
    for request in [
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(pool.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("taken");
        let mut answer = String::new();
        // Less than the time after which any silent connection is closed.
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answer));
        read.await.expect("the connection ends").expect("an answer");
        assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    }
}
