use super::*;

/// Runs that announced their work and exited with 0 before it was done.
pub(crate) const UNENDED: &[Run] = &[
    Run { what: "cargo", log: "\nrunning 3 tests\ntest a ... ok\n", tests: Some([1, 0, 0, 0]), ..RUN_CUT },
    Run {
        what: "cargo, quiet",
        log: "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\nrunning 3 tests\n..",
        ..RUN_CUT
    },
    Run {
        what: "nextest",
        log: "    Starting 2 tests across 1 binary\n        PASS [   0.003s] a tests::one\n",
        tests: Some([1, 0, 0, 0]),
        ..RUN_CUT
    },
    Run {
        what: "pytest",
        log: "============================= test session starts ==============================\ncollected 5 items\n\ntest_a.py ..",
        ..RUN_CUT
    },
    Run {
        what: "pytest, some",
        log: "============================= test session starts ==============================\ncollecting ... collected 5 items / 2 deselected / 3 selected\n",
        ..RUN_CUT
    },
    Run { what: "TAP", log: "TAP version 13\n1..3\nok 1 - a\nok 2 - b\n", tests: Some([2, 0, 0, 0]), ..RUN_CUT },
    Run { what: "playwright", log: "Running 3 tests using 1 worker\n\n", ..RUN_CUT },
    Run {
        what: "gtest, brief",
        log: "[==========] Running 3 tests from 1 test suite.\n",
        ..RUN_CUT
    },
    Run {
        what: "jest, a test that ends it",
        log: "  \u{25cf}  process.exit called with \"0\"\n\n      3 | process.exit(0);\n\n      at Object.exit (src/a.test.js:3:9)\n",
        verdicts: [Inconclusive, Failed],
        ..RUN_CUT
    },
    Run {
        what: "PHPUnit, a test that ends it",
        log: "PHPUnit 9.6.7 by Sebastian Bergmann and contributors.\n\n.\n",
        ..RUN_CUT
    },
    Run {
        what: "PHPUnit, a later test that ends it",
        log: "PHPUnit 10.5.0 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.0\nConfiguration: /w/app/phpunit.xml\nRandom Seed:   1700000000\n\n...............................................................  63 / 120 ( 52%)\n..S",
        ..RUN_CUT
    },
    Run { what: "pytest, quiet, a percentage", log: "........F. [ 34%]\n", ..RUN_CUT },
    Run { what: "mocha, spec", log: "\n\n  Calc\n    ✔ adds\n    ✔ subs\n", ..RUN_CUT },
    Run { what: "rspec, spec", log: "\nRandomized with seed 30066\n\nCalc\n  adds\n", ..RUN_CUT },
    Run {
        what: "XCTest, no tests behind a formatter",
        log: "Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.001) seconds\nTest Succeeded\n",
        tests: Some([0, 0, 0, 0]),
        ..RUN_CUT
    },
    // A later total or a test list does not mean that the run was cut short.
    Run {
        what: "pytest, a list",
        log: "collected 2 items\n\n<Module test_a.py>\n========================== 2 tests collected in 0.01s ==========================\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "cargo, a total",
        log: "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run { what: "TAP without numbers", log: "1..2\nok - a\nok - b\n", tests: Some([2, 0, 0, 0]), ..RUN },
    Run {
        what: "PHPUnit, a total",
        log: "PHPUnit 9.6.7 by Sebastian Bergmann and contributors.\n\n.R                                                                  2 / 2 (100%)\n\nTime: 00:00.008, Memory: 4.00 MB\n\nOK, but incomplete, skipped, or risky tests!\nTests: 2, Assertions: 1, Risky: 1.\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "PHPUnit, its version, and another tool's marks",
        log: "PHPUnit 9.6.7 by Sebastian Bergmann and contributors.\n\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n...\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run { what: "a range", log: "1..5\n", verdicts: [Passed, Inconclusive], ..RUN },
];

/// A run that was cut short.
pub(crate) const RUN_CUT: Run = Run { verdicts: [Inconclusive, Inconclusive], ..RUN };

/// Failures hidden by exit code 0.
pub(crate) const HIDDEN: &[Run] = &[
    Run { what: "tsc", log: "src/a.ts(3,5): error TS2304: Cannot find name 'foo'.\n", ..RUN_HIDDEN },
    Run { what: "clang", log: "a.m:1:1: error: no\n1 error generated.\n", ..RUN_HIDDEN },
    Run { what: "javac", log: "Main.java:3: error: cannot find symbol\n    foo();\n    ^\n1 error\n", ..RUN_HIDDEN },
    Run {
        what: "ld",
        log: "/usr/bin/ld: a.o: in function `main':\na.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld returned 1 exit status\n",
        ..RUN_HIDDEN
    },
    Run { what: "esbuild", log: "\u{2718} [ERROR] Could not resolve \"lodash\"\n\n1 error\n", ..RUN_HIDDEN },
    Run { what: "vite", log: "error during build:\nCould not resolve entry module\n", ..RUN_HIDDEN },
    Run {
        what: "jasmine",
        log: "Failures:\n1) Math adds\n  Message:\n    Expected 4 to be 3.\n  Stack:\n        at UserContext.<anonymous> (spec/a.spec.js:3:15)\n\n3 specs, 1 failure\nFinished in 0.01 seconds\n",
        tests: Some([2, 1, 0, 0]),
        told: &["Math adds & Expected 4 to be 3."],
        ..RUN_HIDDEN
    },
    Run {
        what: "pytest -v, cut before its total",
        log: "tests/test_a.py::test_one PASSED [ 33%]\ntests/test_a.py::T::test_two FAILED [ 66%]\n",
        tests: Some([1, 1, 0, 0]),
        told: &["tests/test_a.py::T::test_two FAILED"],
        ..RUN_HIDDEN
    },
    Run {
        what: "pytest -n, cut before its total",
        log: "[gw0] [ 33%] FAILED tests/test_a.py::test_one \n",
        tests: Some([0, 1, 0, 0]),
        told: &["FAILED tests/test_a.py::test_one"],
        ..RUN_HIDDEN
    },
    Run {
        what: "meson",
        log: "1/2 adds        OK              0.01s\n2/2 subs        TIMEOUT        30.01s   killed by signal 15 SIGTERM\n",
        told: &["2/2 subs        TIMEOUT"],
        ..RUN_HIDDEN
    },
    Run {
        what: "pytest-timeout",
        log: "test_a.py \n+++++++++++++++++++++++++++++++++++ Timeout ++++++++++++++++++++++++++++++++++++\n\n~~~~~~~~~~~~~~~~~~~~~ Stack of MainThread (140) ~~~~~~~~~~~~~~~~~~~~~\n  File \"/w/test_a.py\", line 5, in test_hang\n    time.sleep(100)\n\n+++++++++++++++++++++++++++++++++++ Timeout ++++++++++++++++++++++++++++++++++++\n",
        told: &["Timeout & line 5, in test_hang"],
        ..RUN_HIDDEN
    },
];

/// A failed run with exit code 0.
pub(crate) const RUN_HIDDEN: Run = Run { verdicts: [Inconclusive, Failed], ..RUN };

/// Output that looks like a failure but is not.
pub(crate) const HARMLESS: &[Run] = &[
    Run {
        what: "eslint, warnings",
        log: "/w/a.js\n  1:2  warning  'x' is unused  no-unused-vars\n\n\u{2716} 1 problem (0 errors, 1 warning)\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "tsc that watches",
        log: "a.ts(1,1): error TS2304: Cannot find name 'x'.\n[04:12:13] File change detected.\n[04:12:14] Found 0 errors. Watching for file changes.\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run { what: "a count alone", log: "1 error\nskilled\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run {
        what: "cppcheck",
        log: "a.c:3:5: error: Null pointer dereference: p [nullPointer]\n",
        verdicts: [Passed, Failed],
        ..RUN
    },
    Run {
        what: "pytest -v, complete",
        log: "============================= test session starts ==============================\ncollected 2 items\n\ntest_a.py::T::test_one FAILED [ 50%]\ntest_a.py::test_two PASSED [100%]\n\n=================================== FAILURES ===================================\n__________________________________ T.test_one __________________________________\n\n>       assert 1 == 2\nE       assert 1 == 2\n\ntest_a.py:4: AssertionError\n=========================== short test summary info ============================\nFAILED test_a.py::T::test_one - assert 1 == 2\n========================= 1 failed, 1 passed in 0.05s ==========================\n",
        tests: Some([1, 1, 0, 0]),
        told: &["FAILED test_a.py::T::test_one & E       assert 1 == 2"],
        untold: &["[ 50%]"],
        ..RUN_FAILED
    },
];

/// Crash messages after the progress marks of earlier tests.
pub(crate) const AFTER_MARKS: &[Run] = &[
    Run { what: "sh", log: "tests/x.py ..Killed\n", ..RUN_DIED },
    Run { what: "a bare word", log: "starting\nIllegal instruction (core dumped)\n", code: 132, ..RUN_DIED },
    Run { what: "rspec", log: "..F.Segmentation fault (core dumped)\n", ..RUN_DIED },
    Run { what: "bash", log: "test_a.py .bash: line 1:   123 Aborted                 (core dumped) pytest\n", ..RUN_DIED },
];

/// A run with a crash.
pub(crate) const RUN_DIED: Run = Run { code: 1, verdicts: [Crashed, Crashed], ..RUN };
