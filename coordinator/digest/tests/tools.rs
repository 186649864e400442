//! Tests samples of tools, each in the tool's own layout: the answer is the expected one, the
//! necessary facts are in a finding with the right location, and nothing looks like success.

mod cases;
mod digests;

use buildpool_digest::{Digester, Options, text};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashIndicators, JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use cases::{ALL, Case, cases, faults_of_fine, fine};
use digests::{digest, of_command};
use std::path::Path;

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

/// Samples whose output does not show that the program failed: a successful program can print the same.
const LOOKS_FINE: &[&str] = &[
    // Linters that exit with 0 after warnings, unless an option forbids them.
    "composer/strict",
    "hlint/json",
    "oxlint/warnings",
    "remark/failed",
    // `grep -n` prints the same.
    "rspec/list_of_failures",
    // The last line is the script's own text.
    "scons/configure",
    "shellcheck/json",
    "trivy/vulnerable",
];

#[test]
fn a_failure_behind_a_pipe_does_not_pass() {
    let passed = |case: &&Case| digest(&case.log, Some(0)).verdict == Verdict::Passed;
    let passed: Vec<&str> = cases().filter(passed).map(|case| case.tool.as_str()).collect();
    assert_eq!(passed, LOOKS_FINE);
}

/// Digest of a log at exit code 0 of a command.
fn verdict_of(command: &str, log: &str) -> Verdict {
    of_command(command, log, 0).verdict
}

#[test]
fn a_remark_counts_if_the_exit_code_of_the_linter_may_be_hidden() {
    let coded = "src/a.py:1:1: F401 'os' imported but unused\n";
    let plain = "src/a.py:1: odd\n";
    let tests = "============================= test session starts ==============================\ncollected 2 items\n\na.py ..\n\n============================== 2 passed in 0.12s ===============================\n";
    for (command, log, expected) in [
        ("", coded.to_owned(), Verdict::Inconclusive),
        ("flake8 src | tee log", coded.to_owned(), Verdict::Inconclusive),
        ("flake8 src; echo done", format!("{coded}done\n"), Verdict::Inconclusive),
        ("for d in a b; do flake8 $d; done", coded.to_owned(), Verdict::Inconclusive),
        ("flake8 src | cat", plain.to_owned(), Verdict::Inconclusive),
        ("", "src/a.py:1:1: 'os' imported but unused\n".to_owned(), Verdict::Inconclusive),
        ("make lint", coded.to_owned(), Verdict::Passed),
        ("flake8 --exit-zero src", coded.to_owned(), Verdict::Passed),
        ("flake8 src || true", coded.to_owned(), Verdict::Passed),
        ("flake8 --exit-zero src && pytest", format!("{coded}{tests}"), Verdict::Passed),
        ("", format!("{coded}{tests}"), Verdict::Passed),
        ("pylint --exit-zero src", "src/a.py:1:1: E0611: No name 'b' in module 'c'\n".to_owned(), Verdict::Passed),
        ("pylint src | cat", "src/a.py:1:1: E0611: No name 'b' in module 'c'\n".to_owned(), Verdict::Inconclusive),
        ("pylint src | cat", "src/a.py:1:1: C0116: Missing docstring\nrated\n".to_owned(), Verdict::Inconclusive),
        ("pylint --fail-under=9 src | tee p.txt", "src/a.py:1:1: C0116: Missing docstring\nrated\n".to_owned(), Verdict::Passed),
        ("pylint --fail-under=9 src | tee p.txt", "src/a.py:1:1: E0611: No name 'b' in module 'c'\n".to_owned(), Verdict::Inconclusive),
        ("composer validate --strict | cat", include_str!("../samples/composer/strict.log").to_owned(), Verdict::Inconclusive),
        ("composer validate | cat", include_str!("../samples/composer/strict.log").to_owned(), Verdict::Passed),
        ("make lint", "src/a.py:1:1: C0116: Missing docstring\nrated\n".to_owned(), Verdict::Passed),
        ("rubocop --fail-level E | tee log", "a.rb:1:1: C: Missing comment.\n\n1 file inspected, 1 offense detected\n".to_owned(), Verdict::Passed),
        ("rubocop --fail-level E | tee log", "a.rb:1:1: E: Bad.\n\n1 file inspected, 1 offense detected\n".to_owned(), Verdict::Inconclusive),
        ("rubocop | tee log", "a.rb:1:1: C: Missing comment.\n\n1 file inspected, 1 offense detected\n".to_owned(), Verdict::Inconclusive),
        ("sh ci.sh", format!("{tests}Error: No such container: db\n"), Verdict::Passed),
        ("sh ci.sh", "Error: No such container: db\n".to_owned(), Verdict::Inconclusive),
        ("sh ci.sh", "    Finished `dev` profile [unoptimized] target(s) in 0.1s\nFailed to connect to bus: Host is down\n".to_owned(), Verdict::Inconclusive),
        ("pytest; ./deploy; rm -f lock", format!("{tests}Error: upload failed\n"), Verdict::Inconclusive),
        ("fetch a b", "ERROR: not found: b\nusing the default\n".to_owned(), Verdict::Passed),
        ("pytest nope.py | cat", "ERROR: file or directory not found: nope.py\n\nno tests ran in 0.00s\n".to_owned(), Verdict::Inconclusive),
        ("make", format!("{coded}make: [Makefile:5: x] Error 1 (ignored)\ndone\n"), Verdict::Passed),
        ("", format!("{coded}make: [Makefile:5: x] Error 1 (ignored)\ndone\n"), Verdict::Passed),
        ("", "a.rst:4: (ERROR/3) Unknown directive type \"foo\".\n".to_owned(), Verdict::Passed),
        ("", "a.rst:4: (SEVERE/4) Title level inconsistent.\n".to_owned(), Verdict::Inconclusive),
        ("scons -h", "scons: Reading SConscript files ...\nscons: done reading SConscript files.\nusage: scons [OPTIONS] [VARIABLES] [TARGETS]\n".to_owned(), Verdict::Passed),
        ("", "scons: Reading SConscript files ...\n".to_owned(), Verdict::Passed),
        ("", "scons: Building targets ...\n".to_owned(), Verdict::Inconclusive),
        ("", plain.to_owned(), Verdict::Passed),
        ("", format!("{plain}ok\n"), Verdict::Passed),
        ("", "main.go:23: cipher ready (SHA256)\n".to_owned(), Verdict::Passed),
        ("", "main.go:23: key made (RSA2048)\nok\n".to_owned(), Verdict::Passed),
        ("", "a.c:7: text is read (UTF16)\n".to_owned(), Verdict::Passed),
        ("", "a.c(7): listening [IPV64]\n".to_owned(), Verdict::Passed),
        ("", "[a.c:7] listening [IPV64]\n".to_owned(), Verdict::Passed),
        ("", "a.c:7: info: listening [IPV64]\n".to_owned(), Verdict::Passed),
        ("", "a.c:7: warning: listening [IPV64]\n".to_owned(), Verdict::Passed),
        ("", "a.c(7): warning: listening [IPV64]\n".to_owned(), Verdict::Passed),
        ("", "a.c:7: note: listening [IPV64]\nok\n".to_owned(), Verdict::Passed),
        ("", "a.sh:7:3: note: quote this [SC2086]\nok\n".to_owned(), Verdict::Inconclusive),
        ("git describe", "fatal: not a git repository (or any of the parent directories): .git\n".to_owned(), Verdict::Passed),
        ("git describe | cat", "fatal: not a git repository (or any of the parent directories): .git\n".to_owned(), Verdict::Inconclusive),
        ("git describe || true", "fatal: not a git repository (or any of the parent directories): .git\n".to_owned(), Verdict::Passed),
        ("", "fatal: not a git repository (or any of the parent directories): .git\nbuilt version 0\n".to_owned(), Verdict::Passed),
        ("cp a b | tee log", "cp: cannot stat 'a': No such file or directory\n".to_owned(), Verdict::Inconclusive),
        ("cp a b; make", "cp: cannot stat 'a': No such file or directory\n".to_owned(), Verdict::Inconclusive),
        ("cp a b; make", "cp: cannot stat 'a': No such file or directory\nbuilt\n".to_owned(), Verdict::Passed),
        ("mkdir a; ./prog", "Error: no answer yet\n".to_owned(), Verdict::Passed),
        ("perl migrate.pl", "no table at migrate.pl line 3.\n".to_owned(), Verdict::Passed),
        ("perl migrate.pl; rm -f lock", "no table at migrate.pl line 3.\n".to_owned(), Verdict::Inconclusive),
        ("perl migrate.pl || rm -f lock", "no table at migrate.pl line 3.\n".to_owned(), Verdict::Inconclusive),
        ("perl migrate.pl; echo x >f; exit 0", "no table at migrate.pl line 3.\n".to_owned(), Verdict::Inconclusive),
        ("ls | sort > x; make", "Error: no answer yet\n".to_owned(), Verdict::Passed),
        ("curl a | tar xz && make test", "Error: no answer yet\n".to_owned(), Verdict::Passed),
        ("bash -eo pipefail -c 'make | cat'", "Error: no answer yet\n".to_owned(), Verdict::Passed),
        ("shellcheck a.sh", "Error: no answer yet\n".to_owned(), Verdict::Passed),
        ("sh deploy.sh", "starting\nFailed to connect to bus: Host is down\n".to_owned(), Verdict::Inconclusive),
        ("python t.py | tail -5", "======\nFAIL: test_a (__main__.T.test_a)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/p/t.py\", line 3, in test_a\n    self.fail()\nAssertionError: None\n\nmore\n".to_owned(), Verdict::Inconclusive),
        ("", "x.js:9: ES2015 on\nok\n".to_owned(), Verdict::Passed),
        ("", "x.js:9:ES2015 on\nok\n".to_owned(), Verdict::Passed),
        ("", "a.rst:4: D002 Trailing whitespace\n".to_owned(), Verdict::Inconclusive),
        ("doc8 . | head -1", "a.rst:4: D002 Trailing whitespace\n... and more\n".to_owned(), Verdict::Inconclusive),
        ("", "README.md:1 MD041/first-line-heading First line should be a heading\nok\n".to_owned(), Verdict::Inconclusive),
        ("", "a.sh:3:5: note: Double quote to prevent globbing. [SC2086]\nok\n".to_owned(), Verdict::Inconclusive),
        ("", "src/a.ts:1:5: unexpected var (E501)\nok\n".to_owned(), Verdict::Inconclusive),
        ("", "src/a.py:1:1: 'os' imported but unused\nok\n".to_owned(), Verdict::Passed),
        ("grep -rn foo src | head", "src/a.js:3:  foo()\n".to_owned(), Verdict::Passed),
        ("rg --vimgrep foo src | head", "src/a.js:3:3:  foo()\n".to_owned(), Verdict::Passed),
        ("", "/p/a.py:3: DeprecationWarning: old (use_new)\n".to_owned(), Verdict::Passed),
    ] {
        assert_eq!(verdict_of(command, &log), expected, "{command}: {log}");
    }
}

#[test]
fn a_linter_that_is_the_whole_command_accepts_what_it_reports_at_exit_code_zero() {
    let would = "--- a.py\t2026-01-01 00:00:00+00:00\n+++ a.py\t2026-01-01 00:00:01+00:00\n@@ -1 +1 @@\n-x=1\n+x = 1\nwould reformat a.py\n\nAll done! ✨ 🍰 ✨\n1 file would be reformatted.\n";
    let found = "src/a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n";
    for (command, log, expected) in [
        ("black --diff src", would, Verdict::Passed),
        ("cd a && python3 -m black --diff .", would, Verdict::Passed),
        ("ruff check --exit-zero src", found, Verdict::Passed),
        ("black --check src | cat", would, Verdict::Inconclusive),
        ("black --check src; echo done", would, Verdict::Inconclusive),
        ("ruff check src; true", found, Verdict::Inconclusive),
        // `npm` may hide the exit code of another program with the same total.
        ("ruff check src && npm run build", found, Verdict::Inconclusive),
        ("make format", would, Verdict::Inconclusive),
        ("", would, Verdict::Inconclusive),
    ] {
        assert_eq!(verdict_of(command, log), expected, "{command}: {log}");
    }
}

#[test]
fn errors_that_a_command_only_reads_are_of_another_run() {
    let lost = "ERROR connection lost\n";
    let error = "a.c:3:5: error: 'x' undeclared\n";
    let crash = "Fatal error: no such key\n";
    for (command, log, expected) in [
        ("docker logs app | tail -20", lost, Verdict::Passed),
        ("tail -5 build.log | cat", lost, Verdict::Passed),
        ("kubectl logs x | tail", lost, Verdict::Passed),
        ("docker logs app | tail -20", crash, Verdict::Passed),
        (
            "docker logs app | tail",
            "Error response from daemon: No such container: app\n",
            Verdict::Inconclusive,
        ),
        (
            "tail -5 build.log | cat",
            "tail: cannot open 'build.log' for reading: No such file or directory\n",
            Verdict::Inconclusive,
        ),
        ("git grep -n error", "src/a.js:10:  error: null,\n", Verdict::Passed),
        ("grep -rn Error .", "src/a.js:10:  error: null,\n", Verdict::Passed),
        ("cat build.log", error, Verdict::Passed),
        ("cat a.log; cat b.log", "src/a.py:1:1: F401 'os' imported but unused\n", Verdict::Passed),
        ("gcc -c a.c | cat", error, Verdict::Inconclusive),
        ("gcc -c a.c 2>&1 | grep error:", error, Verdict::Inconclusive),
        (
            "xcodebuild build | grep error:",
            "/w/A.swift:3:5: error: cannot find 'x' in scope\n",
            Verdict::Inconclusive,
        ),
        ("make > build.log 2>&1; tail -5 build.log", error, Verdict::Inconclusive),
        ("./server | tail -20", lost, Verdict::Inconclusive),
    ] {
        assert_eq!(verdict_of(command, log), expected, "{command}: {log}");
    }
}

/// Places and messages of the findings of a log.
fn found(log: &str) -> Vec<String> {
    let findings = digest(log, Some(1)).findings;
    findings.iter().map(|finding| finding.message.clone()).collect()
}

#[test]
fn each_problem_of_a_json_document_is_a_line_of_its_own() {
    let document = "[\n  {\n    \"file\": \"a.py\",\n    \"line\": 1,\n    \"severity\": \"error\",\n    \"message\": \"\\u001b[31mred\\u001b[0m \\u0007bell\"\n  },\n  {\n    \"file\": \"b.py\",\n    \"line\": 2,\n    \"severity\": \"error\",\n    \"message\": \"odd\"\n  }\n]\n";
    let line: String = document.lines().map(str::trim).collect();
    for log in [document, &line] {
        assert_eq!(found(log), ["a.py:1: error: red bell", "b.py:2: error: odd"], "{log}");
    }
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, document.as_bytes());
    let live = digester.live();
    assert_eq!((live.lines, live.last_line.as_str()), (14, "]"));
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

#[test]
fn a_json_document_that_is_too_long_is_read_up_to_the_limit() {
    let problem = |line: u32| {
        format!(
            r#"  {{"file": "a.py", "line": {line}, "severity": "error", "message": "odd {}"}}"#,
            "x".repeat(9_000)
        )
    };
    let problems: Vec<_> = (1..200).map(problem).collect();
    for document in [
        format!("[\n{}\n]\n", problems.join(",\n")),
        format!("[{}]\n", problems.join(",").replace("  {", "{")),
    ] {
        let digest = of_command("lint | cat", &document, 0);
        assert_eq!(digest.verdict, Verdict::Inconclusive);
        let places = digest.findings.iter().filter_map(|finding| finding.location.as_ref()?.line);
        assert!(places.count() > 40, "{} findings", digest.findings.len());
    }
}

#[test]
fn a_rule_of_an_unknown_tool_does_not_hide_a_line() {
    let found = digest("cannot open a > b STARTED\n", Some(1)).findings;
    assert_eq!(found.first().map(|finding| finding.message.as_str()), Some("cannot open a > b STARTED"));
}
