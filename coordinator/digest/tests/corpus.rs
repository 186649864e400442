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
