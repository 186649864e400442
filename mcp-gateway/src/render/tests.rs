//! Both forms contain the same facts and fit the budget, for any output of a job.

mod builds;
mod laws;
mod lists;
mod samples;

use super::job::Extras;
use super::{Budget, BuildAnswer, LogCall, build, job};
use buildpool_protocol::client_link::LogAnswer;
use buildpool_protocol::report::{
    Finding, FindingSummary, JobResult, JobState, Omission, Severity, Verdict, Warnings,
};
use buildpool_protocol::{Stream, Verbosity};
pub(crate) use laws::assert_same_facts;
use laws::assert_unforged;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use samples::{artifacts, failed_with, finding, hostile, result};
use serde_json::json;

const BUDGETS: [(Verbosity, &str); 4] = [
    (Verbosity::Minimal, "x"),
    (Verbosity::Normal, "x"),
    (Verbosity::Full, "x"),
    (Verbosity::Full, "codex-mcp-client"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn both_forms_carry_the_same_facts_within_the_budget(result in result(), which in 0..4_usize) {
        let (verbosity, client) = BUDGETS[which];
        let budget = Budget::of(verbosity, client);
        let extras = Extras {
            chosen: Some("`cargo test`, because Cargo.toml is there".into()),
            reattached: true,
            by_request_id: false,
            note: Some("waited 50 s".into()),
            no_test_matches: false,
            other_tests: None,
            one_worker: false,
            cancelling: false,
            on_terminal: false,
            details: verbosity != Verbosity::Minimal,
            wait_secs: 50,
        };
        let before = result.clone();
        let answer = job(result, &extras, &budget);
        prop_assert_eq!(budget.excess(&answer), 0);
        let links: Vec<_> = answer.links.iter().cloned().map(crate::resources::block).collect();
        let linked = if links.is_empty() { 0 } else { serde_json::to_string(&links).unwrap().len() };
        prop_assert!(linked <= budget.room_beside(&answer), "{} bytes of links", linked);
        assert_same_facts(&answer);
        assert_unforged(&answer);
        prop_assert_eq!(&answer.structured["job_id"], &json!(before.job_id));
        prop_assert_eq!(&answer.structured["verdict"], &json!(before.verdict));
        if !before.tier_1_findings.is_empty() {
            prop_assert!(!answer.structured["tier_1_findings"].as_array().unwrap().is_empty());
        }
        let lost = before.stdout.as_deref().unwrap_or_default().len() > 40_000;
        prop_assert!(!lost || answer.text.contains("get_job_logs"), "a cut names its call");
    }

    #[test]
    fn a_finding_is_told_alike_twice(finding in finding(), client in select(vec!["x", "codex"])) {
        let budget = Budget::of_lists(client);
        let answer = super::finding(finding, &budget);
        prop_assert_eq!(budget.excess(&answer), 0);
        assert_same_facts(&answer);
        assert_unforged(&answer);
    }

    #[test]
    fn a_build_fits_however_many_jobs_it_has(
        results in proptest::collection::vec(result(), 1..20), copies in 1..4_usize, which in 0..4_usize, ends in 0..4_usize,
    ) {
        let (verbosity, client) = BUDGETS[which];
        let budget = Budget::of(verbosity, client);
        let mut jobs: Vec<JobResult> = std::iter::repeat_n(results, copies).flatten().collect();
        for (index, job) in jobs.iter_mut().enumerate() {
            job.job_id = format!("0198c0de-0000-7000-8000-{index:012}");
            job.labels = vec!["os=linux".into(), "arch=x86_64".into()];
            let verdict = [None, Some(Verdict::Passed), Some(Verdict::Cancelled), job.verdict][ends];
            job.state = if verdict.is_some() { JobState::Done } else { JobState::Running };
            (job.verdict, job.success) = (verdict, verdict == Some(Verdict::Passed));
        }
        let count = jobs.len();
        let is_failed = |job: &JobResult| !job.success && job.verdict.is_some_and(|v| v != Verdict::Cancelled);
        let failed = jobs.iter().find(|job| is_failed(job)).map(|job| job.job_id.clone());
        let manifest = BuildAnswer { request_id: Some("build-1".into()), url: Some("http://127.0.0.1:1/#/builds/build-1".into()), timestamp: "now".into(), jobs };
        let extras = Extras { chosen: Some(super::job::reason(&"x".repeat(9_000))), reattached: true, ..Extras::default() };
        let answer = build(&manifest, &extras, &budget);
        prop_assert_eq!(budget.excess(&answer), 0);
        assert_same_facts(&answer);
        assert_unforged(&answer);
        let listed = answer.structured["jobs"].as_array().unwrap();
        let left = answer.structured["omitted"].as_array().and_then(|all| all.iter().find(|cut| cut["what"] == "jobs"));
        let left = left.map_or(0, |cut| cut["lines"].as_u64().unwrap());
        prop_assert_eq!(listed.len() as u64 + left, count as u64);
        if let Some(failed) = failed {
            prop_assert!(listed.iter().any(|job| job["job_id"] == failed), "the first failure is told");
        }
        prop_assert_eq!(answer.structured["build"]["status"] == "failed", answer.text.starts_with("BUILD FAILED"));
    }

    #[test]
    fn logs_fit_and_say_the_same_twice(text in hostile(), count in 0..1_500_usize, client in select(vec!["x", "codex"])) {
        let budget = Budget::of_lists(client);
        let logs = LogAnswer {
            job_id: "j".into(),
            attempt: 1,
            stdout: Some(format!("{text}\n").repeat(count)),
            stderr: Some(String::new()),
            next_cursor: Some("1:77".parse().unwrap()),
            omitted: vec![Omission { what: "stdout".into(), lines: 4, bytes: 5, get: String::new() }],
            ..LogAnswer::default()
        };
        let again = json!({"job_id": "j"}).as_object().cloned().unwrap();
        let answer = super::logs(logs, &LogCall { again, is_tail: count % 2 == 0 }, &budget);
        prop_assert_eq!(budget.excess(&answer), 0);
        assert_same_facts(&answer);
        assert_unforged(&answer);
        let call = r#"get_job_logs {"cursor":"1:77","job_id":"j"}"#;
        prop_assert!(answer.text.contains(call));
    }
}

#[test]
fn a_cut_keeps_the_end_of_the_text_and_counts_what_went() {
    let lines: Vec<String> = (0..3_000).map(|n| format!("line {n}")).collect();
    let result = JobResult {
        job_id: "j".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        stdout: Some(lines.join("\n")),
        ..JobResult::default()
    };
    let answer = job(result, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    let kept = answer.structured["stdout"].as_str().unwrap();
    assert!(kept.ends_with("line 2999"));
    let cut = &answer.structured["omitted"][0];
    assert_eq!(cut["lines"].as_u64().unwrap() as usize + kept.lines().count(), 3_000);
    assert_eq!(cut["get"], r#"get_job_logs {"job_id":"j","offset":0,"stream":"stdout"}"#);
}

#[test]
fn one_call_returns_all_omitted_parts_of_a_log() {
    let omission = |part: &str, lines| Omission { what: part.into(), lines, ..Omission::default() };
    let result = JobResult {
        job_id: "j".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        omitted: vec![omission("original", 0), omission("stdout", 79), omission("warnings", 1)],
        ..JobResult::default()
    };
    let answer = job(result, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    let log = r#"get_job_logs {"job_id":"j","stream":"interleaved"}"#;
    let gets: Vec<_> =
        answer.structured["omitted"].as_array().unwrap().iter().map(|cut| &cut["get"]).collect();
    assert_eq!(gets[..2], [log, log]);
    assert_ne!(gets[2], log);
    assert_eq!(answer.text.matches("get_job_logs").count(), 1, "{}", answer.text);
}

#[test]
fn a_command_of_the_first_line_is_not_repeated_with_its_reason() {
    let text = |command: &str, details| {
        let chosen = Some(format!("{command}, because Cargo.toml was found"));
        let extras = Extras { chosen, details, ..Extras::default() };
        let result = JobResult {
            job_id: "j".into(),
            state: JobState::Done,
            verdict: Some(Verdict::Failed),
            command: command.to_owned(),
            ..JobResult::default()
        };
        job(result, &extras, &Budget::of(Verbosity::Minimal, "x")).text
    };
    let long = format!("cargo test {}", "--test a ".repeat(20));
    for (command, details) in [("cargo test", false), ("cargo test", true), (&long, false)] {
        assert!(text(command, details).contains("\nchosen because Cargo.toml was found"), "{command}");
    }
    assert!(text(&long, true).contains(&format!("\nchosen: {long}, because Cargo.toml was found")));
}

#[test]
fn a_rejected_job_leads_to_the_workers_not_to_a_log() {
    let result = JobResult {
        job_id: "j".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Rejected),
        labels: vec!["os=plan9".into()],
        ..JobResult::default()
    };
    let answer = job(result, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    assert_eq!(answer.structured["next"], json!(["worker_status {}"]));
    assert_same_facts(&answer);
}

#[test]
fn a_finding_that_is_cut_names_the_call_that_has_the_rest() {
    let whole = Finding {
        message: "x".repeat(90_000),
        stream: Some(Stream::Stderr),
        job: "j".into(),
        ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    };
    let answer = super::finding(whole, &Budget::of_lists("x"));
    let cut = &answer.structured["omitted"][0];
    assert_eq!(cut["get"], r#"get_job_logs {"job_id":"j","offset":0,"stream":"stderr"}"#);
    assert!(cut["bytes"].as_u64() > Some(50_000), "{cut}");
    assert_same_facts(&answer);
}

#[test]
fn the_last_words_of_a_tool_outlive_the_list_of_its_files() {
    for (lines, words, kept_files) in [(0, "the last word of the tool", 4), (300, "the last word", 1)] {
        let text: String = (0..lines).map(|n| format!("line {n} before it\n")).collect();
        let result =
            JobResult { stdout: Some(format!("{text}{words}")), artifacts: artifacts(40), ..failed_with(0) };
        let answer = job(result, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
        assert_eq!(Budget::of(Verbosity::Minimal, "x").excess(&answer), 0);
        let shown = answer.structured["stdout"].as_str().unwrap_or_default();
        assert!(shown.ends_with(words), "{}", answer.text);
        let files = answer.structured["artifacts"].as_array().map_or(0, Vec::len);
        // A long text must not displace the few entries that fit.
        assert!(files >= kept_files && shown.lines().count() > lines / 10, "{}", answer.text);
        assert_same_facts(&answer);
    }
}

#[test]
fn no_cut_leads_to_the_answer_that_made_it() {
    for (verbosity, client, is_largest) in [
        (Verbosity::Minimal, "x", false),
        (Verbosity::Normal, "x", false),
        (Verbosity::Full, "x", true),
        (Verbosity::Minimal, "codex", false),
        (Verbosity::Normal, "codex", true),
        (Verbosity::Full, "codex", true),
    ] {
        let mut result = failed_with(70);
        let other = |n: usize| FindingSummary {
            id: format!("o{n}"),
            tier: 2,
            message: "o".repeat(60),
            severity: Severity::Warning,
            confidence: 0.5,
            job: "j".into(),
        };
        result.other_findings = (0..300).map(other).collect();
        result.warnings = Warnings { count: 300, shown: vec!["w".repeat(60); 300] };
        result.artifacts = artifacts(300);
        result.notes = vec!["a note".repeat(20); 300];
        result.omitted =
            vec![Omission { what: "other_findings".into(), lines: 7, bytes: 0, get: "buildpool job".into() }];
        let budget = Budget::of(verbosity, client);
        let answer = job(result, &Extras::default(), &budget);
        let get = |part: &str| {
            let all = answer.structured["omitted"].as_array().unwrap();
            let cut = all.iter().find(|cut| cut["what"] == part);
            cut.unwrap_or_else(|| panic!("{part} is not among {all:?}"))["get"].as_str().map(str::to_owned)
        };
        let larger = r#"get_job {"job_id":"j","verbosity":"full"}"#;
        let log = r#"get_job_logs {"job_id":"j","offset":0,"stream":"interleaved"}"#;
        for part in ["tier_1_findings", "other_findings", "warnings"] {
            assert_eq!(get(part).as_deref(), Some(if is_largest { log } else { larger }), "{part}");
        }
        assert!(get("tier_1_findings context").unwrap().starts_with("get_finding_details {"), "{answer:?}");
        let files = "a person has them by `buildpool artifacts j -o DIR`";
        assert_eq!(get("artifacts").as_deref(), Some(if is_largest { files } else { larger }));
        assert_eq!(get("notes").as_deref(), (!is_largest).then_some(larger));
        assert_same_facts(&answer);

        // Only 15 findings are shown in full, and the others on one line each.
        let jobs = vec![failed_with(900); 2];
        let manifest = BuildAnswer {
            request_id: Some("build-1".into()),
            url: Some("http://127.0.0.1:1/#/builds/build-1".into()),
            timestamp: String::new(),
            jobs,
        };
        let answer = build(&manifest, &Extras::default(), &budget);
        let cuts = answer.structured["omitted"].as_array().unwrap();
        assert!(cuts.iter().any(|cut| cut["what"] == "findings"), "{cuts:?}");
        for cut in cuts {
            let same = cut["get"].as_str().is_some_and(|get| get.contains("build-1"));
            assert!(!is_largest || !same, "{cut}");
        }
    }
}
