//! Compares the verdicts of recorded logs with the known outcomes, with and without the exit code.
//! The logs in `tests/logs` are always tested. `BUILDPOOL_CORPUS` can name the directory of a
//! larger set.

mod recorded;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use recorded::{Log, ending, hidden, read, sets};

fn digest(log: &Log, ending: Option<Ending>) -> Digest {
    let mut digester = Digester::new(Options::default());
    for chunk in log.bytes.chunks(50_000) {
        digester.push(Stream::Stdout, chunk);
    }
    digester.finish(&Facts { ending, ..Facts::default() })
}

#[test]
fn no_verdict_contradicts_a_known_outcome() {
    let mut wrong = Vec::new();
    for log in sets().iter().flat_map(|directory| read(directory)) {
        for ending in [None, log.exit_code.map(ending)] {
            let known = ending.is_some();
            let digest = digest(&log, ending);
            if log.is_contradicted(digest.verdict, known) {
                let cause = digest.cause.map(|cause| cause.text).unwrap_or_default();
                wrong
                    .push(format!("{} ({}, known {known}): {} {cause}", log.id, log.outcome, digest.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Output of real tools where a sequence of commands, a pipe or a loop hides a failure.
#[test]
fn no_failure_behind_exit_code_0_passes() {
    let logs = hidden();
    assert!(logs.len() > 50, "the logs are there");
    for (name, log) in logs {
        let mut digester = Digester::new(Options::default());
        digester.push(Stream::Stdout, &log);
        let ending = Some(Ending::Exited { code: 0 });
        let digest = digester.finish(&Facts { ending, ..Facts::default() });
        assert_eq!(digest.verdict, Verdict::Inconclusive, "{name}: {}", digest.explain());
        assert!(digest.cause.is_some_and(|cause| !cause.text.is_empty()), "{name}");
    }
}

#[test]
fn each_fact_is_kept() {
    let missing: Vec<_> = sets()
        .iter()
        .flat_map(|directory| read(directory))
        .flat_map(|log| log.missing(&digest(&log, log.exit_code.map(ending))))
        .collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn budgets_hold() {
    for log in sets().iter().flat_map(|directory| read(directory)) {
        let digest = digest(&log, log.exit_code.map(ending));
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let mut result = JobResult::default();
            digest.render(verbosity, None, None, &mut result);
            let shown = text(&result);
            let (lines, chars) = verbosity.budget();
            let (used, rows) = (shown.chars().count(), shown.lines().count());
            assert!(used <= chars, "{} {}: {used} characters", log.id, verbosity.name());
            // A complete log of many short lines has no limit on its lines.
            assert!(rows <= lines || result.complete_log, "{} {}: {rows} lines", log.id, verbosity.name());
            assert!(result.tier_1_findings.len() <= 15 && result.next.len() <= 3);
        }
    }
}

/// Harmless output before and after each log, in bytes.
const NOISE_BYTES: usize = 60 << 10;
/// Minimum share of logs whose necessary facts are all kept, in percent.
const COMPLETE_MIN: u64 = 97;

/// Numbers that depend only on the seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn word(&mut self) -> &'static str {
        const WORDS: &[&str] =
            &["parser", "store", "widget", "cache", "router", "schema", "image", "client", "queue", "token"];
        WORDS[self.next(WORDS.len() as u64) as usize]
    }
}

/// Lines that tools print while all is well.
fn noise(seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let mut text = String::new();
    while text.len() < NOISE_BYTES {
        let (a, b, n) = (numbers.word(), numbers.word(), numbers.next(900));
        let line = match numbers.next(9) {
            0 => format!("   Compiling {a}-{b} v0.{n}.1"),
            1 => format!("[{n}/900] Building CXX object src/{a}/CMakeFiles/{b}.dir/{b}.cpp.o"),
            2 => format!("Downloading {a}-{b}-1.{n}.0.tar.gz ({n} kB)"),
            3 => format!("2026-01-02T03:04:05.{n:03}Z INFO {a}: handled {n} requests of {b}"),
            4 => format!("copying build/lib/{a}/{b}.py -> dist/{a}"),
            5 => format!("  -> writing {a}/{b}_{n}.json"),
            6 => format!("gcc -O2 -Wall -c src/{a}/{b}{n}.c -o build/{a}/{b}{n}.o"),
            7 => format!(
                "Get:{n} http://deb.example.org/debian stable/main amd64 lib{a}{b} amd64 1.{n} [{n} kB]"
            ),
            _ => format!("{a}: loaded {n} entries for {b}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A log with noise before and after it.
fn inside_noise(log: &Log, seed: u64) -> Vec<u8> {
    let end: &[u8] = if log.bytes.ends_with(b"\n") { b"" } else { b"\n" };
    [noise(seed).as_bytes(), &log.bytes, end, noise(seed + 1).as_bytes()].concat()
}

#[test]
fn logs_inside_harmless_output_keep_their_facts() {
    let logs: Vec<Log> = sets().iter().flat_map(|directory| read(directory)).collect();
    let failed = logs.into_iter().filter(|log| !log.must_keep.is_empty() && log.exit_code != Some(0));
    let (mut incomplete, mut count) = (Vec::new(), 0);
    for mut log in failed {
        count += 1;
        log.bytes = inside_noise(&log, count);
        incomplete.extend(log.missing(&digest(&log, log.exit_code.map(ending))).into_iter().next());
    }
    let share = 100 - 100 * incomplete.len() as u64 / count;
    println!("{share} % of {count} logs are complete");
    assert!(count > 20, "the logs are there");
    assert!(share >= COMPLETE_MIN, "{share} % of {count} logs are complete\n{}", incomplete.join("\n"));
}
