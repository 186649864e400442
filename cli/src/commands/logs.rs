//! `buildpool logs ID`

use crate::arguments::LogsArguments;
use crate::failure::{self, Failure, REFUSED};
use crate::settings;
use crate::terminal;
use crate::terminal::screen::{Item, Screen};
use buildpool_gateway::client::{Client, FollowQuery, JobEvent, Output};
use buildpool_protocol::client_link::{Cursor, LogQuery, StreamChoice};
use buildpool_protocol::output::{ChunkKind, Stream};
use bytes::Bytes;
use std::collections::VecDeque;
use std::process::ExitCode;

pub(crate) fn run(arguments: &LogsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        if arguments.form.json {
            let query = LogQuery {
                job: arguments.id.clone(),
                attempt: arguments.attempt,
                stream: arguments.stream,
                tail: arguments.tail,
                ..LogQuery::default()
            };
            terminal::print_json(&client.logs(query).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let screen = Screen::start(arguments.stream).map_err(|error| failure::of_stdout(&error))?;
        print(&client, arguments, &screen).await?;
        screen.finish().await.map_err(|error| failure::of_stdout(&error))?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn print(client: &Client, arguments: &LogsArguments, screen: &Screen) -> Result<(), Failure> {
    let whole = FollowQuery {
        job: arguments.id.clone(),
        attempt: arguments.attempt,
        to_end: !arguments.follow,
        stream: arguments.stream,
        ..FollowQuery::default()
    };
    let Some(lines) = arguments.tail else {
        return copy(client, whole, screen).await;
    };
    let (tail, end) = last_lines(client, arguments, lines).await?;
    for (stream, bytes) in tail.finish() {
        if !screen.write(Item::Bytes(stream, bytes)).await {
            return Ok(());
        }
    }
    if !arguments.follow {
        return Ok(());
    }
    let cursor = if end == Cursor::default() { None } else { Some(end) };
    copy(client, FollowQuery { cursor, ..whole }, screen).await
}

/// Prints as it comes. Who stops reading only ends this.
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
            JobEvent::OutputLost(error) => return Err(Failure::of(REFUSED, &error)),
            JobEvent::Failed(error) => return Err(error.into()),
            JobEvent::Accepted { .. } | JobEvent::Progress(_) | JobEvent::End(_) | JobEvent::Complete(_) => {}
        }
    }
    Ok(())
}

/// A line for each hole in the output.
pub(super) fn gaps(output: &Output) -> Vec<String> {
    let holes = output.chunks.iter().filter_map(|chunk| Some((chunk.header, chunk.gap()?)));
    holes
        .map(|(header, gap)| {
            let (missing, stream, reason) = (gap.missing_bytes, header.stream, gap.reason);
            format!("buildpool: {missing} bytes of {stream} are missing here: {reason}")
        })
        .collect()
}

/// The last lines, and where the log ended. The coordinator begins at least as many lines before the end.
async fn last_lines(
    client: &Client,
    arguments: &LogsArguments,
    lines: u64,
) -> Result<(Tail, Cursor), Failure> {
    let query = FollowQuery {
        job: arguments.id.clone(),
        attempt: arguments.attempt,
        to_end: true,
        tail: Some(lines),
        stream: arguments.stream,
        ..FollowQuery::default()
    };
    let (mut tail, mut last) = (Tail::new(lines), Cursor::default());
    let mut events = client.follow(query).await?;
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => {
                for chunk in output.chunks {
                    let stream = chunk.header.stream;
                    let is_one = arguments.stream == StreamChoice::Interleaved;
                    if arguments.stream.wants(stream) && chunk.header.kind == ChunkKind::Data {
                        tail.push(if is_one { Stream::Stdout } else { stream }, chunk.payload);
                    }
                }
            }
            JobEvent::End(cursor) => last = cursor,
            JobEvent::OutputLost(error) => return Err(Failure::of(REFUSED, &error)),
            JobEvent::Failed(error) => return Err(error.into()),
            JobEvent::Accepted { .. }
            | JobEvent::Progress(_)
            | JobEvent::Attempt(_)
            | JobEvent::Complete(_) => {}
        }
    }
    Ok((tail, last))
}

/// The last lines of what comes, in its order. A last line without an end counts as one.
#[derive(Debug)]
struct Tail {
    lines: u64,
    pieces: VecDeque<(Stream, Bytes)>,
    /// Line ends in the pieces.
    ends: u64,
}

impl Tail {
    fn new(lines: u64) -> Self {
        Self { lines, pieces: VecDeque::new(), ends: 0 }
    }

    fn push(&mut self, stream: Stream, bytes: Bytes) {
        self.ends += ends_in(&bytes);
        self.pieces.push_back((stream, bytes));
        // One end more than lines: the last line may have its end.
        while let Some((_, first)) = self.pieces.front()
            && self.ends - ends_in(first) > self.lines
        {
            self.ends -= ends_in(first);
            self.pieces.pop_front();
        }
    }

    /// Where the last lines begin: the piece and the place in it.
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

    fn finish(mut self) -> impl Iterator<Item = (Stream, Bytes)> {
        let (index, at) = self.start().unwrap_or_default();
        self.pieces.drain(..index);
        if let Some((_, first)) = self.pieces.front_mut() {
            let _ = first.split_to(at);
        }
        self.pieces.into_iter()
    }
}

fn ends_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::Tail;
    use buildpool_protocol::output::Stream;
    use bytes::Bytes;

    fn tail<'a>(lines: u64, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut tail = Tail::new(lines);
        for piece in pieces {
            tail.push(Stream::Stdout, Bytes::copy_from_slice(piece));
        }
        tail.finish().flat_map(|(_, bytes)| bytes).collect()
    }

    #[test]
    fn a_tail_has_exactly_its_lines_however_they_come() {
        for (lines, whole, expected) in [
            (2, &b"a\nb\nc\n"[..], &b"b\nc\n"[..]),
            (2, b"a\nb\nc", b"b\nc"),
            (2, b"b\nc\n", b"b\nc\n"),
            (1, b"\n\n", b"\n"),
            (5, b"", b""),
            (0, b"a\n", b""),
            (1, b"\xff\0", b"\xff\0"),
        ] {
            assert_eq!(tail(lines, [whole]), expected, "{whole:?}");
            assert_eq!(tail(lines, whole.chunks(1)), expected, "{whole:?}");
        }
    }

    #[test]
    fn what_lies_before_the_tail_is_let_go() {
        let mut tail = Tail::new(3);
        for _ in 0..100_000 {
            tail.push(Stream::Stdout, Bytes::from_static(b"line\n"));
        }
        assert!(tail.pieces.len() <= 5, "{}", tail.pieces.len());
        assert_eq!(tail.finish().map(|(_, bytes)| bytes.len()).sum::<usize>(), 15);
    }

    #[test]
    fn streams_stay_apart_and_count_together() {
        let mut tail = Tail::new(2);
        for (stream, bytes) in [(Stream::Stdout, "a\n"), (Stream::Stderr, "b\n"), (Stream::Stdout, "c\n")] {
            tail.push(stream, Bytes::from_static(bytes.as_bytes()));
        }
        let rest: Vec<_> = tail.finish().filter(|(_, bytes)| !bytes.is_empty()).collect();
        assert_eq!(rest, [(Stream::Stderr, "b\n".into()), (Stream::Stdout, "c\n".into())]);
    }
}
