use super::*;

/// Crashed programs and the tools that ran them: the excerpt, a part of a finding's message, and
/// the expected signal.
pub(crate) const CHILDREN: &[(Case, &str)] = &[
    (
        Case {
            tool: "gcc, a part that was killed",
            log: "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nmake: *** [Makefile:12: a.o] Error 1\n",
            facts: &[("Killed signal terminated program cc1plus", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "gcc, before version 9",
            log: "c++: internal compiler error: Killed (program cc1plus)\nPlease submit a full bug report,\nwith preprocessed source if appropriate.\n",
            facts: &[("Killed (program cc1plus)", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "gcc, a linker that died",
            log: "collect2: fatal error: ld terminated with signal 9 [Killed]\ncompilation terminated.\n",
            facts: &[("ld terminated with signal 9", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "clang, a part that died",
            log: "clang: error: unable to execute command: Segmentation fault (core dumped)\nclang: error: clang frontend command failed due to signal (use -v to see invocation)\n",
            facts: &[("unable to execute command: Segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "gcc, an internal error",
            log: "during RTL pass: expand\na.c: In function 'f':\na.c:7:3: internal compiler error: Segmentation fault\n    7 |   g();\n      |   ^~~\nPlease submit a full bug report\n",
            facts: &[("internal compiler error: Segmentation fault", "a.c", 7)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "MSVC, an internal error",
            log: "c:\\src\\a.cpp(12): fatal error C1001: Internal compiler error.\n",
            facts: &[("Internal compiler error", "c:\\src\\a.cpp", 12)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "rustc, which died",
            log: "error: rustc interrupted by SIGSEGV, printing backtrace\n\n/usr/lib/librustc_driver.so(+0x1)[0x7f]\nerror: could not compile `a` (lib)\n",
            facts: &[("rustc interrupted by SIGSEGV", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "rustc, a linker that died",
            log: "error: linking with `cc` failed: signal: 11 (SIGSEGV) (core dumped)\n  |\n  = note: some arguments are omitted\n\nerror: could not compile `a` (bin \"a\") due to 1 previous error\n",
            facts: &[("failed: signal: 11", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "maven surefire, a process that died",
            log: "[INFO] Running com.a.FooTest\n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:3.1.2:test (default-test) on project a: \n[ERROR] \n[ERROR] The forked VM terminated without properly saying goodbye. VM crash or System.exit called?\n[ERROR] Command was /bin/sh -c cd '/w' && java -jar b.jar\n[ERROR] Error occurred in starting fork, check output in log\n[ERROR] Process Exit Code: 134\n[ERROR] Crashed tests:\n[ERROR] com.a.FooTest\n[ERROR] -> [Help 1]\n",
            facts: &[("The forked VM terminated", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGABRT",
    ),
    (
        Case {
            tool: "gradle, a test process that died",
            log: "> Task :test FAILED\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':test'.\n> Process 'Gradle Test Executor 1' finished with non-zero exit value 139\n  This problem might be caused by incorrect test process configuration.\n\nBUILD FAILED in 3s\n",
            facts: &[("Gradle Test Executor 1' finished", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "gradle, a daemon that is gone",
            log: "Gradle build daemon disappeared unexpectedly (it may have been killed or may have crashed)\n",
            facts: &[("daemon disappeared unexpectedly", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "xdist",
            log: "[gw0] node down: Not properly terminated\nreplacing crashed worker gw0\n\n=================================== FAILURES ===================================\n_______________________________ tests/test_a.py ________________________________\n[gw0] linux -- Python 3.11.7 /usr/bin/python\nworker 'gw0' crashed while running 'tests/test_a.py::test_b'\n=========================== short test summary info ============================\nFAILED tests/test_a.py::test_b\n========================= 1 failed, 3 passed in 0.50s ==========================\n",
            facts: &[("worker 'gw0' crashed while running", NOWHERE, 0)],
            tests: [3, 1, 0],
        },
        "",
    ),
    (
        Case {
            tool: "xdist, in the failures' section",
            log: "_______________________________ tests/test_a.py ________________________________\n[gw0] linux -- Python 3.11.7 /usr/bin/python\nworker 'gw0' crashed while running 'tests/test_a.py::test_b'\n=========================== short test summary info ============================\nFAILED tests/test_a.py::test_b\n========================= 1 failed, 3 passed in 0.50s ==========================\n",
            facts: &[("worker 'gw0' crashed while running", NOWHERE, 0)],
            tests: [3, 1, 0],
        },
        "",
    ),
    (
        Case {
            tool: "mocha, a worker that ended",
            log: "\n  0 passing (1s)\n  1 failing\n\n  1) Uncaught error outside test suite:\n     Uncaught Workerpool Worker terminated Unexpectedly\n    exitCode: `1`\n    signalCode: `null`\n",
            facts: &[("Workerpool Worker terminated", NOWHERE, 0)],
            tests: [0, 1, 0],
        },
        "",
    ),
    (
        Case {
            tool: "jest, a worker that died",
            log: "FAIL src/a.test.js\n  ● Test suite failed to run\n\n    A jest worker process (pid=1234) was terminated by another process: signal=SIGSEGV, exitCode=null. Operating system logs may contain more information on why this occurred.\n\n      at ChildProcessWorker._onExit (node_modules/jest-worker/build/index.js:830:23)\n\nTest Suites: 1 failed, 1 total\nTests:       0 total\n",
            facts: &[("terminated by another process: signal=SIGSEGV", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "vitest, a worker that died",
            log: "⎯⎯⎯⎯⎯⎯ Unhandled Errors ⎯⎯⎯⎯⎯⎯\n\n⎯⎯⎯⎯⎯⎯ Unhandled Error ⎯⎯⎯⎯⎯⎯⎯\nError: [vitest-pool]: Worker forks emitted error.\n ❯ EventEmitter.<anonymous> node_modules/vitest/dist/chunks/cli-api.js:7481:22\n\nCaused by: Error: Worker exited unexpectedly\n ❯ ChildProcess.emitUnexpectedExit node_modules/vitest/dist/chunks/cli-api.js:7000:22\n",
            facts: &[("Worker forks emitted error", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "playwright, a worker that died",
            log: "Running 1 test using 1 worker\n\n  1) a.spec.ts:3:5 › loads ──────\n\n    Error: worker process exited unexpectedly (code=null, signal=SIGSEGV)\n\n  1 failed\n    a.spec.ts:3:5 › loads ──────\n",
            facts: &[("worker process exited unexpectedly", NOWHERE, 0)],
            tests: [0, 1, 0],
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "mocha, a worker that died",
            log: "\n  1) Uncaught error outside test suite\n\n  0 passing (1s)\n  1 failing\n\n  1) Uncaught error outside test suite:\n     Uncaught Workerpool Worker terminated Unexpectedly\n    exitCode: `null`\n    signalCode: `SIGKILL`\n    workerpool.script: `/w/worker.js`\n",
            facts: &[("Workerpool Worker terminated", NOWHERE, 0)],
            tests: [0, 1, 0],
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "dotnet, a host that died",
            log: "The active test run was aborted. Reason: Test host process crashed : Unhandled exception. System.AccessViolationException\nTest Run Aborted.\n",
            facts: &[("Test host process crashed", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "nextest, a test that died",
            log: "    Starting 2 tests across 1 binary\n        PASS [   0.050s] (1/2) c t::a\n     SIGSEGV [   0.630s] (2/2) c t::b\n────────────\n     Summary [   0.631s] 2 tests run: 1 passed, 1 failed, 0 skipped\n     SIGSEGV [   0.630s] (2/2) c t::b\nerror: test run failed\n",
            facts: &[("c t::b", NOWHERE, 0)],
            tests: [1, 1, 0],
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "npm, a script that died",
            log: "npm error path /w\nnpm error command failed\nnpm error signal SIGSEGV\nnpm error command sh -c node a.js\n",
            facts: &[("signal SIGSEGV", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "yarn, a script that died",
            log: "$ node a.js\nerror Command failed with signal \"SIGABRT\".\n",
            facts: &[("Command failed with signal", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGABRT",
    ),
    (
        Case {
            tool: "pnpm, a script that died",
            log: " ELIFECYCLE  Command failed with signal \"SIGKILL\".\n",
            facts: &[("Command failed with signal", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "go, a compiler that was killed",
            log: "go build example.com/a: /usr/local/go/pkg/tool/linux_amd64/compile: signal: killed\n",
            facts: &[("compile: signal: killed", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGKILL",
    ),
    (
        Case {
            tool: "go, a test program that died",
            log: "signal: segmentation fault (core dumped)\nFAIL\texample.com/a\t0.012s\nFAIL\n",
            facts: &[("signal: segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "bazel, an action that died",
            log: "ERROR: /w/a/BUILD:3:11: Compiling a/b.cc failed: (Segmentation fault): gcc failed: error executing command /usr/bin/gcc -c a/b.cc\nINFO: Elapsed time: 1.2s\nFAILED: Build did NOT complete successfully\n",
            facts: &[("failed: (Segmentation fault)", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "bazel, a server that died",
            log: "\nServer terminated abruptly (error code: 14, error message: 'Socket closed', log file: '/w/server/jvm.out')\n",
            facts: &[("Server terminated abruptly", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "Python, a pool's process that died",
            log: "Traceback (most recent call last):\n  File \"/w/a.py\", line 9, in <module>\n    f.result()\nconcurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.\n",
            facts: &[("terminated abruptly", "/w/a.py", 9)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "Python, its own death",
            log: "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File \"/w/a.py\", line 3 in f\n",
            facts: &[("Fatal Python error: Segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "Ruby",
            log: "a.rb:3: [BUG] Segmentation fault at 0x0000000000000003\nruby 3.2.2 (2023-03-30) [x86_64-linux]\n",
            facts: &[("[BUG] Segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "R",
            log: "\n *** caught segfault ***\naddress 0x8, cause 'memory not mapped'\n\nTraceback:\n 1: f()\n",
            facts: &[("caught segfault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "Julia",
            log: "\n[2143] signal (11.1): Segmentation fault\nin expression starting at /w/a.jl:3\n",
            facts: &[("signal (11.1): Segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "Erlang",
            log: "Slogan: eheap_alloc: Cannot allocate 1 bytes of memory (of type \"heap\").\nCrash dump is being written to: erl_crash.dump...done\n",
            facts: &[("Crash dump is being written", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "",
    ),
    (
        Case {
            tool: "xargs",
            log: "xargs: ./a.out: terminated by signal 11\n",
            facts: &[("terminated by signal 11", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "MPI",
            log: "mpirun noticed that process rank 0 with PID 12 on node a exited on signal 6 (Aborted).\n",
            facts: &[("exited on signal 6", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGABRT",
    ),
    (
        Case {
            tool: "Python, a command that died",
            log: "subprocess.CalledProcessError: Command '['./a.out']' died with <Signals.SIGABRT: 6>.\n",
            facts: &[("died with <Signals.SIGABRT: 6>", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGABRT",
    ),
    (
        Case {
            tool: "make, terminated",
            log: "make: *** [Makefile:3: run] Terminated\n",
            facts: &[("Terminated", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGTERM",
    ),
    (
        Case {
            tool: "make, a fault",
            log: "make: *** [Makefile:3: run] Segmentation fault (core dumped)\n",
            facts: &[("Segmentation fault", NOWHERE, 0)],
            tests: NO_TESTS,
        },
        "SIGSEGV",
    ),
    (
        Case {
            tool: "ctest, a test that was killed",
            log: "Test project /w/build\n    Start 1: a\n1/1 Test #1: a ................................***Exception: Child killed  0.00 sec\n\n0% tests passed, 1 tests failed out of 1\n\nThe following tests FAILED:\n\t  1 - a (Child killed)\nErrors while running CTest\n",
            facts: &[("a ................................***Exception: Child killed", NOWHERE, 0)],
            tests: [0, 1, 0],
        },
        "",
    ),
];
