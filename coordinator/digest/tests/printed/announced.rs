use super::*;

/// Runs that a signal ended, as reported by a shell, and the test that was running.
pub(crate) const ANNOUNCED: &[(Run, &str)] = &[
    (
        Run {
            what: "go",
            log: "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "TestB",
    ),
    (
        Run {
            what: "go, after a failure",
            log: "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n=== RUN   TestB\n",
            code: 139,
            verdicts: [Failed, Failed],
            tests: Some([0, 1, 0, 0]),
            ..RUN
        },
        "TestB",
    ),
    (
        Run {
            what: "gtest",
            log: "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "A.C",
    ),
    (
        Run {
            what: "xctest",
            log: "Test Case '-[A testA]' started.\nTest Case '-[A testA]' passed (0.001 seconds).\nTest Case '-[A testB]' started.\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "-[A testB]",
    ),
    (
        Run {
            what: "Swift Testing",
            log: "◇ Test adds() started.\n✔ Test adds() passed after 0.001 seconds.\n◇ Test subs() started.\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "subs()",
    ),
    (
        Run {
            what: "ctest",
            log: "Test project /w/build\n      Start  1: a b\n 1/3 Test  #1: a b ..............................   Passed    0.00 sec\n      Start  2: b\n 2/3 Test  #2: b ................................***Skipped   0.00 sec\n      Start  3: c\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 1, 0]),
            
            ..RUN
        },
        "c",
    ),
    (
        Run {
            what: "pytest",
            log: "tests/test_a.py::test_one PASSED                                         [ 50%]\ntests/test_a.py::test_two ",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "tests/test_a.py::test_two",
    ),
    (
        Run {
            what: "pytest, a death in the line",
            log: "tests/test_a.py::test_one PASSED                                         [ 50%]\ntests/test_a.py::test_two Segmentation fault (core dumped)\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "tests/test_a.py::test_two",
    ),
    (
        Run {
            what: "pytest, Python's own word",
            log: "tests/test_a.py::test_one PASSED                                         [ 50%]\ntests/test_a.py::test_two Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File \"/w/a.py\", line 3 in f\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "tests/test_a.py::test_two",
    ),
    (
        Run {
            what: "unittest",
            log: "test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... \n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "test_b (t.T.test_b)",
    ),
    (
        Run {
            what: "unittest, a death in the line",
            log: "test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... Killed\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            
            ..RUN
        },
        "test_b (t.T.test_b)",
    ),
    (
        Run {
            what: "cargo",
            log: "running 2 tests\ntest a ... ok\ntest b ... ",
            code: 139,
            verdicts: [Failed, Inconclusive],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "b",
    ),
    (
        Run {
            what: "cargo, its own word in the line",
            log: "running 2 tests\ntest a ... ok\ntest b ... error: test failed, to rerun pass `--lib`\n\nCaused by:\n  process didn't exit successfully: `/w/target/debug/deps/a` (signal: 11, SIGSEGV: invalid memory reference)\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "b",
    ),
    (
        Run {
            what: "cargo, a death in the line",
            log: "running 2 tests\ntest a ... ok\ntest b ... Segmentation fault\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            tests: Some([1, 0, 0, 0]),
            ..RUN
        },
        "b",
    ),
    (
        Run {
            what: "surefire",
            log: "[INFO] Running com.a.FooTest\n[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in com.a.FooTest\n[INFO] Running com.a.BarTest\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "com.a.BarTest",
    ),
    (
        Run {
            what: "surefire 2",
            log: "Running com.a.FooTest\nTests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 sec\nRunning com.a.BarTest\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "com.a.BarTest",
    ),
    (
        Run {
            what: "gradle",
            log: "> Task :test\nMathTest > adds() STARTED\nMathTest > adds() PASSED\nMathTest > subs() STARTED\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "MathTest > subs()",
    ),
    (
        Run {
            what: "minitest",
            log: "TestA#test_adds = 0.00 s = .\nTestA#test_subs = ",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "TestA#test_subs",
    ),
    (
        Run {
            what: "minitest, Ruby's own word",
            log: "TestA#test_adds = 0.00 s = .\nTestA#test_subs = a.rb:3: [BUG] Segmentation fault at 0x0000000000000003\n",
            code: 139,
            verdicts: [Crashed, Crashed],
            
            ..RUN
        },
        "TestA#test_subs",
    ),
    (
        Run {
            what: "phpunit",
            log: "Test 'App\\MathTest::testAdds' started\nTest 'App\\MathTest::testAdds' ended\nTest 'App\\MathTest::testSubs' started\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "App\\MathTest::testSubs",
    ),
    (
        Run {
            what: "phpunit 10",
            log: "Test Prepared (App\\MathTest::testAdds)\nTest Passed (App\\MathTest::testAdds)\nTest Finished (App\\MathTest::testAdds)\nTest Prepared (App\\MathTest::testSubs)\n",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "App\\MathTest::testSubs",
    ),
    (
        Run {
            what: "ExUnit",
            log: "MathTest [test/math_test.exs]\n  * test adds [L#3]\r  * test adds (0.1ms) [L#3]\n  * test subs [L#7]",
            code: 139,
            verdicts: [Failed, Inconclusive],
            
            ..RUN
        },
        "test subs",
    ),
];

/// Reasons of a failure without the usual words of an error.
pub(crate) const REASONS: &[Run] = &[
    Run { what: "python -m", log: "/usr/bin/python: No module named nope\n", told: &["No module named nope"], ..CODE_ONLY },
    Run { what: "python", log: "python3: can't open file '/w/a.py': [Errno 2] No such file or directory\n", told: &["can't open file"], ..CODE_ONLY },
    Run { what: "jest", log: "No tests found, exiting with code 1\nRun with `--passWithNoTests` to exit with code 0\nIn /w\n  2 files checked.\n", told: &["No tests found"], ..CODE_ONLY },
    Run { what: "phpunit", log: "PHPUnit 9.6.0 by Sebastian Bergmann and contributors.\n\nNo tests executed!\n", told: &["No tests executed!"], ..CODE_ONLY },
    Run { what: "pytest", log: "============================= test session starts ==============================\ncollected 0 items\n\n============================ no tests ran in 0.01s =============================\n", code: 5, tests: Some([0, 0, 0, 0]), told: &["no tests ran"], ..CODE_ONLY },
    Run { what: "pytest, all deselected", log: "collected 3 items / 3 deselected / 0 selected\n\n============================ 3 deselected in 0.01s =============================\n", code: 5, tests: Some([0, 0, 0, 0]), told: &["3 deselected"], ..CODE_ONLY },
    Run { what: "eslint", log: "\nOops! Something went wrong! :(\n\nESLint: 8.57.0\n\nNo files matching the pattern \"src/**/*.foo\" were found.\nPlease check for typing mistakes in the pattern.\n\n", told: &["No files matching the pattern"], ..RUN_FAILED },
    Run { what: "TAP", log: "TAP version 13\n1..3\nok 1 - a\nBail out! Database is down.\n", tests: Some([1, 0, 0, 0]), told: &["Bail out! Database is down."], ..RUN_FAILED },
    Run { what: "shellcheck -f gcc", log: "a.sh:3:6: warning: x is referenced but not assigned. [SC2154]\na.sh:4:1: note: Double quote to prevent globbing. [SC2086]\n", told: &["x is referenced but not assigned"], ..CODE_ONLY },
    Run { what: "clang-tidy", log: "a.cpp:3:6: warning: do not use 'else' after 'return' [readability-else-after-return]\n", told: &["do not use 'else'"], ..CODE_ONLY },
    Run { what: "diff", log: "Files a and b differ\n", told: &["Files a and b differ"], ..CODE_ONLY },
    Run { what: "a flag", log: "tool: option --foo is not recognized\n", told: &["--foo is not recognized"], ..CODE_ONLY },
];
