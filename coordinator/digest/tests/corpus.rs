//! Real logs: each verdict against the known outcome, with and without the exit code. The logs in `tests/logs` are always
//! there; a larger set is used when `BUILDPOOL_CORPUS` names its directory.

mod recorded;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use recorded::{Log, ending, read, sets};

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
            assert!(rows <= lines, "{} {}: {rows} lines", log.id, verbosity.name());
            assert!(result.tier_1_findings.len() <= 15 && result.next.len() <= 3);
        }
    }
}
