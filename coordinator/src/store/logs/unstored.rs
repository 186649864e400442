//! The unstored part of a log, if the disk refuses it. The part is read but not stored, so that its
//! job can end. The seal counts it as a gap and keeps its last bytes.

use super::append::{Appended, LogWriter, Sealed, follow, hash, seals};
use super::error::{LogError, SealError};
use super::open_log::Appender;
use crate::store::limits::{INLINE_BYTES_MAX, UNSTORED_TAIL_BYTES};
use buildpool_protocol::AttemptId;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap, LogState, Stream};
use buildpool_protocol::report::GapEntry;
use std::collections::VecDeque;
use std::sync::MutexGuard;

/// Output after the end of the stored log.
#[derive(Debug)]
pub(super) struct Unstored {
    /// The end of the log if all of it was stored.
    state: LogState,
    /// The last chunks, at most [`UNSTORED_TAIL_BYTES`] with their headers.
    tail: VecDeque<(ChunkHeader, Vec<u8>)>,
    tail_bytes: u64,
    reason: String,
}

/// The chunks that the seal appends for the unstored part.
#[derive(Debug, Default)]
struct UnstoredEnd {
    /// Gap chunks, then the chunks of the tail.
    bytes: Vec<u8>,
    state: LogState,
    gaps: Vec<GapEntry>,
}

/// Description of the stored part of a log that the disk did not accept completely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortened {
    /// Lengths (including gaps) and checksums of the stored streams.
    pub seals: [Seal; 2],
    /// The missing parts.
    pub gaps: Vec<GapEntry>,
}

impl Unstored {
    pub(super) fn after(state: LogState, reason: String) -> Self {
        Self { state, tail: VecDeque::new(), tail_bytes: 0, reason }
    }

    pub(super) const fn state(&self) -> LogState {
        self.state
    }

    /// Checks and counts chunks as [`super::LogWriter::append`] does.
    pub(super) fn take(
        &mut self,
        attempt: AttemptId,
        position: u64,
        content: &[u8],
    ) -> Result<Appended, LogError> {
        let end = self.state.position;
        if position > end {
            return Ok(Appended::Rewind { position: end });
        }
        let (known, state) = follow(attempt, self.state, position, content)?;
        let mut rest = &content[known..];
        while let Ok((header, payload)) = ChunkHeader::decode(rest) {
            rest = &rest[rest.len().min(usize::try_from(header.size()).unwrap_or(usize::MAX))..];
            self.keep(header, payload);
        }
        self.state = state;
        Ok(Appended::Stored { position: state.position })
    }

    fn keep(&mut self, header: ChunkHeader, payload: &[u8]) {
        self.tail_bytes += header.size();
        self.tail.push_back((header, payload.to_vec()));
        while self.tail_bytes > UNSTORED_TAIL_BYTES {
            let Some((dropped, _)) = self.tail.pop_front() else { return };
            self.tail_bytes -= dropped.size();
        }
    }

    /// Returns the end of a log that is stored up to `stored`.
    fn ending(&self, attempt: AttemptId, stored: LogState) -> UnstoredEnd {
        let mut ending = UnstoredEnd { state: stored, ..UnstoredEnd::default() };
        for stream in Stream::ALL {
            let first = self.tail.iter().find(|(header, _)| header.stream == stream);
            let resumes_at =
                first.map_or(self.state.stream_lengths[stream.index()], |(header, _)| header.offset);
            ending.gap(attempt, stream, resumes_at, &self.reason);
        }
        for (header, payload) in &self.tail {
            ending.chunk(*header, payload);
        }
        ending
    }
}

impl LogWriter {
    /// Stops storing the log, with this reason. Later chunks are checked and counted. See
    /// [`LogWriter::store_again`].
    ///
    /// # Errors
    /// [`LogError::Superseded`], [`LogError::Broken`].
    pub fn stop_storing(&mut self, reason: String) -> Result<(), LogError> {
        let mut appender = self.check()?;
        if appender.unstored.is_none() && !appender.sealed {
            appender.unstored = Some(Unstored::after(appender.state, reason));
        }
        Ok(())
    }

    /// Returns true if output is stored, not only counted.
    pub fn is_storing(&self) -> bool {
        self.shared.appender().unstored.is_none()
    }

    /// Stores output again. The worker must send the unstored part again, from the position of
    /// [`LogWriter::state`].
    pub fn store_again(&mut self) {
        self.shared.appender().unstored = None;
    }

    /// Seals a log without storing any of it. Existing files are removed, and gaps with these
    /// stream lengths replace the log.
    ///
    /// # Errors
    /// [`SealError::Log`] if the log is sealed or a newer writer has it.
    pub fn seal_unstored(&mut self, lengths: [u64; 2], reason: &str) -> Result<Sealed, SealError> {
        if let Err(error) = self.restart() {
            match error {
                LogError::Sealed | LogError::Superseded => return Err(error.into()),
                // The files stay until retention removes the job's logs.
                error => {
                    tracing::warn!(attempt = %self.shared.attempt, error = &error as &dyn std::error::Error, "a log that can't be stored can't be removed")
                }
            }
        }
        let mut appender = self.shared.appender();
        *appender = Appender { opened: true, hashers: Some(Default::default()), ..Appender::default() };
        let UnstoredEnd { bytes, state, gaps } =
            UnstoredEnd::of_nothing(self.shared.attempt, lengths, reason);
        self.shared.layout().head = bytes;
        appender.state = state;
        let seals = seals(state, &Default::default());
        Ok(self.sealed(appender, Some(Shortened { seals, gaps })))
    }

    /// Seals the stored part, followed by gaps and the tail of `unstored`. If the disk refuses
    /// those too, they are missing from the log, and only the result contains the gaps.
    pub(super) fn seal_shortened(
        &self,
        mut appender: MutexGuard<'_, Appender>,
        unstored: &Unstored,
    ) -> Result<Sealed, SealError> {
        let (attempt, shared) = (self.attempt(), &self.shared);
        let mut ending = unstored.ending(attempt, appender.state);
        let fits_in_memory = {
            let mut layout = shared.layout();
            let fits = !layout.has_files() && layout.head.len() + ending.bytes.len() <= INLINE_BYTES_MAX;
            if fits {
                layout.head.extend_from_slice(&ending.bytes);
            }
            fits
        };
        if !fits_in_memory && let Err(error) = shared.write(&appender, &ending.bytes) {
            tracing::warn!(%attempt, error = &error as &dyn std::error::Error, "the end of a log can't be stored");
            ending = UnstoredEnd::noted(unstored, appender.state);
        }
        if let Some(hashers) = &mut appender.hashers {
            hash(hashers, &ending.bytes);
        }
        appender.state = ending.state;
        shared.progress.send_modify(|progress| progress.position = ending.state.position);
        let hashers = match &appender.hashers {
            Some(hashers) => hashers.clone(),
            None => self.hash_again()?,
        };
        shared.sync(&mut appender)?;
        let seals = seals(appender.state, &hashers);
        Ok(self.sealed(appender, Some(Shortened { seals, gaps: ending.gaps })))
    }
}

impl UnstoredEnd {
    /// Returns only the gaps, for a log without any stored part.
    fn of_nothing(attempt: AttemptId, lengths: [u64; 2], reason: &str) -> Self {
        let mut ending = Self::default();
        for stream in Stream::ALL {
            ending.gap(attempt, stream, lengths[stream.index()], reason);
        }
        ending
    }

    /// Returns the gaps without their chunks, because the disk refuses these too.
    fn noted(unstored: &Unstored, stored: LogState) -> Self {
        let gap = |stream: Stream| {
            let offset = stored.stream_lengths[stream.index()];
            let bytes = unstored.state.stream_lengths[stream.index()].saturating_sub(offset);
            (bytes > 0).then(|| GapEntry { stream, offset, bytes, reason: unstored.reason.clone() })
        };
        let gaps = Stream::ALL.into_iter().filter_map(gap).collect();
        Self { bytes: Vec::new(), state: stored, gaps }
    }

    fn gap(&mut self, attempt: AttemptId, stream: Stream, resumes_at: u64, reason: &str) {
        let offset = self.state.stream_lengths[stream.index()];
        let bytes = resumes_at.saturating_sub(offset);
        if bytes == 0 {
            return;
        }
        let gap = Gap { missing_bytes: bytes, reason: reason.to_owned() };
        let payload = serde_json::to_vec(&gap).unwrap_or_default();
        let header = ChunkHeader {
            attempt,
            stream,
            kind: ChunkKind::Gap,
            length: u32::try_from(payload.len()).unwrap_or_default(),
            elapsed_ms: 0,
            sequence: 0,
            offset: 0,
        };
        self.chunk(header, &payload);
        self.gaps.push(GapEntry { stream, offset, bytes, reason: reason.to_owned() });
    }

    /// Appends a chunk at the next sequence and offset.
    fn chunk(&mut self, header: ChunkHeader, payload: &[u8]) {
        let offset = self.state.stream_lengths[header.stream.index()];
        let header = ChunkHeader { sequence: self.state.next_sequence, offset, ..header };
        if self.state.append(&header, payload).is_ok() {
            self.bytes.extend_from_slice(&header.encode());
            self.bytes.extend_from_slice(payload);
        }
    }
}
