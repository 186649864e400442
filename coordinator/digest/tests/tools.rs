//! Tests excerpts of failing tools, each in the tool's own layout. The necessary facts are in a
//! finding, with the right location, and nothing looks like success.

mod cases;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashIndicators, JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use cases::{CHILDREN, cases, faults_of_fine, fine};

fn digest(log: &str, code: Option<i32>) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
}

#[test]
fn each_tool_is_heard() {
    let wrong: Vec<_> = cases().flat_map(|case| case.faults(&digest(case.log, Some(1)))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_program_that_died_is_a_crash_whoever_ran_it() {
    let mut wrong = Vec::new();
    for (case, signal) in CHILDREN {
        let digest = digest(case.log, Some(1));
        let expected = if signal.is_empty() { CrashType::Unknown } else { CrashType::of_signal(signal) };
        let is_known = digest.crash_indicators != CrashIndicators::default();
        if digest.verdict != Verdict::Crashed || digest.crash_type != expected || !is_known {
            wrong.push(format!("{}: {:?} {}", case.tool, digest.crash_type, digest.explain()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_an_exit_code_no_failure_looks_like_success() {
    let passed: Vec<_> = cases()
        .filter(|case| digest(case.log, None).verdict == Verdict::Passed)
        .map(|case| case.tool)
        .collect();
    assert!(passed.is_empty(), "{passed:?}");
}

#[test]
fn every_fact_is_in_the_shortest_answer() {
    let mut missing = Vec::new();
    for case in cases() {
        let mut result = JobResult::default();
        digest(case.log, Some(1)).render(Verbosity::Minimal, None, None, &mut result);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = words(&text(&result));
        for (fact, ..) in case.facts {
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
