//! Flow control of a file transfer. Pure.

use buildpool_protocol::limits::{TRANSFER_FIRST_FRAME_BYTES, TRANSFER_FRAME_BYTES, TRANSFER_WINDOW_BYTES};

/// The sender of one transfer. It returns the next bytes to send, at most one window ahead of the
/// bytes that the receiver has confirmed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    length: u64,
    sent: u64,
    taken: u64,
    frame: usize,
}

/// Error: the other side sent an impossible offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("offset {offset} is beyond {most}, where the bytes end")]
pub struct BeyondEnd {
    /// The offset received.
    pub offset: u64,
    /// The highest valid offset.
    pub most: u64,
}

impl Sender {
    /// Creates a sender of `length` bytes. It must not send before the receiver has sent its start
    /// offset.
    pub const fn new(length: u64) -> Self {
        Self { length, sent: 0, taken: 0, frame: TRANSFER_FIRST_FRAME_BYTES }
    }

    /// Sets the start offset that the receiver requested.
    ///
    /// # Errors
    /// Fails if the offset is greater than the length.
    pub const fn from(&mut self, offset: u64) -> Result<(), BeyondEnd> {
        if offset > self.length {
            return Err(BeyondEnd { offset, most: self.length });
        }
        self.sent = offset;
        self.taken = offset;
        Ok(())
    }

    /// Records the offset that the receiver has confirmed. An offset lower than an earlier one is
    /// ignored.
    ///
    /// # Errors
    /// Fails if that many bytes were not sent.
    pub const fn taken(&mut self, offset: u64) -> Result<(), BeyondEnd> {
        if offset > self.sent {
            return Err(BeyondEnd { offset, most: self.sent });
        }
        if offset > self.taken {
            self.taken = offset;
        }
        Ok(())
    }

    /// Returns offset and length of the next frame. Returns `None` if the window is full or all
    /// bytes are sent.
    pub fn next(&self) -> Option<(u64, usize)> {
        let allowed = (self.taken + TRANSFER_WINDOW_BYTES).min(self.length);
        let length = allowed.saturating_sub(self.sent).min(self.frame as u64);
        (length > 0).then_some((self.sent, length as usize))
    }

    /// Records that the frame from [`Sender::next`] was sent.
    pub fn sent(&mut self, length: usize) {
        self.sent = self.sent.saturating_add(length as u64).min(self.length);
        self.frame = (self.frame * 2).min(TRANSFER_FRAME_BYTES);
    }

    /// Returns true if all bytes are sent.
    pub const fn all_sent(&self) -> bool {
        self.sent == self.length
    }
}

#[cfg(test)]
mod tests {
    use super::Sender;
    use buildpool_protocol::limits::{TRANSFER_FRAME_BYTES, TRANSFER_WINDOW_BYTES};
    use proptest::prelude::*;

    #[test]
    fn it_stops_at_the_window_and_goes_on_when_something_was_taken() {
        let mut sender = Sender::new(TRANSFER_WINDOW_BYTES * 3);
        sender.from(5).unwrap();
        let mut total = 0;
        while let Some((offset, length)) = sender.next() {
            assert_eq!(offset, 5 + total);
            sender.sent(length);
            total += length as u64;
        }
        assert_eq!(total, TRANSFER_WINDOW_BYTES);
        sender.taken(6).unwrap();
        assert_eq!(sender.next(), Some((5 + total, 1)));
        assert!(sender.taken(TRANSFER_WINDOW_BYTES * 3).is_err());
        assert!(sender.from(TRANSFER_WINDOW_BYTES * 3 + 1).is_err());
    }

    #[test]
    fn a_link_that_carries_little_before_each_cut_comes_further_all_the_same() {
        for carries in [5_000, 10_000, 70_000, 600_000] {
            let (length, mut offset, mut cuts) = (3_000_000, 0, 0);
            while offset < length {
                let mut sender = Sender::new(length);
                sender.from(offset).unwrap();
                let mut left = carries;
                // A truncated frame does not count.
                while let Some((_, size)) = sender.next().filter(|(_, size)| *size <= left) {
                    sender.sent(size);
                    left -= size;
                    offset += size as u64;
                }
                cuts += 1;
                assert!(cuts <= 3 * length / carries as u64, "{carries}: {offset}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_byte_goes_once_in_order_however_it_is_taken(
            length in 0_u64..40_000_000,
            from in 0_u64..40_000_000,
            steps in prop::collection::vec(0_u64..9_000_000, 0..40),
        ) {
            let mut sender = Sender::new(length);
            prop_assert_eq!(sender.from(from).is_ok(), from <= length);
            if from > length { return Ok(()); }
            let (mut at, mut taken) = (from, from);
            for step in steps.into_iter().chain([TRANSFER_WINDOW_BYTES; 8]) {
                while let Some((offset, size)) = sender.next() {
                    prop_assert_eq!(offset, at);
                    prop_assert!(size <= TRANSFER_FRAME_BYTES);
                    at += size as u64;
                    prop_assert!(at <= length && at <= taken + TRANSFER_WINDOW_BYTES);
                    sender.sent(size);
                }
                taken = (taken + step).min(at);
                sender.taken(taken).unwrap();
            }
            prop_assert!(at == length && sender.all_sent());
        }
    }
}
