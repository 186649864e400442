use super::{Plan, read};
use crate::store::Store;
use crate::store::tests::support::{Produced, first, job, scratch};
use buildpool_protocol::client_link::{Cursor, LogAnswer, LogQuery, StreamChoice};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobState;

/// The answer about a log of these chunks.
fn answer(chunks: &[(Stream, &str)], query: &LogQuery) -> LogAnswer {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let job = job(1);
    let mut log = Produced::new(first(&job));
    for (stream, text) in chunks {
        log.write(*stream, text.as_bytes());
    }
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    let plan = Plan::new(query).unwrap();
    read(&mut writer.reader(), &plan, query.stream, job.job, 1, JobState::Done).unwrap()
}

/// What was left out: of what, lines, bytes.
fn omitted(answer: &LogAnswer) -> Vec<(&str, u64, u64)> {
    answer.omitted.iter().map(|cut| (cut.what.as_str(), cut.lines, cut.bytes)).collect()
}

fn tail(lines: u64, stream: StreamChoice) -> LogQuery {
    LogQuery { tail: Some(lines), stream, ..LogQuery::default() }
}

#[test]
fn a_tail_of_alternating_streams_counts_all_that_lies_before_it() {
    let texts: Vec<_> = (1..=8).map(|n| (format!("out{n}\n"), format!("err{n}\n"))).collect();
    let chunks: Vec<_> = texts
        .iter()
        .flat_map(|(out, err)| [(Stream::Stdout, out.as_str()), (Stream::Stderr, err.as_str())])
        .collect();
    let both = answer(&chunks, &tail(2, StreamChoice::Both));
    assert_eq!(
        (both.stdout.as_deref(), both.stderr.as_deref()),
        (Some("out7\nout8\n"), Some("err7\nerr8\n"))
    );
    assert_eq!(omitted(&both), [("stdout", 6, 30), ("stderr", 6, 30)]);
    let one = answer(&chunks, &tail(1, StreamChoice::Stdout));
    assert_eq!(one.stdout.as_deref(), Some("out8\n"));
    assert_eq!(omitted(&one), [("stdout", 7, 35)]);
    let mixed = answer(&chunks, &tail(5, StreamChoice::Interleaved));
    assert_eq!(mixed.interleaved.as_deref(), Some("err6\nout7\nerr7\nout8\nerr8\n"));
    assert_eq!(omitted(&mixed), [("interleaved", 11, 55)]);
    assert_eq!(omitted(&answer(&chunks, &tail(8, StreamChoice::Both))), []);
}

#[test]
fn shown_and_left_out_are_the_whole_however_lines_and_chunks_lie() {
    let text: String = (0..300).map(|n| format!("{}\n", "x".repeat(n % 7))).collect::<String>() + "end";
    for size in [1, 3, 10, 400] {
        let pieces: Vec<_> =
            text.as_bytes().chunks(size).map(|part| std::str::from_utf8(part).unwrap()).collect();
        let chunks: Vec<_> = pieces
            .iter()
            .enumerate()
            .map(|(index, part)| (if index % 3 == 2 { Stream::Stderr } else { Stream::Stdout }, *part))
            .collect();
        for lines in [0, 1, 2, 50, 299, 1_000] {
            let interleaved = answer(&chunks, &tail(lines, StreamChoice::Interleaved));
            let both = answer(&chunks, &tail(lines, StreamChoice::Both));
            for (what, shown) in
                [("interleaved", interleaved.interleaved), ("stdout", both.stdout), ("stderr", both.stderr)]
            {
                let of = |stream: Stream| what == "interleaved" || stream.to_string() == what;
                let whole: String =
                    chunks.iter().filter(|(stream, _)| of(*stream)).map(|(_, part)| *part).collect();
                let shown = shown.unwrap();
                let cut = interleaved.omitted.iter().chain(&both.omitted).find(|cut| cut.what == what);
                let (left_lines, left_bytes) = cut.map_or((0, 0), |cut| (cut.lines, cut.bytes));
                assert!(whole.ends_with(&shown), "{what}, {lines} lines, chunks of {size}");
                let counted = (shown.lines().count() as u64 + left_lines, shown.len() as u64 + left_bytes);
                let all = (whole.lines().count() as u64, whole.len() as u64);
                assert_eq!(counted, all, "{what}, {lines} lines, chunks of {size}");
                assert_eq!(shown.lines().count() as u64, lines.min(all.0), "{what}, chunks of {size}");
            }
        }
    }
}

#[test]
fn going_on_from_a_cursor_leaves_nothing_out() {
    let chunks = [(Stream::Stdout, "one\n"), (Stream::Stdout, "two\n")];
    let begin = LogQuery {
        characters_max: Some(4),
        cursor: Some(Cursor { attempt: 1, ..Cursor::default() }),
        ..LogQuery::default()
    };
    let head = answer(&chunks, &begin);
    assert_eq!((head.stdout.as_deref(), omitted(&head)), (Some("one\n"), vec![]));
    let rest = answer(&chunks, &LogQuery { cursor: head.next_cursor, ..LogQuery::default() });
    assert_eq!((rest.stdout.as_deref(), omitted(&rest)), (Some("two\n"), vec![]));
}
