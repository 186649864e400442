//! Helpers of the store's tests.

use crate::store::LogReader;
use crate::store::records::{AttemptEnd, AttemptEnding, AttemptRecord, DoneRecord, JobRecord};
use buildpool_protocol::outcome::{CrashType, Seal};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, LogState, Stream};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_protocol::{AttemptId, JobId, WorkerId};
use std::sync::Arc;
use uuid::Uuid;

/// Creates a temporary directory. It is in memory if the system offers that, so that a thousand
/// syncs are cheap.
pub(crate) fn scratch() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let memory = std::path::PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir_in(place).unwrap()
}

/// Returns a job that was accepted at this time.
pub(crate) fn job(created_at_ms: i64) -> JobRecord {
    JobRecord {
        job: JobId::from_uuid(Uuid::now_v7()),
        spec: Arc::new(JobSpec::new(Command::Shell("make test".into()), Source::Empty)),
        submitter: "ada".into(),
        principal: "token-1".into(),
        token: None,
        client_request_id: None,
        created_at_ms,
        attempts: Vec::new(),
        cancel: None,
        snapshot: None,
        done: None,
    }
}

/// Returns the job with its first attempt granted.
pub(crate) fn granted(mut job: JobRecord) -> JobRecord {
    job.attempts.push(AttemptRecord {
        number: 1,
        epoch: 7,
        worker: WorkerId::from_uuid(Uuid::from_u128(9)),
        worker_name: "mini".into(),
        granted_at_ms: job.created_at_ms + 1,
        started_at_ms: None,
        ended: None,
        lost_after_ms: None,
        boot: None,
    });
    job
}

/// Returns the granted job as ended.
pub(crate) fn done(mut job: JobRecord, verdict: Verdict, log_length: u64) -> JobRecord {
    let finished_at_ms = job.created_at_ms + 10;
    if let Some(attempt) = job.attempts.last_mut() {
        attempt.ended = Some(AttemptEnd { at_ms: finished_at_ms, how: AttemptEnding::Completed, log_length });
    }
    job.done = Some(DoneRecord {
        finished_at_ms,
        sealed_at_ms: None,
        attempt: job.attempts.last().map(|attempt| attempt.number),
        verdict,
        exit_code: Some(0),
        crash_type: CrashType::None,
        cause: None,
        outcome: None,
        duration_ms: Some(5),
        tests: None,
        headline: None,
    });
    job
}

pub(crate) fn first(job: &JobRecord) -> AttemptId {
    AttemptId { job: job.job, number: 1 }
}

/// A log as a keeper writes it.
#[derive(Clone, Debug)]
pub(crate) struct Produced {
    pub(crate) attempt: AttemptId,
    pub(crate) bytes: Vec<u8>,
    /// Offset of each chunk, and the end.
    pub(super) edges: Vec<usize>,
    pub(super) state: LogState,
    hashers: [blake3::Hasher; 2],
}

impl Produced {
    pub(crate) fn new(attempt: AttemptId) -> Self {
        Self {
            attempt,
            bytes: Vec::new(),
            edges: vec![0],
            state: LogState::default(),
            hashers: Default::default(),
        }
    }

    pub(crate) fn write(&mut self, stream: Stream, payload: &[u8]) {
        self.chunk(stream, ChunkKind::Data, payload);
        self.hashers[stream.index()].update(payload);
    }

    pub(crate) fn gap(&mut self, stream: Stream, missing_bytes: u64) {
        let gap = buildpool_protocol::output::Gap { missing_bytes, reason: "full".into() };
        self.chunk(stream, ChunkKind::Gap, &serde_json::to_vec(&gap).unwrap());
    }

    fn chunk(&mut self, stream: Stream, kind: ChunkKind, payload: &[u8]) {
        let header = ChunkHeader {
            attempt: self.attempt,
            stream,
            kind,
            length: u32::try_from(payload.len()).unwrap(),
            elapsed_ms: 5,
            sequence: self.state.next_sequence,
            offset: self.state.stream_lengths[stream.index()],
        };
        self.state.append(&header, payload).unwrap();
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.extend_from_slice(payload);
        self.edges.push(self.bytes.len());
    }

    /// Produces lines like those of a build: this many bytes in total, in chunks of this size.
    pub(crate) fn lines(attempt: AttemptId, bytes: usize, chunk: usize) -> Self {
        let mut log = Self::new(attempt);
        let mut text = Vec::with_capacity(bytes + 128);
        let mut number = 0_u64;
        while text.len() < bytes {
            let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            text.extend_from_slice(
                format!("[{number}] Compiling Module{} (/src/module/file{noise:x}.swift)\n", number % 97)
                    .as_bytes(),
            );
            number += 1;
        }
        text.truncate(bytes);
        for (index, part) in text.chunks(chunk).enumerate() {
            log.write(if index % 5 == 4 { Stream::Stderr } else { Stream::Stdout }, part);
        }
        log
    }

    pub(crate) fn seals(&self) -> [Seal; 2] {
        Stream::ALL.map(|stream| Seal {
            length: self.state.stream_lengths[stream.index()],
            blake3: self.hashers[stream.index()].finalize().to_hex().to_string(),
        })
    }

    pub(crate) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Reads the whole log, `step` bytes at a time.
pub(super) fn read_all(reader: &mut LogReader, step: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let part = reader.read(all.len() as u64, step).unwrap();
        if part.is_empty() {
            return all;
        }
        all.extend_from_slice(&part);
    }
}
