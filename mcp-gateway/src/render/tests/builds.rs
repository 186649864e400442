//! Answers about a build fit, and count the parts that they omit.

use super::super::job::Extras;
use super::super::{Budget, BuildAnswer, build, listed};
use super::BUDGETS;
use super::laws::{Strict, assert_same_facts};
use super::samples::{failed_with, finding};
use buildpool_protocol::Verbosity;
use buildpool_protocol::report::{Finding, FindingSummary, JobResult, JobState, Omission, Severity, Verdict};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

#[test]
fn a_finding_of_a_build_is_told_as_its_manifest_lists_it() {
    let of = |job: &str, message: &str, recurrence| Finding {
        id: format!("f-{message}"),
        tier: 1,
        job: job.into(),
        message: message.into(),
        recurrence,
        location: None,
        test: None,
        ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    };
    let result = |job: &str, findings: Vec<Finding>| JobResult {
        job_id: job.into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        tier_1_findings: findings,
        ..JobResult::default()
    };
    let manifest = BuildAnswer {
        request_id: Some("build-1".into()),
        url: None,
        timestamp: String::new(),
        jobs: vec![result("a", vec![of("a", "x", 1)]), result("b", vec![of("b", "y", 1), of("b", "x", 2)])],
    };
    let told = listed(&manifest, "f-x").unwrap();
    assert_eq!((told.job.as_str(), told.recurrence), ("a", Some(3)));
    assert_eq!(listed(&manifest, "f-y").unwrap().job, "b");
    assert!(listed(&manifest, "f-z").is_none());
    let shown = build(&manifest, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    let all = shown.structured["tier_1_findings"].as_array().unwrap();
    let same = all.iter().find(|finding| finding["id"] == "f-x").unwrap();
    assert_eq!((&same["job"], &same["recurrence"]), (&json!("a"), &json!(3)));
}

#[test]
fn what_a_passing_job_of_a_build_has_too_is_no_likely_cause_of_the_others_failure() {
    let other = |id: &str, tier, job: &str| FindingSummary {
        id: id.into(),
        tier,
        message: format!("{id} happened"),
        severity: Severity::Error,
        confidence: 0.65,
        job: job.into(),
    };
    let cause = |id: &str| Finding {
        id: id.into(),
        tier: 1,
        job: "bad".into(),
        message: format!("{id} happened"),
        severity: Severity::Error,
        confidence: 0.95,
        also_in_passing_jobs: false,
        ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    };
    let bad = JobResult {
        job_id: "bad".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        tier_1_findings: vec![cause("f-both"), cause("f-own")],
        other_findings: vec![other("f-noise", 2, "bad"), other("f-known", 3, "bad")],
        ..JobResult::default()
    };
    let good = JobResult {
        job_id: "good".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Passed),
        success: true,
        other_findings: ["f-both", "f-noise", "f-known", "f-alone"].map(|id| other(id, 2, "good")).into(),
        ..JobResult::default()
    };
    let manifest = BuildAnswer {
        request_id: Some("build-1".into()),
        url: Some("http://127.0.0.1:1/#/builds/build-1".into()),
        timestamp: String::new(),
        jobs: vec![good, bad],
    };
    let shown = build(&manifest, &Extras::default(), &Budget::of(Verbosity::Normal, "x"));
    let told = |list: &str| -> Vec<(String, u64, String, f64)> {
        let all = shown.structured[list].as_array().unwrap().iter();
        let text = |finding: &serde_json::Value, name: &str| finding[name].as_str().unwrap().to_owned();
        all.map(|finding| {
            let (id, job) = (text(finding, "id"), text(finding, "job"));
            (id, finding["tier"].as_u64().unwrap(), job, finding["confidence"].as_f64().unwrap())
        })
        .collect()
    };
    assert_eq!(told("tier_1_findings"), [("f-own".into(), 1, "bad".into(), 0.95)]);
    assert_eq!(
        told("other_findings"),
        [
            ("f-alone".into(), 2, "good".into(), 0.65),
            ("f-both".into(), 3, "bad".into(), 0.55),
            ("f-noise".into(), 3, "bad".into(), 0.25),
            ("f-known".into(), 3, "bad".into(), 0.65),
        ]
    );
    for (id, expected) in [("f-both", true), ("f-noise", true), ("f-own", false)] {
        assert_eq!(listed(&manifest, id).unwrap().also_in_passing_jobs, expected, "{id}");
    }
    assert_same_facts(&shown);
}

#[test]
fn what_the_jobs_of_a_build_left_out_themselves_is_counted_with_what_the_manifest_leaves_out() {
    let mut job = failed_with(15);
    let other = |n: usize| FindingSummary {
        id: format!("o{n}"),
        tier: 2,
        message: format!("other {n}"),
        severity: Severity::Error,
        confidence: 0.5,
        job: "j".into(),
    };
    job.other_findings = (0..6).map(other).collect();
    let cut =
        |part: &str, lines| Omission { what: part.into(), lines, bytes: 0, get: "buildpool job".into() };
    job.omitted = vec![cut("other_findings", 40), cut("warnings", 3), cut("stdout", 900)];
    let manifest = BuildAnswer {
        request_id: Some("build-1".into()),
        url: Some("http://127.0.0.1:1/#/builds/build-1".into()),
        timestamp: String::new(),
        jobs: vec![job; 2],
    };
    for (verbosity, client) in BUDGETS {
        let answer = build(&manifest, &Extras::default(), &Budget::of(verbosity, client));
        let shown = ["tier_1_findings", "other_findings"]
            .map(|list| answer.structured[list].as_array().map_or(0, Vec::len) as u64);
        let left = |part: &str| {
            let all = answer.structured["omitted"].as_array().unwrap();
            all.iter().find(|cut| cut["what"] == part).map(|cut| cut["lines"].as_u64().unwrap())
        };
        // A finding of both jobs is one finding. Omitted findings are not compared.
        assert_eq!(shown.iter().sum::<u64>() + left("findings").unwrap(), 15 + 6 + 2 * 40, "{answer:?}");
        assert_eq!(left("warnings"), Some(6));
        assert_same_facts(&answer);
    }
}

#[test]
fn the_schema_knows_each_end_of_a_build_and_says_each_field_once() {
    let Strict(schema) = serde_json::from_str(include_str!("../../../../docs/mcp-job.schema.json")).unwrap();
    let known = schema["properties"]["build"]["properties"]["status"]["enum"].as_array().unwrap();
    for verdict in [None, Some(Verdict::Passed), Some(Verdict::Failed), Some(Verdict::Cancelled)] {
        let state = if verdict.is_some() { JobState::Done } else { JobState::Running };
        let job =
            JobResult { verdict, state, success: verdict == Some(Verdict::Passed), ..JobResult::default() };
        let manifest = BuildAnswer { request_id: None, url: None, timestamp: String::new(), jobs: vec![job] };
        let answer = build(&manifest, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
        let status = &answer.structured["build"]["status"];
        assert!(known.contains(status), "{status}");
        assert_eq!(manifest.is_cancelled(), status == "cancelled");
        for name in answer.structured.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "{name}");
        }
    }
}

#[test]
fn a_build_with_one_job_that_failed_and_one_that_was_cancelled_has_failed() {
    let job = |verdict| JobResult { verdict: Some(verdict), state: JobState::Done, ..JobResult::default() };
    let jobs = vec![job(Verdict::Cancelled), job(Verdict::Failed)];
    assert!(!BuildAnswer { request_id: None, url: None, timestamp: String::new(), jobs }.is_cancelled());
}

#[test]
fn whatever_a_build_leaves_out_is_counted_with_the_call_that_gets_it() {
    let finding = Finding {
        id: "f1".into(),
        tier: 1,
        job: "a".into(),
        message: "m".repeat(9_000),
        pre_context: vec!["before".repeat(100); 5],
        post_context: vec!["after".repeat(100); 10],
        test: None,
        category: None,
        location: None,
        ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    };
    let result = JobResult {
        job_id: "a".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        tier_1_findings: vec![finding],
        ..JobResult::default()
    };
    let manifest = BuildAnswer {
        request_id: Some("build-1".into()),
        url: Some("http://127.0.0.1:1/#/builds/build-1".into()),
        timestamp: String::new(),
        jobs: vec![result],
    };
    let answer = build(&manifest, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    let cut = |part: &str| {
        let all = answer.structured["omitted"].as_array().unwrap();
        let cut = all.iter().find(|cut| cut["what"] == part);
        let cut = cut.unwrap_or_else(|| panic!("{part} is not among {all:?}")).clone();
        assert_eq!(cut["get"], r#"get_finding_details {"finding_id":"f1","job_id":"a"}"#);
        cut
    };
    assert_eq!(cut("context of findings")["lines"], 15);
    let shown = answer.structured["tier_1_findings"][0]["message"].as_str().unwrap();
    let kept = shown.trim_end_matches('…').len() as u64;
    assert_eq!(cut("long messages, places and names of findings")["bytes"].as_u64().unwrap() + kept, 9_000);
    assert_same_facts(&answer);
}

#[test]
fn the_text_of_a_build_has_short_ids_and_its_json_has_whole_ones() {
    let id = "01a20b5d-8cd1-70ea-9154-d042b446ae08";
    let job = JobResult {
        job_id: id.to_owned(),
        short_id: Some("01a20b5d8cd1".to_owned()),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        exit_code: Some(3),
        tier_1_findings: vec![Finding {
            id: "f-x".into(),
            job: id.into(),
            message: "x".into(),
            test: None,
            location: None,
            ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
        }],
        other_findings: vec![FindingSummary {
            id: "f-y".into(),
            tier: 2,
            message: "y".into(),
            severity: Severity::Error,
            confidence: 0.5,
            job: id.into(),
        }],
        ..JobResult::default()
    };
    let answer = BuildAnswer { request_id: None, url: None, timestamp: String::new(), jobs: vec![job] };
    let answer = build(&answer, &Extras::default(), &Budget::of(Verbosity::Minimal, "x"));
    assert_eq!((&answer.structured["success"], &answer.structured["exit_code"]), (&json!(false), &json!(3)));
    assert_eq!(answer.structured["jobs"][0]["success"], false);
    assert!(answer.text.matches(" job 01a20b5d8cd1").count() >= 3, "{}", answer.text);
    assert!(
        answer.text.contains("- job 01a20b5d8cd1 done failed") && !answer.text.contains(id),
        "{}",
        answer.text
    );
    assert_eq!(answer.structured["build"]["failed_jobs"][0], id);
}
