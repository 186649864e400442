//! Tests the cause of a failure, the place of each finding, and the type of a crash.

mod digests;

use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::Verdict;
use digests::digest;

#[test]
fn what_java_s_tools_tell_names_test_and_place() {
    let found = |log: &str| {
        let digest = digest(log, Some(1));
        let first = digest.findings.first().expect("there is one");
        let place = first.location.clone().map(|place| format!("{}:{}", place.file, place.line.unwrap_or(0)));
        let cause = digest.cause.expect("there is one").text;
        (first.test.clone().unwrap_or_default(), place.unwrap_or_default(), cause, digest.crash_type)
    };
    let stack = "\tat org.junit.Assert.fail(Assert.java:89)\n\tat java.base/java.util.List.of(List.java:1)\n\tat app//app.OneTest.wrongSum(OneTest.java:8)\n";
    for (log, test, place) in [
        (format!("[ERROR] wrongSum(app.OneTest)  Time elapsed: 0.001 s  <<< FAILURE!\njava.lang.AssertionError\n{stack}"), "app.OneTest.wrongSum", "OneTest.java:8"),
        (format!("[ERROR] app.OneTest.wrongSum -- Time elapsed: 0.001 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: no\n{stack}"), "app.OneTest.wrongSum", "OneTest.java:8"),
        (format!("[ERROR] wrongSum{{int}}[2]  Time elapsed: 0 s  <<< ERROR!\njava.lang.AssertionError\n{stack}"), "app.OneTest.wrongSum{int}[2]", "OneTest.java:8"),
        ("app.OneTest > wrongSum FAILED\n    java.lang.AssertionError at OneTest.java:8\n".to_owned(), "app.OneTest > wrongSum", "OneTest.java:8"),
        (format!("app.OneTest > wrongSum() FAILED\n    org.opentest4j.AssertionFailedError: no\n    {}", stack.replace('\t', "        ").trim_start()), "app.OneTest > wrongSum()", "OneTest.java:8"),
        ("  JUnit Jupiter:OneTest:wrongSum()\n    MethodSource [className = 'app.OneTest']\n    => org.opentest4j.AssertionFailedError: no\n       org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:38)\n       app.OneTest.wrongSum(OneTest.java:8)\n".to_owned(), "OneTest:wrongSum()", "OneTest.java:8"),
        (format!("1) wrongSum(app.OneTest)\njava.lang.AssertionError\n{stack}"), "wrongSum(app.OneTest)", "OneTest.java:8"),
        ("java.lang.IllegalStateException: no\n\tat Main.load(Main.java:5)\n".to_owned(), "", "Main.java:5"),
    ] {
        let (named, placed, ..) = found(&log);
        assert_eq!((named.as_str(), placed.as_str()), (test, place), "{log}");
    }
    // The list at the end repeats no failure, and none of its text is lost.
    let test = |name: &str| {
        format!(
            "[ERROR] {name}(app.OneTest)  Time elapsed: 0.1 s  <<< FAILURE!\njava.lang.AssertionError: no\n\tat app.OneTest.sums(OneTest.java:8)\n\n"
        )
    };
    let list = "[ERROR] Failures: \n[ERROR]   OneTest.sums:8 no 1\n[ERROR]   OneTest.sums:8 no 2\n[ERROR]   OneTest>Base.other:3->help:4 no\n";
    let told = digest(&format!("{}{}{}{list}", test("sums[1: a]"), test("sums[2]"), test("other")), Some(1));
    let lines: Vec<_> = told.findings.iter().filter_map(|found| found.message.lines().last()).collect();
    let expected = [
        "[ERROR]   OneTest.sums:8 no 1",
        "[ERROR]   OneTest.sums:8 no 2",
        "[ERROR]   OneTest>Base.other:3->help:4 no",
    ];
    assert_eq!(lines, expected, "{:#?}", told.findings);
    // The right line of a message becomes the cause. An exit value of a JVM is not a signal number.
    for (log, cause, crash) in [
        (
            "* What went wrong:\nExecution failed for task ':boom'.\n> Could not do it\n   > task says no\n",
            "Exit code 1: > task says no",
            CrashType::BuildFailure,
        ),
        (
            "* Where:\nBuild file '/w/build.gradle' line: 6\n\n* What went wrong:\nNo such thing.\n",
            "Exit code 1: No such thing. (/w/build.gradle:6)",
            CrashType::BuildFailure,
        ),
        (
            "> Process 'Gradle Test Executor 1' finished with non-zero exit value 11\n",
            "A process started by the command crashed: > Process 'Gradle Test Executor 1' finished with non-zero exit value 11",
            CrashType::Unknown,
        ),
        (
            "> Process 'Gradle Test Executor 1' finished with non-zero exit value 137\n",
            "A process started by the command crashed: > Process 'Gradle Test Executor 1' finished with non-zero exit value 137",
            CrashType::Killed,
        ),
    ] {
        let (_, _, told, kind) = found(log);
        assert_eq!((told.as_str(), kind), (cause, crash), "{log}");
    }
}

#[test]
fn a_word_of_death_after_progress_is_one() {
    for (log, is_death) in [
        ("t/test_seg.py .Fatal Python error: Segmentation fault\n", true),
        ("t/test_seg.py ..Killed\n", true),
        ("..F.Segmentation fault (core dumped)\n", true),
        ("test_foo (t.T.test_foo) ... Segmentation fault (core dumped)\n", true),
        ("test a::b ... Killed\n", true),
        ("the server says: Killed\n", false),
        ("I wait... Segmentation fault is the name of a song\n", false),
    ] {
        let indicators = digest(log, Some(0)).crash_indicators;
        let seen = indicators.killed || indicators.unexpected_signal || indicators.fatal_error;
        assert_eq!(seen, is_death, "{log}");
    }
}

#[test]
fn a_group_of_exceptions_is_at_the_place_of_its_first() {
    let group = digest(include_str!("printed/exception-group.txt"), Some(1));
    let place = group.findings[0].location.clone().expect("the frames name it");
    assert_eq!((place.file.as_str(), place.line), ("/w/a.py", Some(2)));
}

#[test]
fn an_error_of_a_build_beside_tests_is_one_where_the_build_failed() {
    let beside = "[ RUN      ] A.a\na.c:3:5: error: 'x' undeclared\n[       OK ] A.a (0 ms)\n";
    let of = |log: &str, code| digest(log, Some(code)).crash_type;
    assert_eq!(of(&format!("{beside}make: *** [Makefile:3: a.o] Error 1\n"), 2), CrashType::BuildFailure);
    let failed = "[ RUN      ] A.b\na.c:9: Failure\n  Expected: 2\n[  FAILED  ] A.b (0 ms)\n";
    assert_eq!(of(&format!("{beside}{failed}"), 1), CrashType::TestFailure);
}

#[test]
fn where_nothing_is_known_to_say_why_the_last_line_is_quoted() {
    let cause = |log: &str, code| digest(log, Some(code)).cause.expect("there is a cause").text;
    assert!(
        cause("starting\nall is lost\n\n", 3)
            .ends_with("No known error message was found. The last line is: all is lost")
    );
    assert!(cause("", 3).ends_with("code 3. The command printed nothing."));
    let warning = cause("a.c:3:6: warning: unused [-Wunused]\n", 1);
    assert!(warning.contains("no error in the output") && warning.contains("a.c:3:6"), "{warning}");
    let both = cause("a.c:3:6: warning: unused [-Wunused]\nall is lost\n", 1);
    assert!(both.contains("the last line is: all is lost") && both.contains("a.c:3:6"), "{both}");
}

#[test]
fn a_good_run_has_no_findings_of_words() {
    let log = "an error occurred and was handled\ncannot happen: failed\nFAIL: 0\nerror: 0\nFATAL: 0\n";
    let digest = digest(log, Some(0));
    assert_eq!(digest.verdict, Verdict::Passed);
    assert!(digest.findings.is_empty(), "{:?}", digest.findings);
}

#[test]
fn an_error_that_is_told_twice_is_one_finding() {
    let log = "/src/Program.cs(12,17): error CS0103: The name 'foo' does not exist [/src/App.csproj]\n\nBuild FAILED.\n\n/src/Program.cs(12,17): error CS0103: The name 'foo' does not exist [/src/App.csproj]\n    1 Warning(s)\n    1 Error(s)\n";
    let digest = digest(log, Some(1));
    let errors: Vec<_> = digest.findings.iter().filter(|found| found.message.contains("CS0103")).collect();
    assert_eq!(errors.len(), 1, "{}", digest.explain());
    assert_eq!(errors[0].recurrence, 2);
}

#[test]
fn lines_above_a_mere_exit_code_are_told_without_an_exit_code() {
    let log = "\nYour change has 3174 lines, which is more than the 2000 maximum\nthat are taken here.\n\n##[error]Process completed with exit code 1.\n";
    for code in [None, Some(1)] {
        let digest = digest(log, code);
        let message = digest.findings.first().map(|found| found.message.clone()).unwrap_or_default();
        assert!(message.contains("the 2000 maximum"), "{}", digest.explain());
    }
}

/// A file that cannot be loaded is a build error, at the location from its runner, and not a failed
/// test.
#[test]
fn a_test_file_that_cannot_be_loaded_is_an_error_of_a_build() {
    for (log, code, place) in [
        (include_str!("printed/loading/pytest.log"), 2, "test_coll.py:1"),
        (include_str!("printed/loading/unittest.log"), 1, "/w/py/ut_imp.py:1"),
        (include_str!("printed/loading/jest.log"), 1, "t/imp.test.js"),
        (include_str!("printed/loading/mocha.log"), 1, "/w/js/t/imp.mocha.js:1"),
        (include_str!("printed/loading/rspec.log"), 1, "./load_spec.rb:1"),
    ] {
        let digest = digest(log, Some(code));
        assert_eq!(digest.crash_type, CrashType::BuildFailure, "{}", digest.explain());
        assert!(digest.tests.is_none_or(|tests| tests.failed == 0), "{log}");
        let location = digest.findings[0].location.clone().expect("it has a place");
        let row = location.line.map_or(String::new(), |line| format!(":{line}"));
        assert_eq!(format!("{}{row}", location.file), place, "{log}");
    }
}

#[test]
fn an_exception_is_at_the_first_frame_in_the_project() {
    let log = "/usr/lib/ruby/3.1.0/json/common.rb:216:in `parse': unexpected token (JSON::ParserError)\n\tfrom /usr/lib/ruby/3.1.0/json/common.rb:216:in `parse'\n\tfrom app.rb:3:in `load'\n\tfrom app.rb:5:in `<main>'\n";
    let place = digest(log, Some(1)).findings[0].location.clone().expect("it has a place");
    assert_eq!((place.file.as_str(), place.line), ("app.rb", Some(3)));
}

#[test]
fn an_exception_that_nothing_follows_ended_the_program() {
    let trace = "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    f()\n";
    for said in ["MemoryError", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3 GiB"] {
        let (last, before) = (format!("{trace}{said}\n\n"), format!("{trace}{said}\ngoing on\n"));
        for (log, code, verdict) in [
            (&last, Some(1), Verdict::Crashed),
            (&last, None, Verdict::Crashed),
            (&before, Some(1), Verdict::Crashed),
            (&before, None, Verdict::Inconclusive),
            (&before, Some(0), Verdict::Inconclusive),
        ] {
            assert_eq!(digest(log, code).verdict, verdict, "{code:?}: {log}");
        }
    }
}
