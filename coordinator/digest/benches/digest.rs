//! Bytes a second through the whole digester. Yardsticks: the same lines matched, as ripgrep would count them, with one set of
//! forty patterns, and with one set of as many patterns as there are recognizers. Also the time after the last byte of a log.

use buildpool_digest::{Digester, Facts, Options};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use regex::bytes::{RegexSet, RegexSetBuilder};
use std::hint::black_box;
use std::path::Path;

/// Words that logs are searched for, each anchored as the recognisers' are.
const WORDS: [&str; 40] = [
    "error",
    "warning",
    "fatal",
    "FAILED",
    "FAIL",
    "ERROR",
    "panic",
    "Traceback",
    "Exception",
    "Caused by",
    "make",
    "ninja",
    "ld",
    "clang",
    "gcc",
    "npm",
    "pip",
    "test",
    "Test",
    "Tests",
    "ok",
    "not ok",
    "---",
    "===",
    "E  ",
    "thread",
    "Killed",
    "Aborted",
    "Segmentation",
    "Undefined",
    "undefined",
    "CMake",
    "xcodebuild",
    "swift",
    "cargo",
    "go",
    "rustc",
    "javac",
    "BUILD",
    "SUMMARY",
];

/// Memory limit of a set of patterns in bytes: enough that it is never rebuilt.
const SET_BYTES_MAX: usize = 256 << 20;

/// The logs of the tests, one after the other, again and again.
fn logs(bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log")
                && let Ok(log) = std::fs::read(path)
            {
                all.extend(log);
                all.push(b'\n');
            }
        }
    }
    let mut out = Vec::with_capacity(bytes + all.len());
    while out.len() < bytes && !all.is_empty() {
        out.extend_from_slice(&all);
    }
    out.truncate(bytes);
    out
}

/// A log as large builds write it: commands, and tests that pass.
fn quiet(bytes: usize) -> Vec<u8> {
    let mut log = Vec::with_capacity(bytes + 1024);
    let mut number = 0;
    while log.len() < bytes {
        number += 1;
        log.extend_from_slice(
            format!(
                "    /Applications/Xcode.app/Contents/Developer/usr/bin/clang -x c -target arm64-apple-ios15.0 -fmessage-length=0 -DDEBUG=1 -c /Users/ci/app/Sources/File{number}.c -o /Users/ci/Build/File{number}.o\n\
                 Test Case '-[AppTests.SuiteTests testNumber{number}]' started.\n\
                 Test Case '-[AppTests.SuiteTests testNumber{number}]' passed (0.001 seconds).\n\
                 [{number}/99999] Compiling Module File{number}.swift\n"
            )
            .as_bytes(),
        );
    }
    log
}

/// Lines without a match, as a build prints them while it succeeds.
fn progress(bytes: usize) -> Vec<u8> {
    let mut log = Vec::with_capacity(bytes + 1024);
    let mut number = 0_u64;
    while log.len() < bytes {
        number += 1;
        log.extend_from_slice(
            format!(
                "[{number:>7}/900000] CompileC Objects-normal/arm64/Module{}.o Sources/Module{}/File{number}.c normal arm64 c com.apple.compilers.llvm.clang\n",
                number % 977,
                number % 31,
            )
            .as_bytes(),
        );
    }
    log
}

fn set_of(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> RegexSet {
    RegexSetBuilder::new(patterns)
        .unicode(false)
        .size_limit(SET_BYTES_MAX)
        .dfa_size_limit(SET_BYTES_MAX)
        .build()
        .expect("the patterns are constant")
}

fn digested(log: &[u8]) -> Digester {
    let mut digester = Digester::new(Options::default());
    for chunk in log.chunks(64 << 10) {
        digester.push(Stream::Stdout, black_box(chunk));
    }
    digester
}

fn throughput(c: &mut Criterion) {
    let sets = [
        ("yardstick: 40 patterns a line", set_of(WORDS.map(|word| format!(r"^(?:\S+: )?{word}\b")))),
        ("yardstick: as many patterns a line", set_of(buildpool_digest::patterns())),
    ];
    let bytes = 16 << 20;
    let logs = [("real logs", logs(bytes)), ("tests that pass", quiet(bytes)), ("progress", progress(bytes))];
    for (name, log) in logs {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(log.len() as u64)).sample_size(10);
        for (yardstick, set) in &sets {
            group.bench_function(*yardstick, |bencher| {
                bencher.iter(|| log.split(|byte| *byte == b'\n').filter(|line| set.is_match(line)).count());
            });
        }
        group.bench_function("digest", |bencher| {
            bencher.iter(|| digested(&log).finish(&Facts::default()).errors_total);
        });
        group.finish();
    }
}

/// Waiting time of a reader after the last byte: the last bytes, the digest and its shortest answer.
fn after_the_last_byte(c: &mut Criterion) {
    let mut group = c.benchmark_group("after the last byte");
    group.sample_size(10);
    let log = logs(64 << 20);
    for (name, bytes) in [("1 KB", 1 << 10), ("64 MB", 64 << 20), ("1 GB", 1 << 30)] {
        // A log that is written at 100 MB/s is read as fast, so only its last chunk is left at its end.
        let last = &log[..(64 << 10).min(bytes)];
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let mut digester = Digester::new(Options::default());
                    let mut left = bytes - last.len();
                    while left > 0 {
                        let part = &log[..left.min(log.len())];
                        part.chunks(64 << 10).for_each(|chunk| digester.push(Stream::Stdout, chunk));
                        left -= part.len();
                    }
                    digester
                },
                |mut digester| {
                    let mut result = JobResult::default();
                    digester.push(Stream::Stdout, last);
                    digester.finish(&Facts::default()).render(Verbosity::Minimal, None, None, &mut result);
                    result
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, throughput, after_the_last_byte);
criterion_main!(benches);
