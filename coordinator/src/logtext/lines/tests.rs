use super::{LineIndex, MARKS_MAX, STRIDE, matches};
use crate::logtext::PatternFilter;
use crate::store::tests::support::{Produced, first, job, scratch};
use crate::store::{LogReader, Store};
use buildpool_protocol::output::Stream::{Stderr, Stdout};

/// Calls `check` with a reader of a log that these chunks were written to.
fn with_log(write: impl FnOnce(&mut Produced), check: impl FnOnce(&mut LogReader, &mut dyn FnMut(&str))) {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut log = Produced::new(first(&job(1)));
    write(&mut log);
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let mut reader = writer.reader();
    let mut grow = |text: &str| {
        let from = log.bytes.len();
        log.write(Stdout, text.as_bytes());
        writer.append(from as u64, &log.bytes[from..]).unwrap();
    };
    check(&mut reader, &mut grow);
}

fn texts(index: &LineIndex, reader: &mut LogReader, from: u64, count: u32) -> Vec<String> {
    let lines = index.lines(reader, from, count).unwrap();
    lines.into_iter().map(|line| format!("{}: {}", line.stream, line.text)).collect()
}

#[test]
fn a_line_ends_at_its_newline_the_other_stream_or_a_gap() {
    let write = |log: &mut Produced| {
        log.write(Stdout, b"one\r\ntw");
        log.write(Stdout, b"o\nthr");
        log.write(Stderr, b"\nerror\nla");
        log.gap(Stderr, 7);
        log.write(Stdout, b"ee");
    };
    with_log(write, |reader, _| {
        let mut index = LineIndex::default();
        assert_eq!(index.extend(reader).unwrap(), 8);
        let all = [
            "stdout: one",
            "stdout: two",
            "stdout: thr",
            "stderr: ",
            "stderr: error",
            "stderr: la",
            "gap: 7 bytes of the log are missing here: full",
            "stdout: ee",
        ];
        assert_eq!(texts(&index, reader, 0, 100), all);
        for from in 0..8 {
            assert_eq!(texts(&index, reader, from, 2), all[from as usize..(from as usize + 2).min(8)]);
        }
        // The bytes of stdout: "one\r\ntwo\nthr" and, after the others, "ee".
        for (offset, line) in [(0, 0), (4, 0), (5, 1), (8, 1), (9, 2), (12, 7), (13, 7)] {
            assert_eq!(index.line_at(reader, Stdout, offset).unwrap(), Some(line), "{offset}");
        }
        assert_eq!(index.line_at(reader, Stderr, 1).unwrap(), Some(4));
        assert_eq!(index.line_at(reader, Stdout, 99).unwrap(), None);
    });
}

#[test]
fn a_growing_log_keeps_its_numbers() {
    with_log(
        |log| log.write(Stdout, b"a\nb"),
        |reader, grow| {
            let mut index = LineIndex::default();
            assert_eq!(index.extend(reader).unwrap(), 2);
            grow("c\nd\n");
            assert_eq!(index.extend(reader).unwrap(), 3);
            assert_eq!(texts(&index, reader, 1, 9), ["stdout: bc", "stdout: d"]);
        },
    );
}

#[test]
fn an_index_finds_every_line_and_stays_small() {
    let lines = STRIDE * (MARKS_MAX as u64 + 10);
    let write = |log: &mut Produced| {
        for block in 0..lines / 4_096 + 1 {
            let range = block * 4_096..(block * 4_096 + 4_096).min(lines);
            let text: String = range.map(|number| format!("{number:07}\n")).collect();
            if !text.is_empty() {
                log.write(Stdout, text.as_bytes());
            }
        }
    };
    with_log(write, |reader, _| {
        let mut index = LineIndex::default();
        assert_eq!(index.extend(reader).unwrap(), lines);
        assert!(index.marks.len() <= MARKS_MAX, "{}", index.marks.len());
        for from in [0, 1, STRIDE - 1, STRIDE, lines / 2, lines - 1] {
            assert_eq!(texts(&index, reader, from, 1), [format!("stdout: {from:07}")]);
            assert_eq!(index.line_at(reader, Stdout, from * 8 + 3).unwrap(), Some(from));
        }
    });
}

#[test]
fn a_long_line_is_cut_and_counted() {
    with_log(
        |log| {
            log.write(Stdout, "x".repeat(20_000).as_bytes());
            log.write(Stdout, b"yy\nz\n");
        },
        |reader, _| {
            let mut index = LineIndex::default();
            index.extend(reader).unwrap();
            let lines = index.lines(reader, 0, 9).unwrap();
            assert_eq!((lines[0].text.len(), lines[0].cut_bytes), (16 << 10, 20_002 - (16 << 10)));
            assert_eq!((lines[1].text.as_str(), lines[1].cut_bytes), ("z", 0));
        },
    );
}

#[test]
fn matches_are_counted_with_their_numbers() {
    let write = |log: &mut Produced| {
        log.write(Stdout, b"\x1b[31mErr");
        log.write(Stdout, b"or\x1b[0m\nfine\n");
        log.gap(Stdout, 5);
        log.write(Stderr, b"error: again");
    };
    with_log(write, |reader, _| {
        let found = matches(reader, &PatternFilter::new("(?i)^error", 0).unwrap()).unwrap();
        assert_eq!((found.count, found.lines), (2, vec![1, 4]));
        assert_eq!(matches(reader, &PatternFilter::new("missing", 0).unwrap()).unwrap().count, 0);
    });
}
