//! Attributes errors to the machine (disk, memory, file limits) and adds advice.

use crate::findings::{Findings, RawFinding};
use crate::rules::Kind;
use buildpool_protocol::infrastructure::advice;
use std::collections::BTreeSet;

/// Messages of a system that ran out of disk space, memory or open files, or had an I/O error.
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
    "no connected devices",
    "developer mode is disabled",
    "unable to boot the simulator",
];

/// Messages of a driver that only report the failure of a program that it ran.
const ECHOES: &[&str] = &["failed with exit status", "failed with exit code", "failed: exit status"];

/// Messages of a compiler that only report the failure of its linker.
const LINKER_ECHOES: &[&str] = &["ld returned ", "linker command failed with exit code"];

/// Minimum certainty, in percent, of a machine error. Later errors without a location can count as
/// its echo.
const SURE_OF_MACHINE: u8 = 85;

/// Sets the kind of machine errors to `Infrastructure`. Adds each piece of advice once.
pub(crate) fn attributed(mut findings: Findings) -> Findings {
    let mut advised = BTreeSet::new();
    for found in &mut findings.errors {
        if is_machines(found) {
            found.kind = Kind::Infrastructure;
            // The system's message can be below the line that failed because of it.
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
    findings
}

fn is_machines(found: &RawFinding) -> bool {
    match found.kind {
        Kind::Build => tells_of_machine(found) || found.location.is_none() && is_known(found),
        // The place of an exception does not identify the cause. Its message does, and traces never
        // indent the message.
        Kind::Runtime => {
            let own = |line: &&String| !line.starts_with([' ', '\t']);
            found.lines.iter().filter(own).any(|line| advice(line).is_some())
        }
        _ => false,
    }
}

/// Tests the lines separately: words spread over two lines are not a sign.
fn is_known(found: &RawFinding) -> bool {
    found.lines.iter().any(|line| advice(line).is_some())
}

/// Returns true if the error reports a machine failure. With a location, the message is about the
/// code, unless it ends with a phrase of [`WORDS`].
fn tells_of_machine(found: &RawFinding) -> bool {
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

/// Returns true if the error only reports that the linker failed.
pub(crate) fn is_echo_of_linker(found: &RawFinding) -> bool {
    begins_with(found, LINKER_ECHOES)
}

/// Returns true if the error has no location and its first line contains one of `words`.
fn begins_with(found: &RawFinding, words: &[&str]) -> bool {
    let says = |line: &String| words.iter().any(|word| line.contains(word));
    found.location.is_none() && found.lines.first().is_some_and(says)
}

/// Order of the first error that is certainly caused by the machine.
pub(crate) fn first_failure(findings: &Findings) -> Option<u64> {
    let sure = |found: &&RawFinding| found.kind == Kind::Infrastructure && found.sure >= SURE_OF_MACHINE;
    findings.errors.iter().filter(sure).map(|found| found.order).min()
}

/// Returns true if an error after `after` only repeats that something failed.
pub(crate) fn is_echo(found: &RawFinding, after: Option<u64>) -> bool {
    found.kind == Kind::Build
        && after.is_some_and(|after| found.order > after)
        && (begins_with(found, ECHOES) || is_echo_of_linker(found))
}
