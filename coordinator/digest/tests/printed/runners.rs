use super::*;

pub(crate) const GOOD_WITH_WORDS: &[Run] = &[
    Run { what: "a count of none", log: "Errors: 0\nall is well\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run {
        what: "a sentence about errors",
        log: "Errors and warnings are written to build.log\nFAIL\nUnhandled Rejection is what we test\nBuild failed runs are kept\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "make, ignored",
        log: "rm x.o\nmake: [Makefile:3: clean] Error 1 (ignored)\nmake[1]: *** [Makefile:4: clean] Error 2 (ignored)\n",
        verdicts: [Passed, Inconclusive],
        untold: &["Error"],
        ..RUN
    },
    Run {
        what: "go, a panic that a handler recovers from",
        log: "=== RUN   TestA\npanic: simulated\n--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n",
        tests: Some([1, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "bazel, a word",
        log: "INFO: Analyzed 2 targets (1 packages loaded, 3 targets configured).\nKilled\nINFO: Build completed successfully, 5 total actions\n",
        ..RUN
    },
    Run {
        what: "sbt, a word",
        log: "[info] welcome to sbt 1.9.7 (Debian Java 17)\nKilled\n[success] Total time: 1 s, completed 1 Jan 2026, 00:00:00\n",
        ..RUN
    },
    Run {
        what: "dotnet, a word",
        log: "Test run for /w/A.dll (.NETCoreApp,Version=v8.0)\nFatal error: simulated\nKilled\nPassed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 30 ms - A.dll\n",
        tests: Some([5, 0, 0, 0]),
        ..RUN
    },
];

pub(crate) const GLUED: &[Run] = &[
    Run {
        what: "go",
        log: "=== RUN   TestA\nhello--- PASS: TestA (0.00s)\nx=== RUN   TestB\nhi--- SKIP: TestB (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n",
        tests: Some([1, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "go, failing",
        log: "=== RUN   TestA\nhello--- FAIL: TestA (0.00s)\n    a_test.go:7: got 3\n=== RUN   TestB\n--- PASS: TestB (0.00s)\nFAIL\nFAIL\texample.com/a\t0.003s\nFAIL\n",
        code: 1,
        verdicts: [Failed, Failed],
        tests: Some([1, 1, 0, 0]),
        told: &["--- FAIL: TestA & got 3"],
        ..RUN
    },
    Run {
        what: "gtest",
        log: "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.B\nvalue=3[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n[       OK ] A.C (0 ms)\n[==========] 2 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 2 tests.\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "xctest",
        log: "Test Case '-[A testA]' started.\nvalue=3Test Case '-[A testA]' passed (0.001 seconds).\n** TEST SUCCEEDED **\n",
        tests: Some([1, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "pytest with live logs",
        log: "============================= test session starts ==============================\ncollected 2 items\n\ntests/test_a.py::test_one \n-------------------------------- live log call ---------------------------------\nINFO     root:test_a.py:5 hello\nPASSED                                                                   [ 50%]\ntests/test_a.py::test_two \nvaluePASSED                                                              [100%]\n\n============================== 2 passed in 0.01s ===============================\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "cargo with --nocapture",
        log: "running 2 tests\ntest a ... hello\nok\ntest b ... thread 'b' panicked at src/lib.rs:3:5:\nassertion `left == right` failed\n  left: 1\n right: 2\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\nFAILED\n\nfailures:\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nerror: test failed, to rerun pass `--lib`\n",
        code: 101,
        verdicts: [Failed, Failed],
        tests: Some([1, 1, 0, 0]),
        told: &["thread 'b' panicked at src/lib.rs:3:5 & left: 1"],
        ..RUN
    },
];

pub(crate) const CUT_SHORT: &[Run] = &[
    Run {
        what: "gtest",
        log: "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n",
        verdicts: [Inconclusive, Inconclusive],
        tests: Some([1, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "xctest",
        log: "Test Case '-[A testA]' started.\nTest Case '-[A testA]' passed (0.001 seconds).\nTest Case '-[A testB]' started.\n\t Executed 1 test, with 0 failures (0 unexpected) in 0.1 (0.2) seconds\n** TEST SUCCEEDED **\n",
        verdicts: [Inconclusive, Inconclusive],
        tests: Some([1, 0, 0, 0]),
        ..RUN
    },
];

pub(crate) const FAILING_WITH_WORDS: &[Run] = &[
    Run {
        what: "pytest, captured",
        log: "============================= test session starts ==============================\n=================================== FAILURES ===================================\n____________________________________ test_a ____________________________________\n\n    def test_a():\n>       assert 1 == 2\nE       assert 1 == 2\n\ntests/test_a.py:4: AssertionError\n----------------------------- Captured stderr call -----------------------------\nFatal error: could not open\nterminate called without an active exception\nTests: 99 passed, 99 total\n=========================== short test summary info ============================\nFAILED tests/test_a.py::test_a - assert 1 == 2\n========================= 1 failed, 3 passed in 0.05s ==========================\n",
        tests: Some([3, 1, 0, 0]),
        told: &["assert 1 == 2 & Fatal error: could not open"],
        ..RUN_FAILED
    },
    Run {
        what: "mocha",
        log: "\n  math\n    ✔ adds\nKilled\n    1) subs\n\n\n  1 passing (3ms)\n  1 failing\n\n  1) math\n       subs:\n     AssertionError: expected 1 to equal 2\n      at Context.<anonymous> (test/a.js:7:12)\n\n",
        tests: Some([1, 1, 0, 0]),
        told: &["subs & expected 1 to equal 2"],
        ..RUN_FAILED
    },
    Run {
        what: "make check",
        log: "abort\nPASS: a\nFAIL: b\n============\nTestsuite summary for x 1.0\n============\n# TOTAL: 2\n# PASS:  1\n# SKIP:  0\n# XFAIL: 0\n# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n============\nmake: *** [Makefile:700: check] Error 2\n",
        code: 2,
        tests: Some([1, 1, 0, 0]),
        told: &["FAIL: b"],
        ..RUN_FAILED
    },
    Run {
        what: "cargo, a test's name",
        log: "running 2 tests\ntest handles: Segmentation fault ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nthread 'b' panicked at src/lib.rs:3:5:\nno\n\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nerror: test failed, to rerun pass `--lib`\n",
        code: 101,
        tests: Some([1, 1, 0, 0]),
        told: &["---- b stdout ---- & panicked at src/lib.rs:3:5"],
        untold: &["Segmentation fault"],
        ..RUN_FAILED
    },
    Run {
        what: "go",
        log: "=== RUN   TestA\npanic: simulated\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b_test.go:9: got 3, want 4\n--- FAIL: TestB (0.00s)\n    b_test.go:12: and more\nFAIL\nFAIL\texample.com/a\t0.003s\nFAIL\n",
        tests: Some([1, 1, 0, 0]),
        told: &["--- FAIL: TestB & and more"],
        ..RUN_FAILED
    },
    Run {
        what: "go, a real panic",
        log: "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.00s)\npanic: runtime error: index out of range [3] with length 2 [recovered]\n\tpanic: runtime error: index out of range [3] with length 2\n\ngoroutine 7 [running]:\ntesting.tRunner.func1.2({0x1, 0x2})\n\t/usr/lib/go/src/testing/testing.go:1545 +0x238\nFAIL\texample.com/a\t0.006s\n=== RUN   TestC\n--- PASS: TestC (0.00s)\nPASS\nok  \texample.com/c\t0.003s\nFAIL\n",
        verdicts: [Crashed, Crashed],
        tests: Some([2, 1, 0, 0]),
        told: &["panic: runtime error & goroutine 7 [running]"],
        ..RUN_FAILED
    },
    Run {
        what: "a shell's own word",
        log: "./run.sh: line 3: 12345 Segmentation fault      (core dumped) ./a.out\nmake: *** [Makefile:3: run] Error 139\n",
        code: 2,
        verdicts: [Crashed, Crashed],
        told: &["Segmentation fault      (core dumped)"],
        ..RUN_FAILED
    },
];

pub(crate) const EACH_FAILURE: &[Run] = &[
    Run {
        what: "jest",
        log: "FAIL src/b.test.js (5.2 s)\n  math\n    ✓ muls (1 ms)\n    ✕ adds (3 ms)\n    ✕ subs\n    ✕ divs\n\n  ● math › adds\n\n    expect(received).toBe(expected) // Object.is equality\n\n    Expected: 2\n    Received: 3\n\n      at Object.toBe (src/b.test.js:4:17)\n\n  ● math › subs\n\n    thrown: \"Exceeded timeout of 5000 ms for a test.\n    Add a timeout value to this test to increase the timeout.\"\n\n      7 |   test('subs', async () => {\n\n  ● math › divs\n\n    boom\n\nFAIL src/c.test.js\n  ● Test suite failed to run\n\n    Cannot find module './zzz' from 'src/c.test.js'\n\n      at Resolver._throwModNotFoundError (node_modules/jest-resolve/build/resolver.js:427:11)\n\nTest Suites: 2 failed, 2 total\nTests:       3 failed, 1 passed, 4 total\nSnapshots:   0 total\nTime:        6.1 s\nRan all test suites.\nsomething else\n",
        tests: Some([1, 3, 0, 0]),
        told: &[
            "math › adds & Received: 3",
            "math › subs & thrown: \"Exceeded timeout of 5000 ms",
            "math › divs & boom",
            "Test suite failed to run & Cannot find module './zzz'",
        ],
        untold: &["Test Suites:", "Time:", "something else"],
        ..RUN_FAILED
    },
    Run {
        what: "vitest",
        log: " ❯ src/a.test.ts (2 tests | 1 failed) 5ms\n\n⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  src/a.test.ts > math > adds\nAssertionError: expected 3 to be 2 // Object.is equality\n\n- Expected\n+ Received\n\n- 2\n+ 3\n\n ❯ src/a.test.ts:5:17\n\n⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯\n\n Test Files  1 failed (1)\n      Tests  1 failed | 4 passed | 1 expected fail (6)\n",
        tests: Some([4, 1, 0, 1]),
        told: &["src/a.test.ts > math > adds & expected 3 to be 2 & + 3"],
        ..RUN_FAILED
    },
    Run {
        what: "node --test, spec",
        log: include_str!("node-spec.txt"),
        tests: Some([2, 3, 2, 0]),
        told: &["subs & 2 !== 1 & a.test.mjs:3:29", "deep & +     2", "inner & bad thing & a.test.mjs:7:53"],
        untold: &["failing tests:"],
        ..RUN_FAILED
    },
    Run {
        what: "node --test, TAP",
        log: include_str!("node-tap.txt"),
        tests: Some([2, 3, 2, 0]),
        told: &["subs & 2 !== 1 & a.test.mjs:3:29", "deep & +     2", "inner & bad thing & a.test.mjs:7:53"],
        untold: &["not yet"],
        ..RUN_FAILED
    },
    Run {
        what: "TAP",
        log: "TAP version 13\n1..4\nok 1 - a\nnot ok 2 - b # TODO later\nnot ok 3 - c\n# no\nok 4 - d # SKIP not here\n",
        tests: Some([1, 1, 1, 1]),
        told: &["not ok 3 - c & # no"],
        untold: &["later"],
        ..RUN_FAILED
    },
    Run {
        what: "gtest",
        log: "[==========] Running 3 tests from 1 test suite.\n[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\na.cc:7: Failure\nExpected equality of these values:\n  1\n  2\n[  FAILED  ] A.C (0 ms)\n[ RUN      ] A.D\na.cc:9: Skipped\n[  SKIPPED ] A.D (0 ms)\n[==========] 3 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 1 test.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.D\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.C\n\n 1 FAILED TEST\n",
        tests: Some([1, 1, 1, 0]),
        told: &["a.cc:7: Failure & Expected equality"],
        ..RUN_FAILED
    },
];

pub(crate) const PRINTED_TOTALS: &[Run] = &[
    Run {
        what: "jest",
        log: "  console.log\n    Tests:       99 passed, 99 total\n\nTests:       99 passed, 99 total\nFAIL src/a.test.js\n  ● a\n\n    no\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\nSnapshots:   0 total\n",
        tests: Some([0, 1, 0, 0]),
        told: &["● a & no"],
        ..RUN_FAILED
    },
    Run {
        what: "jest in two packages",
        log: "PASS a/a.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\nPASS b/b.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\n",
        tests: Some([5, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "mocha",
        log: "  math\n  50 passing (1ms)\n    1) subs\n\n\n  1 passing (3ms)\n  1 failing\n\n  1) math\n       subs:\n     Error: no\n      at Context.<anonymous> (test/a.js:7:12)\n\n",
        tests: Some([1, 1, 0, 0]),
        told: &["Error: no"],
        ..RUN_FAILED
    },
    Run {
        what: "unittest",
        log: "Ran 3 tests in 0.001s\nFAILED (failures=2)\n..\n----------------------------------------------------------------------\nRan 2 tests in 0.003s\n\nOK\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "go",
        log: "=== RUN   TestReal\n--- FAIL: TestFake (0.00s)\n    fake_test.go:3: no\n--- PASS: TestReal (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n",
        tests: Some([1, 0, 0, 0]),
        untold: &["TestFake"],
        ..RUN
    },
    Run {
        what: "nextest, the inner output of cargo's runner",
        log: "────────────\n Nextest run ID 1 with nextest profile: default\n    Starting 2 tests across 1 binary\n        PASS [   0.003s] a tests::one\n        FAIL [   0.004s] a tests::two\n──── STDOUT:             a tests::two\n\nrunning 1 test\ntest tests::two ... FAILED\n\nfailures:\n\nfailures:\n    tests::two\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n\n──── STDERR:             a tests::two\nthread 'tests::two' panicked at src/lib.rs:9:9:\nno\n────────────\n     Summary [   0.005s] 2 tests run: 1 passed, 1 failed, 0 skipped\n        FAIL [   0.004s] a tests::two\nerror: test run failed\n",
        code: 100,
        tests: Some([1, 1, 0, 0]),
        told: &["panicked at src/lib.rs:9:9"],
        ..RUN_FAILED
    },
    Run {
        what: "nextest, flaky",
        log: "    Starting 2 tests across 1 binary\n  TRY 1 FAIL [   0.004s] a tests::two\n──── TRY 1 STDOUT:       a tests::two\n\nrunning 1 test\ntest tests::two ... FAILED\n\nfailures:\n\nfailures:\n    tests::two\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n\n  TRY 2 PASS [   0.003s] a tests::two\n        PASS [   0.003s] a tests::one\n────────────\n     Summary [   0.009s] 2 tests run: 2 passed (1 flaky), 0 skipped\n   FLAKY 2/3 [   0.003s] a tests::two\n",
        verdicts: [Passed, Inconclusive],
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "nextest and then the examples in the documentation",
        log: "    Starting 1 test across 1 binary\n        PASS [   0.003s] a tests::one\n     Summary [   0.005s] 1 test run: 1 passed, 0 skipped\n   Doc-tests a\n\nrunning 2 tests\ntest src/lib.rs - f (line 3) ... ok\ntest src/lib.rs - g (line 9) ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s\n",
        tests: Some([3, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "ctest, skipped",
        log: "Test project /w/build\n    Start 1: a\n1/2 Test #1: a ................................   Passed    0.00 sec\n    Start 2: b\n2/2 Test #2: b ................................***Skipped   0.00 sec\n\n100% tests passed, 0 tests failed out of 2\n\nTotal Test time (real) =   0.01 sec\n\nThe following tests did not run:\n\t  2 - b (Skipped)\n",
        tests: Some([1, 0, 1, 0]),
        untold: &["Skipped"],
        ..RUN
    },
];

pub(crate) const TASKS: &[Run] = &[
    Run {
        what: "turbo",
        log: "a:test: cache miss, executing 4f\na:test: FAIL src/b.test.js\nb:test: PASS src/z.test.js\na:test:   ● math › subs\na:test: \na:test:     Expected: 2\nb:build: done\na:test:     Received: 3\na:test: \na:test: Test Suites: 1 failed, 1 total\na:test: Tests:       1 failed, 4 passed, 5 total\n",
        tests: Some([4, 1, 0, 0]),
        told: &["math › subs & Expected: 2 & Received: 3"],
        untold: &["done"],
        ..RUN_FAILED
    },
    Run {
        what: "docker compose",
        log: "web-1  | === RUN   TestA\ndb-1   | ready\nweb-1  | --- FAIL: TestA (0.00s)\nweb-1  |     a_test.go:7: got 3\nweb-1  | FAIL\nweb-1  | FAIL\texample.com/a\t0.003s\nweb-1 exited with code 1\n",
        tests: Some([0, 1, 0, 0]),
        told: &["--- FAIL: TestA & a_test.go:7: got 3"],
        ..RUN_FAILED
    },
    Run {
        what: "gitlab",
        log: "2024-05-21T10:00:05.123456Z 01O === RUN   TestA\n2024-05-21T10:00:05.123456Z 01O --- FAIL: TestA (0.00s)\n2024-05-21T10:00:05.123456Z 01O     a_test.go:7: got 3\n2024-05-21T10:00:05.123456Z 01O FAIL\n",
        tests: Some([0, 1, 0, 0]),
        told: &["--- FAIL: TestA & a_test.go:7: got 3"],
        ..RUN_FAILED
    },
    Run {
        what: "pnpm -r",
        log: "packages/a test$ jest\npackages/a test: FAIL src/b.test.js\npackages/a test:   ● subs\npackages/a test:     no\npackages/a test: Test Suites: 1 failed, 1 total\npackages/a test: Tests:       1 failed, 1 total\npackages/a test: Failed\n ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL  a@1.0.0 test: `jest`\n",
        tests: Some([0, 1, 0, 0]),
        told: &["● subs & no"],
        ..RUN_FAILED
    },
    Run {
        what: "docker build",
        log: "#9 [5/5] RUN cargo build\n#9 1.455 error[E0308]: mismatched types\n#9 1.455   --> src/main.rs:2:18\n#9 1.455    |\n#9 1.455 2  |     let x: u32 = \"a\";\n#9 1.455    |                  ^^^ expected `u32`\n#9 1.500 \n#9 ERROR: process \"/bin/sh -c cargo build\" did not complete successfully: exit code: 101\n",
        verdicts: [Failed, Failed],
        told: &["mismatched types & --> src/main.rs:2:18 & expected `u32`"],
        ..RUN_FAILED
    },
];

/// Totals of tools without failures.
pub(crate) const GOOD_TOTALS: &[(&str, &str)] = &[
    (
        "nextest",
        "    Starting 2 tests across 1 binary\n     Summary [   0.005s] 2 tests run: 2 passed, 0 skipped\n",
    ),
    (
        "gtest",
        "[==========] Running 1 test from 1 test suite.\n[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[  PASSED  ] 1 test.\n",
    ),
    ("ExUnit", "Finished in 0.03 seconds (0.00s async, 0.03s sync)\n5 tests, 0 failures\n"),
    (
        "dotnet test",
        "Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 30 ms - A.dll\n",
    ),
    ("dotnet test 9", "Test summary: total: 5, failed: 0, succeeded: 5, skipped: 0, duration: 1.2s\n"),
    ("playwright", "Running 3 tests using 1 worker\n\n  3 passed (4.1s)\n"),
    ("bazel", "//a:a_test                      PASSED in 0.1s\n\nExecuted 1 out of 1 test: 1 test passes.\n"),
    (
        "junit console",
        "[         2 tests found           ]\n[         2 tests successful      ]\n[         0 tests failed          ]\n",
    ),
    ("TAP", "TAP version 13\n1..2\nok 1 - a\nok 2 - b\n"),
    ("TAP, plan last", "ok 1 - a\nok 2 - b\n1..2\n"),
    (
        "robot",
        "Math                                                                  | PASS |\n2 tests, 2 passed, 0 failed\n",
    ),
    ("behave", "1 feature passed, 0 failed, 0 skipped\n2 scenarios passed, 0 failed, 0 skipped\n"),
    ("phpunit", "OK, but incomplete, skipped, or risky tests!\nTests: 3, Assertions: 3, Skipped: 1.\n"),
    (
        "meson",
        "Ok:                 3\nExpected Fail:      0\nFail:               0\nUnexpected Pass:    0\nSkipped:            1\nTimeout:            0\n",
    ),
    ("automake", "Testsuite summary for x 1\n============================================================================\n# TOTAL: 2\n# PASS:  2\n# SKIP:  0\n# XFAIL: 0\n# FAIL:  0\n# XPASS: 0\n# ERROR: 0\n"),
    ("catch2", "All tests passed (5 assertions in 2 test cases)\n"),
    ("doctest", "[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped\n[doctest] Status: SUCCESS!\n"),
    ("mocha", "\n\n  5 passing (3ms)\n"),
    ("rspec", "Finished in 0.01 seconds (files took 0.1 seconds to load)\n3 examples, 0 failures\n"),
    ("minitest", "3 runs, 3 assertions, 0 failures, 0 errors, 0 skips\n"),
];
