use super::{TextPlan, read};
use crate::store::Store;
use crate::store::tests::support::{Produced, first, job, scratch};
use buildpool_protocol::client_link::{LogAnswer, LogCursor, LogQuery, StreamChoice};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobState;
use buildpool_protocol::shown::printable;

/// Returns a function that answers queries about a log of these chunks.
fn log(chunks: &[(Stream, &str)]) -> impl Fn(&LogQuery) -> LogAnswer {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let job = job(1);
    let mut log = Produced::new(first(&job));
    for (stream, text) in chunks {
        log.write(*stream, text.as_bytes());
    }
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    move |query| {
        let _kept = (&directory, &store);
        let plan = TextPlan::new(query).unwrap();
        read(&mut writer.reader(), &plan, query.stream, job.job, 1, JobState::Done).unwrap()
    }
}

/// Returns the answer to one query about such a log.
fn answer(chunks: &[(Stream, &str)], query: &LogQuery) -> LogAnswer {
    log(chunks)(query)
}

/// Returns stream, lines and bytes of each omission.
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
        // A newline counts for more than one character, because it is shown escaped or followed by
        // a mark.
        characters_max: Some(6),
        cursor: Some(LogCursor { attempt: 1, ..LogCursor::default() }),
        ..LogQuery::default()
    };
    let head = answer(&chunks, &begin);
    assert_eq!((head.stdout.as_deref(), omitted(&head)), (Some("one\n"), vec![]));
    let rest = answer(&chunks, &LogQuery { cursor: head.next_cursor, ..LogQuery::default() });
    assert_eq!((rest.stdout.as_deref(), omitted(&rest)), (Some("two\n"), vec![]));
}

/// Returns all answers to a query. Each one continues at the cursor of the previous answer.
fn pages(chunks: &[(Stream, &str)], query: &LogQuery) -> Vec<LogAnswer> {
    let answer = log(chunks);
    let mut pages = vec![answer(query)];
    while let Some(cursor) = pages.last().unwrap().next_cursor {
        assert!(pages.len() < 1_000, "it goes on: {cursor}");
        let again = LogQuery { cursor: Some(cursor), offset: None, tail: None, ..query.clone() };
        pages.push(answer(&again));
    }
    pages
}

#[test]
fn whatever_is_left_out_is_reached_by_going_on() {
    let lines: Vec<String> = (0..200).map(|n| format!("L{n} \"ä{}\"\n", "x".repeat(n % 40))).collect();
    let whole = lines.concat();
    for size in [7, 50, 9_000] {
        let mut pieces = Vec::new();
        let mut rest = whole.as_str();
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.floor_char_boundary(size.min(rest.len())));
            pieces.push((Stream::Stdout, head));
            rest = tail;
        }
        let of = |query: &LogQuery| -> Vec<String> {
            pages(&pieces, query).into_iter().map(|page| page.stdout.unwrap()).collect()
        };
        let small =
            LogQuery { stream: StreamChoice::Stdout, characters_max: Some(400), ..LogQuery::default() };
        let from = |line: usize| lines[line..].concat();
        let range = |offset, limit| LogQuery { offset: Some(offset), limit, ..small.clone() };
        assert_eq!(of(&range(0, None)).concat(), whole, "{size}");
        assert_eq!(of(&range(100, None)).concat(), from(100), "{size}");
        assert_eq!(of(&range(100, Some(3))).concat(), from(100), "{size}");
        assert_eq!(of(&range(100, Some(3)))[0], lines[100..103].concat(), "{size}");
        let tail = of(&small);
        assert!(whole.ends_with(&tail[0]) && tail[0].len() > 200, "{tail:?}");
        assert_eq!(tail[1..].concat() + &tail[0], whole, "each line once, {size}");
        let grep = |text: &str| LogQuery { grep: Some(text.to_owned()), ..small.clone() };
        let matches = |end: &str| -> String {
            lines.iter().filter(|line| line.split(' ').next().unwrap().ends_with(end)).cloned().collect()
        };
        assert_eq!(of(&grep("L\\d*0 ")).concat(), matches("0"), "{size}");
        let limited = LogQuery { limit: Some(2), offset: Some(15), ..grep("L\\d*0 ") };
        assert_eq!(of(&limited)[0], format!("{}{}", lines[20], lines[30]), "{size}");
        let last = answer(&pieces, &LogQuery { tail: Some(2), ..grep("L\\d*0 ") });
        assert_eq!(last.stdout.unwrap(), format!("{}{}", lines[180], lines[190]), "{size}");
        let one = answer(&pieces, &LogQuery { context: 1, ..grep("L77 ") });
        assert_eq!((one.stdout.as_deref(), one.next_cursor), (Some(lines[76..79].concat().as_str()), None));
        assert_eq!(omitted(&one), [], "a part that was not requested is not omitted");
        let all = answer(&pieces, &grep("L"));
        let shown = all.stdout.unwrap().lines().count() as u64;
        assert_eq!(all.omitted[0].lines, 200 - shown, "{size}");
        assert_eq!((all.rest_cursor.is_some(), all.rest_cursor), (true, all.next_cursor));
    }
}

#[test]
fn a_line_that_is_longer_than_an_answer_is_in_nobodys_way() {
    let long = "é".repeat(5_000);
    let text = format!("before\n{long}\nafter\n");
    let chunks = [(Stream::Stdout, text.as_str())];
    let small = LogQuery { characters_max: Some(600), stream: StreamChoice::Stdout, ..LogQuery::default() };
    let all: String = pages(&chunks, &LogQuery { offset: Some(0), ..small.clone() })
        .into_iter()
        .map(|page| page.stdout.unwrap())
        .collect();
    assert!(all == text, "{} of {} bytes", all.len(), text.len());
    let found = pages(&chunks, &LogQuery { grep: Some("é|after".to_owned()), ..small.clone() });
    assert!(found.last().unwrap().stdout.as_deref().unwrap().ends_with("after\n"));
    assert!(found[0].omitted[0].bytes > 9_000, "{:?}", found[0].omitted);
    let tail = answer(&[(Stream::Stdout, long.as_str())], &small).stdout.unwrap();
    assert!(tail.len() > 100 && long.ends_with(&tail), "{tail}");
    for control in ["\u{8}", "\0", "\u{1b}", "\u{85}"] {
        let tail = answer(&[(Stream::Stdout, control.repeat(5_000).as_str())], &small).stdout.unwrap();
        assert!((40..600).contains(&tail.chars().count()), "{control:?}: {}", tail.len());
    }
}

#[test]
fn what_is_shown_fits_however_it_is_escaped() {
    for character in ["\"", "\\", "\t", "\r", "ä", "x", "\u{85}", "\u{b}", "\n"] {
        let text = format!("{}\n", character.repeat(30)).repeat(100);
        for query in [LogQuery { offset: Some(0), ..LogQuery::default() }, tail(100, StreamChoice::Stdout)] {
            let query = LogQuery { characters_max: Some(1_000), stream: StreamChoice::Stdout, ..query };
            let shown = answer(&[(Stream::Stdout, text.as_str())], &query).stdout.unwrap();
            assert!(!shown.is_empty());
            let plain = printable(&shown);
            let behind_marks = plain.len() + 2 * plain.matches('\n').count();
            let escaped = serde_json::to_string(&plain).unwrap().len() - 2;
            assert!(behind_marks.max(escaped) <= 1_000, "{character:?}: {behind_marks}, {escaped}");
        }
    }
}

/// Returns lines of both streams: stdout and stderr alternate irregularly, and chunks are cut
/// anywhere.
fn mixed() -> Vec<(Stream, String)> {
    let mut chunks = Vec::new();
    for n in 0..90 {
        let stream = if n % 7 < 4 { Stream::Stdout } else { Stream::Stderr };
        let name = if n % 10 == 0 || n % 31 == 0 { "hit" } else { "line" };
        let line = format!("{name} {n} {}\n", "x".repeat(n * 13 % 50));
        let (head, tail) = line.split_at(n * 5 % line.len());
        chunks.push((stream, head.to_owned()));
        if n % 3 == 0 {
            let other = if stream == Stream::Stdout { Stream::Stderr } else { Stream::Stdout };
            chunks.push((other, format!("between {n}\n")));
        }
        chunks.push((stream, tail.to_owned()));
    }
    chunks
}

#[test]
fn what_is_searched_is_what_is_shown() {
    let chunks = [
        (Stream::Stdout, "\u{1b}[31merror\u{1b}[0m: red thing\r\n"),
        (Stream::Stdout, "10%\rwarning: drawn\u{1b}[K\n"),
        (Stream::Stdout, "\u{1b}]8;;http://x\u{1b}\\note\u{1b}]8;;\u{1b}\\: linked\n"),
        (Stream::Stdout, "error: plain\n"),
        (Stream::Stdout, "caf\u{e9}: of more than ASCII\n"),
    ];
    let found = |pattern: &str| -> Vec<usize> {
        let query =
            LogQuery { grep: Some(pattern.to_owned()), stream: StreamChoice::Stdout, ..LogQuery::default() };
        let answer = answer(&chunks, &query).stdout.unwrap();
        (0..chunks.len()).filter(|index| answer.contains(chunks[*index].1)).collect()
    };
    for (pattern, lines) in [
        ("error: red", vec![0]),
        ("^error", vec![0, 3]),
        ("red thing$", vec![0]),
        ("^error: red thing$", vec![0]),
        ("^warning: drawn$", vec![1]),
        ("^note: linked$", vec![2]),
        ("^caf\u{e9}: ", vec![4]),
        // Bytes that only the terminal interprets are not matched.
        ("31m", vec![]),
        ("http", vec![]),
        ("^$", vec![]),
    ] {
        assert_eq!(found(pattern), lines, "{pattern}");
    }
}

#[test]
fn any_limit_gives_the_same_lines_as_none() {
    let chunks = mixed();
    let chunks: Vec<(Stream, &str)> = chunks.iter().map(|(stream, text)| (*stream, text.as_str())).collect();
    let texts = |pages: &[LogAnswer]| -> [String; 3] {
        let all = |text: fn(&LogAnswer) -> &Option<String>| -> String {
            pages.iter().filter_map(|page| text(page).clone()).collect()
        };
        [all(|page| &page.stdout), all(|page| &page.stderr), all(|page| &page.interleaved)]
    };
    for stream in [StreamChoice::Both, StreamChoice::Interleaved, StreamChoice::Stdout, StreamChoice::Stderr]
    {
        for (grep, context) in [(None, 0), (Some("^hit"), 0), (Some("^hit"), 1), (Some("^hit"), 3)] {
            let whole = LogQuery {
                stream,
                grep: grep.map(str::to_owned),
                context,
                offset: Some(0),
                characters_together: Some(40_000),
                ..LogQuery::default()
            };
            let expected = texts(&pages(&chunks, &whole));
            assert!(grep.is_none() || expected.concat().lines().count() > 3, "{expected:?}");
            for (limit, room) in
                (1..9).map(|limit| (Some(limit), 40_000)).chain([60, 90, 200, 555].map(|room| (None, room)))
            {
                let query = LogQuery { limit, characters_together: Some(room), ..whole.clone() };
                let pages = pages(&chunks, &query);
                assert_eq!(texts(&pages), expected, "{stream:?}, {grep:?}, {context}, {limit:?}, {room}");
                for page in &pages {
                    let texts = [&page.stdout, &page.stderr, &page.interleaved].map(|text| text.clone());
                    let lines = texts.iter().flatten().map(|text| text.lines().count() as u64).max();
                    assert!(lines <= limit.or(Some(u64::MAX)), "{lines:?} of {limit:?}");
                    assert!(texts.iter().flatten().map(String::len).sum::<usize>() <= room, "{page:?}");
                }
            }
        }
    }
}

#[test]
fn a_tail_is_no_longer_than_its_limit() {
    let chunks = [(Stream::Stdout, "1\n2\n3\n4\n")];
    let query = LogQuery { limit: Some(2), ..tail(3, StreamChoice::Stdout) };
    assert_eq!(answer(&chunks, &query).stdout.as_deref(), Some("3\n4\n"));
}

#[test]
fn one_text_has_what_the_other_leaves() {
    let long = |name: &str, count: usize| (0..count).map(|n| format!("{name}{n}\n")).collect::<String>();
    let (out, err) = (long("out", 150), long("err", 150));
    for query in [LogQuery::default(), LogQuery { grep: Some("o|e".to_owned()), ..LogQuery::default() }] {
        let query = LogQuery { characters_max: Some(500), characters_together: Some(1_000), ..query };
        let texts = |chunks: &[(Stream, &str)]| {
            let answer = answer(chunks, &query);
            [answer.stdout.unwrap().len(), answer.stderr.unwrap().len()]
        };
        let [stdout, stderr] = texts(&[(Stream::Stdout, &out), (Stream::Stderr, "e\n")]);
        assert!(stdout > 600 && stderr == 2, "{stdout}, {stderr}");
        let [stdout, stderr] = texts(&[(Stream::Stdout, &out), (Stream::Stderr, &err)]);
        assert!((300..=500).contains(&stdout) && (300..=500).contains(&stderr), "{stdout}, {stderr}");
    }
}
