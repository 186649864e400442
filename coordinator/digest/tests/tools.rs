//! Tests samples of tools, each in the tool's own layout: the answer is the expected one, the
//! necessary facts are in a finding with the right location, and nothing looks like success.

mod cases;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashIndicators, JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use cases::{ALL, Case, cases, faults_of_fine, fine};
use std::path::Path;

fn digest(log: &str, code: Option<i32>) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
}

/// Compares a sample's answer with the expected one, or rewrites that.
fn difference(case: &Case) -> Option<String> {
    let told = case.told(&digest(&case.log, Some(case.code)));
    if told == case.answer {
        return None;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        return Some(format!("{}:\n{told}instead of\n{}", case.tool, case.answer));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("samples/{}.txt", case.tool));
    std::fs::write(path, told).expect("the answer can be written");
    None
}

#[test]
fn each_sample_has_its_answer() {
    let mut wrong: Vec<_> = ALL.iter().filter_map(difference).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        wrong.extend(cases().flat_map(|case| case.faults(&digest(&case.log, Some(case.code)))));
    }
    assert!(wrong.is_empty(), "{}\n`cargo xtask bless` rewrites the expected answers", wrong.join("\n"));
}

#[test]
fn a_crash_has_an_indicator() {
    let mut crashes = cases()
        .map(|case| (&case.tool, digest(&case.log, Some(case.code))))
        .filter(|(_, digest)| digest.verdict == Verdict::Crashed);
    let without = crashes.by_ref().find(|(_, digest)| digest.crash_indicators == CrashIndicators::default());
    assert_eq!(without.map(|(tool, _)| tool), None);
}

#[test]
fn without_an_exit_code_no_failure_looks_like_success() {
    let passed: Vec<_> = cases()
        .filter(|case| digest(&case.log, None).verdict == Verdict::Passed)
        .map(|case| &case.tool)
        .collect();
    assert!(passed.is_empty(), "{passed:?}");
}

#[test]
fn every_fact_is_in_the_shortest_answer() {
    let mut missing = Vec::new();
    for case in cases() {
        let mut result = JobResult::default();
        digest(&case.log, Some(case.code)).render(Verbosity::Minimal, None, None, &mut result);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = words(&text(&result));
        for (fact, ..) in &case.facts {
            if !shown.contains(&words(fact)) {
                missing.push(format!("{}: {fact}", case.tool));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn what_tools_say_when_all_is_well_is_no_finding() {
    let mut wrong = Vec::new();
    for (tool, log) in fine() {
        for code in [None, Some(0)] {
            wrong.extend(faults_of_fine(tool, &digest(log, code), code.is_some()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
