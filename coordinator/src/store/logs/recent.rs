//! Bytes of a log that its readers share in memory: the chunks that were appended last, and parts of its files while a reader
//! holds them. A thousand readers at one place of a log hold its bytes once.

use crate::store::limits::{RECENT_BYTES_MAX, RECENT_LOG_BYTES_MAX};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Parts that are not the last one are shared from this length on. One read of the file returns many shorter ones.
const PART_BYTES_MIN: usize = 16 << 10;
/// Memory of a part in addition to its bytes.
const PART_OVERHEAD_BYTES: usize = 128;
/// Limit on the remembered reads of the files of one log.
const READS_MAX: usize = 64;

/// Size of the recent chunks of all logs. Clones share it.
#[derive(Clone, Default, Debug)]
pub(super) struct RecentTotal(Arc<AtomicUsize>);

#[derive(Debug)]
struct Part {
    position: u64,
    bytes: Bytes,
}

impl Part {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn cost(&self) -> usize {
        self.bytes.len() + PART_OVERHEAD_BYTES
    }
}

/// Bytes that were read from a file.
struct FileBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The shared bytes of one log.
#[derive(Debug, Default)]
pub(super) struct RecentChunks {
    total: RecentTotal,
    /// The chunks that were appended last, without a hole between them.
    parts: VecDeque<Part>,
    cost: usize,
    /// Position and bytes of reads of a file that a reader may still hold.
    reads: VecDeque<(u64, Weak<Vec<u8>>)>,
    /// Number of times that all of it was removed.
    generation: u64,
}

impl RecentChunks {
    pub(super) fn new(total: RecentTotal) -> Self {
        Self { total, parts: VecDeque::new(), cost: 0, reads: VecDeque::new(), generation: 0 }
    }

    /// Adds chunks that were appended at this position.
    pub(super) fn push(&mut self, position: u64, bytes: Bytes) {
        if self.parts.back().is_some_and(|last| last.end() != position) {
            self.clear();
        }
        let part = Part { position, bytes };
        let cost = part.cost();
        while self.cost + cost > RECENT_LOG_BYTES_MAX && self.drop_oldest() {}
        // Other logs may use all of the memory, or give it back later.
        while self.total.0.load(Ordering::Relaxed) + cost > RECENT_BYTES_MAX {
            if !self.drop_oldest() {
                return;
            }
        }
        self.total.0.fetch_add(cost, Ordering::Relaxed);
        self.cost += cost;
        self.parts.push_back(part);
    }

    /// Removes all of it, when the log begins again or has a hole.
    pub(super) fn clear(&mut self) {
        while self.drop_oldest() {}
        self.reads.clear();
        self.generation += 1;
    }

    /// Returns a number for the present content of the log. A reader takes it before it looks for a file, because its file
    /// may be one of a log that begins again meanwhile.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the bytes from this position to the end of their part. `None` if the file must be read.
    pub(super) fn from(&self, position: u64) -> Option<Bytes> {
        let index = self.parts.partition_point(|part| part.position <= position).checked_sub(1)?;
        let part = self.parts.get(index).filter(|part| position < part.end())?;
        let rest = part.bytes.slice(usize::try_from(position - part.position).ok()?..);
        (rest.len() >= PART_BYTES_MIN || index + 1 == self.parts.len()).then_some(rest)
    }

    /// Returns bytes of a file from this position on, if a reader holds at least so many.
    pub(super) fn read_before(&self, generation: u64, position: u64, length: usize) -> Option<Bytes> {
        if generation != self.generation {
            return None;
        }
        let held = self.reads.iter().filter(|(start, _)| *start == position);
        let bytes = held.filter_map(|(_, bytes)| bytes.upgrade()).find(|bytes| bytes.len() >= length)?;
        Some(Bytes::from_owner(FileBytes(bytes)).slice(..length))
    }

    /// Shares bytes that were read from a file at this position.
    pub(super) fn share(&mut self, generation: u64, position: u64, bytes: Vec<u8>) -> Bytes {
        if generation != self.generation {
            return bytes.into();
        }
        let bytes = Arc::new(bytes);
        self.reads.retain(|(start, held)| *start != position && held.strong_count() > 0);
        if self.reads.len() == READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back((position, Arc::downgrade(&bytes)));
        Bytes::from_owner(FileBytes(bytes))
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.parts.pop_front() else { return false };
        self.cost -= oldest.cost();
        self.total.0.fetch_sub(oldest.cost(), Ordering::Relaxed);
        true
    }
}

impl Drop for RecentChunks {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{PART_BYTES_MIN, PART_OVERHEAD_BYTES, READS_MAX, RecentChunks, RecentTotal};
    use crate::store::limits::{RECENT_BYTES_MAX, RECENT_LOG_BYTES_MAX};
    use bytes::Bytes;
    use std::sync::atomic::Ordering;

    const PART: usize = 256 << 10;

    fn part(byte: u8, length: usize) -> Bytes {
        vec![byte; length].into()
    }

    #[test]
    fn the_end_of_a_log_is_shared_and_limited() {
        let total = RecentTotal::default();
        let mut recent = RecentChunks::new(total.clone());
        let parts = 3 * RECENT_LOG_BYTES_MAX / PART;
        for number in 0..parts {
            recent.push((number * PART) as u64, part(number as u8, PART));
        }
        assert!(total.0.load(Ordering::Relaxed) <= RECENT_LOG_BYTES_MAX);
        assert_eq!(recent.from(0), None, "the file has it");
        let last = ((parts - 1) * PART) as u64;
        let (one, other) = (recent.from(last + 5).expect("shared"), recent.from(last + 5).expect("shared"));
        assert_eq!((one.len(), one.as_ptr()), (PART - 5, other.as_ptr()), "both are the same memory");
        assert_eq!(recent.from(last + PART as u64), None, "the log ends here");
        recent.push(7, part(1, PART));
        assert_eq!((recent.from(last), recent.parts.len()), (None, 1), "the log began again");
        drop(recent);
        assert_eq!(total.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_logs_together_have_a_limit() {
        let total = RecentTotal::default();
        let mut logs: Vec<RecentChunks> = (0..100).map(|_| RecentChunks::new(total.clone())).collect();
        for round in 0..30 {
            for log in &mut logs {
                log.push((round * PART) as u64, part(0, PART));
            }
        }
        let used = total.0.load(Ordering::Relaxed);
        assert!(used <= RECENT_BYTES_MAX && used > RECENT_BYTES_MAX - PART - PART_OVERHEAD_BYTES, "{used}");
    }

    #[test]
    fn many_short_parts_are_read_from_the_file_at_once_except_for_the_last() {
        let mut recent = RecentChunks::default();
        recent.push(0, part(0, PART_BYTES_MIN));
        recent.push(PART_BYTES_MIN as u64, part(0, 100));
        recent.push(PART_BYTES_MIN as u64 + 100, part(0, 100));
        assert!(recent.from(0).is_some());
        assert_eq!(recent.from(PART_BYTES_MIN as u64), None);
        assert_eq!(recent.from(PART_BYTES_MIN as u64 + 100).map(|bytes| bytes.len()), Some(100));
    }

    #[test]
    fn bytes_of_a_log_that_began_again_are_not_shared() {
        let mut recent = RecentChunks::default();
        let before = recent.generation();
        recent.clear();
        let old = recent.share(before, 70, vec![1; 10]);
        assert_eq!((old.len(), recent.read_before(recent.generation(), 70, 10)), (10, None));
        let new = recent.share(recent.generation(), 70, vec![2; 10]);
        assert_eq!(recent.read_before(recent.generation(), 70, 10), Some(new));
        assert_eq!(recent.read_before(before, 70, 10), None);
    }

    #[test]
    fn readers_at_one_place_share_what_one_of_them_read() {
        let mut recent = RecentChunks::default();
        let one = recent.share(0, 70, vec![1; 1_000]);
        let other = recent.read_before(0, 70, 1_000).expect("shared");
        assert_eq!((other.len(), other.as_ptr()), (1_000, one.as_ptr()));
        assert_eq!(recent.read_before(0, 70, 1_001), None, "the log has grown");
        assert_eq!(recent.read_before(0, 71, 10), None);
        drop((one, other));
        assert_eq!(recent.read_before(0, 70, 10), None, "no reader holds it");
        let held: Vec<Bytes> = (0..2 * READS_MAX as u64).map(|at| recent.share(0, at, vec![0; 9])).collect();
        assert_eq!(recent.reads.len(), READS_MAX);
        assert!(recent.read_before(0, held.len() as u64 - 1, 9).is_some());
    }
}
