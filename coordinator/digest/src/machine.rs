//! Errors whose own words say that the machine failed them, not the code, and what to do about it.

use crate::found::{Finds, Found};
use crate::rules::Kind;
use buildpool_protocol::infrastructure::advice;
use std::collections::BTreeSet;

/// Words of a system that could not give what was asked: a disk that is full or broken, memory that is used up.
const WORDS: &[&str] = &[
    "no space left on device",
    "disk quota exceeded",
    "there is not enough space on the disk",
    "errno=28",
    "os error 28",
    "input/output error",
    "stale file handle",
    "too many open files",
    "cannot allocate memory",
    "virtual memory exhausted",
];

/// Words by which a driver says no more than that the program before it failed.
const ECHOES: &[&str] = &["failed with exit status", "failed with exit code", "failed: exit status"];

/// Those of a compiler about its linker.
const LINKER_ECHOES: &[&str] = &["ld returned ", "linker command failed with exit code"];

/// A rule this sure, in percent, that the machine failed lets what follows without a place count as its echo.
const SURE_OF_MACHINE: u8 = 85;

/// Makes such errors infrastructure's, and says once what to do about each sort that is known.
pub(crate) fn attribute(finds: &mut Finds) {
    let mut advised = BTreeSet::new();
    for found in &mut finds.errors {
        if is_machines(found) {
            found.kind = Kind::Infrastructure;
            // What it is about may stand below what failed because of it.
            let says = |line: &String| has_words(line) || advice(line).is_some();
            found.head = found.lines.iter().position(says).unwrap_or(found.head);
        }
        if found.kind == Kind::Infrastructure
            && let Some(advice) = found.lines.iter().find_map(|line| advice(line))
            && advised.insert(advice)
        {
            found.beside.push(advice.to_owned());
        }
    }
}

fn is_machines(found: &Found) -> bool {
    match found.kind {
        Kind::Build => tells_of_machine(found) || found.location.is_none() && is_known(found),
        // Where an exception was raised does not say whose fault it is; its own words do, which no trace indents.
        Kind::Runtime => {
            let own = |line: &&String| !line.starts_with([' ', '\t']);
            found.lines.iter().filter(own).any(|line| advice(line).is_some())
        }
        _ => false,
    }
}

/// Lines are looked at one by one: words of two of them are no sign.
fn is_known(found: &Found) -> bool {
    found.lines.iter().any(|line| advice(line).is_some())
}

/// A compiler that names a place says there what is wrong with the code, unless its message ends with the system's words.
fn tells_of_machine(found: &Found) -> bool {
    if found.location.is_none() {
        return found.lines.iter().any(|line| has_words(line));
    }
    found.lines.first().is_some_and(|line| {
        let said = line.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
        WORDS.iter().any(|word| said.ends_with(word))
    })
}

fn has_words(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    WORDS.iter().any(|word| line.contains(word))
}

/// Whether it says no more than that the linker failed.
pub(crate) fn is_echo_of_linker(found: &Found) -> bool {
    begins_with(found, LINKER_ECHOES)
}

/// Whether it has no place, and its first line has one of these words.
fn begins_with(found: &Found, words: &[&str]) -> bool {
    let says = |line: &String| words.iter().any(|word| line.contains(word));
    found.location.is_none() && found.lines.first().is_some_and(says)
}

/// Where the first error lies that is surely the machine's.
pub(crate) fn first_failure(finds: &Finds) -> Option<u64> {
    let sure = |found: &&Found| found.kind == Kind::Infrastructure && found.sure >= SURE_OF_MACHINE;
    finds.errors.iter().filter(sure).map(|found| found.order).min()
}

/// Whether an error only repeats that something failed, after this place.
pub(crate) fn is_echo(found: &Found, after: Option<u64>) -> bool {
    found.kind == Kind::Build
        && after.is_some_and(|after| found.order > after)
        && (begins_with(found, ECHOES) || is_echo_of_linker(found))
}
