//! `buildpool logs ID`

use crate::arguments::LogsArguments;
use crate::failure::{self, Failure, REFUSED};
use crate::settings;
use crate::terminal;
use crate::terminal::screen::{Item, Screen};
use buildpool_client::{Client, FollowQuery, JobEvent, Output};
use buildpool_protocol::client_link::{Cursor, LogAnswer, LogQuery, StreamChoice};
use buildpool_protocol::output::{ChunkKind, Gap, Stream};
use buildpool_protocol::report::Omission;
use buildpool_protocol::version::FOLLOW_OF_ONE_STREAM;
use bytes::Bytes;
use std::collections::VecDeque;
use std::process::ExitCode;

pub(crate) fn run(arguments: &LogsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect_for_output(&arguments.pool).await?;
        if arguments.form.json {
            terminal::print_json(&whole(&client, arguments).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let screen = Screen::start(arguments.stream).map_err(|error| failure::of_stdout(&error))?;
        print(&client, arguments, &screen).await?;
        screen.finish().await.map_err(|error| failure::of_stdout(&error))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn query(arguments: &LogsArguments) -> FollowQuery {
    FollowQuery {
        job: arguments.id.clone(),
        attempt: arguments.attempt,
        to_end: !arguments.follow,
        stream: arguments.stream,
        ..FollowQuery::default()
    }
}

/// Returns the printed output as one answer, for `--json`. It is as long as the log.
async fn whole(client: &Client, arguments: &LogsArguments) -> Result<LogAnswer, Failure> {
    // Query the state before the log is read: if the job is done by then, the log is complete.
    let state = LogQuery {
        job: arguments.id.clone(),
        attempt: arguments.attempt,
        stream: arguments.stream,
        tail: Some(0),
        ..LogQuery::default()
    };
    let state = client.logs(state).await?;
    let mut texts = Texts { is_one: arguments.stream == StreamChoice::Interleaved, ..Texts::default() };
    let end = match arguments.tail {
        Some(lines) => {
            let (tail, end) = last_lines(client, arguments, lines).await?;
            for piece in tail.finish() {
                match piece {
                    Piece::Bytes(stream, bytes) => texts.push(stream, &bytes),
                    Piece::Gap(stream, gap) => texts.miss(stream, &gap),
                }
            }
            end
        }
        None => read(client, arguments, &mut texts).await?,
    };
    let ([first, second], omitted) = texts.finish();
    let is_one = arguments.stream == StreamChoice::Interleaved;
    let (first, interleaved) = if is_one { (None, Some(first)) } else { (Some(first), None) };
    let stdout = first.filter(|_| arguments.stream.wants(Stream::Stdout));
    let stderr = Some(second).filter(|_| !is_one && arguments.stream.wants(Stream::Stderr));
    Ok(LogAnswer {
        short_id: None,
        attempt: end.attempt,
        stdout,
        stderr,
        interleaved,
        next_cursor: None,
        rest_cursor: None,
        omitted,
        ..state
    })
}

/// Reads the whole available log. Returns the end cursor.
async fn read(client: &Client, arguments: &LogsArguments, texts: &mut Texts) -> Result<Cursor, Failure> {
    let wants = |stream| arguments.stream.wants(stream);
    each_output(client, query(arguments), |output| {
        for chunk in output.chunks.iter().filter(|chunk| wants(chunk.header.stream)) {
            texts.push(chunk.header.stream, chunk.data());
            if let Some(gap) = chunk.gap() {
                texts.miss(chunk.header.stream, &gap);
            }
        }
    })
    .await
}

/// Calls `take` with all requested output of a log. Returns the end cursor.
async fn each_output(
    client: &Client,
    query: FollowQuery,
    mut take: impl FnMut(Output),
) -> Result<Cursor, Failure> {
    let mut events = client.follow(query).await?;
    let mut end = Cursor::default();
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => take(output),
            JobEvent::End(cursor) => end = cursor,
            JobEvent::OutputLost(error) => return Err(Failure::from_error(REFUSED, &error)),
            JobEvent::Failed(error) => return Err(error.into()),
            JobEvent::Accepted { .. }
            | JobEvent::Progress(_)
            | JobEvent::Attempt(_)
            | JobEvent::Complete(_) => {}
        }
    }
    Ok(end)
}

/// Text and missing bytes of each stream.
#[derive(Default)]
struct Texts {
    /// Whether both streams are one interleaved text, which is the first.
    is_one: bool,
    bytes: [Vec<u8>; 2],
    missing_bytes: [u64; 2],
}

impl Texts {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let index = self.index(stream);
        self.bytes[index].extend_from_slice(bytes);
    }

    fn index(&self, stream: Stream) -> usize {
        if self.is_one { 0 } else { stream.index() }
    }

    /// Adds a gap: as a line in the text and to the count.
    fn miss(&mut self, stream: Stream, gap: &Gap) {
        let text = format!("[{} bytes are missing here: {}]\n", gap.missing_bytes, gap.reason);
        self.push(stream, text.as_bytes());
        let index = self.index(stream);
        self.missing_bytes[index] += gap.missing_bytes;
    }

    fn finish(self) -> ([String; 2], Vec<Omission>) {
        let names = if self.is_one { ["interleaved"; 2] } else { ["stdout", "stderr"] };
        let missing = names.into_iter().zip(self.missing_bytes).filter(|(_, bytes)| *bytes > 0);
        // Missing bytes can't be retrieved by any call.
        let omission = |(part, bytes): (&str, u64)| Omission {
            what: part.to_owned(),
            lines: 0,
            bytes,
            get: String::new(),
        };
        let omitted = missing.map(omission).collect();
        (self.bytes.map(text), omitted)
    }
}

/// Converts bytes to text. Invalid UTF-8 is replaced.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

async fn print(client: &Client, arguments: &LogsArguments, screen: &Screen) -> Result<(), Failure> {
    let whole = query(arguments);
    let Some(lines) = arguments.tail else {
        return copy(client, whole, screen).await;
    };
    let (tail, end) = last_lines(client, arguments, lines).await?;
    for piece in tail.finish() {
        let item = match piece {
            Piece::Bytes(_, bytes) if arguments.stream == StreamChoice::Interleaved => {
                Item::Bytes(Stream::Stdout, bytes)
            }
            Piece::Bytes(stream, bytes) => Item::Bytes(stream, bytes),
            Piece::Gap(stream, gap) => Item::Note(note(stream, &gap)),
        };
        if !screen.write(item).await {
            return Ok(());
        }
    }
    if !arguments.follow {
        return Ok(());
    }
    let cursor = if end == Cursor::default() { None } else { Some(end) };
    copy(client, FollowQuery { cursor, ..whole }, screen).await
}

/// Prints output as it arrives. A closed stdout ends only this command.
async fn copy(client: &Client, query: FollowQuery, screen: &Screen) -> Result<(), Failure> {
    let mut events = client.follow(query).await?;
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => {
                for note in gaps(&output) {
                    screen.write(Item::Note(note)).await;
                }
                if !screen.write(Item::Output(output)).await {
                    return Ok(());
                }
            }
            JobEvent::Attempt(attempt) => {
                screen.write(Item::Note(format!("buildpool: attempt {attempt} begins"))).await;
            }
            JobEvent::OutputLost(error) => return Err(Failure::from_error(REFUSED, &error)),
            JobEvent::Failed(error) => return Err(error.into()),
            JobEvent::Accepted { .. } | JobEvent::Progress(_) | JobEvent::End(_) | JobEvent::Complete(_) => {}
        }
    }
    Ok(())
}

/// Returns a note for each gap in the output.
pub(super) fn gaps(output: &Output) -> Vec<String> {
    let holes = output.chunks.iter().filter_map(|chunk| Some((chunk.header, chunk.gap()?)));
    holes.map(|(header, gap)| note(header.stream, &gap)).collect()
}

fn note(stream: Stream, gap: &Gap) -> String {
    format!("buildpool: {} bytes of {stream} are missing here: {}", gap.missing_bytes, gap.reason)
}

/// Returns the last lines and the end cursor. The coordinator starts at least that many lines
/// before the end. An older coordinator counts lines of both streams, so the request is repeated
/// with more lines until there are enough.
async fn last_lines(
    client: &Client,
    arguments: &LogsArguments,
    lines: u64,
) -> Result<(Tail, Cursor), Failure> {
    let counts_one = client.pool().protocol >= FOLLOW_OF_ONE_STREAM || arguments.stream.only().is_none();
    let mut requested = lines;
    loop {
        let gathered = gather(client, arguments, lines, requested).await?;
        if counts_one || gathered.tail.is_full() || gathered.from_start {
            return Ok((gathered.tail, gathered.end));
        }
        requested = requested.max(1).saturating_mul(16);
    }
}

struct Gathered {
    tail: Tail,
    /// Whether the output starts at the beginning of the log.
    from_start: bool,
    end: Cursor,
}

async fn gather(
    client: &Client,
    arguments: &LogsArguments,
    lines: u64,
    requested: u64,
) -> Result<Gathered, Failure> {
    let query = FollowQuery { to_end: true, tail: Some(requested), ..query(arguments) };
    let (mut tail, mut from_start, mut begun) = (Tail::new(lines), true, false);
    let end = each_output(client, query, |output| {
        from_start &= begun || output.from == 0;
        begun = true;
        for chunk in output.chunks {
            let stream = chunk.header.stream;
            if !arguments.stream.wants(stream) {
                continue;
            }
            match chunk.gap() {
                Some(gap) => tail.miss(stream, gap),
                None if chunk.header.kind == ChunkKind::Data => tail.push(stream, chunk.payload),
                None => {}
            }
        }
    })
    .await?;
    Ok(Gathered { tail, from_start, end })
}

/// Collects the last lines of the output, in order. A last line without a newline counts.
#[derive(Debug)]
struct Tail {
    lines: u64,
    pieces: VecDeque<(Stream, Bytes)>,
    /// Newlines in the pieces.
    ends: u64,
    /// Number of removed pieces, and so the index of the first remaining one.
    gone: usize,
    /// Gaps, each with the index of the following piece.
    gaps: VecDeque<(usize, Stream, Gap)>,
}

/// A part of a tail.
#[derive(PartialEq, Debug)]
enum Piece {
    Bytes(Stream, Bytes),
    Gap(Stream, Gap),
}

impl Tail {
    fn new(lines: u64) -> Self {
        Self { lines, pieces: VecDeque::new(), ends: 0, gone: 0, gaps: VecDeque::new() }
    }

    fn push(&mut self, stream: Stream, bytes: Bytes) {
        self.ends += ends_in(&bytes);
        self.pieces.push_back((stream, bytes));
        // One newline more than lines: the last line may end with one.
        while let Some((_, first)) = self.pieces.front()
            && self.ends - ends_in(first) > self.lines
        {
            self.ends -= ends_in(first);
            self.pieces.pop_front();
            self.gone += 1;
        }
        while self.gaps.front().is_some_and(|(before, ..)| *before < self.gone) {
            self.gaps.pop_front();
        }
    }

    fn miss(&mut self, stream: Stream, gap: Gap) {
        self.gaps.push_back((self.gone + self.pieces.len(), stream, gap));
    }

    /// Returns the start of the last lines: the piece and the offset in it.
    fn start(&self) -> Option<(usize, usize)> {
        let last = self.pieces.len().checked_sub(1)?;
        if self.lines == 0 {
            return Some((last, self.pieces[last].1.len()));
        }
        let mut left = self.lines;
        for (index, (_, piece)) in self.pieces.iter().enumerate().rev() {
            let piece = if index == last { &piece[..piece.len().saturating_sub(1)] } else { &piece[..] };
            for (at, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                left -= 1;
                if left == 0 {
                    return Some((index, at + 1));
                }
            }
        }
        None
    }

    /// Returns true if there is output before the last lines.
    fn is_full(&self) -> bool {
        self.gone > 0 || self.lines == 0 || self.start().is_some_and(|start| start != (0, 0))
    }

    fn finish(mut self) -> impl Iterator<Item = Piece> {
        let is_cut = self.is_full();
        let (mut index, mut at) = self.start().unwrap_or_default();
        if index + 1 < self.pieces.len() && at == self.pieces[index].1.len() {
            (index, at) = (index + 1, 0);
        }
        self.pieces.drain(..index);
        if let Some((_, first)) = self.pieces.front_mut() {
            let _ = first.split_to(at);
        }
        let begin = self.gone + index;
        // A gap right before the first line of a tail is not part of it.
        let is_among = |before: usize| before > begin || (before == begin && !is_cut);
        let lines = self.lines;
        let gaps = self.gaps.into_iter().filter(|(before, ..)| lines > 0 && is_among(*before));
        let mut gaps = gaps.peekable();
        let mut items = Vec::with_capacity(self.pieces.len());
        for (number, (stream, bytes)) in (begin..).zip(self.pieces) {
            while let Some((_, stream, gap)) = gaps.next_if(|(before, ..)| *before <= number) {
                items.push(Piece::Gap(stream, gap));
            }
            items.push(Piece::Bytes(stream, bytes));
        }
        items.extend(gaps.map(|(_, stream, gap)| Piece::Gap(stream, gap)));
        items.into_iter()
    }
}

fn ends_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::{Piece, Tail};
    use buildpool_protocol::output::{Gap, Stream};
    use bytes::Bytes;

    fn bytes_of(tail: Tail) -> impl Iterator<Item = (Stream, Bytes)> {
        tail.finish().filter_map(|piece| match piece {
            Piece::Bytes(stream, bytes) => Some((stream, bytes)),
            Piece::Gap(..) => None,
        })
    }

    fn tail<'a>(lines: u64, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, bool) {
        let mut tail = Tail::new(lines);
        for piece in pieces {
            tail.push(Stream::Stdout, Bytes::copy_from_slice(piece));
        }
        let is_full = tail.is_full();
        (bytes_of(tail).flat_map(|(_, bytes)| bytes).collect(), is_full)
    }

    #[test]
    fn a_tail_has_exactly_its_lines_however_they_come() {
        for (lines, whole, expected, full) in [
            (2, &b"a\nb\nc\n"[..], &b"b\nc\n"[..], true),
            (2, b"a\nb\nc", b"b\nc", true),
            (2, b"b\nc\n", b"b\nc\n", false),
            (1, b"\n\n", b"\n", true),
            (5, b"", b"", false),
            (0, b"a\n", b"", true),
            (1, b"\xff\0", b"\xff\0", false),
        ] {
            assert_eq!(tail(lines, [whole]), (expected.to_vec(), full), "{whole:?}");
            assert_eq!(tail(lines, whole.chunks(1)), (expected.to_vec(), full), "{whole:?}");
        }
    }

    #[test]
    fn what_lies_before_the_tail_is_let_go() {
        let mut tail = Tail::new(3);
        for _ in 0..100_000 {
            tail.push(Stream::Stdout, Bytes::from_static(b"line\n"));
        }
        assert!(tail.pieces.len() <= 5, "{}", tail.pieces.len());
        assert_eq!(bytes_of(tail).map(|(_, bytes)| bytes.len()).sum::<usize>(), 15);
    }

    #[test]
    fn streams_stay_apart_and_count_together() {
        let mut tail = Tail::new(2);
        for (stream, bytes) in [(Stream::Stdout, "a\n"), (Stream::Stderr, "b\n"), (Stream::Stdout, "c\n")] {
            tail.push(stream, Bytes::from_static(bytes.as_bytes()));
        }
        let rest: Vec<_> = bytes_of(tail).filter(|(_, bytes)| !bytes.is_empty()).collect();
        assert_eq!(rest, [(Stream::Stderr, "b\n".into()), (Stream::Stdout, "c\n".into())]);
    }

    #[test]
    fn a_hole_among_the_last_lines_is_told_at_its_place_and_one_before_them_is_not() {
        let shown = |lines: u64| {
            let mut tail = Tail::new(lines);
            for missing_bytes in 1..=4 {
                tail.miss(Stream::Stderr, Gap { missing_bytes, reason: String::new() });
                if missing_bytes < 4 {
                    tail.push(Stream::Stdout, Bytes::from_static(b"line\n"));
                }
            }
            let short = |piece| match piece {
                Piece::Bytes(_, bytes) if bytes.is_empty() => None,
                Piece::Bytes(..) => Some(0),
                Piece::Gap(_, gap) => Some(gap.missing_bytes),
            };
            tail.finish().filter_map(short).collect::<Vec<u64>>()
        };
        assert!(shown(0).is_empty());
        assert_eq!(shown(1), [0, 4]);
        assert_eq!(shown(2), [0, 3, 0, 4]);
        assert_eq!(shown(9), [1, 0, 2, 0, 3, 0, 4]);
    }
}
