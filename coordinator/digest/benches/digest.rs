//! Bytes a second through the whole digester, all recognisers on, beside the yardstick: the rules' automaton alone is the
//! floor that the text of the digest is measured against.

use buildpool_digest::{Digester, Facts, Options};
use buildpool_protocol::output::Stream;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// A log as builds write it: mostly noise, a failing test in a thousand lines.
fn build_log(bytes: usize) -> Vec<u8> {
    let mut log = Vec::with_capacity(bytes + 4096);
    let mut number = 0;
    while log.len() < bytes {
        number += 1;
        log.extend_from_slice(
            format!(
                "    /Applications/Xcode.app/Contents/Developer/usr/bin/clang -x c -target arm64-apple-ios15.0 -fmessage-length=0 -DDEBUG=1 -c /Users/ci/app/Sources/File{number}.c -o /Users/ci/Build/File{number}.o\n\
                 Test Case '-[AppTests.SuiteTests testNumber{number}]' started.\n\
                 Test Case '-[AppTests.SuiteTests testNumber{number}]' passed (0.001 seconds).\n\
                 2024-11-09 22:03:15.508596+0100 App[65214:250298] loading framework number {number}\n\
                 [{number}/99999] Compiling Module File{number}.swift\n"
            )
            .as_bytes(),
        );
        if number % 200 == 0 {
            log.extend_from_slice(
                format!("/Users/ci/app/File{number}.swift:12:5: error: cannot find 'x' in scope\n")
                    .as_bytes(),
            );
        }
    }
    log
}

fn digest(c: &mut Criterion) {
    let log = build_log(16 << 20);
    let mut group = c.benchmark_group("digest");
    group.throughput(Throughput::Bytes(log.len() as u64)).sample_size(10);
    group.bench_function("build log", |bencher| {
        bencher.iter(|| {
            let mut digester = Digester::new(Options::default());
            for chunk in log.chunks(64 << 10) {
                digester.push(Stream::Stdout, 0, black_box(chunk));
            }
            digester.finish(&Facts::default()).errors_total
        });
    });
    group.bench_function("finish only", |bencher| {
        bencher.iter_batched(
            || {
                let mut digester = Digester::new(Options::default());
                digester.push(Stream::Stdout, 0, &log[..1 << 20]);
                digester
            },
            |digester| digester.finish(&Facts::default()).errors_total,
            criterion::BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, digest);
criterion_main!(benches);
