//! Logs that the disk does not take whole.

use super::support::{Produced, first, granted, job, read_all, scratch};
use crate::store::{Appended, Store};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap, Stream};

/// Lines of both streams, so that the tail does not hold all of them.
fn produced() -> Produced {
    Produced::lines(first(&granted(job(1))), 300_000, 2_000)
}

/// Payload bytes and missing bytes of each stream.
fn contents(mut log: &[u8]) -> [(Vec<u8>, u64); 2] {
    let mut streams = [(Vec::new(), 0), (Vec::new(), 0)];
    while let Ok((header, payload)) = ChunkHeader::decode(log) {
        let (bytes, missing) = &mut streams[header.stream.index()];
        match header.kind {
            ChunkKind::Data => bytes.extend_from_slice(payload),
            ChunkKind::Gap => *missing += serde_json::from_slice::<Gap>(payload).unwrap().missing_bytes,
        }
        log = &log[usize::try_from(header.size()).unwrap()..];
    }
    streams
}

#[test]
fn what_the_disk_does_not_take_is_a_counted_gap_and_the_end_is_kept() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = produced();
    let half = log.edges[log.edges.len() / 2];
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes[..half]).unwrap();
    writer.stop_storing("no room".into()).unwrap();
    for pair in log.edges.windows(2).filter(|pair| pair[0] >= half) {
        let appended = writer.append(pair[0] as u64, &log.bytes[pair[0]..pair[1]]).unwrap();
        assert_eq!(appended, Appended::Stored { position: pair[1] as u64 });
    }
    let sealed = writer.seal(&log.seals(), log.length()).unwrap();
    let shortened = sealed.shortened.unwrap();
    let stored = read_all(&mut store.logs().reader(log.attempt).unwrap(), 50_000);
    assert_eq!(stored.len() as u64, sealed.state.position);
    let (whole, kept) = (contents(&log.bytes), contents(&stored));
    for stream in Stream::ALL {
        let ((whole, _), (kept, missing)) = (&whole[stream.index()], &kept[stream.index()]);
        let gaps = shortened.gaps.iter().filter(|gap| gap.stream == stream);
        let (offset, bytes) = gaps.fold((0, 0), |(_, sum), gap| (gap.offset, sum + gap.bytes));
        assert_eq!((*missing, kept.len() as u64 + missing), (bytes, whole.len() as u64), "{stream}");
        let offset = usize::try_from(offset).unwrap();
        assert_eq!(kept[..offset], whole[..offset], "{stream}: the beginning");
        let tail = kept.len() - offset;
        assert!(tail > 1_000, "{stream}: {tail}");
        assert_eq!(kept[offset..], whole[whole.len() - tail..], "{stream}: the end");
        assert_eq!(shortened.seals[stream.index()].length, whole.len() as u64);
        assert_eq!(shortened.seals[stream.index()].blake3, blake3::hash(kept).to_hex().to_string());
    }
}

#[test]
fn a_disk_that_has_room_again_gets_the_whole_log() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = produced();
    let half = log.edges[log.edges.len() / 2];
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes[..half]).unwrap();
    writer.stop_storing("no room".into()).unwrap();
    writer.append(half as u64, &log.bytes[half..]).unwrap();
    assert_eq!(writer.state().position, log.length());
    writer.store_again();
    assert_eq!(writer.state().position, half as u64, "it is sent again from here");
    writer.append(half as u64, &log.bytes[half..]).unwrap();
    assert_eq!(writer.seal(&log.seals(), log.length()).unwrap().shortened, None);
    assert_eq!(read_all(&mut store.logs().reader(log.attempt).unwrap(), 50_000), log.bytes);
}

#[test]
fn a_short_log_that_the_disk_does_not_take_has_no_gap() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = Produced::lines(first(&granted(job(1))), 300, 100);
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.stop_storing("no room".into()).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let sealed = writer.seal(&log.seals(), log.length()).unwrap();
    assert_eq!(sealed.inline.unwrap(), log.bytes);
    assert_eq!(sealed.shortened.unwrap().gaps, []);
}

#[test]
fn a_log_of_which_nothing_can_be_stored_is_a_gap_of_its_length() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let log = produced();
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let lengths = log.state.stream_lengths;
    let sealed = writer.seal_unstored(lengths, "a broken disk").unwrap();
    let gaps = sealed.shortened.unwrap().gaps;
    assert_eq!(gaps.iter().map(|gap| gap.bytes).collect::<Vec<_>>(), lengths);
    assert_eq!(contents(&sealed.inline.unwrap()).map(|(_, missing)| missing), lengths);
}
