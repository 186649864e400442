//! A large pool for tests and pictures of the web page: records of finished jobs, and workers that run jobs without end.
//!
//!     crowd seed DIRECTORY JOBS              writes records of jobs of the last day; the coordinator does not run
//!     crowd workers ADDRESS TOKEN COUNT      connects workers until standard input ends

use buildpool_coordinator::store::{
    AttemptEnd, AttemptEnding, AttemptRecord, DoneRecord, JobRecord, Record, Store, WorkerRecord,
};
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_protocol::{JobId, WorkerId};
use buildpool_tests::{Dice, Peer};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, stdin};

/// Workers in the records of finished jobs.
const WORKERS: u64 = 200;
/// Records that are written at once.
const BATCH: usize = 500;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Interval of a worker's reports.
const REPORT_EVERY: Duration = Duration::from_secs(5);

const PROJECTS: [(&str, &str, &str); 5] = [
    (
        "/work/shop-ios",
        "xcodebuild test -scheme Shop",
        "CartTests.swift:88:9: error: XCTAssertEqual failed: (3) is not equal to (2)",
    ),
    (
        "/work/api",
        "cargo test --workspace",
        "src/orders.rs:142:9: assertion `left == right` failed: totals differ",
    ),
    ("/work/site", "npm run test -- --ci", "checkout.test.ts:31:5: expected 200, received 500"),
    (
        "/work/engine",
        "swift build -c release",
        "Renderer.swift:210:14: error: cannot find 'texture' in scope",
    ),
    ("/work/tools", "pytest -q tests", "tests/test_parse.py:57: AssertionError: assert 4 == 5"),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seed", directory, jobs] => seed(Path::new(directory), jobs.parse()?),
        ["workers", address, token, count] => workers(address, token, count.parse()?).await,
        _ => Err("usage: crowd seed DIRECTORY JOBS | crowd workers ADDRESS TOKEN COUNT".into()),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

fn name(number: u64) -> String {
    format!("{}-{}", if number.is_multiple_of(3) { "linux" } else { "mini" }, number + 1)
}

fn id(number: u64) -> WorkerId {
    WorkerId::from_uuid(uuid::Uuid::from_u128(0x1999_0000_0000_7000_8000_0000_0000_0000 + u128::from(number)))
}

fn labels(number: u64) -> Value {
    match number.is_multiple_of(3) {
        true => json!({"os": "linux", "arch": "x86_64", "site": "lab"}),
        false => {
            json!({"os": "macos", "arch": "arm64", "xcode": if number.is_multiple_of(2) { "26.1" } else { "16.4" }, "site": if number.is_multiple_of(5) { "lab" } else { "office" }})
        }
    }
}

fn seed(directory: &Path, jobs: u64) -> Result<(), Box<dyn Error>> {
    let store = Store::open(directory)?;
    let mut writer = store.writer()?;
    let mut dice = Dice::new(7);
    let now = now_ms();
    let mut batch = Vec::new();
    for number in 0..jobs {
        // The last job ended a minute ago, so that the pool is not asleep.
        let created = now - 60_000 - DAY_MS * (jobs - number) / jobs;
        batch.push(Record::Job(Box::new(job(&mut dice, created))));
        if batch.len() >= BATCH {
            writer.commit(&batch)?;
            batch.clear();
        }
    }
    // A worker that has been away for some hours.
    batch.push(Record::Worker(Box::new(WorkerRecord {
        worker: id(WORKERS),
        name: "mini-old".into(),
        version: "0.1.0".into(),
        slots: 2,
        labels: [("os".to_owned(), "macos".to_owned())].into(),
        resources: [].into(),
        accepts: Vec::new(),
        draining: false,
        drain_until_ms: None,
        resumed: false,
        quarantined: None,
        first_seen_ms: i64::try_from(now - DAY_MS)?,
        last_seen_ms: i64::try_from(now - DAY_MS / 8)?,
        approved: true,
        token: None,
        lost: true,
    })));
    writer.commit(&batch)?;
    Ok(())
}

fn job(dice: &mut Dice, created: u64) -> JobRecord {
    let (project, command, headline) = PROJECTS[usize::try_from(dice.below(5)).unwrap_or_default()];
    let (verdict, code) = match dice.below(100) {
        0..87 => (Verdict::Passed, 0),
        87..96 => (Verdict::Failed, 1),
        96..98 => (Verdict::TimedOut, 1),
        _ => (Verdict::Cancelled, 1),
    };
    let mut random = [0; 10];
    random[..8].copy_from_slice(&dice.below(u64::MAX).to_le_bytes());
    let waited = 200 + dice.below(40_000);
    let ran = 3_000 + dice.below(600_000);
    let ms = |at: u64| i64::try_from(at).unwrap_or_default();
    let worker = dice.below(WORKERS);
    let failed = verdict == Verdict::Failed;
    JobRecord {
        job: JobId::from_uuid(uuid::Builder::from_unix_timestamp_millis(created, &random).into_uuid()),
        spec: Arc::new(JobSpec {
            project: project.to_owned(),
            ..JobSpec::new(Command::Shell(command.to_owned()), Source::Empty)
        }),
        submitter: ["ada", "grace", "ci", "agent-7"][usize::try_from(dice.below(4)).unwrap_or_default()]
            .into(),
        principal: "seed".into(),
        token: None,
        client_request_id: None,
        created_at_ms: ms(created),
        attempts: vec![AttemptRecord {
            number: 1,
            epoch: 1,
            worker: id(worker),
            worker_name: name(worker),
            granted_at_ms: ms(created + waited),
            started_at_ms: Some(ms(created + waited + 100)),
            ended: Some(AttemptEnd {
                at_ms: ms(created + waited + ran),
                how: AttemptEnding::Completed,
                log_length: 0,
            }),
            lost_after_ms: None,
            boot: None,
        }],
        cancel: None,
        snapshot: None,
        done: Some(DoneRecord {
            finished_at_ms: ms(created + waited + ran),
            sealed_at_ms: None,
            attempt: Some(1),
            verdict,
            exit_code: Some(code),
            crash_type: CrashType::None,
            cause: Some(Cause { text: "the command exited".into(), known_from: KnownFrom::WaitStatus }),
            outcome: None,
            duration_ms: Some(ran),
            tests: None,
            headline: failed.then(|| headline.to_owned()),
        }),
    }
}

async fn workers(address: &str, token: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let address = address.parse()?;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..count {
        let peer = Peer::dial(address, "/v1/worker", Some(token)).await;
        let peer = peer.map_err(|refused| format!("a worker is refused: {refused:?}"))?;
        running.spawn(worker(peer, number));
    }
    stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Registers, and reports each granted job as running.
async fn worker(mut peer: Peer, number: u64) -> Option<()> {
    let quarantined = (number == 17).then_some("the disk is full: 1.2 GB are free, 5 GB are needed");
    let free: u64 = if number == 22 { 3_100_000_000 } else { 40_000_000_000 + number * 1_300_000_000 };
    let condition = json!({
        "draining": number == 5, "quarantined": quarantined, "disk_free_bytes": free, "disk_total_bytes": 494_000_000_000_u64,
        "warm_projects": [],
    });
    let register = json!({
        "type": "register", "protocol": {"min": 1, "max": 1}, "worker": id(number).to_string(),
        "boot": uuid::Uuid::now_v7().to_string(), "name": name(number), "version": env!("CARGO_PKG_VERSION"), "slots": 2,
        "labels": labels(number), "resources": {}, "accepts": [], "held": [], "condition": condition,
    });
    peer.send_json(&register).await.then_some(())?;
    let mut held: Vec<Value> = Vec::new();
    loop {
        if let Some(message) = peer.receive_within(REPORT_EVERY).await
            && message["type"] == "grant"
        {
            held.push(json!({
                "lease": message["lease"], "state": "running", "log_length": 0, "started_at_ms": now_ms(),
            }));
        }
        let report = json!({"type": "report", "held": held, "condition": condition});
        peer.send_json(&report).await.then_some(())?;
    }
}
