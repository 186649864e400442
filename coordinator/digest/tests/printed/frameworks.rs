use super::*;

/// Totals of test frameworks where the tool always exits with 0, or where a pipe hides its exit
/// code.
pub(crate) const FRAMEWORKS: &[Run] = &[
    Run {
        what: "EUnit",
        log: "\na_tests: bad_test...*failed*\nin function a_tests:bad_test/0 (test/a_tests.erl, line 4)\nin call from eunit_test:run_testfun/1 (eunit_test.erl, line 71)\n**error:{assertEqual,[{module,a_tests},\n              {line,4},\n              {expected,1},\n              {value,2}]}\n  output:<<\"\">>\n\na_tests: -to_test_/0-fun-0-...*timed out*\nin function timer:sleep/1 (timer.erl, line 219)\nundefined\n=======================================================\n  Failed: 1.  Skipped: 0.  Passed: 1.\nOne or more tests were cancelled.\n",
        tests: Some([1, 1, 0, 0]),
        told: &["a_tests: bad_test...*failed* & {expected,1}", "-to_test_/0-fun-0-...*timed out*"],
        ..TOTAL_FAILED
    },
    Run {
        what: "EUnit, only cancelled",
        log: "=======================================================\n  Failed: 0.  Skipped: 0.  Passed: 1.\nOne or more tests were cancelled.\n",
        tests: Some([1, 0, 0, 0]),
        ..TOTAL_FAILED
    },
    Run {
        what: "EUnit, good",
        log: "  All 3 tests passed.\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "tcltest",
        log: "\n\n==== a-2 bad FAILED\n==== Contents of test case:\nexpr 1\n---- Result was:\n1\n---- Result should have been (exact matching):\n2\n==== a-2 FAILED\n\na.tcl:\tTotal\t3\tPassed\t1\tSkipped\t1\tFailed\t1\nNumber of tests skipped for each constraint:\n\t1\tnope\n",
        tests: Some([1, 1, 1, 0]),
        told: &["==== a-2 bad FAILED & ---- Result was:"],
        ..TOTAL_FAILED
    },
    Run {
        what: "tcltest, good",
        log: "a.test\n\nTests ended at Sun Nov 22 18:29:41 UTC 2026\nall.tcl:\tTotal\t3\tPassed\t2\tSkipped\t1\tFailed\t0\nSourced 1 Test Files.\n",
        tests: Some([2, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "tcltest, a file that exits",
        log: "all.tcl:\tTotal\t3\tPassed\t3\tSkipped\t0\tFailed\t0\nSourced 2 Test Files.\n\nTest files exiting with errors:  \n\n  b.test\n\n",
        tests: Some([3, 0, 0, 0]),
        ..TOTAL_FAILED
    },
    Run {
        what: "SRFI 64",
        log: "%%%% Starting test s  (Writing full log to \"s.log\")\n/w/app/a.scm:4: FAIL bad\n# of expected passes      1\n# of expected failures    1\n# of unexpected failures  1\n# of skipped tests        1\n",
        tests: Some([1, 1, 1, 1]),
        told: &["a.scm:4: FAIL bad"],
        ..TOTAL_FAILED
    },
    Run {
        what: "SRFI 64, good",
        log: "%%%% Starting test s  (Writing full log to \"s.log\")\n# of expected passes      2\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "DejaGnu",
        log: "FAIL: b\n\n\t\t=== x Summary ===\n\n# of expected passes\t\t1\n# of unexpected failures\t1\n# of expected failures\t\t1\n# of unsupported tests\t\t1\n",
        tests: Some([1, 1, 1, 1]),
        told: &["FAIL: b"],
        ..TOTAL_FAILED
    },
    Run {
        what: "DejaGnu, of two tools the second for two targets",
        log: "\t\t=== w Summary ===\n\n# of expected passes\t\t3\n\t\t=== x Summary for unix/-m32 ===\n\n# of expected passes\t\t2\n\n\t\t=== x Summary for unix/-m64 ===\n\n# of expected passes\t\t2\n# of untested testcases\t\t1\n\n\t\t=== x Summary ===\n\n# of expected passes\t\t4\n# of untested testcases\t\t1\n",
        tests: Some([7, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "trial",
        log: "test_t\n  T\n    test_bad ...                                                         [FAIL]\n    test_ok ...                                                            [OK]\n\n===============================================================================\n[FAIL]\nTraceback (most recent call last):\n  File \"/w/app/test_t.py\", line 4, in test_bad\n    def test_bad(self): self.assertEqual(1,2)\ntwisted.trial.unittest.FailTest: 1 != 2\n\ntest_t.T.test_bad\n-------------------------------------------------------------------------------\nRan 2 tests in 0.003s\n\nFAILED (failures=1, successes=1)\n",
        tests: Some([1, 1, 0, 0]),
        told: &["twisted.trial.unittest.FailTest: 1 != 2"],
        ..TOTAL_FAILED
    },
    Run {
        what: "trial, of each sort",
        log: "    test_bad ...                                                         [FAIL]\n-------------------------------------------------------------------------------\nRan 5 tests in 0.003s\n\nFAILED (skips=1, expectedFailures=1, failures=1, unexpectedSuccesses=1, successes=1)\n",
        tests: Some([2, 1, 1, 1]),
        ..TOTAL_FAILED
    },
    Run {
        what: "trial, good",
        log: "-------------------------------------------------------------------------------\nRan 4 tests in 0.003s\n\nPASSED (skips=1, expectedFailures=1, unexpectedSuccesses=1, successes=1)\n",
        tests: Some([2, 0, 1, 1]),
        ..RUN
    },
    Run {
        what: "ExUnit, tests that could not be set up",
        log: "??\n\n  0) InvTest: failure on setup_all callback, all tests have been invalidated\n     ** (RuntimeError) sa\n     stacktrace:\n       test/inv_test.exs:4: InvTest.__ex_unit_setup_all_0/1\n\n\nFinished in 0.02 seconds (0.00s async, 0.02s sync)\n3 tests, 0 failures, 2 invalid, 1 skipped\n\nRandomized with seed 608172\n",
        tests: Some([0, 2, 1, 0]),
        told: &["failure on setup_all callback & (RuntimeError) sa"],
        ..TOTAL_FAILED
    },
    Run {
        what: "ExUnit, some excluded",
        log: "Excluding tags: [:slow]\n\n..\nFinished in 0.02 seconds (0.00s async, 0.02s sync)\n1 doctest, 4 tests, 0 failures, 3 excluded\n\nRandomized with seed 608172\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "ExUnit, some excluded, which are not in the total",
        log: "Excluding tags: [:slow]\n\n..\nFinished in 0.02 seconds (0.00s async, 0.02s sync)\n2 tests, 0 failures (3 excluded)\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "ExUnit, all excluded",
        log: "Excluding tags: [:test]\n\nAll tests have been excluded.\n\nFinished in 0.00 seconds (0.00s async, 0.00s sync)\n1 test, 0 failures, 1 excluded\n\nRandomized with seed 510861\n",
        verdicts: [Inconclusive, Inconclusive],
        tests: Some([0, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "CTest without tests",
        log: "Internal ctest changing into directory: /w/b\nTest project /w/b\nNo tests were found!!!\n",
        verdicts: [Inconclusive, Inconclusive],
        ..RUN
    },
    Run {
        what: "go, no package has tests",
        log: "?   \tx\t[no test files]\n?   \tx/a\t[no test files]\n",
        verdicts: [Inconclusive, Inconclusive],
        ..RUN
    },
    Run {
        what: "go, one package has tests",
        log: "?   \tx\t[no test files]\nok  \tx/a\t0.010s\n",
        verdicts: [Passed, Passed],
        ..RUN
    },
    Run { what: "bats without tests", log: "1..0\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run {
        what: "ExUnit, no requested test exists",
        log: "Excluding tags: [:test]\nIncluding tags: [:zz]\n\nAll tests have been excluded.\n\nFinished in 0.00 seconds (0.00s async, 0.00s sync)\n1 test, 0 failures, 1 excluded\n\nRandomized with seed 612576\nThe --only option was given to \"mix test\" but no test was executed\n",
        code: 1,
        verdicts: [Failed, Inconclusive],
        tests: Some([0, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "Catch2, each sort",
        log: "c2.cc:6: FAILED:\n  CHECK( x==2 )\nwith expansion:\n  1 == 2\n\n===============================================================================\ntest cases: 5 | 1 passed | 1 skipped | 1 failed | 2 failed as expected\nassertions: 5 | 1 passed | 2 failed | 2 failed as expected\n",
        tests: Some([1, 1, 1, 2]),
        told: &["c2.cc:6: FAILED:"],
        ..TOTAL_FAILED
    },
    Run {
        what: "Catch2, failed as expected",
        log: "===============================================================================\ntest cases: 2 | 2 failed as expected\nassertions: 2 | 2 failed as expected\n\n",
        tests: Some([0, 0, 0, 2]),
        ..RUN
    },
    Run {
        what: "cmocka, good",
        log: "[==========] Running 2 test(s).\n[ RUN      ] ok\n[       OK ] ok\n[ RUN      ] sk\n[  SKIPPED ] sk\n[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] sk\n\n 1 SKIPPED TEST(S)\n",
        tests: Some([1, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "cmocka, of two groups",
        log: "[==========] a: Running 1 test(s).\n[ RUN      ] ok\n[       OK ] ok\n[==========] a: 1 test(s) run.\n[  PASSED  ] 1 test(s).\n[==========] b: Running 3 test(s).\n[ RUN      ] good\n[       OK ] good\n[ RUN      ] bad\n[  ERROR   ] --- 0x1 != 0x2\n[   LINE   ] --- cm.c:7: error: Failure!\n[  FAILED  ] bad\n[ RUN      ] sk\n[  SKIPPED ] sk\n[==========] b: 3 test(s) run.\n[  PASSED  ] 1 test(s).\n[  SKIPPED ] b: 1 test(s), listed below:\n[  SKIPPED ] sk\n\n 1 SKIPPED TEST(S)\n[  FAILED  ] b: 1 test(s), listed below:\n[  FAILED  ] bad\n\n 1 FAILED TEST(S)\n",
        tests: Some([2, 1, 1, 0]),
        told: &["0x1 != 0x2 & cm.c:7: error: Failure!"],
        ..TOTAL_FAILED
    },
    Run {
        what: "cmocka, as TAP",
        log: "1..2\nok 1 - ok\nnot ok 2 # SKIP sk\n# ok - t\n",
        tests: Some([1, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "TAP, not ok with a word to skip",
        log: "1..2\nok 1 - a\nnot ok 2 - b # SKIP no network\n",
        tests: Some([1, 1, 0, 0]),
        ..TOTAL_FAILED
    },
    Run {
        what: "busted in GoogleTest's form, an error",
        log: "[==========] Running tests from scanned files.\n[----------] Running tests from spec/err_spec.lua\n[ RUN      ] spec/err_spec.lua @ 1: S ok\n[       OK ] spec/err_spec.lua @ 1: S ok (0.02 ms)\n[ RUN      ] spec/err_spec.lua @ 1: S err\nspec/err_spec.lua:1: boom\n[  ERROR   ] spec/err_spec.lua @ 1: S err (0.11 ms)\n[----------] 2 tests from spec/err_spec.lua (0.51 ms total)\n\n[==========] 2 tests from 1 test file ran. (0.62 ms total)\n[  PASSED  ] 1 test.\n[  ERROR   ] 1 error, listed below:\n[  ERROR   ] spec/err_spec.lua @ 1: S err\n\n 1 ERROR\n",
        tests: Some([1, 1, 0, 0]),
        told: &["[  ERROR   ] spec/err_spec.lua @ 1: S err"],
        ..TOTAL_FAILED
    },
    Run {
        what: "busted in GoogleTest's form, twice",
        log: "[==========] Running tests from scanned files.\n[==========] 2 tests from 1 test file ran. (0.88 ms total)\n[  PASSED  ] 2 tests.\n[==========] Running tests from scanned files.\n[ RUN      ] spec/a_spec.lua @ 1: S bad\nspec/a_spec.lua:1: Expected objects to be equal.\nPassed in:\n(number) 2\n[  FAILED  ] spec/a_spec.lua @ 1: S bad (0.13 ms)\n[==========] 3 tests from 1 test file ran. (0.88 ms total)\n[  PASSED  ] 1 test.\n[ SKIPPED  ] 1 test, listed below:\n[ SKIPPED  ] spec/a_spec.lua @ 1: S p\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] spec/a_spec.lua @ 1: S bad\n\n 1 SKIPPED TEST\n 1 FAILED TEST\n",
        tests: Some([3, 1, 1, 0]),
        told: &["(number) 2 & S bad (0.13 ms)"],
        ..TOTAL_FAILED
    },
    Run {
        what: "GoogleTest, a failure outside of tests",
        log: "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] D.one\n[       OK ] D.one (0 ms)\n[ RUN      ] D.two\n[       OK ] D.two (0 ms)\n[----------] Global test environment tear-down\ngd.cc:8: Failure\nFailed\nenv\n[==========] 2 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 2 tests.\n[  FAILED  ] 0 tests, listed below:\n\n 0 FAILED TESTS\n",
        tests: Some([2, 0, 0, 0]),
        told: &["gd.cc:8: Failure & env"],
        ..TOTAL_FAILED
    },
    Run {
        what: "automake, with the log of its tests",
        log: "PASS: ok.sh\nFAIL: bad.sh\n===========================\n   x 1: ./test-suite.log\n===========================\n\n# TOTAL: 4\n# PASS:  1\n# SKIP:  1\n# XFAIL: 1\n# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n\n.. contents:: :depth: 2\n\nFAIL: bad.sh\n============\n\nFAIL bad.sh (exit status: 1)\n\n============================================================================\nTestsuite summary for x 1\n============================================================================\n# TOTAL: 4\n# PASS:  1\n# SKIP:  1\n# XFAIL: 1\n# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n============================================================================\nSee ./test-suite.log\n============================================================================\n",
        tests: Some([1, 1, 1, 1]),
        ..TOTAL_FAILED
    },
    Run {
        what: "automake, only the log of its tests",
        log: "===========================\n   x 1: ./test-suite.log\n===========================\n\n# TOTAL: 2\n# PASS:  1\n# SKIP:  0\n# XFAIL: 0\n# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n",
        tests: Some([1, 1, 0, 0]),
        ..TOTAL_FAILED
    },
    Run {
        what: "automake, of two directories",
        log: "Testsuite summary for x 1\n============================================================================\n# TOTAL: 2\n# PASS:  2\n# SKIP:  0\n# XFAIL: 0\n# FAIL:  0\n# XPASS: 0\n# ERROR: 0\n============================================================================\nTestsuite summary for x 1\n============================================================================\n# TOTAL: 1\n# PASS:  0\n# SKIP:  1\n# XFAIL: 0\n# FAIL:  0\n# XPASS: 0\n# ERROR: 0\n",
        tests: Some([2, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "test-unit, omitted and pending",
        log: "Finished in 0.011902358 seconds.\n-------------------------------------------------------------------------------\n6 tests, 2 assertions, 1 failures, 1 errors, 1 pendings, 1 omissions, 1 notifications\n40% passed\n-------------------------------------------------------------------------------\n",
        tests: Some([2, 2, 2, 0]),
        ..TOTAL_FAILED
    },
    Run {
        what: "test-unit, good",
        log: "1 tests, 1 assertions, 0 failures, 0 errors, 0 pendings, 0 omissions, 0 notifications\n100% passed\n",
        tests: Some([1, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "test-unit, none ran",
        log: "1 tests, 0 assertions, 0 failures, 0 errors, 0 pendings, 1 omissions, 0 notifications\n0% passed\n",
        verdicts: [Passed, Inconclusive],
        tests: Some([0, 0, 1, 0]),
        ..RUN
    },
    Run {
        what: "PHPUnit, skipped and incomplete",
        log: "OK, but incomplete, skipped, or risky tests!\nTests: 6, Assertions: 2, Warnings: 1, Skipped: 1, Incomplete: 2, Risky: 1.\n",
        tests: Some([3, 0, 3, 0]),
        ..RUN
    },
    Run {
        what: "PHPUnit, incomplete",
        log: "ERRORS!\nTests: 3, Assertions: 2, Errors: 1, Incomplete: 1.\n",
        tests: Some([1, 1, 1, 0]),
        ..TOTAL_FAILED
    },
];

/// A run with exit code 0 whose total counts failed tests.
pub(crate) const TOTAL_FAILED: Run = Run { verdicts: [Inconclusive, Failed], ..RUN };
