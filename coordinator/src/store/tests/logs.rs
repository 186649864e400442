use super::support::{Produced, done, first, granted, job, read_all, scratch};
use crate::store::{
    Appended, AttemptEnd, AttemptEnding, Disk, Hook, LogError, LogReader, Operation, Record, Retention,
    SealError, Store,
};
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::{ChunkHeader, Stream};
use buildpool_protocol::report::Verdict;
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Sends the job's log in frames of whole chunks.
fn send(store: &Store, log: &Produced, frame: usize) {
    let mut writer = store.logs().open(log.attempt).unwrap();
    let mut from = 0;
    for edge in &log.edges {
        if edge - from >= frame || *edge == log.bytes.len() {
            writer.append(from as u64, &log.bytes[from..*edge]).unwrap();
            from = *edge;
        }
    }
    assert_eq!(writer.state(), log.state);
}

#[test]
fn a_short_log_lies_beside_its_record_and_has_no_file() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut records = store.writer().unwrap();
    let job = granted(job(1));
    let log = Produced::lines(first(&job), 300, 100);
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let sealed = writer.seal(&log.seals(), log.length()).unwrap();
    let inline = sealed.inline.unwrap();
    assert_eq!(inline, log.bytes);
    records
        .commit(&[
            Record::Job(Box::new(done(job, Verdict::Passed, log.length()))),
            Record::Log { attempt: log.attempt, bytes: inline },
        ])
        .unwrap();
    drop(writer);
    drop(records);
    assert_eq!(std::fs::read_dir(directory.path().join("logs")).unwrap().count(), 0);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(read_all(&mut store.logs().reader(log.attempt).unwrap(), 4096), log.bytes);
}

#[test]
fn a_long_log_is_compressed_and_read_from_anywhere() {
    let directory = scratch();
    let job = granted(job(1));
    let log = Produced::lines(first(&job), 20 << 20, 30_000);
    let store = Store::open(directory.path()).unwrap();
    send(&store, &log, 100_000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    assert_eq!(writer.seal(&log.seals(), log.length()).unwrap().inline, None);
    store
        .writer()
        .unwrap()
        .commit(&[Record::Job(Box::new(done(job, Verdict::Passed, log.length())))])
        .unwrap();
    let mut reader = store.logs().reader(log.attempt).unwrap();
    assert_eq!(read_all(&mut reader, 50_000), log.bytes);
    drop((reader, writer, store));

    let store = Store::open(directory.path()).unwrap();
    let mut reader = store.logs().reader(log.attempt).unwrap();
    assert!(reader.progress().ended);
    for edge in log.edges.iter().rev().step_by(37) {
        let part = reader.read(*edge as u64, 70_000).unwrap();
        assert_eq!(part, log.bytes[*edge..*edge + part.len()]);
        assert_eq!(part.is_empty(), *edge == log.bytes.len());
    }
    assert!(matches!(reader.read(3, 100), Err(LogError::NotAPosition { position: 3 })));
    let files: Vec<_> = walk(&directory.path().join("logs"));
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].1 * 8 < log.length(), "{files:?}");
}

fn walk(root: &std::path::Path) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    for directory in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            let file = file.unwrap();
            files.push((file.file_name().into_string().unwrap(), file.metadata().unwrap().len()));
        }
    }
    files
}

#[test]
fn repeats_are_dropped_and_holes_are_asked_for() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = Produced::lines(first(&job(1)), 50_000, 1000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    let (a, b, c) = (log.edges[5], log.edges[10], log.edges[20]);
    assert_eq!(writer.append(a as u64, &log.bytes[a..b]).unwrap(), Appended::Rewind { position: 0 });
    assert_eq!(writer.append(0, &log.bytes[..b]).unwrap(), Appended::Stored { position: b as u64 });
    assert_eq!(writer.append(0, &log.bytes[..a]).unwrap(), Appended::Stored { position: b as u64 });
    assert_eq!(writer.append(a as u64, &log.bytes[a..c]).unwrap(), Appended::Stored { position: c as u64 });
    assert_eq!(read_all(&mut writer.reader(), 1 << 20), log.bytes[..c]);
    assert!(
        matches!(writer.seal(&log.seals(), log.length()), Err(SealError::Missing { position }) if position == c as u64)
    );
}

#[test]
fn what_is_no_part_of_the_log_is_refused_and_changes_nothing() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = Produced::lines(first(&job(1)), 10_000, 1000);
    let other = Produced::lines(first(&job(1)), 10_000, 1000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    let edge = log.edges[3];
    writer.append(0, &log.bytes[..edge]).unwrap();
    let torn = log.edges[4] - 1;
    for (position, content) in [
        (edge, &log.bytes[edge..torn]),
        (edge, &other.bytes[edge..]),
        (edge, &log.bytes[log.edges[5]..]),
        (edge - 1, &log.bytes[edge..]),
        (0, &log.bytes[edge..]),
        (edge, &b"x"[..]),
    ] {
        let error = writer.append(position as u64, content).unwrap_err();
        assert!(error.is_senders_fault() || matches!(error, LogError::Diverged { .. }), "{error}");
        assert_eq!(writer.state().position, edge as u64);
    }
    assert_eq!(read_all(&mut writer.reader(), 1 << 20), log.bytes[..edge]);
}

#[test]
fn the_newest_writer_fences_those_before() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = Produced::lines(first(&job(1)), 10_000, 1000);
    let mut old = store.logs().open(log.attempt).unwrap();
    old.append(0, &log.bytes[..log.edges[2]]).unwrap();
    let mut new = store.logs().open(log.attempt).unwrap();
    assert!(matches!(old.append(log.edges[2] as u64, &log.bytes[log.edges[2]..]), Err(LogError::Superseded)));
    assert_eq!(new.state().position, log.edges[2] as u64);
    new.append(0, &log.bytes).unwrap();
    new.seal(&log.seals(), log.length()).unwrap();
}

#[test]
fn a_log_that_disagrees_with_its_seal_starts_again() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = Produced::lines(first(&job(1)), 100_000, 1000);
    let mut damaged = log.bytes.clone();
    damaged[70_000] ^= 1;
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &damaged).unwrap();
    assert!(matches!(writer.seal(&log.seals(), log.length()), Err(SealError::Mismatch { .. })));
    writer.restart().unwrap();
    assert_eq!(writer.state().position, 0);
    writer.append(0, &log.bytes).unwrap();
    writer.seal(&log.seals(), log.length()).unwrap();
    assert_eq!(read_all(&mut writer.reader(), 1 << 20), log.bytes);
}

#[tokio::test]
async fn a_reader_follows_a_log_from_before_its_first_byte() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let job = granted(job(1));
    store.writer().unwrap().commit(&[Record::Job(Box::new(job.clone()))]).unwrap();
    let log = Produced::lines(first(&job), 3 << 20, 5000);
    let mut reader = store.logs().reader(log.attempt).unwrap();
    let sent = log.clone();
    let writing = tokio::task::spawn_blocking(move || {
        send(&store, &sent, 10_000);
        store.logs().open(sent.attempt).unwrap().seal(&sent.seals(), sent.length()).unwrap();
        store
    });
    let mut got = Vec::new();
    loop {
        let progress = reader.grown(got.len() as u64).await;
        let part = reader.read(got.len() as u64, 64 << 10).unwrap();
        if part.is_empty() && progress.ended {
            break;
        }
        got.extend_from_slice(&part);
    }
    assert_eq!(got, log.bytes);
    drop(writing.await.unwrap());
}

/// Generates chunks of both streams, with occasional gaps.
fn any_log(attempt: AttemptId) -> impl Strategy<Value = Produced> {
    let chunk = prop_oneof![
        8 => (any::<bool>(), 1_usize..3000).prop_map(|(error, length)| (error, Some(length))),
        1 => any::<bool>().prop_map(|error| (error, None)),
    ];
    prop::collection::vec(chunk, 1..40).prop_map(move |chunks| {
        let mut log = Produced::new(attempt);
        for (index, (error, length)) in chunks.into_iter().enumerate() {
            let stream = if error { Stream::Stderr } else { Stream::Stdout };
            match length {
                Some(length) => log.write(stream, &vec![u8::try_from(index).unwrap() ^ b'\n'; length]),
                None => log.gap(stream, 1 << 33),
            }
        }
        log
    })
}

/// An event during the transfer of a log.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends this many chunks from this one on.
    Send(prop::sample::Index, usize),
    /// Sends this many chunks from the position that the coordinator expects.
    Next(usize),
    /// The coordinator restarts.
    Restart,
    /// A new connection replaces the old one.
    Reconnect,
    /// A short log is written to its file.
    Wait,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 0_usize..10).prop_map(|(at, count)| Step::Send(at, count)),
        6 => (1_usize..10).prop_map(Step::Next),
        1 => Just(Step::Restart),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_way_the_log_is_what_was_written(
        log in any_log(first(&job(1))),
        steps in prop::collection::vec(any_step(), 0..30),
        read in 1_usize..10_000,
    ) {
        let directory = scratch();
        let mut store = Store::open(directory.path()).unwrap();
        let mut writer = store.logs().open(log.attempt).unwrap();
        let last = log.edges.len() - 1;
        for step in steps {
            let before = writer.state().position;
            let (from, count) = match step {
                Step::Send(at, count) => (at.index(last), count),
                Step::Next(count) => (log.edges.iter().position(|edge| *edge as u64 == before).unwrap(), count),
                Step::Restart => {
                    drop(writer);
                    drop(store);
                    store = Store::open(directory.path()).unwrap();
                    writer = store.logs().open(log.attempt).unwrap();
                    prop_assert!(writer.state().position <= before);
                    continue;
                }
                Step::Reconnect => {
                    writer = store.logs().open(log.attempt).unwrap();
                    prop_assert_eq!(writer.state().position, before);
                    continue;
                }
                Step::Wait => {
                    writer.sync().unwrap();
                    continue;
                }
            };
            let (from, to) = (log.edges[from], log.edges[(from + count).min(last)]);
            let appended = writer.append(from as u64, &log.bytes[from..to]).unwrap();
            let expected = if from as u64 > before {
                Appended::Rewind { position: before }
            } else {
                Appended::Stored { position: before.max(to as u64) }
            };
            prop_assert_eq!(appended, expected);
            let stored = read_all(&mut writer.reader(), read);
            prop_assert_eq!(&stored, &log.bytes[..stored.len()]);
            prop_assert_eq!(stored.len() as u64, writer.state().position);
        }
        let position = writer.state().position;
        writer.append(position, &log.bytes[usize::try_from(position).unwrap()..]).unwrap();
        prop_assert_eq!(writer.state(), log.state);
        writer.seal(&log.seals(), log.length()).unwrap();
        prop_assert_eq!(read_all(&mut writer.reader(), read), log.bytes);
    }
}

/// Counts the lines of one stream, or of both, from a position on.
fn lines_from(reader: &mut LogReader, position: u64, stream: Option<Stream>) -> usize {
    let mut all = Vec::new();
    let mut at = position;
    loop {
        let part = reader.read(at, 1 << 20).unwrap();
        if part.is_empty() {
            break;
        }
        at += part.len() as u64;
        all.extend_from_slice(&part);
    }
    let mut count = 0;
    let mut rest = all.as_slice();
    while let Ok((header, payload)) = ChunkHeader::decode(rest) {
        if stream.is_none_or(|stream| stream == header.stream) {
            count += payload.iter().filter(|byte| **byte == b'\n').count();
        }
        rest = &rest[usize::try_from(header.size()).unwrap()..];
    }
    count
}

#[test]
fn a_tail_begins_early_enough_and_not_much_earlier() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    for bytes in [2_000, 100_000, 6_000_000] {
        let log = Produced::lines(first(&job(1)), bytes, 700);
        send(&store, &log, 100_000);
        let mut reader = store.logs().open(log.attempt).unwrap().reader();
        for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
            let all = lines_from(&mut reader, 0, stream);
            for lines in [0, 1, 50, 20_000, 10_000_000] {
                let position = reader.tail(lines as u64, stream).unwrap();
                let found = lines_from(&mut reader, position, stream);
                assert!(found >= lines.min(all), "{bytes} bytes, {lines} lines of {stream:?}: {found}");
                assert!(found <= lines + 60, "{bytes} bytes, {lines} lines of {stream:?}: {found}");
            }
        }
    }
}

#[test]
fn where_a_stream_says_nothing_is_known_without_reading() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut log = Produced::new(first(&job(1)));
    log.write(Stream::Stderr, b"early\n");
    let flood = [b'x'; 60_000];
    (0..300).for_each(|_| log.write(Stream::Stdout, &flood));
    log.write(Stream::Stderr, b"late\n");
    send(&store, &log, 100_000);
    let mut reader = store.logs().open(log.attempt).unwrap().reader();
    let at = |chunk: usize| log.edges[chunk] as u64;
    let next = reader.next_of(at(150), Stream::Stderr);
    assert!(at(200) < next && next <= at(301), "{next} of {}", at(301));
    assert!(log.edges.contains(&usize::try_from(next).unwrap()));
    assert_eq!(reader.next_of(at(150), Stream::Stdout), at(150), "it is here");
    assert_eq!(reader.next_of(at(302), Stream::Stderr), at(302), "the rest of the log is unknown");
    assert_eq!(reader.tail(0, Some(Stream::Stderr)).unwrap(), at(301));
    assert_eq!(reader.tail(1, Some(Stream::Stderr)).unwrap(), 0);
}

#[test]
fn an_abandoned_log_ends_and_stays_readable() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut job = granted(job(1));
    let log = Produced::lines(first(&job), 900, 100);
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let reader = writer.reader();
    writer.abandon().unwrap();
    assert!(reader.progress().ended);
    assert!(matches!(
        writer.append(log.length(), &Produced::lines(log.attempt, 10, 10).bytes),
        Err(LogError::Sealed | LogError::Diverged { .. })
    ));
    job.attempts[0].ended = Some(AttemptEnd {
        at_ms: 2,
        how: AttemptEnding::Lost { reason: "its worker stayed away".into() },
        log_length: log.length(),
    });
    store.writer().unwrap().commit(&[Record::Job(Box::new(job))]).unwrap();
    drop((reader, writer, store));
    let store = Store::open(directory.path()).unwrap();
    let mut reader = store.logs().reader(log.attempt).unwrap();
    assert!(reader.progress().ended);
    assert_eq!(read_all(&mut reader, 4096), log.bytes);
}

#[test]
fn what_a_crash_left_uncompressed_is_compressed_later() {
    let directory = scratch();
    let hook: Arc<Hook> = Arc::new(|operation, path: &Path| {
        let pack = path.extension().is_some_and(|extension| extension == "pack");
        if pack && operation == Operation::Create { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    });
    let store = Store::open_on(directory.path(), Disk::hooked(hook)).unwrap();
    let job = granted(job(1));
    let log = Produced::lines(first(&job), 5_000_000, 50_000);
    send(&store, &log, 100_000);
    store.logs().open(log.attempt).unwrap().seal(&log.seals(), log.length()).unwrap();
    let over = done(job, Verdict::Passed, log.length());
    store.writer().unwrap().commit(&[Record::Job(Box::new(over))]).unwrap();
    drop(store);
    let raw = |files: &[(String, u64)]| files.iter().filter(|(name, _)| name.ends_with(".raw")).count();
    assert_eq!(raw(&walk(&directory.path().join("logs"))), 2);

    let store = Store::open(directory.path()).unwrap();
    store.logs().retain(&Retention::default(), 0).unwrap();
    store.logs().settle();
    let files = walk(&directory.path().join("logs"));
    assert_eq!((raw(&files), files.len()), (0, 1));
    let mut reader = store.logs().open(log.attempt).unwrap().reader();
    assert!(read_all(&mut reader, 1 << 20) == log.bytes);
}
