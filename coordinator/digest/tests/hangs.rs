//! Tests stacks that processes print before a timeout ends them.

mod digests;

use buildpool_digest::{Digest, Facts};
use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::report::Verdict;
use digests::with;
use std::time::Duration;

/// Output of a test that was recorded with pytest.
const PYTHON: &str = "============================= test session starts ==============================\ncollected 2 items\n\ntest_h.py .Fatal Python error: Aborted\n\nCurrent thread 0x00007f51a11c5b80 (most recent call first):\n  File \"/w/test_h.py\", line 3 in helper\n  File \"/w/test_h.py\", line 6 in test_hang\n  File \"/w/.venv/lib/python3.11/site-packages/_pytest/python.py\", line 166 in pytest_pyfunc_call\n  File \"<frozen runpy>\", line 88 in _run_code\n";

fn timed_out(log: &str) -> Digest {
    let acted = Some(EndReason::Timeout { after: Duration::from_secs(20), held: None });
    with(log, &Facts { ending: Some(Ending::Exited { code: 1 }), acted, ..Facts::default() })
}

#[test]
fn a_dump_of_goroutines_is_one_finding_with_the_test() {
    let log = include_str!("logs/go-test/demo-sigquit.log");
    let digest = timed_out(log);
    assert_eq!(digest.verdict, Verdict::TimedOut);
    let [hang] = digest.findings.as_slice() else { panic!("{:#?}", digest.findings) };
    assert_eq!(hang.test.as_deref(), Some("TestHang"));
    let place = hang.location.as_ref().expect("the frame of the project");
    assert_eq!((place.file.as_str(), place.line), ("/work/goh/a/a_test.go", Some(4)));
    assert!(!hang.message.contains("/src/runtime/") && !hang.message.contains("GC "), "{}", hang.message);
    assert!(digest.cause.expect("there is a cause").text.contains("while `TestHang` ran"));
}

#[test]
fn a_stack_of_python_names_the_test_and_the_first_frame_of_the_project() {
    let digest = timed_out(&format!("{PYTHON}Aborted\n"));
    let [hang] = digest.findings.as_slice() else { panic!("{:#?}", digest.findings) };
    assert_eq!(hang.test.as_deref(), Some("test_hang"));
    let place = hang.location.as_ref().expect("the frame of the project");
    assert_eq!((place.file.as_str(), place.line), ("/w/test_h.py", Some(3)));
    assert!(digest.cause.expect("there is a cause").text.contains("while `test_hang` ran"));
}

#[test]
fn threads_that_gdb_prints_are_one_finding_with_the_test() {
    let digest = timed_out(include_str!("logs/cargo/demo-gdb.log"));
    let [hang] = digest.findings.as_slice() else { panic!("{:#?}", digest.findings) };
    assert_eq!(hang.test.as_deref(), Some("hangs"));
    let place = hang.location.as_ref().expect("the frame of the project");
    assert_eq!((place.file.as_str(), place.line), ("src/lib.rs", Some(2)));
    let frames = "#4  0x000055dca5fac656 in h::wait () at src/lib.rs:2\n#5  0x000055dca5fac666 in h::hangs () at src/lib.rs:3";
    assert!(hang.message.contains(frames) && !hang.message.contains("core::"), "{}", hang.message);
    assert!(digest.cause.expect("there is a cause").text.contains("while `hangs` ran"));
}

#[test]
fn a_stack_of_node_names_the_file_of_tests_and_the_function() {
    let digest = timed_out(include_str!("../samples/node/stack.log"));
    let [hang] = digest.findings.as_slice() else { panic!("{:#?}", digest.findings) };
    assert_eq!(hang.test.as_deref(), Some("path.test.js"));
    let place = hang.location.as_ref().expect("the frame of the project");
    assert_eq!((place.file.as_str(), place.line), ("/w/jest-hang/path.js", Some(2)));
    assert!(digest.cause.expect("there is a cause").text.contains("while `path.test.js` ran"));
}
