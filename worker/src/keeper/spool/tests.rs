//! Tests of the spool: inputs and the content of the disk.

use super::{LogLimits, Sealed, Spool, recover};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Gap, LogState, Stream};
use buildpool_protocol::spec::OutputPolicy;
use std::path::PathBuf;

fn attempt() -> AttemptId {
    AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: 3 }
}

struct Bench {
    directory: tempfile::TempDir,
    spool: Spool,
}

impl Bench {
    fn new(policy: OutputPolicy, limits: LogLimits) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let spool = Spool::create(&directory.path().join("log"), attempt(), policy, limits);
        Self { directory, spool: spool.expect("a new file") }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn append(&mut self, stream: Stream, bytes: &[u8]) {
        let mut buffer = vec![0; CHUNK_HEADER_BYTES];
        buffer.extend_from_slice(bytes);
        self.spool.append(stream, 1, &mut buffer);
    }

    /// Returns the whole log as a reader sees it: bytes as text, gaps as their length.
    fn read(&self) -> Vec<(Stream, String)> {
        let log = std::fs::read(self.path()).expect("the log");
        let (mut rest, mut state, mut out) = (&log[..], LogState::default(), Vec::new());
        while !rest.is_empty() {
            let (header, payload) = ChunkHeader::decode(rest).expect("whole chunks");
            state.append(&header, payload).expect("the next chunk");
            let text = match header.kind {
                ChunkKind::Data => String::from_utf8_lossy(payload).into_owned(),
                ChunkKind::Gap => {
                    let gap: Gap = serde_json::from_slice(payload).expect("a gap");
                    format!("[{}]", gap.missing_bytes)
                }
            };
            out.push((header.stream, text));
            rest = &rest[usize::try_from(header.size()).expect("small")..];
        }
        out
    }

    fn seal(&mut self) -> Sealed {
        let sealed = self.spool.seal(9).expect("a disk");
        assert_eq!(recover(&self.path(), attempt()).expect("readable"), sealed, "a reader finds the same");
        sealed
    }
}

fn entry(stream: Stream, text: &str) -> (Stream, String) {
    (stream, text.to_owned())
}

const OUT: Stream = Stream::Stdout;
const ERR: Stream = Stream::Stderr;

#[test]
fn chunks_lie_in_order_and_the_seal_counts_each_stream() {
    let mut bench = Bench::new(OutputPolicy::Block, LogLimits::default());
    bench.append(OUT, b"one");
    bench.append(ERR, b"two");
    bench.append(OUT, b"");
    bench.append(OUT, b"three");
    let sealed = bench.seal();
    assert_eq!(bench.read(), [entry(OUT, "one"), entry(ERR, "two"), entry(OUT, "three")]);
    assert_eq!(sealed.seals[0].length, 8);
    assert_eq!(sealed.seals[0].blake3, blake3::hash(b"onethree").to_hex().as_str());
    assert_eq!(sealed.seals[1].length, 3);
    assert_eq!(sealed.gaps, []);
}

#[test]
fn a_full_window_stops_the_reading_until_the_coordinator_has_taken_some() {
    let limits = LogLimits { window: 120, ..LogLimits::default() };
    let mut bench = Bench::new(OutputPolicy::Block, limits);
    bench.append(OUT, b"one");
    bench.append(OUT, b"two");
    assert!(bench.spool.wants_more());
    bench.append(OUT, b"three");
    assert!(!bench.spool.wants_more());
    assert_eq!(bench.spool.length(), 102);
    bench.spool.note_stored(51);
    assert!(bench.spool.wants_more());
    assert_eq!(bench.read().len(), 3);
    bench.append(OUT, b"four");
    assert!(!bench.spool.wants_more());
    bench.spool.begin_closing();
    assert!(bench.spool.wants_more(), "after the exit nothing is waited for");
    assert_eq!(bench.seal().gaps, []);
}

#[test]
fn the_middle_is_lost_in_a_counted_gap_when_that_was_asked_for() {
    let limits = LogLimits { window: 60, tail: 149, ..LogLimits::default() };
    let mut bench = Bench::new(OutputPolicy::KeepEnds, limits);
    bench.append(OUT, b"head");
    for text in ["lost", "gone", "t1", "t2"] {
        bench.append(OUT, text.as_bytes());
        assert!(bench.spool.wants_more(), "the process never waits");
    }
    bench.append(ERR, b"e");
    let sealed = bench.seal();
    assert_eq!(
        bench.read(),
        [entry(OUT, "head"), entry(OUT, "[8]"), entry(OUT, "t1"), entry(OUT, "t2"), entry(ERR, "e")]
    );
    assert_eq!(sealed.seals[0].length, 16);
    assert_eq!(sealed.seals[0].blake3, blake3::hash(b"headt1t2").to_hex().as_str());
    assert_eq!((sealed.gaps.len(), sealed.gaps[0].offset, sealed.gaps[0].bytes), (1, 4, 8));
    assert!(sealed.gaps[0].reason.contains("behind"), "{}", sealed.gaps[0].reason);
}

#[test]
fn a_log_over_its_limit_keeps_head_and_tail_under_either_policy() {
    for policy in [OutputPolicy::Block, OutputPolicy::KeepEnds] {
        let limits = LogLimits { log: 600, tail: 100, ..LogLimits::default() };
        let mut bench = Bench::new(policy, limits);
        for number in 0..9 {
            bench.append(OUT, format!("{number}{number}").as_bytes());
            assert!(bench.spool.wants_more());
        }
        let sealed = bench.seal();
        let texts: Vec<_> = bench.read().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["00", "11", "22", "33", "44", "55", "[2]", "77", "88"]);
        assert_eq!(sealed.seals[0].length, 18);
        assert!(sealed.gaps[0].reason.contains("limit of 600 bytes"), "{}", sealed.gaps[0].reason);
    }
}

#[test]
fn what_has_no_room_at_the_end_is_counted_too() {
    let limits = LogLimits { log: 260, tail: 500, ..LogLimits::default() };
    let mut bench = Bench::new(OutputPolicy::Block, limits);
    for number in 0..9 {
        bench.append(OUT, format!("{number}{number}").as_bytes());
    }
    let sealed = bench.seal();
    let kept: u64 = bench.read().iter().filter(|(_, text)| !text.starts_with('[')).map(|_| 2).sum();
    let dropped: u64 = sealed.gaps.iter().map(|gap| gap.bytes).sum();
    assert_eq!((kept + dropped, sealed.seals[0].length), (18, 18));
    assert!(dropped > 0);
}

#[test]
fn a_log_that_was_cut_anywhere_is_recovered_to_its_last_whole_chunk() {
    let mut bench = Bench::new(OutputPolicy::Block, LogLimits::default());
    bench.append(OUT, b"one");
    bench.append(ERR, b"two!");
    let whole = bench.seal();
    let log = std::fs::read(bench.path()).expect("the log");
    for length in 0..log.len() {
        std::fs::write(bench.path(), &log[..length]).expect("a file");
        let recovered = recover(&bench.path(), attempt()).expect("readable");
        let expected = if length < 51 { 0 } else { 51 };
        assert_eq!(recovered.log_length, expected, "cut at {length}");
    }
    assert_eq!(whole.log_length, log.len() as u64);
    let dropped = recover(&bench.path().with_extension("none"), attempt()).expect("no log is empty");
    assert_eq!(dropped.log_length, 0);
}
