use super::*;

/// Runs with common words that a known tool prints for a failure or a start. Any program can print
/// them.
pub(crate) const COMMON_WORDS: &[Run] = &[
    Run { what: "a success of buck in the words of pip", log: "BUILDING: FINISHED IN 5.7s (100%) 6/6 JOBS, 6 UPDATED\nSuccessfully installed //app:tests. (Use `buck install -r //app:tests` to run.)\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "pip with its own line before", log: "Collecting requests\nInstalling collected packages: requests\nSuccessfully installed requests-2.31.0\n", verdicts: [Passed, Passed], ..RUN },
    Run { what: "a script that ends in the words of prove", log: "deployed\nResult: PASS\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "a script that ends in the words of regrtest", log: "deployed\nResult: SUCCESS\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "a script that ends in the words of Sphinx", log: "compiling\nbuild succeeded.\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "a runner of one's own that counts its failures as GoogleTest does", log: "PASS a\nPASS b\n12 PASSED TESTS\n0 FAILED TESTS\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "a runner of one's own that counts its failures in columns", log: "12 PASSED TESTS\n 0 FAILED TESTS\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "GoogleTest, and a runner of one's own", log: "[==========] Running 1 test from 1 test suite.\n[ RUN      ] A.a\n[       OK ] A.a (0 ms)\n[==========] 1 test from 1 test suite ran. (0 ms total)\n[  PASSED  ] 1 test.\n12 PASSED TESTS\n0 FAILED TESTS\n", tests: Some([1, 0, 0, 0]), ..RUN },
    Run { what: "PHPUnit, its version, and a directory", log: "PHPUnit 9.6.13 by Sebastian Bergmann and contributors.\n\n.\n..\na.php\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit, its version in a line, and a directory", log: "PHPUnit 9.6.13 by Sebastian Bergmann and contributors.\n.\n..\na.php\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit, its version, and tests below a directory", log: "PHPUnit 9.6.13 by Sebastian Bergmann and contributors.\n\n.\n./a.php\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit, its version, and another word", log: "PHPUnit 9.6.13 by Sebastian Bergmann and contributors.\nComposer version 2.7\nDNS\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit without its results", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\nConfiguration: /w/phpunit.xml\n\n...............................................................  63 / 66 ( 95%)\n...                                                             66 / 66 (100%)\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit without its results, all marks in one line", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\n\n..S                                                                 3 / 3 (100%)\n", verdicts: [Passed, Inconclusive], ..RUN },
    Run { what: "PHPUnit without its results, of which one failed", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\n\n..F............................................................  63 / 66 ( 95%)\n...                                                             66 / 66 (100%)\n", ..RUN_CUT },
    Run { what: "PHPUnit, the first test prints a line, cut", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\n\nseeding\n.\n", ..RUN_CUT },
    Run { what: "PHPUnit, tests print the ends of lines, cut", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\n\n.\n..", ..RUN_CUT },
    Run { what: "PHPUnit 9, the second line is a mark, cut", log: "PHPUnit 9.6.7 by Sebastian Bergmann and contributors.\n\n.\n.", ..RUN_CUT },
    Run { what: "PHPUnit, cut in its second line", log: "PHPUnit 10.5.5 by Sebastian Bergmann and contributors.\n\nRuntime:       PHP 8.2.7\n\n...............................................................  63 / 66 ( 95%)\n..", ..RUN_CUT },
];

/// Tests of Nim's own framework.
pub(crate) const NIM: &[Run] = &[
    Run { what: "Nim's unittest", log: "[Suite] sums\n    /w/t.nim(4, 21): Check failed: a == 2\n    a was 1\n  [FAILED] bad\n  [OK] ok\n    /w/t.nim(9)              t\n\n    Unhandled exception: no [ValueError]\n  [FAILED] raises\nError: execution of an external program failed: '/w/t '\n", told: &["Check failed: a == 2 & a was 1", "Unhandled exception: no"], ..RUN_FAILED },
    Run { what: "Nim's unittest behind a pipe", log: "[Suite] sums\n    /w/t.nim(4, 21): Check failed: a == 2\n    a was 1\n  [FAILED] bad\n  [OK] ok\n    /w/t.nim(9)              t\n\n    Unhandled exception: no [ValueError]\n  [FAILED] raises\nError: execution of an external program failed: '/w/t '\n", told: &["Check failed: a == 2 & a was 1", "Unhandled exception: no"], ..RUN_HIDDEN },
    Run { what: "Nim's unittest without a suite", log: "  /w/t.nim(4, 9): Expect Failed, no exception was thrown.\n[FAILED] throws\nError: execution of an external program failed: '/w/t '\n", told: &["Expect Failed, no exception was thrown"], ..RUN_FAILED },
    Run { what: "a program that reports an exception and continues", log: "  Unhandled exception: no [ValueError]\ngoing on\n", verdicts: [Passed, Inconclusive], ..RUN },
];
