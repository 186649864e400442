/// Runs that exited with 0 although they were cut short or a tool reported a failure: name, log,
/// part of the cause.
pub(crate) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "cargo",
        "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\nrunning 3 tests\ntest a ... ok\ntest b ... ok\n",
        "1 test that a runner announced",
    ),
    (
        "cargo, at once",
        "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\nrunning 3 tests\n",
        "3 tests",
    ),
    (
        "nextest",
        "    Starting 2 tests across 1 binary\n        PASS [   0.004s] (1/2) app tests::a\n",
        "1 test",
    ),
    ("pytest", "== test session starts ==\ncollected 5 items\n\ntests/test_a.py ..", "5 tests"),
    (
        "pytest, some selected",
        "== test session starts ==\ncollecting ... collected 9 items / 7 deselected / 2 selected\n\na.py .",
        "2 tests",
    ),
    (
        "pytest -v",
        "x.py::test_a PASSED [ 25%]\nx.py::test_b FAILED [ 50%]\nx.py::test_c PASS",
        "1 test as failed",
    ),
    ("xdist -v", "[gw1] [ 50%] FAILED x.py::test_b \n", "1 test as failed"),
    (
        "pytest-timeout",
        "a.py \n++++++++++++++++ Timeout ++++++++++++++++\n\n~~ Stack of MainThread (1) ~~\n  File \"/x/a.py\", line 4, in test_x\n\n++++++++++++++++ Timeout ++++++++++++++++\n",
        "Timeout",
    ),
    ("TAP", "TAP version 13\n1..5\nok 1 - a\nok 2 - b\n", "3 tests"),
    ("TAP, bailed out", "1..2\nok 1 - a\nok 2 - b\nBail out! the database is gone\n", "Bail out!"),
    (
        "gtest",
        "[==========] Running 3 tests from 1 test suite.\n[ RUN      ] A.a\n[       OK ] A.a (0 ms)\n",
        "2 tests",
    ),
    (
        "Playwright",
        "Running 4 tests using 2 workers\n\n  \u{2713}  1 a.spec.ts:3:1 \u{203a} a (10ms)\n",
        "4 tests",
    ),
    (
        "jest",
        "PASS src/a.test.js\n  \u{25cf} process.exit called with \"0\"\n\n      at x (src/a.js:1:1)\n",
        "process.exit",
    ),
    ("tsc", "src/a.ts(1,1): error TS2304: Cannot find name 'x'.\n", "TS2304"),
    ("tsc, in colour", "src/a.ts:1:1 - error TS2304: Cannot find name 'x'.\n\n1 x\n  ~\n", "TS2304"),
    (
        "clang",
        "a.c:1:1: error: unknown type name 'x'\n1 warning and 1 error generated.\n",
        "1 error generated",
    ),
    ("javac", "A.java:1: error: class expected\nclas A {}\n^\n1 error\n", "1 error"),
    ("ld", "a.o: undefined reference to `f'\ncollect2: error: ld returned 1 exit status\n", "ld returned 1"),
    ("esbuild", "\u{2718} [ERROR] Could not resolve \"x\"\n\n    a.js:1:7:\n\n1 error\n", "1 error"),
    (
        "jasmine",
        "Started\n.F\n\nFailures:\n1) A does b\n  Message:\n    Expected 1 to be 2.\n  Stack:\n    at UserContext.<anonymous> (/x/a.spec.js:3:15)\n\n2 specs, 1 failure\n",
        "2 specs, 1 failure",
    ),
];

/// Runs that look similar and passed.
pub(crate) const WHOLE: &[(&str, &str)] = &[
    (
        "cargo, twice",
        "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\n\nrunning 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored\n",
    ),
    ("a script", "now\nrunning 12 tests\nall of them are fine\n"),
    ("pytest", "collected 2 items\n\ntests/test_a.py ..\n\n============ 2 passed in 0.10s ============\n"),
    (
        "pytest that lists",
        "collected 2 items\n\n<Module a.py>\n\n=========== 2 tests collected in 0.01s ===========\n",
    ),
    (
        "pytest with reruns",
        "collected 1 item\n\na.py::test_a RERUN [100%]\na.py::test_a PASSED [100%]\n\n========= 1 passed, 1 rerun in 0.10s =========\n",
    ),
    ("TAP", "1..2\nok 1 - a\nok - b\n"),
    ("a range", "pages 1 to 5 are\n1..5\n"),
    (
        "gtest",
        "[==========] Running 1 test from 1 test suite.\n[ RUN      ] A.a\n[       OK ] A.a (0 ms)\n[==========] 1 test from 1 test suite ran. (0 ms total)\n[  PASSED  ] 1 test.\n",
    ),
    ("Playwright", "Running 1 test using 1 worker\n\n  1 passed (1.2s)\n"),
    (
        "eslint",
        "/x/a.js\n  1:1  warning  Unexpected console  no-console\n\n\u{2716} 1 problem (0 errors, 1 warning)\n",
    ),
    (
        "tsc that watches",
        "a.ts(1,1): error TS2304: Cannot find name 'x'.\n[04:12:13] File change detected.\n[04:12:14] Found 0 errors. Watching for file changes.\n",
    ),
    ("jasmine", "Started\n..\n\n2 specs, 0 failures\n"),
    ("a list", "1) first\n2) second\n"),
];
