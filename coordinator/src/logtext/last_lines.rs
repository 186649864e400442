//! The exact start of the last lines of a log.

use super::{MissingAttempt, STEP_BYTES, newest_attempt};
use crate::app_state::AppState;
use crate::store::{LogError, LogReader, each_chunk};
use buildpool_protocol::client_link::Cursor;
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::output::{ChunkKind, Stream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Returns the place from which the log of an attempt, or of the newest one, has exactly this many lines of the stream,
/// or of both. A last line without a newline counts. The result is absent if no attempt has a log yet.
///
/// # Errors
/// As [`numbered`].
pub(crate) async fn tail_start(
    shared: &Arc<AppState>,
    reader: &str,
    job: JobId,
    attempt: Option<u32>,
    lines: u64,
    only: Option<Stream>,
) -> Result<Option<Cursor>, LinkError> {
    let (_, newest) = newest_attempt(shared, job).await?;
    let Some(number) = attempt.or(newest) else { return Ok(None) };
    let permit = shared.request_limits.log(reader).await;
    let shared = Arc::clone(shared);
    let found = tokio::task::spawn_blocking(move || {
        // The work goes on if its request is given up.
        let _permit = permit;
        start_of_last(&mut shared.logs.reader(AttemptId { job, number })?, lines, only)
    });
    let found = found.await.unwrap_or(Err(LogError::Broken));
    let place = found.map(|(position, within)| Some(Cursor { attempt: number, position, within }));
    place.map_err(|error| MissingAttempt { job, number, newest }.of_query(&error))
}

/// Returns the position of a chunk, and the number of its first bytes that come before the last lines.
fn start_of_last(reader: &mut LogReader, lines: u64, only: Option<Stream>) -> Result<(u64, u32), LogError> {
    let from = reader.tail(lines, only)?;
    // The log may grow meanwhile.
    let end = reader.length();
    let (mut newlines, mut is_open) = (0, false);
    each_data(reader, from, end, only, |_, payload| {
        newlines += payload.iter().filter(|byte| **byte == b'\n').count() as u64;
        is_open = payload.last().map_or(is_open, |byte| *byte != b'\n');
        ControlFlow::Continue(())
    })?;
    let mut excess = (newlines + u64::from(is_open)).saturating_sub(lines);
    let mut start = (from, 0);
    if lines == 0 {
        return Ok((end, 0));
    }
    each_data(reader, from, end, only, |position, payload| {
        for (at, _) in payload.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            if excess == 0 {
                return ControlFlow::Break(());
            }
            excess -= 1;
            start = (position, u32::try_from(at + 1).unwrap_or(u32::MAX));
        }
        if excess == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(start)
}

/// Calls `call` with the position and the payload of each chunk of the stream, or of both.
fn each_data(
    reader: &mut LogReader,
    mut from: u64,
    end: u64,
    only: Option<Stream>,
    mut call: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), LogError> {
    while from < end {
        let bytes = reader.read(from, STEP_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        let flow = each_chunk(&bytes, |at, header, payload| {
            let position = from + at as u64;
            if header.kind != ChunkKind::Data
                || only.is_some_and(|only| only != header.stream)
                || position >= end
            {
                return ControlFlow::Continue(());
            }
            call(position, payload)
        });
        if flow.is_break() {
            break;
        }
        from += bytes.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::start_of_last;
    use crate::store::Store;
    use crate::store::each_chunk;
    use crate::store::tests::support::{Produced, first, job, scratch};
    use buildpool_protocol::output::Stream;
    use std::ops::ControlFlow;

    /// Returns the text of the stream, or of both, from the start of the last lines on.
    fn last(chunks: &[(Stream, &str)], lines: u64, only: Option<Stream>) -> String {
        let directory = scratch();
        let store = Store::open(directory.path()).unwrap();
        let mut log = Produced::new(first(&job(1)));
        for (stream, text) in chunks {
            log.write(*stream, text.as_bytes());
        }
        let mut writer = store.logs().open(log.attempt).unwrap();
        writer.append(0, &log.bytes).unwrap();
        let (position, within) = start_of_last(&mut writer.reader(), lines, only).unwrap();
        let mut text = Vec::new();
        let from = usize::try_from(position).unwrap();
        let _: ControlFlow<()> = each_chunk(&log.bytes[from..], |at, header, payload| {
            if only.is_none_or(|only| only == header.stream) {
                let skipped = if at == 0 { within as usize } else { 0 };
                text.extend_from_slice(&payload[skipped..]);
            }
            ControlFlow::Continue(())
        });
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_last_lines_are_exact_however_chunks_and_streams_lie() {
        for whole in ["a\nb\nc\n", "a\nb\nc", "\n\n\n", "", "one"] {
            let lines: Vec<&str> = whole.split_inclusive('\n').collect();
            for size in [1, 2, 3, 9] {
                let pieces: Vec<(Stream, &str)> = (0..whole.len())
                    .step_by(size)
                    .map(|at| (Stream::Stdout, &whole[at..(at + size).min(whole.len())]))
                    .collect();
                let mixed: Vec<(Stream, &str)> =
                    pieces.iter().flat_map(|piece| [(Stream::Stderr, "e\nf"), *piece]).collect();
                for count in 0..5 {
                    let expected = lines[lines.len().saturating_sub(count)..].concat();
                    let shown = last(&pieces, count as u64, None);
                    assert_eq!(shown, expected, "{whole:?}, {count} lines, chunks of {size}");
                    let shown = last(&mixed, count as u64, Some(Stream::Stdout));
                    assert_eq!(shown, expected, "{whole:?} with stderr, {count} lines, chunks of {size}");
                }
            }
        }
        let both = [(Stream::Stdout, "o1\no2\n"), (Stream::Stderr, "e1\ne2\n")];
        assert_eq!(last(&both, 3, None), "o2\ne1\ne2\n");
    }
}
