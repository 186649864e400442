//! Test reports that tools write for machines: parsers from bytes, without I/O.

pub(crate) mod cargo_json;
pub(crate) mod go_json;
pub(crate) mod junit;
pub(crate) mod tap;

use crate::limits::LINE_BYTES_MAX;
use serde::de::DeserializeOwned;

/// Lines of a JSON stream that hold an object, and how many that begin like one could not be read.
fn json_lines<T: DeserializeOwned>(bytes: &[u8], mut each: impl FnMut(T)) -> u64 {
    let mut broken = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            broken += 1;
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(event) => each(event),
            Err(_) => broken += 1,
        }
    }
    broken
}
