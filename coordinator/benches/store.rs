//! Cost of durability: commits compared with a plain append and sync, log bytes compared with a
//! plain file.
//!
//! `BUILDPOOL_BENCH_LOG` selects a real log instead of a generated one; `TMPDIR` selects the disk.

use buildpool_coordinator::store::{
    AttemptEnd, AttemptEnding, AttemptRecord, DoneRecord, JobRecord, Record, Store,
};
use buildpool_protocol::outcome::{CrashType, Seal};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, LogState, Stream};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_protocol::{AttemptId, JobId, WorkerId};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const LOG_BYTES: usize = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

fn job() -> JobRecord {
    let mut spec = JobSpec::new(Command::Shell("cargo test --workspace".into()), Source::Empty);
    spec.env =
        (0..40).map(|n| (format!("VARIABLE_{n}"), format!("/some/value/of/usual/length/{n}"))).collect();
    JobRecord {
        job: JobId::from_uuid(Uuid::now_v7()),
        spec: Arc::new(spec),
        submitter: "bench".into(),
        principal: "local".into(),
        token: None,
        client_request_id: None,
        created_at_ms: 1,
        attempts: Vec::new(),
        cancel: None,
        snapshot: None,
        done: None,
    }
}

fn granted(mut job: JobRecord) -> JobRecord {
    job.attempts.push(AttemptRecord {
        number: 1,
        epoch: 1,
        worker: WorkerId::from_uuid(Uuid::now_v7()),
        worker_name: "bench".into(),
        granted_at_ms: 2,
        started_at_ms: None,
        ended: None,
        lost_after_ms: None,
        boot: None,
    });
    job
}

fn done(mut job: JobRecord, log_length: u64) -> JobRecord {
    for attempt in &mut job.attempts {
        attempt.ended = Some(AttemptEnd { at_ms: 3, how: AttemptEnding::Completed, log_length });
    }
    job.done = Some(DoneRecord {
        finished_at_ms: 3,
        sealed_at_ms: None,
        attempt: Some(1),
        verdict: Verdict::Passed,
        exit_code: Some(0),
        crash_type: CrashType::None,
        cause: None,
        outcome: None,
        duration_ms: Some(1),
        tests: None,
        headline: None,
    });
    job
}

/// Frames of one chunk each, and the worker's declaration at the end.
struct Log {
    frames: Vec<Vec<u8>>,
    state: LogState,
    seals: [Seal; 2],
}

fn log(attempt: AttemptId, text: &[u8]) -> Log {
    let mut state = LogState::default();
    let mut hashers: [blake3::Hasher; 2] = Default::default();
    let mut frames = Vec::new();
    for (index, payload) in text.chunks(CHUNK_BYTES).enumerate() {
        let stream = if index % 4 == 3 { Stream::Stderr } else { Stream::Stdout };
        let header = ChunkHeader {
            attempt,
            stream,
            kind: ChunkKind::Data,
            length: u32::try_from(payload.len()).expect("a chunk is short"),
            elapsed_ms: 0,
            sequence: state.next_sequence,
            offset: state.stream_lengths[stream.index()],
        };
        state.append(&header, payload).expect("chunks follow each other");
        hashers[stream.index()].update(payload);
        frames.push([&header.encode(), payload].concat());
    }
    let seals = Stream::ALL.map(|stream| Seal {
        length: state.stream_lengths[stream.index()],
        blake3: hashers[stream.index()].finalize().to_hex().to_string(),
    });
    Log { frames, state, seals }
}

/// Returns lines like those of a build, or the selected log, repeated.
fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 256);
    match std::env::var_os("BUILDPOOL_BENCH_LOG")
        .map(|path| std::fs::read(path).expect("the named log is there"))
    {
        Some(real) => {
            while text.len() < bytes {
                text.extend_from_slice(&real);
            }
        }
        None => {
            let mut seed = 1_u64;
            for number in 0.. {
                if text.len() >= bytes {
                    break;
                }
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(number);
                let (module, file, id) = (seed >> 58, (seed >> 40) & 0xfff, seed >> 32 & 0xffff);
                writeln!(
                    text,
                    "CompileSwift normal arm64 /Users/ci/work/App/Modules/Module{module}/Sources/File{file}.swift \
                     (in target 'Module{module}' from project 'App') {id:04x}"
                )
                .expect("writing to memory does not fail");
            }
        }
    }
    text.truncate(bytes);
    text
}

fn attempt(job: &JobRecord) -> AttemptId {
    AttemptId { job: job.job, number: 1 }
}

fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    let directory = tempfile::tempdir().expect("a directory for the bench");
    let mut file = File::create(directory.path().join("plain")).expect("a file for the yardstick");
    group.bench_function("yardstick: append 256 bytes, fdatasync", |bencher| {
        bencher.iter(|| {
            file.write_all(&[b'x'; 256]).expect("there is room");
            file.sync_data().expect("the disk works");
        });
    });
    let store = Store::open(directory.path()).expect("the store opens");
    let mut writer = store.writer().expect("the writer opens");
    group.bench_function("accept a job", |bencher| {
        bencher.iter_batched(
            || [Record::Job(Box::new(job()))],
            |batch| writer.commit(&batch).expect("the disk works"),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("grant and end a job, with a short log, in two commits", |bencher| {
        bencher.iter_custom(|count| {
            let jobs: Vec<JobRecord> = (0..count).map(|_| job()).collect();
            for part in jobs.chunks(500) {
                let batch: Vec<Record> = part.iter().map(|job| Record::Job(Box::new(job.clone()))).collect();
                writer.commit(&batch).expect("the disk works");
            }
            let started = Instant::now();
            for job in jobs {
                let log = log(attempt(&job), b"hello\n");
                let job = granted(job);
                writer.commit(&[Record::Job(Box::new(job.clone()))]).expect("the disk works");
                let mut sending = store.logs().open(attempt(&job)).expect("the log opens");
                sending.append(0, &log.frames[0]).expect("the log takes it");
                let sealed = sending.seal(&log.seals, log.state.position).expect("it is whole");
                let bytes = sealed.inline.expect("it is short");
                let batch = [
                    Record::Log { attempt: attempt(&job), bytes },
                    Record::Job(Box::new(done(job, log.state.position))),
                ];
                writer.commit(&batch).expect("the disk works");
            }
            started.elapsed()
        });
    });
    group.bench_function("commit 100 jobs at once", |bencher| {
        bencher.iter_batched(
            || (0..100).map(|_| Record::Job(Box::new(job()))).collect::<Vec<_>>(),
            |batch| writer.commit(&batch).expect("the disk works"),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Appends a whole log and seals it. Returns the duration. Compression continues in the background.
fn send(store: &Store, text: &[u8]) -> (AttemptId, Duration) {
    let attempt = attempt(&job());
    let log = log(attempt, text);
    let started = Instant::now();
    let mut sending = store.logs().open(attempt).expect("the log opens");
    let mut position = 0;
    for frame in &log.frames {
        sending.append(position, frame).expect("the log takes it");
        position += frame.len() as u64;
    }
    sending.seal(&log.seals, log.state.position).expect("it is whole");
    (attempt, started.elapsed())
}

fn logs(criterion: &mut Criterion) {
    let text = text(LOG_BYTES);
    let mut group = criterion.benchmark_group("log");
    group.throughput(Throughput::Bytes(LOG_BYTES as u64)).sample_size(10);
    let directory = tempfile::tempdir().expect("a directory for the bench");
    let path = directory.path().join("plain");
    group.bench_function("yardstick: write a plain file in 64 KiB parts, fdatasync", |bencher| {
        bencher.iter(|| {
            let mut file = File::create(&path).expect("a file for the yardstick");
            text.chunks(CHUNK_BYTES).for_each(|part| file.write_all(part).expect("there is room"));
            file.sync_data().expect("the disk works");
        });
    });
    let store = Store::open(&directory.path().join("data")).expect("the store opens");
    group.bench_function("append and seal", |bencher| {
        bencher.iter_custom(|count| (0..count).map(|_| send(&store, &text).1).sum());
    });
    let mut reader = store.logs().open(send(&store, &text).0).expect("the log opens").reader();
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let mut position = 0;
            while position < reader.length() {
                position += reader.read(position, 1 << 20).expect("it is whole").len() as u64;
            }
            position
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("find the last 50 lines", |bencher| bencher.iter(|| reader.tail(50, None)));
    group.finish();
    drop((reader, store));

    let place = directory.path().join("ratio");
    let store = Store::open(&place).expect("the store opens");
    send(&store, &text);
    drop(store);
    let kept = size(&place.join("logs"));
    eprintln!(
        "log/kept on disk: {kept} bytes of {LOG_BYTES}, {:.1} times smaller",
        LOG_BYTES as f64 / kept as f64
    );
}

/// Returns the total size of the files in a directory tree, in bytes.
fn size(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).expect("the directory is there");
    entries
        .map(|entry| {
            let entry = entry.expect("the directory is read").path();
            if entry.is_dir() { size(&entry) } else { entry.metadata().map_or(0, |metadata| metadata.len()) }
        })
        .sum()
}

criterion_group!(benches, commits, logs);
criterion_main!(benches);
