//! Reads followed output: whole, consecutive chunks.

use super::error::Misbehaviour;
use buildpool_protocol::client_link::{Cursor, StreamChoice};
use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, FOLLOW_WINDOW_BYTES};
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap};
use bytes::Bytes;

/// Limit on output that waits for its consumer. A new connection opens a new window while output of
/// the old one may still wait.
const OUTSTANDING_MAX: u64 = 2 * FOLLOW_WINDOW_BYTES + BINARY_FRAME_BYTES_MAX as u64;

/// Chunks of one attempt's log that arrived together.
#[derive(Clone, Debug)]
pub struct Output {
    /// Number of the attempt.
    pub attempt: u32,
    /// Start position.
    pub from: u64,
    /// End position, from which to continue.
    pub to: u64,
    /// The chunks, in order.
    pub chunks: Vec<Chunk>,
}

/// A header and its payload.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Header with attempt, stream and position.
    pub header: ChunkHeader,
    /// The bytes, or the description of a gap.
    pub payload: Bytes,
}

impl Chunk {
    /// Returns the output of the process; empty for a gap.
    pub fn data(&self) -> &[u8] {
        match self.header.kind {
            ChunkKind::Data => &self.payload,
            ChunkKind::Gap => &[],
        }
    }

    /// Returns the gap, if this chunk describes one.
    pub fn gap(&self) -> Option<Gap> {
        match self.header.kind {
            ChunkKind::Data => None,
            ChunkKind::Gap => serde_json::from_slice(&self.payload).ok(),
        }
    }
}

/// Position of a reader in a log.
#[derive(Clone, Debug, Default)]
pub(super) struct LogReader {
    /// `None` before the first chunk.
    place: Option<Place>,
    /// Requested start, if any.
    start: Option<Cursor>,
    /// Whether parts without the requested stream may be skipped.
    may_skip: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    attempt: u32,
    position: u64,
    /// Unknown before the first chunk.
    sequence: Option<u64>,
    taken: u64,
}

impl LogReader {
    pub(super) fn new(start: Option<Cursor>) -> Self {
        Self { place: None, start, may_skip: false }
    }

    /// Sets the streams that the reader needs.
    pub(super) fn of(self, stream: StreamChoice) -> Self {
        Self { may_skip: stream.only().is_some(), ..self }
    }

    /// Returns the cursor to continue from after an interruption. `None` if no chunk has arrived
    /// and no start was requested.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        match &self.place {
            Some(place) => Some(Cursor { attempt: place.attempt, position: place.position, within: 0 }),
            None => self.start,
        }
    }

    pub(super) fn attempt(&self) -> Option<u32> {
        self.place.map(|place| place.attempt)
    }

    /// Returns true if everything before this end has arrived. `from_anywhere` allows a log that
    /// starts at its end.
    pub(super) fn has_reached(&self, end: Cursor, from_anywhere: bool) -> bool {
        match (&self.place, &self.start) {
            // The end is sent in order after the output, and parts before it may have been skipped.
            _ if self.may_skip => true,
            (Some(place), _) if place.attempt == end.attempt => place.position >= end.position,
            (Some(place), _) if place.attempt > end.attempt => true,
            (None, Some(start)) if start.attempt == end.attempt => start.position >= end.position,
            (None, None) if from_anywhere => true,
            // An attempt without output.
            _ => end.position == 0,
        }
    }

    /// Records that the consumer has processed everything before this position.
    pub(super) fn taken(&mut self, position: u64) {
        if let Some(place) = &mut self.place {
            place.taken = place.taken.max(position.min(place.position));
        }
    }

    /// Returns true if the consumer has caught up enough for another window.
    pub(super) fn has_room(&self) -> bool {
        self.place.is_none_or(|place| place.position - place.taken <= FOLLOW_WINDOW_BYTES)
    }

    /// Handles the next frame.
    pub(super) fn take(&mut self, from: u64, mut content: Bytes) -> Result<Output, Misbehaviour> {
        let mut chunks = Vec::new();
        let mut position = from;
        while !content.is_empty() {
            let (header, payload) = ChunkHeader::decode(&content).map_err(|_| Misbehaviour::BadChunk)?;
            let payload = content.slice_ref(payload);
            let _ = content.split_to(header.size() as usize);
            self.advance(position, &header)?;
            position += header.size();
            chunks.push(Chunk { header, payload });
        }
        let place = self.place.ok_or(Misbehaviour::BadChunk)?;
        if place.position - place.taken > OUTSTANDING_MAX {
            return Err(Misbehaviour::WindowOverrun);
        }
        Ok(Output { attempt: place.attempt, from, to: position, chunks })
    }

    fn advance(&mut self, position: u64, header: &ChunkHeader) -> Result<(), Misbehaviour> {
        let attempt = header.attempt.number;
        let mut place = match self.place {
            Some(place) if place.attempt == attempt => place,
            _ => self.first_place(attempt, position),
        };
        let is_later = place.sequence.is_none_or(|sequence| sequence < header.sequence);
        if self.may_skip && place.position < position && is_later {
            place.taken += position - place.position;
            (place.position, place.sequence) = (position, None);
        }
        let in_sequence = place.sequence.is_none_or(|sequence| sequence == header.sequence);
        if place.position != position || !in_sequence {
            return Err(Misbehaviour::Hole { expected: place.position, got: position });
        }
        self.place = Some(Place {
            position: position.checked_add(header.size()).ok_or(Misbehaviour::BadChunk)?,
            sequence: header.sequence.checked_add(1),
            ..place
        });
        Ok(())
    }

    /// Returns the expected first position of a log: the requested one, the start for a later
    /// attempt, any for a tail.
    fn first_place(&self, attempt: u32, position: u64) -> Place {
        let expected = match (&self.place, &self.start) {
            (Some(_), _) => 0,
            (None, Some(start)) if start.attempt == attempt => start.position,
            (None, _) => position,
        };
        let sequence = (expected == 0).then_some(0);
        Place { attempt, position: expected, sequence, taken: expected }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogReader, OUTSTANDING_MAX, Output};
    use crate::error::Misbehaviour;
    use buildpool_protocol::client_link::{Cursor, StreamChoice};
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::limits::CHUNK_BYTES_MAX;
    use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
    use bytes::Bytes;

    fn chunk(attempt: u32, sequence: u64, payload: &[u8]) -> Vec<u8> {
        let header = ChunkHeader {
            attempt: AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: attempt },
            stream: Stream::Stdout,
            kind: ChunkKind::Data,
            length: payload.len() as u32,
            elapsed_ms: 0,
            sequence,
            offset: 0,
        };
        [&header.encode()[..], payload].concat()
    }

    fn take(reader: &mut LogReader, from: u64, bytes: Vec<u8>) -> Result<Output, Misbehaviour> {
        reader.take(from, Bytes::from(bytes))
    }

    #[test]
    fn chunks_come_out_whole_and_the_cursor_goes_on_behind_them() {
        let mut reader = LogReader::new(None);
        let two = [chunk(1, 0, b"ab"), chunk(1, 1, b"\xff\0")].concat();
        let output = take(&mut reader, 0, two).unwrap();
        let data: Vec<&[u8]> = output.chunks.iter().map(super::Chunk::data).collect();
        assert_eq!(data, [&b"ab"[..], b"\xff\0"]);
        assert_eq!((output.attempt, output.to), (1, 100));
        assert_eq!(reader.cursor(), Some(Cursor { attempt: 1, position: 100, within: 0 }));
        assert_eq!(take(&mut reader, 100, chunk(1, 2, b"c")).unwrap().to, 149);
    }

    #[test]
    fn a_hole_a_repeat_and_half_a_chunk_are_noticed() {
        let mut reader = LogReader::new(None);
        take(&mut reader, 0, chunk(1, 0, b"ab")).unwrap();
        for (from, sequence) in [(0, 0), (51, 1), (50, 2)] {
            let error = take(&mut reader.clone(), from, chunk(1, sequence, b"x")).unwrap_err();
            assert_eq!(error, Misbehaviour::Hole { expected: 50, got: from }, "{from} {sequence}");
        }
        let mut half = chunk(1, 1, b"abc");
        half.pop();
        assert_eq!(take(&mut reader, 50, half).unwrap_err(), Misbehaviour::BadChunk);
        assert_eq!(take(&mut LogReader::new(None), 0, Vec::new()).unwrap_err(), Misbehaviour::BadChunk);
    }

    #[test]
    fn what_is_of_the_other_stream_may_be_left_out_but_nothing_comes_twice() {
        let mut reader = LogReader::new(None).of(StreamChoice::Stderr);
        take(&mut reader, 0, chunk(1, 0, b"ab")).unwrap();
        assert!(take(&mut reader.clone(), 50, chunk(1, 2, b"x")).is_err(), "a sequence without its place");
        assert!(take(&mut reader.clone(), 99, chunk(1, 0, b"x")).is_err(), "a place without its sequence");
        let far = 50 + 8 * OUTSTANDING_MAX;
        assert_eq!(
            take(&mut reader, far, chunk(1, 7, b"x")).unwrap().from,
            far,
            "no window is overrun by it"
        );
        assert!(take(&mut reader.clone(), 50, chunk(1, 1, b"x")).is_err(), "back again");
        take(&mut reader, far + 49, chunk(1, 8, b"y")).unwrap();
        assert!(reader.has_reached(Cursor { attempt: 1, position: far * 2, within: 0 }, false));
    }

    #[test]
    fn a_later_attempt_begins_at_its_start() {
        let mut reader = LogReader::new(None);
        take(&mut reader, 0, chunk(1, 0, b"ab")).unwrap();
        assert!(take(&mut reader.clone(), 50, chunk(2, 0, b"x")).is_err());
        take(&mut reader, 0, chunk(2, 0, b"x")).unwrap();
        assert_eq!(reader.cursor(), Some(Cursor { attempt: 2, position: 49, within: 0 }));
    }

    #[test]
    fn an_end_is_reached_when_everything_before_it_came() {
        let at = |attempt, position| Cursor { attempt, position, within: 0 };
        let mut reader = LogReader::new(None);
        assert!(reader.has_reached(at(0, 0), false) && reader.has_reached(at(1, 0), false));
        assert!(!reader.has_reached(at(1, 51), false) && reader.has_reached(at(1, 51), true));
        assert!(LogReader::new(Some(at(1, 51))).has_reached(at(1, 51), false));
        take(&mut reader, 0, chunk(1, 0, b"ab")).unwrap();
        assert!(reader.has_reached(at(1, 50), false) && !reader.has_reached(at(1, 51), false));
        assert!(reader.has_reached(at(2, 0), false) && !reader.has_reached(at(2, 49), false));
    }

    #[test]
    fn a_cursor_is_kept_to_and_a_tail_may_begin_anywhere() {
        let mut reader = LogReader::new(Some(Cursor { attempt: 1, position: 70, within: 0 }));
        assert!(take(&mut reader.clone(), 0, chunk(1, 0, b"x")).is_err());
        take(&mut reader, 70, chunk(1, 9, b"x")).unwrap();
        assert!(take(&mut reader, 119, chunk(1, 11, b"x")).is_err());
        let mut tail = LogReader::new(None);
        take(&mut tail, 5_000, chunk(4, 70, b"x")).unwrap();
        assert_eq!(tail.cursor(), Some(Cursor { attempt: 4, position: 5_049, within: 0 }));
    }

    #[test]
    fn output_beyond_the_window_is_refused() {
        let mut reader = LogReader::new(None);
        let payload = vec![0; CHUNK_BYTES_MAX];
        let (mut position, mut sequence) = (0, 0);
        let mut push = |reader: &mut LogReader| {
            let output = take(reader, position, chunk(1, sequence, &payload))?;
            (position, sequence) = (output.to, sequence + 1);
            Ok(position)
        };
        while push(&mut reader).unwrap() < OUTSTANDING_MAX - (1 << 20) {}
        assert!(!reader.has_room());
        reader.taken(OUTSTANDING_MAX / 2);
        assert!(reader.has_room());
        while push(&mut reader).unwrap() < OUTSTANDING_MAX + OUTSTANDING_MAX / 2 - (1 << 20) {}
        let error: Misbehaviour = (0..64).find_map(|_| push(&mut reader).err()).unwrap();
        assert_eq!(error, Misbehaviour::WindowOverrun);
    }
}
