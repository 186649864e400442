//! Tests of the client with a simulated coordinator, message by message.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::result_large_err, reason = "the type is the WebSocket library's own")]

mod errors;
mod transfers;

use buildpool_client::{
    Client, ClientError, Endpoint, FollowQuery, JobEvent, JobEvents, JobsPage, Target, chain, new_job_id,
};
use buildpool_protocol::client_link::{
    Cursor, FromClient, JobCursor, JobQuery, Role, SubmitMessage, ToClient,
};
use buildpool_protocol::frame::{BinaryHeader, BinaryKind, decode_control, encode_control};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::{CHUNK_BYTES_MAX, FOLLOW_WINDOW_BYTES};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
use buildpool_protocol::report::{JobResult, JobState, Verdict};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use futures_util::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

const TOKEN: &str = "bp_1_secret";

/// A coordinator simulated by the test.
struct TestCoordinator {
    listener: TcpListener,
}

/// One connection to it.
struct Peer {
    socket: WebSocketStream<TcpStream>,
}

impl TestCoordinator {
    async fn new() -> (Self, Endpoint) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        (Self { listener }, Endpoint::new(url, Some(TOKEN.parse().unwrap())))
    }

    /// Accepts the next connection and registers it.
    async fn accept(&self) -> Peer {
        let mut peer = self.accept_silently().await;
        assert!(matches!(peer.receive().await, FromClient::Register { .. }));
        let version = "0.1.0".to_owned();
        peer.send(&ToClient::Registered {
            protocol: 1,
            version,
            local: true,
            role: Role::Submit,
            stdin: true,
        })
        .await;
        peer
    }

    async fn accept_silently(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.unwrap();
        let check = |request: &Request, response: Response| {
            assert_eq!(request.uri().path(), "/v1/client");
            match request.headers().get("authorization") {
                Some(value) if value.as_bytes() == format!("Bearer {TOKEN}").as_bytes() => Ok(response),
                _ => {
                    let mut refusal = ErrorResponse::new(None);
                    *refusal.status_mut() = 401.try_into().unwrap();
                    Err(refusal)
                }
            }
        };
        match tokio_tungstenite::accept_hdr_async(stream, check).await {
            Ok(socket) => Peer { socket },
            Err(error) => panic!("no handshake: {error}"),
        }
    }
}

impl Peer {
    async fn receive(&mut self) -> FromClient {
        loop {
            match self.socket.next().await.expect("the client is there").expect("the link stands") {
                Message::Text(text) => return decode_control(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("not expected: {other:?}"),
            }
        }
    }

    async fn send(&mut self, message: &ToClient) {
        self.socket.send(Message::text(encode_control(message))).await.unwrap();
    }

    async fn output(&mut self, channel: u32, position: u64, chunks: &[Vec<u8>]) -> u64 {
        let header = BinaryHeader { kind: BinaryKind::Follow, channel, position };
        let content = chunks.concat();
        self.socket.send(Message::binary([&header.encode()[..], &content].concat())).await.unwrap();
        position + content.len() as u64
    }

    async fn submitted(&mut self) -> (u32, SubmitMessage) {
        match self.receive().await {
            FromClient::Submit { request, submit } => (request, *submit),
            other => panic!("not expected: {other:?}"),
        }
    }
}

fn chunk(attempt: u32, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let header = ChunkHeader {
        attempt: AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: attempt },
        stream: Stream::Stdout,
        kind: ChunkKind::Data,
        length: payload.len() as u32,
        elapsed_ms: 0,
        sequence,
        offset: 0,
    };
    [&header.encode()[..], payload].concat()
}

fn submit() -> SubmitMessage {
    let spec = JobSpec::new(Command::Argv(vec!["true".into()]), Source::Empty);
    SubmitMessage {
        job: new_job_id(),
        spec,
        client_request_id: None,
        attach: false,
        secrets: Default::default(),
        snapshot: None,
        wait: true,
        follow: true,
        progress: false,
    }
}

fn done(job: JobId) -> Box<JobResult> {
    Box::new(JobResult {
        job_id: job.to_string(),
        state: JobState::Done,
        verdict: Some(Verdict::Passed),
        ..JobResult::default()
    })
}

async fn connect(coordinator: &TestCoordinator, endpoint: Endpoint) -> (Client, Peer) {
    let (client, peer) =
        tokio::join!(Client::connect(Target::Named(endpoint), "test 1"), coordinator.accept());
    (client.unwrap(), peer)
}

async fn next(events: &mut JobEvents) -> JobEvent {
    tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("in time").expect("not the end")
}

async fn next_bytes(events: &mut JobEvents) -> Vec<u8> {
    match next(events).await {
        JobEvent::Output(output) => output.chunks.iter().flat_map(|chunk| chunk.data().to_vec()).collect(),
        other => panic!("not expected: {other:?}"),
    }
}

#[tokio::test]
async fn one_message_brings_output_and_result() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let submit = submit();
    let mut events = client.submit(submit.clone()).await.unwrap();
    let (request, heard) = peer.submitted().await;
    assert_eq!(heard, submit);
    peer.send(&ToClient::Accepted { request, job: submit.job, reattached: false }).await;
    let end = peer.output(request, 0, &[chunk(1, 0, b"a\n"), chunk(1, 1, b"\xff\0")]).await;
    peer.send(&ToClient::End { request, cursor: Cursor { attempt: 1, position: end, within: 0 } }).await;
    peer.send(&ToClient::Complete { request, result: done(submit.job) }).await;
    assert!(matches!(next(&mut events).await, JobEvent::Accepted { job, .. } if job == submit.job));
    assert_eq!(next_bytes(&mut events).await, b"a\n\xff\0");
    assert!(matches!(next(&mut events).await, JobEvent::End(cursor) if cursor.position == end));
    assert!(
        matches!(next(&mut events).await, JobEvent::Complete(result) if result.verdict == Some(Verdict::Passed))
    );
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_submit_that_was_not_accepted_is_said_again_with_its_id() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let submit = submit();
    let mut events = client.submit(submit.clone()).await.unwrap();
    assert_eq!(peer.submitted().await.1, submit);
    drop(peer);
    let mut peer = coordinator.accept().await;
    let (request, again) = peer.submitted().await;
    assert_eq!(again, submit);
    peer.send(&ToClient::Accepted { request, job: submit.job, reattached: false }).await;
    assert!(matches!(next(&mut events).await, JobEvent::Accepted { .. }));
}

#[tokio::test]
async fn a_followed_job_goes_on_where_it_stopped_and_the_result_comes_last() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let submit = submit();
    let mut events = client.submit(submit.clone()).await.unwrap();
    let (request, _) = peer.submitted().await;
    peer.send(&ToClient::Accepted { request, job: submit.job, reattached: false }).await;
    let end = peer.output(request, 0, &[chunk(1, 0, b"one ")]).await;
    assert!(matches!(next(&mut events).await, JobEvent::Accepted { .. }));
    assert_eq!(next_bytes(&mut events).await, b"one ");
    drop(peer);
    let mut peer = coordinator.accept().await;
    let (wait, again) = peer.submitted().await;
    assert_eq!((again.job, again.follow, again.wait), (submit.job, false, true));
    let FromClient::Follow { request: follow, job, cursor, to_end: false, .. } = peer.receive().await else {
        panic!("no follow");
    };
    assert_eq!(job, submit.job.to_string());
    assert_eq!(cursor, Some(Cursor { attempt: 1, position: end, within: 0 }));
    assert_ne!(follow, wait);
    // The result overtakes the log.
    peer.send(&ToClient::Accepted { request: wait, job: submit.job, reattached: true }).await;
    peer.send(&ToClient::Complete { request: wait, result: done(submit.job) }).await;
    let end = peer.output(follow, end, &[chunk(1, 1, b"two")]).await;
    peer.send(&ToClient::End { request: follow, cursor: Cursor { attempt: 1, position: end, within: 0 } })
        .await;
    assert_eq!(next_bytes(&mut events).await, b"two");
    assert!(matches!(next(&mut events).await, JobEvent::End(_)));
    assert!(matches!(next(&mut events).await, JobEvent::Complete(_)));
}

#[tokio::test]
async fn a_second_attempt_is_told_apart_from_the_first() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let mut events = client.follow(FollowQuery { job: "0".into(), ..FollowQuery::default() }).await.unwrap();
    let FromClient::Follow { request, .. } = peer.receive().await else { panic!("no follow") };
    // The message overtakes the last output of the first attempt.
    peer.send(&ToClient::Attempt { request, attempt: 2 }).await;
    peer.output(request, 0, &[chunk(1, 0, b"lost")]).await;
    let end = peer.output(request, 0, &[chunk(2, 0, b"again")]).await;
    peer.send(&ToClient::End { request, cursor: Cursor { attempt: 2, position: end, within: 0 } }).await;
    assert_eq!(next_bytes(&mut events).await, b"lost");
    assert!(matches!(next(&mut events).await, JobEvent::Attempt(2)));
    assert_eq!(next_bytes(&mut events).await, b"again");
    assert!(matches!(next(&mut events).await, JobEvent::End(_)));
}

#[tokio::test]
async fn a_reattached_submit_is_waited_for_by_its_real_id() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let submit = SubmitMessage { attach: true, follow: false, ..submit() };
    let other = new_job_id();
    let mut events = client.submit(submit).await.unwrap();
    let (request, _) = peer.submitted().await;
    peer.send(&ToClient::Accepted { request, job: other, reattached: true }).await;
    assert!(matches!(next(&mut events).await, JobEvent::Accepted { job, reattached: true } if job == other));
    drop(peer);
    let mut peer = coordinator.accept().await;
    for state in [JobState::Running, JobState::Done] {
        let FromClient::Job { request, job, .. } = peer.receive().await else { panic!("no job") };
        assert_eq!(job, other.to_string());
        peer.send(&ToClient::Job { request, result: Box::new(JobResult { state, ..*done(other) }) }).await;
    }
    assert!(
        matches!(next(&mut events).await, JobEvent::Complete(result) if result.job_id == other.to_string())
    );
}

#[tokio::test]
async fn output_is_acknowledged_as_it_is_taken_and_not_before() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let query = FollowQuery { job: "0".into(), ..FollowQuery::default() };
    let mut events = client.follow(query).await.unwrap();
    let FromClient::Follow { request, .. } = peer.receive().await else { panic!("no follow") };
    let payload = vec![7; CHUNK_BYTES_MAX];
    let (mut position, mut sequence) = (0, 0);
    while position < FOLLOW_WINDOW_BYTES {
        position = peer.output(request, position, &[chunk(1, sequence, &payload)]).await;
        sequence += 1;
    }
    let reading = async {
        for _ in 0..sequence {
            assert_eq!(next_bytes(&mut events).await.len(), payload.len());
        }
        next(&mut events).await
    };
    let hearing = async {
        let mut acknowledged = 0;
        while acknowledged < position - FOLLOW_WINDOW_BYTES / 4 {
            let FromClient::Taken { request: of, position } = peer.receive().await else {
                panic!("no taken")
            };
            assert!(of == request && position > acknowledged);
            acknowledged = position;
        }
        let cursor = Cursor { attempt: 1, position, within: 0 };
        peer.send(&ToClient::End { request, cursor }).await;
    };
    let (last, ()) = tokio::join!(reading, hearing);
    assert!(matches!(last, JobEvent::End(_)));
}

#[tokio::test]
async fn a_hole_in_the_output_is_the_coordinators_fault() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let mut events = client.follow(FollowQuery { job: "0".into(), ..FollowQuery::default() }).await.unwrap();
    let FromClient::Follow { request, .. } = peer.receive().await else { panic!("no follow") };
    let end = peer.output(request, 0, &[chunk(1, 0, b"a")]).await;
    peer.output(request, end + 1, &[chunk(1, 2, b"c")]).await;
    assert_eq!(next_bytes(&mut events).await, b"a");
    let JobEvent::Failed(error) = next(&mut events).await else { panic!("not noticed") };
    assert!(chain(&error).contains("continued at position 50 instead of 49"), "{error}");
    assert!(matches!(peer.receive().await, FromClient::Unfollow { request: of } if of == request));
}

#[tokio::test]
async fn a_consumer_that_leaves_stops_only_its_own_output() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let events = client.follow(FollowQuery { job: "0".into(), ..FollowQuery::default() }).await.unwrap();
    let FromClient::Follow { request, .. } = peer.receive().await else { panic!("no follow") };
    drop(events);
    assert!(matches!(peer.receive().await, FromClient::Unfollow { request: of } if of == request));
    // Late output has no receiver, and the next request is served.
    peer.output(request, 0, &[chunk(1, 0, b"late")]).await;
    let (jobs, ()) = tokio::join!(client.jobs(None, None, 5), async {
        let FromClient::Jobs { request, limit: 5, .. } = peer.receive().await else { panic!("no jobs") };
        peer.send(&ToClient::Jobs { request, jobs: Vec::new(), next_cursor: None }).await;
    });
    assert_eq!(jobs.unwrap(), []);
}

#[tokio::test]
async fn a_list_of_jobs_continues_where_the_coordinator_stopped_its_search() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let cursor: JobCursor = "5:0198c0de-0000-7000-8000-000000000001".parse().unwrap();
    // After a limited number of requests, the caller gets the place where the search stopped.
    let (page, ()) = tokio::join!(client.query_jobs(JobQuery::default(), 5), async {
        for _ in 0..50 {
            let FromClient::Jobs { request, .. } = peer.receive().await else { panic!("no jobs") };
            peer.send(&ToClient::Jobs { request, jobs: Vec::new(), next_cursor: Some(cursor) }).await;
        }
    });
    assert_eq!(page.unwrap(), JobsPage { jobs: Vec::new(), next_cursor: Some(cursor) });
    let (jobs, ()) = tokio::join!(client.jobs(None, None, 5), async {
        let FromClient::Jobs { request, limit: 5, .. } = peer.receive().await else { panic!("no jobs") };
        peer.send(&ToClient::Jobs { request, jobs: Vec::new(), next_cursor: Some(cursor) }).await;
        let FromClient::Jobs { request, limit: 5, query } = peer.receive().await else { panic!("no jobs") };
        assert_eq!(query.cursor, Some(cursor));
        peer.send(&ToClient::Jobs { request, jobs: Vec::new(), next_cursor: None }).await;
    });
    assert_eq!(jobs.unwrap(), []);
}

#[tokio::test]
async fn answers_find_their_questions_in_any_order() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let (a, b, ()) = tokio::join!(client.explain("a"), client.explain("b"), async {
        let mut asked = Vec::new();
        for _ in 0..2 {
            let FromClient::Explain { request, job } = peer.receive().await else { panic!("no explain") };
            asked.push((request, job));
        }
        for (request, job) in asked.into_iter().rev() {
            peer.send(&ToClient::Explain { request, text: format!("because of {job}") }).await;
        }
    });
    assert_eq!((a.unwrap(), b.unwrap()), ("because of a".into(), "because of b".into()));
}

#[tokio::test]
async fn a_question_is_asked_again_and_a_token_is_not_made_twice() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let asking = async { tokio::join!(client.workers(), client.token_create(Role::Submit, "ci", None)) };
    let ((workers, token), ()) = tokio::join!(asking, async {
        for _ in 0..2 {
            peer.receive().await;
        }
        drop(peer);
        let mut peer = coordinator.accept().await;
        let FromClient::Workers { request, .. } = peer.receive().await else { panic!("no workers") };
        peer.send(&ToClient::Workers { request, workers: Vec::new(), more: false }).await;
    });
    assert_eq!(workers.unwrap(), []);
    assert!(matches!(token.unwrap_err(), ClientError::Interrupted { request: "token_create" }));
}

#[tokio::test]
async fn a_rotation_is_not_sent_again_after_the_link_broke() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let rotating = client.token_rotate("ci", Duration::ZERO, None);
    let (rotated, ()) = tokio::join!(rotating, async {
        assert!(matches!(peer.receive().await, FromClient::TokenRotate { .. }));
        // A coordinator that has replaced the token can break down before its answer arrives.
        drop(peer);
    });
    let error = rotated.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { request: "token_rotate" }), "{error}");
    let (tokens, ()) = tokio::join!(client.tokens(), async {
        let mut peer = coordinator.accept().await;
        let FromClient::TokenList { request } = peer.receive().await else { panic!("no token_list") };
        peer.send(&ToClient::Tokens { request, tokens: Vec::new(), revoked: Vec::new() }).await;
    });
    assert_eq!(tokens.unwrap(), []);
}
