//! Fuzzes the decoders of the links. Decoded values must encode to the same bytes, and nothing may
//! panic.

#![no_main]

use buildpool_protocol::output::{ChunkHeader, LogState};
use buildpool_protocol::client_link::{FromClient, ToClient};
use buildpool_protocol::frame::{BinaryHeader, decode_control, encode_control};
use buildpool_protocol::limiter::Limited;
use buildpool_protocol::transfer::Message;
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    chunks(bytes);
    if let Ok((header, content)) = BinaryHeader::decode(bytes) {
        assert_eq!(content.len() + header.encode().len(), bytes.len());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        control::<FromWorker>(text);
        control::<ToWorker>(text);
        control::<FromClient>(text);
        control::<ToClient>(text);
        control::<Message>(text);
    }
});

/// Checks that a log grows only by the chunks it accepts.
fn chunks(bytes: &[u8]) {
    let mut state = LogState::default();
    let mut rest = bytes;
    while let Ok((header, payload)) = ChunkHeader::decode(rest) {
        let before = state.clone();
        match state.append(&header, payload) {
            Ok(_) => assert!(state.position > before.position),
            Err(_) => assert_eq!(state, before),
        }
        rest = &rest[header.encode().len() + payload.len()..];
    }
}

fn control<M: Serialize + DeserializeOwned + Limited + PartialEq + Debug>(text: &str) {
    if let Ok(message) = decode_control::<M>(text) {
        let again = decode_control::<M>(&encode_control(&message)).expect("an encoded message is decoded");
        assert_eq!(again, message);
    }
}
