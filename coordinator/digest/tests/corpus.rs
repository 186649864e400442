//! Real logs: each verdict against the known outcome, with and without the exit code. The logs in `tests/logs` are always
//! there; a larger set is used when `BUILDPOOL_CORPUS` names its directory.

mod recorded;

use buildpool_digest::{Digest, Digester, Facts, Options};
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
            let mut parts: Vec<&str> = Vec::new();
            parts.extend(
                [&result.stdout, &result.stderr, &result.filtered_output]
                    .into_iter()
                    .flatten()
                    .map(String::as_str),
            );
            parts.extend(result.warnings.shown.iter().map(String::as_str));
            parts.extend(result.other_findings.iter().map(|finding| finding.message.as_str()));
            for finding in &result.tier_1_findings {
                parts.push(&finding.message);
                parts.extend(finding.pre_context.iter().chain(&finding.post_context).map(String::as_str));
            }
            let (lines, chars) = verbosity.budget();
            let used: usize = parts.iter().map(|part| part.chars().count()).sum();
            let rows: usize = parts.iter().map(|part| part.lines().count()).sum();
            assert!(used <= chars, "{} {}: {used} characters", log.id, verbosity.name());
            assert!(rows <= lines, "{} {}: {rows} lines", log.id, verbosity.name());
            assert!(result.tier_1_findings.len() <= 15 && result.next.len() <= 3);
        }
    }
}
