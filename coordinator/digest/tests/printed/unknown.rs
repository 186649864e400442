use super::*;

/// Only the exit code shows how the run ended.
pub(crate) const CODE_ONLY: Run = Run { verdicts: [Failed, Inconclusive], ..RUN_FAILED };

/// Tools with few matching recognizers.
pub(crate) const UNKNOWN_TOOLS: &[Run] = &[
    Run {
        what: "QtTest",
        log: "PASS   : TestMath::initTestCase()\nFAIL!  : TestMath::adds() Compared values are not the same\n   Actual   (a): 3\n   Expected (b): 4\n   Loc: [math.cpp(12)]\nTotals: 2 passed, 1 failed, 0 skipped\n",
        told: &["TestMath::adds() & Actual   (a): 3"],
        tests: Some([2, 1, 0, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "meson",
        log: "1/3 adds        OK              0.01s\n2/3 subs        FAIL            0.02s   exit status 1\n",
        told: &["2/3 subs        FAIL"],
        ..RUN_FAILED
    },
    Run {
        what: "CppUnit",
        log: "!!!FAILURES!!!\nTest Results:\nRun:  2   Failures: 1   Errors: 0\n\n1) test: MathTest::testAdds (F) line: 12 MathTest.cpp\nequality assertion failed\n- Expected: 3\n- Actual  : 4\n",
        told: &["equality assertion failed"],
        ..CODE_ONLY
    },
    Run {
        what: "Pester",
        log: "  [-] adds 12ms (10ms|2ms)\n   Expected 3, but got 4.\n",
        told: &["Expected 3, but got 4"],
        ..CODE_ONLY
    },
    Run {
        what: "newman",
        log: "  #  failure         detail\n 1.  AssertionError  Status code is 200\n                     expected response to have status code 200 but got 500\n",
        told: &["expected response to have status code 200"],
        ..RUN_FAILED
    },
    Run {
        what: "npm audit",
        log: "lodash  <4.17.21\nSeverity: high\n3 high severity vulnerabilities\n",
        told: &["3 high severity vulnerabilities"],
        ..CODE_ONLY
    },
    Run {
        what: "curl",
        log: "curl: (22) The requested URL returned error: 404\n",
        told: &["returned error: 404"],
        ..CODE_ONLY
    },
    Run {
        what: "disk, in lower case",
        log: "write /var/lib/x: no space left on device\n",
        told: &["no space left on device"],
        ..CODE_ONLY
    },
    Run {
        what: "a JSON logger",
        log: "{\"level\":\"error\",\"ts\":1,\"msg\":\"cannot open config\"}\n",
        told: &["cannot open config"],
        ..CODE_ONLY
    },
    Run {
        what: "logrus",
        log: "time=\"2024-05-21T10:00:05Z\" level=fatal msg=\"cannot open config\"\n",
        told: &["level=fatal"],
        ..CODE_ONLY
    },
    Run {
        what: "zap",
        log: "2024-05-21T10:00:05.123+0100\tFATAL\tmain.go:12\tcannot open config\n",
        told: &["cannot open config"],
        ..CODE_ONLY
    },
    Run {
        what: "sh",
        log: "sh: line 3: cd: /nope: No such file or directory\n",
        told: &["cd: /nope"],
        ..CODE_ONLY
    },
    Run { what: "fish", log: "fish: Unknown command: foo\n", told: &["Unknown command: foo"], ..CODE_ONLY },
    Run {
        what: "an exception group",
        log: "  + Exception Group Traceback (most recent call last):\n  |   File \"/w/a.py\", line 3, in <module>\n  | ExceptionGroup: many (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | ValueError: no\n    +------------------------------------\n",
        told: &["ValueError: no"],
        ..CODE_ONLY
    },
    Run {
        what: "perl",
        log: "syntax error at a.pl line 3, near \"foo bar\"\n",
        told: &["syntax error at a.pl line 3"],
        ..RUN_FAILED
    },
    Run {
        what: "verilator",
        log: "%Error: a.v:3:5: syntax error, unexpected endmodule\n        : ... note: In instance 't'\n%Error: Exiting due to 1 error(s)\n",
        told: &["%Error: a.v:3:5"],
        ..RUN_FAILED
    },
    Run {
        what: "jest's coverage",
        log: "Jest: \"global\" coverage threshold for lines (80%) not met: 75%\n",
        told: &["coverage threshold for lines"],
        ..RUN_FAILED
    },
    Run {
        what: "gotestsum",
        log: "=== FAIL: example.com/a TestB (0.00s)\n    b_test.go:9: got 3\n\nDONE 2 tests, 1 failure in 0.5s\n",
        told: &["TestB & got 3"],
        tests: Some([1, 1, 0, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "zig test",
        log: "1/2 a.test.adds...OK\n2/2 a.test.subs...FAIL (TestUnexpectedResult)\n/w/a.zig:7:5: 0x1 in test.subs (test)\n    try expect(false);\n    ^\n1 passed; 0 skipped; 1 failed.\n",
        told: &["a.test.subs...FAIL"],
        tests: Some([1, 1, 0, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "Unity",
        log: "test/t.c:12:test_add:FAIL: Expected 3 Was 4\n-----------------------\n2 Tests 1 Failures 0 Ignored\nFAIL\n",
        told: &["test_add:FAIL: Expected 3"],
        ..RUN_FAILED
    },
    Run {
        what: "munit",
        log: "==> X a.MathSuite.adds  0.05s munit.ComparisonFailException: /w/A.scala:5\n  expected 3\n",
        told: &["a.MathSuite.adds & expected 3"],
        ..RUN_FAILED
    },
    Run {
        what: "julia",
        log: "adds: Test Failed at /w/a.jl:3\n  Expression: 1 + 1 == 3\n   Evaluated: 2 == 3\n",
        told: &["Test Failed at /w/a.jl:3 & Evaluated"],
        ..RUN_FAILED
    },
    Run {
        what: "dart analyze",
        log: "  error - lib/main.dart:12:5 - Undefined name 'x'. - undefined_identifier\n",
        told: &["lib/main.dart:12:5"],
        ..CODE_ONLY
    },
    Run {
        what: "azure",
        log: "##vso[task.logissue type=error;sourcepath=a.c;linenumber=3]no such thing\n",
        told: &["no such thing"],
        ..RUN_FAILED
    },
];

/// Messages of several lines.
pub(crate) const WHOLE_MESSAGES: &[Run] = &[
    Run {
        what: "javac",
        log: "Main.java:3: error: cannot find symbol\n    foo();\n    ^\n  symbol:   method foo()\n  location: class Main\n1 error\n",
        told: &["cannot find symbol & symbol:   method foo() & location: class Main"],
        ..RUN_FAILED
    },
    Run {
        what: "Python, groups of exceptions",
        log: include_str!("exception-group.txt"),
        told: &["Traceback & ZeroDivisionError & ExceptionGroup: inner (2 & ExceptionGroup: outer (2 & second line\n      + & base 10: 'x'\n      + & TypeError: t\n    +---"],
        untold: &["worker is done"],
        ..CODE_ONLY
    },
    Run {
        what: "mocha, a difference at the margin",
        log: "\n  math\n    1) deep\n    2) says more\n\n\n  0 passing (3ms)\n  2 failing\n\n  1) math\n       deep:\n\n      AssertionError [ERR_ASSERTION]: Expected values to be strictly deep-equal:\n+ actual - expected\n\n  {\n    a: 1,\n+   b: 2\n-   b: 3\n  }\n\n      + expected - actual\n\n       {\n         \"a\": 1\n      -  \"b\": 2\n      +  \"b\": 3\n       }\n      \n      at Context.<anonymous> (test/a.js:7:12)\n\n  2) math\n       says more:\n     Error: first\nsecond\n\nthird of it\n      at Context.<anonymous> (test/a.js:9:12)\n\nnpm error code 1\nnot a part of it\n",
        tests: Some([0, 2, 0, 0]),
        told: &[
            "deep: & + actual - expected & \n+   b: 2\n-   b: 3\n & +  \"b\": 3 & test/a.js:7:12",
            "says more: & Error: first\nsecond\n\nthird of it\n & test/a.js:9:12",
        ],
        untold: &["not a part of it"],
        ..RUN_FAILED
    },
    Run {
        what: "GHC",
        log: "src/A.hs:3:1: error: [-Wunused-top-binds, -Werror]\n    Defined but not used: \u{2018}x\u{2019}\n",
        told: &["-Wunused-top-binds & Defined but not used"],
        ..RUN_FAILED
    },
    Run {
        what: "gleam",
        log: "error: Unknown variable\n  \u{250c}\u{2500} src/a.gleam:3:3\n  \u{2502}\n3 \u{2502}   foo\n  \u{2502}   ^^^\n",
        told: &["Unknown variable & src/a.gleam:3:3"],
        ..RUN_FAILED
    },
    Run {
        what: "bun",
        log: "error: expect(received).toBe(expected)\n\nExpected: 3\nReceived: 4\n\n      at <anonymous> (/w/a.test.ts:3:13)\n(fail) adds [0.4ms]\n",
        told: &["expect(received).toBe(expected) & Received: 4"],
        ..RUN_FAILED
    },
    Run {
        what: "a Rust stack",
        log: "thread 'c' has overflowed its stack\nfatal runtime error: stack overflow, aborting\n",
        told: &["has overflowed its stack & fatal runtime error"],
        verdicts: [Crashed, Crashed],
        ..RUN_FAILED
    },
    Run {
        what: "valgrind",
        log: "==7== Invalid write of size 4\n==7==    at 0x10915E: main (a.c:5)\n==7==  Address 0x4a is 0 bytes after a block of size 40 alloc'd\n==7== \n==7== ERROR SUMMARY: 1 errors from 1 contexts (suppressed: 0 from 0)\n",
        told: &["Invalid write of size 4 & main (a.c:5)"],
        ..CODE_ONLY
    },
    Run {
        what: "flutter",
        log: "\u{2550}\u{2550}\u{2561} EXCEPTION CAUGHT BY FLUTTER TEST FRAMEWORK \u{255e}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\nThe following TestFailure was thrown running a test:\nExpected: exactly one matching candidate\n\nThe test description was:\n  counts\n\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\u{2550}\n00:02 +0 -1: counts [E]\n  Test failed. See exception logs above.\n",
        told: &["EXCEPTION CAUGHT & Expected: exactly one matching candidate"],
        tests: Some([0, 1, 0, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "rspec, outside of examples",
        log: "An error occurred while loading ./spec/a_spec.rb.\nFailure/Error: Foo.new\n\nNameError:\n  uninitialized constant Foo\n# ./spec/a_spec.rb:1:in `<top (required)>'\nFinished in 0.00002 seconds (files took 0.1 seconds to load)\n0 examples, 0 failures, 1 error occurred outside of examples\n",
        told: &["while loading ./spec/a_spec.rb & uninitialized constant Foo"],

        ..RUN_FAILED
    },
];

/// Lines that look like a cause but are not. The first entry of `told` is the first finding.
pub(crate) const NO_CAUSES: &[Run] = &[
    Run {
        what: "rspec",
        log: "Pending: (Failures listed here are expected and do not affect your suite's status)\n\n  1) Foo is pending\n     # Temporarily skipped with xit\n     # ./spec/a_spec.rb:3\n\nFailures:\n\n  1) Foo adds\n     Failure/Error: expect(4).to eq 3\n\n       expected: 3\n            got: 4\n     # ./spec/a_spec.rb:7:in `block (2 levels) in <top (required)>'\n\nFinished in 0.01 seconds (files took 0.1 seconds to load)\n3 examples, 1 failure, 1 pending\n",
        told: &["Foo adds"],
        untold: &["is pending"],
        tests: Some([1, 1, 1, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "ansible",
        log: "fatal: [web1]: FAILED! => {\"msg\": \"no such unit\"}\n...ignoring\nfatal: [web1]: FAILED! => {\"msg\": \"no such package\"}\n",
        told: &["no such package"],
        untold: &["no such unit"],
        ..CODE_ONLY
    },
    Run {
        what: "gradle",
        log: "MathTest > adds() FAILED\n    org.opentest4j.AssertionFailedError: expected: <3> but was: <4>\n        at MathTest.adds(MathTest.java:12)\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':test'.\n> There were failing tests. See the report at: file:///w/index.html\n\nBUILD FAILED in 3s\n",
        told: &["MathTest > adds() FAILED"],
        ..RUN_FAILED
    },
    Run {
        what: "elixir",
        log: "    error: undefined variable \"x\"\n    \u{2502}\n  3 \u{2502}     x\n    \u{2502}     ^\n    \u{2502}\n    \u{2514}\u{2500} lib/demo.ex:3:5: Demo.f/0\n\n== Compilation error in file lib/demo.ex ==\n** (CompileError) lib/demo.ex: cannot compile module Demo (errors have been logged)\n",
        told: &["undefined variable"],
        ..RUN_FAILED
    },
    Run {
        what: "eslint",
        log: "/w/a.js\n  1:2  error  'x' is not defined  no-undef\n\n\u{2716} 1 problem (1 error, 0 warnings)\n",
        told: &["'x' is not defined"],
        untold: &["\u{2716} 1 problem"],
        ..RUN_FAILED
    },
];

/// Remarks of linters and no other output.
pub(crate) const REMARKS: &[Run] = &[
    Run {
        what: "a linter",
        log: "src/a.py:1:80: E501 line too long (82 > 79 characters)\nsrc/a.py:3:1: F401 'os' imported but unused\n",
        ..CODE_ONLY
    },
    Run {
        what: "a linter",
        log: "\nIn a.sh line 3:\necho $x\n     ^-- SC2086 (info): Double quote to prevent globbing.\n\n",
        ..CODE_ONLY
    },
    Run {
        what: "a linter",
        log: ".github/workflows/ci.yml:7:9: unexpected key \"stepps\" for \"job\" section [syntax-check]\n",
        ..CODE_ONLY
    },
    Run { what: "a linter", log: "a/b.lint:12:3: \"Foo\" is not defined.\n", ..CODE_ONLY },
];
