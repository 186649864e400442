//! The form of a run in the records that several coordinators share.

use super::{Branch, TestRun};
use crate::store::TestRunRow;
use buildpool_digest::TestResult;
use buildpool_protocol::evidence::TestStatus;
use serde::{Deserialize, Serialize};

/// Compression level: the names of tests repeat, so a fast one is enough.
const LEVEL: i32 = 1;
/// Limit on a run in its JSON form, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

#[derive(Serialize, Deserialize)]
struct Body {
    project: String,
    command: String,
    submitter: String,
    worker: String,
    branch: Option<String>,
    tree: Option<String>,
    passed: bool,
    all_passed: bool,
    /// Name, status, whether it passed only after a failure, and seconds.
    results: Vec<(String, TestStatus, bool, Option<f64>)>,
}

/// Returns the compressed form of a run, or `None` if it is too long.
pub(super) fn encode(run: &TestRun, branch: Option<&str>) -> Option<Vec<u8>> {
    let result = |result: &TestResult| {
        (
            result.name.clone(),
            result.status,
            result.flaky,
            result.duration_secs.filter(|secs| secs.is_finite()),
        )
    };
    let body = Body {
        project: run.project.clone(),
        command: run.command.clone(),
        submitter: run.submitter.clone(),
        worker: run.worker.clone(),
        branch: branch.map(str::to_owned),
        tree: run.tree.clone(),
        passed: run.passed,
        all_passed: run.all_passed,
        results: run.results.iter().map(result).collect(),
    };
    let json = serde_json::to_vec(&body).ok().filter(|json| json.len() <= BODY_BYTES_MAX)?;
    zstd::bulk::compress(&json, LEVEL).ok()
}

/// Parses the compressed form of a run.
pub(super) fn decode(row: &TestRunRow) -> Option<TestRun> {
    let json = zstd::bulk::decompress(&row.body, BODY_BYTES_MAX).ok()?;
    let body: Body = serde_json::from_slice(&json).ok()?;
    let result = |(name, status, flaky, duration_secs)| TestResult { name, status, flaky, duration_secs };
    Some(TestRun {
        job: row.job,
        at_ms: row.at_ms,
        project: body.project,
        command: body.command,
        submitter: body.submitter,
        worker: body.worker,
        branch: Branch::Known(body.branch),
        tree: body.tree,
        passed: body.passed,
        all_passed: body.all_passed,
        results: body.results.into_iter().map(result).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_same_content_in_its_shared_form() {
        let result = |name: &str, status, secs| TestResult {
            name: name.to_owned(),
            status,
            flaky: false,
            duration_secs: secs,
        };
        let run = TestRun {
            job: [7; 16],
            at_ms: 5,
            project: "example.org/app".into(),
            command: "make test".into(),
            submitter: "ada".into(),
            worker: "w0".into(),
            branch: Branch::Known(None),
            tree: Some("tree".into()),
            passed: false,
            all_passed: false,
            results: vec![
                result("a", TestStatus::Failed, Some(1.5)),
                result("b", TestStatus::Passed, Some(f64::INFINITY)),
            ],
        };
        let body = encode(&run, Some("main")).unwrap();
        let row = TestRunRow { seq: 1, job: run.job, at_ms: run.at_ms, body };
        let read = decode(&row).unwrap();
        let expected = TestRun { branch: Branch::Known(Some("main".into())), ..run };
        assert_eq!(read.results[0], expected.results[0]);
        assert_eq!(read.results[1].duration_secs, None, "JSON has no infinity");
        assert_eq!(
            (read.project, read.branch, read.tree, read.submitter),
            (expected.project, expected.branch, expected.tree, expected.submitter)
        );
        assert!(decode(&TestRunRow { body: b"damaged".to_vec(), ..row }).is_none());
    }
}
