use super::*;

/// Test runners.
pub(crate) const RUNNERS: &[Case] = &[
    Case {
        tool: "dotnet test",
        log: "Starting test execution, please wait...\n  Failed App.Tests.MathTests.Adds [12 ms]\n  Error Message:\n   Assert.Equal() Failure\nExpected: 3\nActual:   4\n  Stack Trace:\n     at App.Tests.MathTests.Adds() in /w/MathTests.cs:line 12\n\nFailed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5, Duration: 30 ms - App.Tests.dll (net8.0)\n",
        facts: &[("App.Tests.MathTests.Adds", NOWHERE, 0), ("Assert.Equal() Failure", "/w/MathTests.cs", 12), ("Actual:   4", NOWHERE, 0)],
        tests: [4, 1, 0],
    },
    Case {
        tool: "phpunit",
        log: "PHPUnit 10.5.0 by Sebastian Bergmann and contributors.\n\n..F                                                                 3 / 3 (100%)\n\nThere was 1 failure:\n\n1) AppTest::testAdds\nFailed asserting that 4 matches expected 3.\n\n/w/tests/AppTest.php:12\n\nFAILURES!\nTests: 3, Assertions: 3, Failures: 1.\n",
        facts: &[("AppTest::testAdds", "/w/tests/AppTest.php", 12), ("Failed asserting that 4", NOWHERE, 0)],
        tests: [2, 1, 0],
    },
    Case {
        tool: "pest",
        log: "   FAIL  Tests\\Unit\\AppTest\n  \u{2a2f} it adds                                          0.01s  \n  \u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\n   FAILED  Tests\\Unit\\AppTest > it adds\n  Failed asserting that 4 is identical to 3.\n\n  at tests/Unit/AppTest.php:6\n\n  Tests:    1 failed, 2 passed (3 assertions)\n  Duration: 0.05s\n",
        facts: &[("Failed asserting that 4", NOWHERE, 0)],
        tests: [2, 1, 0],
    },
    Case {
        tool: "minitest",
        log: "Run options: --seed 1\n\n# Running:\n\n.F\n\n  1) Failure:\nTestApp#test_adds [test/app_test.rb:12]:\nExpected: 3\n  Actual: 4\n\n2 runs, 2 assertions, 1 failures, 0 errors, 0 skips\n",
        facts: &[("TestApp#test_adds", "test/app_test.rb", 12), ("Actual: 4", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "rails test",
        log: "Running 2 tests in a single process\n\nF\n\nFailure:\nUserTest#test_name [test/models/user_test.rb:5]:\nExpected false to be truthy.\n\n\nbin/rails test test/models/user_test.rb:4\n\n.\n\nFinished in 0.1s\n2 runs, 2 assertions, 1 failures, 0 errors, 0 skips\n",
        facts: &[("UserTest#test_name", "test/models/user_test.rb", 5), ("Expected false to be truthy", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "playwright",
        log: "Running 3 tests using 1 worker\n\n  \u{2713}  1 [chromium] \u{203a} a.spec.ts:3:5 \u{203a} loads (1.0s)\n  \u{2718}  2 [chromium] \u{203a} a.spec.ts:9:5 \u{203a} clicks (2.0s)\n\n  1) [chromium] \u{203a} a.spec.ts:9:5 \u{203a} clicks \u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\n\n    Error: expect(received).toBe(expected) // Object.is equality\n\n    Expected: 3\n    Received: 4\n\n      10 |   const n = await count();\n    > 11 |   expect(n).toBe(3);\n         |             ^\n        at /w/a.spec.ts:11:13\n\n  1 failed\n    [chromium] \u{203a} a.spec.ts:9:5 \u{203a} clicks \u{2500}\u{2500}\u{2500}\u{2500}\n  1 skipped\n  1 passed (4.1s)\n",
        facts: &[("a.spec.ts:9:5 \u{203a} clicks", NOWHERE, 0), ("Received: 4", "/w/a.spec.ts", 11)],
        tests: [1, 1, 1],
    },
    Case {
        tool: "cypress",
        log: "  Login\n    1) signs in\n\n  0 passing (5s)\n  1 failing\n\n  1) Login\n       signs in:\n     AssertionError: Timed out retrying after 4000ms: Expected to find element: `#name`, but never found it.\n      at Context.eval (webpack:///./cypress/e2e/login.cy.js:5:7)\n\n  (Results)\n  \u{2502} Tests:        1 \u{2502}\n  \u{2502} Failing:      1 \u{2502}\n\n      \u{2716}  1 of 1 failed (100%)                     00:05        1        -        1        -        -  \n",
        facts: &[("Expected to find element: `#name`", NOWHERE, 0)],
        tests: [0, 1, 0],
    },
    Case {
        tool: "bazel test",
        log: "FAIL: //a:b_test (see /root/.cache/bazel/testlogs/a/b_test/test.log)\nINFO: Found 2 test targets...\n//a:a_test                                                               PASSED in 0.1s\n//a:b_test                                                               FAILED in 0.3s\n  /root/.cache/bazel/testlogs/a/b_test/test.log\n\nExecuted 2 out of 2 tests: 1 test passes and 1 fails locally.\n",
        facts: &[("//a:b_test", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "flutter test",
        log: "00:01 +0: adds\n00:01 +1: subtracts\n00:02 +1 -1: multiplies [E]\n  Expected: <6>\n    Actual: <5>\n\n  package:matcher                                     expect\n  test/math_test.dart 12:5                            main.<fn>\n\n00:02 +1 -1: Some tests failed.\n",
        facts: &[("multiplies [E]", NOWHERE, 0), ("Actual: <5>", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "prove",
        log: "t/a.t .. 1/3 \n#   Failed test 'adds'\n#   at t/a.t line 12.\n#          got: '4'\n#     expected: '3'\n# Looks like you failed 1 test of 3.\nt/a.t .. Dubious, test returned 1 (wstat 256, 0x100)\nFailed 1/3 subtests \n\nTest Summary Report\n-------------------\nt/a.t (Wstat: 256 (exited 1) Tests: 3 Failed: 1)\n  Failed test:  2\n  Non-zero exit status: 1\nFiles=1, Tests=3,  0 wallclock secs\nResult: FAIL\n",
        facts: &[("Failed test 'adds'", "t/a.t", 12), ("got: '4'", NOWHERE, 0)],
        tests: NO_TESTS,
    },
    Case {
        tool: "hspec",
        log: "Failures:\n\n  test/MathSpec.hs:12:9: \n  1) Math adds\n       expected: 3\n        but got: 4\n\n  To rerun use: --match \"/Math/adds/\"\n\nFinished in 0.0003 seconds\n2 examples, 1 failure\n",
        facts: &[("Math adds", NOWHERE, 0), ("but got: 4", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "scalatest under sbt",
        log: "[info] MathSpec:\n[info] - adds *** FAILED ***\n[info]   4 did not equal 3 (MathSpec.scala:12)\n[info] Run completed in 200 milliseconds.\n[info] Total number of tests run: 2\n[info] Tests: succeeded 1, failed 1, canceled 0, ignored 0, pending 0\n[info] *** 1 TEST FAILED ***\n[error] Failed tests:\n[error] \tMathSpec\n[error] (Test / test) sbt.TestsFailedException: Tests unsuccessful\n",
        facts: &[("adds *** FAILED ***", "MathSpec.scala", 12), ("4 did not equal 3", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "testthat",
        log: "\u{2500}\u{2500} Failure ('test-math.R:3:3'): adds \u{2500}\u{2500}\u{2500}\u{2500}\nadd(1, 2) not equal to 3.\n1/1 mismatches\n[1] 4 - 3 == 1\n\n[ FAIL 1 | WARN 0 | SKIP 0 | PASS 2 ]\n",
        facts: &[("adds", "test-math.R", 3), ("add(1, 2) not equal to 3", NOWHERE, 0)],
        tests: [2, 1, 0],
    },
    Case {
        tool: "junit console",
        log: "Failures (1):\n  JUnit Jupiter:MathTest:adds()\n    MethodSource [className = 'MathTest', methodName = 'adds', methodParameterTypes = '']\n    => org.opentest4j.AssertionFailedError: expected: <3> but was: <4>\n       MathTest.adds(MathTest.java:12)\n\n[         2 tests found           ]\n[         1 tests successful      ]\n[         1 tests failed          ]\n",
        facts: &[("expected: <3> but was: <4>", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "deno test",
        log: "running 2 tests from ./a_test.ts\nadds ... FAILED (2ms)\nsubtracts ... ok (0ms)\n\n ERRORS \n\nadds => ./a_test.ts:3:6\nerror: AssertionError: Values are not equal.\n    at file:///w/a_test.ts:4:3\n\n FAILURES \n\nadds => ./a_test.ts:3:6\n\nFAILED | 1 passed | 1 failed (10ms)\n",
        facts: &[("Values are not equal", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "bun test",
        log: "a.test.ts:\n(pass) subtracts [0.1ms]\n1 | expect(4).toBe(3)\n              ^\nerror: expect(received).toBe(expected)\n\nExpected: 3\nReceived: 4\n      at /w/a.test.ts:3:13\n(fail) adds [0.4ms]\n\n 1 pass\n 1 fail\n 2 expect() calls\nRan 2 tests across 1 file. [5.00ms]\n",
        facts: &[("expect(received).toBe(expected)", NOWHERE, 0), ("adds", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "cucumber",
        log: "Failing Scenarios:\ncucumber features/a.feature:3 # Scenario: adds\n\n2 scenarios (1 failed, 1 passed)\n6 steps (1 failed, 5 passed)\n",
        facts: &[("features/a.feature:3", "features/a.feature", 3)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "robot framework",
        log: "Adds                                                                  | FAIL |\n4 != 3\n------------------------------------------------------------------------------\nMath                                                                  | FAIL |\n2 tests, 1 passed, 1 failed\n",
        facts: &[("Adds", NOWHERE, 0), ("4 != 3", NOWHERE, 0)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "behave",
        log: "Failing scenarios:\n  features/a.feature:7  Adds\n\n0 features passed, 1 failed, 0 skipped\n1 scenario passed, 1 failed, 0 skipped\n4 steps passed, 1 failed, 0 skipped, 0 undefined\n",
        facts: &[("features/a.feature:7", "features/a.feature", 7)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "tox",
        log: "  py311: FAIL code 1 (2.00=setup[1.00]+cmd[1.00] seconds)\n  py312: OK (2.00 seconds)\n  evaluation failed :( (4.10 seconds)\n",
        facts: &[("py311: FAIL code 1", NOWHERE, 0)],
        tests: NO_TESTS,
    },
    Case {
        tool: "pre-commit",
        log: "trim trailing whitespace.................................................Failed\n- hook id: trailing-whitespace\n- exit code: 1\n- files were modified by this hook\n\nFixing a.py\n\ncheck yaml...............................................................Passed\n",
        facts: &[("trim trailing whitespace", NOWHERE, 0), ("hook id: trailing-whitespace", NOWHERE, 0)],
        tests: NO_TESTS,
    },
    Case {
        tool: "busted",
        log: "5 successes / 1 failure / 0 errors / 0 pending : 0.01 seconds\n\nFailure \u{2192} spec/a_spec.lua @ 12\nMath adds\nspec/a_spec.lua:13: Expected objects to be equal.\n",
        facts: &[("Expected objects to be equal", "spec/a_spec.lua", 13)],
        tests: [5, 1, 0],
    },
];
