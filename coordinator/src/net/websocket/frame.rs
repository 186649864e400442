//! The frames of a WebSocket (RFC 6455, section 5.2): their headers, the mask of a client, and the content of a close frame.

/// Longest header of a frame that a server sends: it has no mask.
pub(super) const SENT_HEADER_BYTES_MAX: usize = 10;
/// Longest payload of a control frame.
pub(super) const CONTROL_BYTES_MAX: u64 = 125;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn decode(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The header of a frame from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHeader {
    /// True if the frame ends its message.
    pub(super) is_last: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: [u8; 4],
    pub(super) length: u64,
}

impl FrameHeader {
    /// Decodes a header, and returns its own length too. `None` if more bytes are needed.
    ///
    /// # Errors
    /// The rule that the header breaks.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err("a reserved bit is set");
        }
        let opcode = Opcode::decode(first & 0x0f).ok_or("the opcode is unknown")?;
        if second & 0x80 == 0 {
            return Err("a frame of a client has no mask");
        }
        let is_last = first & 0x80 != 0;
        if opcode.is_control() && (!is_last || u64::from(second & 0x7f) > CONTROL_BYTES_MAX) {
            return Err("a control frame is longer than 125 bytes or is not the last of its message");
        }
        let length_bytes = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some((extended, rest)) = rest.split_at_checked(length_bytes) else { return Ok(None) };
        let Some(mask) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = match extended {
            [] => u64::from(second & 0x7f),
            extended => extended.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        if length >> 63 != 0 {
            return Err("the first bit of the length is set");
        }
        Ok(Some((Self { is_last, opcode, mask: *mask, length }, 2 + length_bytes + 4)))
    }
}

/// Encodes the header of a whole message or control frame of a server. Returns the buffer and the length of the header.
pub(super) fn encode_header(opcode: Opcode, length: usize) -> ([u8; SENT_HEADER_BYTES_MAX], usize) {
    let mut header = [0; SENT_HEADER_BYTES_MAX];
    header[0] = 0x80 | opcode.bits();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..126), _) => {
            header[1] = short;
            (header, 2)
        }
        (_, Ok(length)) => {
            header[1] = 126;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            (header, 4)
        }
        _ => {
            header[1] = 127;
            header[2..].copy_from_slice(&(length as u64).to_be_bytes());
            (header, SENT_HEADER_BYTES_MAX)
        }
    }
}

/// Removes the mask of these bytes, which follow each other in a frame, and turns the mask to the next byte.
pub(super) fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
    let [a, b, c, d] = *mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    mask.rotate_left(bytes.len() % 4);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(wide.to_ne_bytes()) {
        *byte ^= key;
    }
}

/// Checks the content of a close frame: nothing, or a status code and a reason.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn check_close(content: &[u8]) -> Result<(), &'static str> {
    let (code, reason) = match content {
        [] => return Ok(()),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err("a close frame has one byte"),
    };
    // Codes that may be sent (RFC 6455, section 7.4, and the registry of IANA).
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err("the status code of a close frame may not be sent");
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(()),
        Err(_) => Err("the reason of a close frame is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameHeader, Opcode, check_close, encode_header, unmask};

    #[test]
    fn headers_of_each_length_are_decoded_when_they_are_whole() {
        for (length, text) in [
            (5, vec![0x81, 0x85, 1, 2, 3, 4]),
            (126, vec![0x81, 0xfe, 0, 126, 1, 2, 3, 4]),
            (70_000, vec![0x81, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70, 1, 2, 3, 4]),
        ] {
            for part in 0..text.len() {
                assert_eq!(FrameHeader::decode(&text[..part]), Ok(None), "{part} bytes of {text:?}");
            }
            let header = FrameHeader { is_last: true, opcode: Opcode::Text, mask: [1, 2, 3, 4], length };
            assert_eq!(FrameHeader::decode(&text), Ok(Some((header, text.len()))));
            let (sent, own) = encode_header(Opcode::Text, usize::try_from(length).expect("small"));
            assert_eq!(own, text.len() - 4, "a mask has four bytes");
            assert_eq!((sent[0], &sent[2..own]), (text[0], &text[2..own]));
            assert_eq!(sent[1] | 0x80, text[1]);
        }
    }

    #[test]
    fn headers_that_the_standard_forbids_are_refused() {
        let with = |first: u8, second: u8| {
            FrameHeader::decode(&[first, second, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).err()
        };
        for (first, second, text) in [
            (0xc1, 0x80, "reserved"),
            (0x83, 0x80, "unknown"),
            (0x81, 0x00, "no mask"),
            (0x09, 0x80, "control"),
            (0x89, 0xfe, "control"),
            (0x82, 0xff, "first bit"),
        ] {
            let error = with(first, second).unwrap_or_default();
            assert!(error.contains(text), "{first:x} {second:x}: {error:?}");
        }
        assert_eq!(with(0x82, 0xfe), None);
    }

    #[test]
    fn a_mask_is_removed_in_parts_of_any_size() {
        let plain: Vec<u8> = (0..100).collect();
        let masked: Vec<u8> =
            plain.iter().zip([9_u8, 80, 7, 60].iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        for size in 1..plain.len() {
            let (mut bytes, mut mask) = (masked.clone(), [9, 80, 7, 60]);
            bytes.chunks_mut(size).for_each(|part| unmask(part, &mut mask));
            assert_eq!(bytes, plain, "parts of {size} bytes");
        }
    }

    #[test]
    fn the_content_of_a_close_frame_is_checked() {
        for valid in [&b""[..], b"\x03\xe8", b"\x03\xe8gone", b"\x0f\xa0"] {
            assert_eq!(check_close(valid), Ok(()), "{valid:?}");
        }
        for invalid in [&b"\x03"[..], b"\x03\xed", b"\x03\xee", b"\x07\xd0", b"\x13\x88", b"\x03\xe8\xff"] {
            assert!(check_close(invalid).is_err(), "{invalid:?}");
        }
    }
}
