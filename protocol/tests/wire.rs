//! Tests the wire format with a golden line for each kind of message, and the codec with invalid
//! bytes.
//!
//! A changed line is a change of the protocol. It needs a version in `protocol/src/version.rs` and
//! an entry in `docs/protocol.md`. `UPDATE_GOLDEN=1` rewrites the files.

use buildpool_protocol::client_link::{
    Cursor, FromClient, JobQuery, LogCursor, LogQuery, Role, Secret, StreamChoice, SubmitMessage, TextPlace,
    ToClient, View,
};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::{BinaryHeader, BinaryKind, decode_control, encode_control};
use buildpool_protocol::ids::{AttemptId, BootId, JobId, Lease, WorkerId};
use buildpool_protocol::limiter::Limited;
use buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, OutputHeld, Seal, StartFailure};
use buildpool_protocol::output::{
    AppendError, CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Gap, LogState, Stream,
};
use buildpool_protocol::report::{JobResult, JobState, Verdict};
use buildpool_protocol::spec::{Command, JobSpec, Selector, Source, Verbosity};
use buildpool_protocol::stdin::StdinEnd;
use buildpool_protocol::upgrade::{UpgradeOrder, UpgradeStage, UpgradeState};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{
    Condition, Desired, FromWorker, Grant, Held, HeldState, Register, ToWorker,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

/// Compares messages with a file that has one JSON line for each, and parses them again.
fn check<M: Serialize + DeserializeOwned + Limited + PartialEq + Debug>(name: &str, messages: &[M]) {
    let lines: String = messages.iter().map(|message| encode_control(message) + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(&path, &lines).expect("written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file; make it with UPDATE_GOLDEN=1");
    for (line, expected) in lines.lines().zip(golden.lines()) {
        assert_eq!(line, expected, "{name}");
    }
    assert_eq!(lines.lines().count(), golden.lines().count(), "{name}");
    for (line, message) in golden.lines().zip(messages) {
        assert_eq!(&decode_control::<M>(line).expect("it parses"), message, "{name}");
    }
}

fn id<T: std::str::FromStr>() -> T
where
    T::Err: Debug,
{
    "01990000-0000-7000-8000-000000000001".parse().expect("a UUID")
}

fn attempt() -> AttemptId {
    AttemptId { job: id::<JobId>(), number: 2 }
}

fn end_of_stdin() -> StdinEnd {
    let seal = Seal { length: 5, blake3: "ab".repeat(32) };
    StdinEnd { seal, reason: Some("its client has been away for 900 s".into()) }
}

fn upgrade() -> UpgradeOrder {
    UpgradeOrder {
        id: id(),
        version: "0.2.0".into(),
        blake3: "ab".repeat(32).parse().expect("64 digits"),
        length: 20_000_000,
        register_within: Duration::from_secs(60),
    }
}

fn lease() -> Lease {
    Lease { attempt: attempt(), epoch: 77 }
}

fn spec() -> JobSpec {
    let source = Source::Snapshot {
        id: "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
        project: "app".into(),
        directory: "ios".into(),
        head: None,
        manifest: None,
    };
    JobSpec {
        env: BTreeMap::from([("LANG".into(), "C".into())]),
        secrets: vec!["TOKEN".into()],
        selectors: vec![Selector { key: "os".into(), value: Some("macos".into()) }],
        resources: BTreeMap::from([("simulator".into(), 2)]),
        timeout: Some(Duration::from_secs(60)),
        grace: Some(Duration::from_millis(1500)),
        verbosity: Verbosity::Normal,
        ..JobSpec::new(Command::Argv(vec!["xcodebuild".into(), "test".into()]), source)
    }
}

fn held() -> Held {
    Held {
        lease: lease(),
        state: HeldState::Running,
        log_length: 4096,
        started_at_ms: Some(1_700_000_000_000),
        output_held: None,
    }
}

fn output_held() -> OutputHeld {
    OutputHeld { held_for: Duration::from_secs(4), reason: "No space left on device (os error 28)".into() }
}

fn outcome(ending: Ending, acted: Option<EndReason>) -> Box<Outcome> {
    let seal = || Seal { length: 3, blake3: "ab".repeat(32) };
    Box::new(Outcome {
        ending,
        acted,
        started_at_ms: Some(1),
        finished_at_ms: 2,
        duration: Duration::from_millis(1),
        seals: [seal(), seal()],
        log_length: 102,
        usage: Default::default(),
        survivors: Vec::new(),
        leaked: Vec::new(),
        gaps: Vec::new(),
        evidence: Default::default(),
        artifacts: Vec::new(),
        root: None,
        setup: None,
    })
}

#[test]
fn the_worker_link_is_as_it_was() {
    let register = Register {
        protocol: VersionRange { min: 1, max: 1 },
        worker: id::<WorkerId>(),
        boot: id::<BootId>(),
        earlier: Vec::new(),
        name: "mac-1".into(),
        version: "0.1.0".into(),
        slots: 2,
        labels: BTreeMap::from([("os".into(), "macos".into())]),
        resources: BTreeMap::from([("simulator".into(), 2)]),
        accepts: vec!["team-a".into()],
        held: vec![held()],
        condition: Condition::default(),
    };
    let segv = Ending::Signaled { signal: 11, name: "SIGSEGV".into(), core_dump: true };
    let missing = Ending::NotStarted(StartFailure::NotFound { program: "nope".into() });
    let killed = Ending::Signaled { signal: 9, name: "SIGKILL".into(), core_dump: false };
    check(
        "from_worker.jsonl",
        &[
            FromWorker::Register(Box::new(register)),
            FromWorker::Report { held: vec![held()], condition: Condition::default() },
            FromWorker::Report {
                held: vec![Held { output_held: Some(output_held()), ..held() }],
                condition: Condition::default(),
            },
            FromWorker::Report {
                held: Vec::new(),
                condition: Condition { early_grants: 4, ..Condition::default() },
            },
            FromWorker::Report {
                held: Vec::new(),
                condition: Condition {
                    upgrade_target: Some("aarch64-apple-darwin".into()),
                    upgrade: Some(UpgradeState {
                        id: id(),
                        version: "0.2.0".into(),
                        stage: UpgradeStage::Failed,
                        reason: "it did not register".into(),
                    }),
                    ..Condition::default()
                },
            },
            FromWorker::Complete { lease: lease(), outcome: outcome(Ending::Exited { code: 65 }, None) },
            FromWorker::Complete { lease: lease(), outcome: outcome(segv, None) },
            FromWorker::Complete { lease: lease(), outcome: outcome(missing, None) },
            FromWorker::Complete {
                lease: lease(),
                outcome: outcome(
                    killed.clone(),
                    Some(EndReason::Timeout { after: Duration::from_secs(5), held: None }),
                ),
            },
            FromWorker::Complete {
                lease: lease(),
                outcome: outcome(
                    killed,
                    Some(EndReason::Timeout { after: Duration::from_secs(5), held: Some(output_held()) }),
                ),
            },
            FromWorker::Decline { lease: lease(), reason: "no free slot".into() },
            FromWorker::Stdin { lease: lease(), from: Some(4096), until: 1 << 20 },
        ],
    );
    let cancel = Desired::Cancel { lease: lease(), by: "ada".into(), reason: "superseded".into() };
    check(
        "to_worker.jsonl",
        &[
            ToWorker::Registered {
                protocol: 1,
                session: 5,
                report_every: Duration::from_secs(10),
                lost_after: Duration::from_secs(900),
                desired: vec![Desired::Continue { lease: lease(), position: 4096 }],
            },
            ToWorker::Desired {
                desired: vec![Desired::Fenced { lease: lease() }, Desired::Forget { lease: lease() }],
            },
            ToWorker::Grant(Box::new(Grant {
                lease: lease(),
                spec: spec(),
                secrets: BTreeMap::from([("TOKEN".into(), Secret("s3cret".into()))]),
            })),
            ToWorker::Act(cancel),
            ToWorker::Position { lease: lease(), position: 0 },
            ToWorker::StdinEnd { lease: lease(), end: end_of_stdin() },
            ToWorker::Drain { draining: true, deadline: Some(Duration::from_secs(60)) },
            ToWorker::Upgrade(upgrade()),
            ToWorker::Redirect { url: "wss://b.example:7420".into() },
            ToWorker::Refused {
                error: LinkError::new(ErrorCode::Conflict, "another worker is named `mac-1`"),
            },
        ],
    );
}

#[test]
fn the_client_link_is_as_it_was() {
    let submit = SubmitMessage {
        job: id(),
        spec: spec(),
        client_request_id: Some("call-1".into()),
        attach: true,
        secrets: BTreeMap::from([("TOKEN".into(), Secret("s3cret".into()))]),
        snapshot: None,
        wait: true,
        follow: true,
        progress: false,
    };
    let query = LogQuery {
        job: "0199".into(),
        stream: StreamChoice::Interleaved,
        tail: Some(20),
        ..LogQuery::default()
    };
    check(
        "from_client.jsonl",
        &[
            FromClient::Register {
                protocol: VersionRange { min: 1, max: 1 },
                client: "buildpool 0.1.0".into(),
            },
            FromClient::Submit { request: 1, submit: Box::new(submit) },
            FromClient::Job {
                request: 2,
                job: "0199".into(),
                view: View::default(),
                wait: Duration::from_secs(50),
                progress: false,
            },
            FromClient::Follow {
                request: 3,
                job: "0199".into(),
                cursor: Some(Cursor { attempt: 2, position: 4096, within: 0 }),
                attempt: None,
                to_end: false,
                tail: None,
                stream: StreamChoice::Stderr,
            },
            FromClient::Taken { request: 3, position: 4096 },
            FromClient::Unfollow { request: 3 },
            FromClient::StdinEnd { request: 1, end: end_of_stdin() },
            FromClient::Logs { request: 4, query },
            FromClient::Finding { request: 5, job: "0199".into(), finding: "f1".into() },
            FromClient::Explain { request: 6, job: "0199".into() },
            FromClient::Jobs {
                request: 7,
                query: JobQuery {
                    state: Some(JobState::Queued),
                    submitter: Some("ada".into()),
                    label: Some("os=linux".into()),
                    verdict: Some(Verdict::Failed),
                    ..JobQuery::default()
                },
                limit: 20,
            },
            FromClient::Cancel { request: 8, job: "0199".into(), reason: String::new() },
            FromClient::Workers { request: 9, offset: 0 },
            FromClient::Workers { request: 22, offset: 100 },
            FromClient::Drain { request: 10, worker: "mac-1".into(), draining: true, deadline: None },
            FromClient::TokenCreate {
                request: 11,
                role: Role::Submit,
                name: "ada".into(),
                expires: None,
                only: buildpool_protocol::spec::Restriction {
                    workers: vec!["mac-1".into()],
                    reads: buildpool_protocol::spec::Reads::Own,
                    ..Default::default()
                },
            },
            FromClient::TokenList { request: 12 },
            FromClient::TokenRevoke { request: 13, token: "ada".into(), keep_jobs: true },
            FromClient::TokenRotate {
                request: 14,
                token: "ada".into(),
                grace: Duration::from_secs(3600),
                expires: None,
            },
            FromClient::Approve { request: 15, worker: "mac-1".into() },
            FromClient::Audit { request: 16, limit: 50, before: None },
            FromClient::Audit { request: 18, limit: 50, before: Some(1_000) },
            FromClient::Forget { request: 17, worker: "mac-1".into() },
            FromClient::Upgrade { request: 20, worker: "mac-1".into(), order: upgrade() },
            FromClient::Retry {
                request: 19,
                job: "0198".into(),
                new: id(),
                client_request_id: None,
                worker: Some("mini-2".into()),
            },
        ],
    );
    check(
        "to_client.jsonl",
        &[
            ToClient::Registered {
                protocol: 1,
                version: "0.1.0".into(),
                local: false,
                role: Role::Submit,
                stdin: true,
            },
            ToClient::Redirect { url: "wss://b.example:7420".into() },
            ToClient::Accepted { request: 1, job: id(), reattached: false },
            ToClient::Complete { request: 1, result: Box::new(JobResult::default()) },
            ToClient::End { request: 3, cursor: Cursor { attempt: 2, position: 4096, within: 7 } },
            ToClient::Attempt { request: 3, attempt: 3 },
            ToClient::Stdin { request: 1, position: 4096, until: 1 << 21, ended: false },
            ToClient::Error {
                request: Some(2),
                error: LinkError::new(ErrorCode::UnknownJob, "no job 0199 is known here"),
            },
            ToClient::Error {
                request: None,
                error: LinkError::new(ErrorCode::Malformed, "the first message must be `register`"),
            },
        ],
    );
}

#[test]
fn headers_are_as_they_were() {
    let header = ChunkHeader {
        attempt: attempt(),
        stream: Stream::Stderr,
        kind: ChunkKind::Data,
        length: 5,
        elapsed_ms: 0x0102_0304,
        sequence: 6,
        offset: 7,
    };
    let expected = "0102000005000000\
                    01990000000070008000000000000001\
                    0200000004030201\
                    06000000000000000700000000000000";
    let hex: String = header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.replace(char::is_whitespace, ""));
    let frame = BinaryHeader { kind: BinaryKind::Transfer, channel: 1, position: 258 }.encode();
    assert_eq!(frame, [3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_does_not_parse_says_what_and_where() {
    let error = decode_control::<FromClient>("{\"type\":\"sumbit\"}").expect_err("no such type");
    assert_eq!(error.code, ErrorCode::Malformed);
    assert!(error.message.contains("sumbit") && error.message.contains("submit"), "{}", error.message);
    let long = format!("\"{}\"", "x".repeat(CONTROL_MESSAGE_BYTES_MAX));
    assert_eq!(decode_control::<FromWorker>(&long).expect_err("too long").code, ErrorCode::TooLarge);
    assert_eq!(BinaryHeader::decode(&[9; 64]).expect_err("no such kind").code, ErrorCode::Malformed);
    assert!("1:2:3:4".parse::<Cursor>().is_err());
    for wrong in ["", "1", "1:x", "1:2:3:4:5", "1:2:3:4:5:6:7:8", "1:2:4294967296"] {
        assert!(wrong.parse::<LogCursor>().is_err(), "{wrong}");
    }
    assert_eq!("1:2".parse::<Cursor>().map(|cursor| cursor.to_string()).as_deref(), Ok("1:2"));
}

#[test]
fn a_gap_moves_its_stream_and_a_repeat_moves_nothing() {
    let mut state = LogState::default();
    let data = |sequence, offset, length| ChunkHeader {
        attempt: attempt(),
        stream: Stream::Stdout,
        kind: ChunkKind::Data,
        length,
        elapsed_ms: 0,
        sequence,
        offset,
    };
    state.append(&data(0, 0, 3), b"abc").expect("the first");
    let gap = serde_json::to_vec(&Gap { missing_bytes: 10, reason: "limit".into() }).expect("it serializes");
    let header = ChunkHeader { kind: ChunkKind::Gap, ..data(1, 3, u32::try_from(gap.len()).expect("short")) };
    state.append(&header, &gap).expect("a gap");
    assert_eq!(state.stream_lengths, [13, 0]);
    let before = state;
    assert_eq!(state.append(&data(1, 3, 1), b"x"), Err(AppendError::Repeat));
    assert_eq!(state.append(&data(3, 13, 1), b"x"), Err(AppendError::Hole));
    assert_eq!(state.append(&data(2, 12, 1), b"x"), Err(AppendError::Inconsistent));
    assert_eq!(state, before);
}

fn place() -> impl Strategy<Value = TextPlace> {
    let number = || prop_oneof![Just(0), any::<u32>()];
    (any::<u64>(), number(), number()).prop_map(|(position, within, after)| TextPlace {
        position,
        within,
        after,
    })
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((header, payload)) = ChunkHeader::decode(&bytes) {
            prop_assert_eq!(payload.len(), header.length as usize);
            prop_assert_eq!(&header.encode()[4..], &bytes[4..CHUNK_HEADER_BYTES]);
        }
        if let Ok((header, content)) = BinaryHeader::decode(&bytes) {
            prop_assert_eq!(content.len() + header.encode().len(), bytes.len());
        }
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(decode_control::<FromWorker>(&text).is_err());
        prop_assert!(decode_control::<FromClient>(&text).is_err());
    }

    #[test]
    fn a_cursor_is_what_it_says(attempt: u32, position: u64, within: u32) {
        let cursor = Cursor { attempt, position, within };
        prop_assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
        // A cursor for one position has only one text form.
        let texts = [TextPlace { position, within, after: 0 }; 2];
        prop_assert_eq!(LogCursor { attempt, texts, until: None }.to_string(), cursor.to_string());
    }

    #[test]
    fn a_cursor_of_two_texts_is_what_it_says(
        attempt: u32,
        one in place(),
        other in place(),
        is_one: bool,
        ends in proptest::option::of([place(), place()]),
    ) {
        let until = ends.map(|ends| ends.map(|end| TextPlace { after: 0, ..end }));
        let cursor = LogCursor { attempt, texts: [one, if is_one { one } else { other }], until };
        prop_assert_eq!(cursor.to_string().parse::<LogCursor>(), Ok(cursor));
    }
}
