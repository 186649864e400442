use super::*;

/// Runs of Maven, Gradle, Ant and JUnit's own runners.
pub(crate) const JVM: &[Run] = &[
    Run {
        what: "maven, behind tail",
        log: "[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:2.22.3:test (default-test) on project one: There are test failures.\n[ERROR] \n[ERROR] Please refer to /w/one/target/surefire-reports for the individual test results.\n[ERROR] Please refer to dump files (if any exist) [date].dump, [date]-jvmRun[N].dump and [date].dumpstream.\n[ERROR] -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException\n",
        ..RUN_HIDDEN
    },
    Run {
        what: "maven, all but its last lines",
        log: "[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException\n",
        ..RUN_HIDDEN
    },
    Run {
        what: "maven in a reactor, its last line",
        log: "[ERROR]   mvn <args> -rf :core\n",
        ..RUN_HIDDEN
    },
    Run {
        what: "maven, failures of a module ignored",
        log: "[INFO] Scanning for projects...\n[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ mid ---\n[INFO]  T E S T S\n[INFO] Running app.MidTest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.12 s <<< FAILURE! - in app.MidTest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n[ERROR] There are test failures.\n[INFO] --- surefire:3.2.5:test (default-test) @ web ---\n[INFO]  T E S T S\n[INFO] Running app.GTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.116 s -- in app.GTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n",
        tests: Some([3, 1, 0, 0]),
        ..RUN_HIDDEN
    },
    Run {
        what: "maven, run again",
        log: "[INFO] Scanning for projects...\n[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ mid ---\n[INFO]  T E S T S\n[INFO] Running app.MidTest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.12 s <<< FAILURE! - in app.MidTest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n[INFO] Scanning for projects...\n[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ mid ---\n[INFO]  T E S T S\n[INFO] Running app.MidTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.116 s -- in app.MidTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n",
        tests: Some([3, 1, 0, 0]),
        ..RUN
    },
    Run {
        what: "surefire, a test that it ended for its time",
        log: "[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ hang ---\n[INFO]  T E S T S\n[INFO] Running app.CalcTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.146 s - in app.CalcTest\n[INFO] Running app.HangTest\n[INFO] Results:\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n[ERROR] There was a timeout or other error in the fork\n[INFO] BUILD SUCCESS\n",
        tests: Some([2, 0, 0, 0]),
        verdicts: [Inconclusive, Inconclusive],
        told: &["There was a timeout or other error in the fork"],
        ..RUN_CUT
    },
    Run {
        what: "gradle, a test that ends its process",
        log: ":test\n\napp.CalcTest > adds STARTED\n\napp.CalcTest > adds PASSED\n\napp.CalcTest > divides STARTED\n\napp.CalcTest > divides PASSED\n\napp.CrashTest > aGood STARTED\n\napp.CrashTest > aGood PASSED\n\napp.CrashTest > crashes STARTED\n\nBUILD SUCCESSFUL in 8s\n3 actionable tasks: 3 executed\n",
        ..RUN_CUT
    },
    Run {
        what: "gradle without skipped tests",
        log: "> Task :test\n\napp.ATest > later STARTED\n\napp.ATest > adds STARTED\n\napp.ATest > adds PASSED\n\napp.ATest > last STARTED\n\nBUILD SUCCESSFUL in 8s\n",
        ..RUN
    },
    Run {
        what: "gradle, starts only",
        log: "> Task :test\n\napp.ATest > adds STARTED\n\nBUILD SUCCESSFUL in 8s\n",
        ..RUN
    },
    Run {
        what: "JUnit 4",
        log: "JUnit version 4.13.2\n.E.E..........\nTime: 0.402\nThere were 2 failures:\n1) bareFail(app.MixTest)\njava.lang.AssertionError\n\tat org.junit.Assert.fail(Assert.java:87)\n\tat org.junit.Assert.fail(Assert.java:96)\n\tat app.MixTest.bareFail(MixTest.java:20)\n2) multi(app.MixTest)\norg.junit.ComparisonFailure: expected:<first line\nsecond [line]\nthird> but was:<first line\nsecond [LINE]\nthird>\n\tat org.junit.Assert.assertEquals(Assert.java:117)\n\tat org.junit.Assert.assertEquals(Assert.java:146)\n\tat app.MixTest.multi(MixTest.java:11)\n\nFAILURES!!!\nTests run: 12,  Failures: 2\n\n",
        tests: Some([10, 2, 0, 0]),
        told: &["bareFail(app.MixTest) & java.lang.AssertionError & at app.MixTest.bareFail(MixTest.java:20)", "multi(app.MixTest) & third> but was:"],
        ..RUN_FAILED
    },
    Run {
        what: "JUnit 4, hidden",
        log: "Time: 0.402\n\nFAILURES!!!\nTests run: 12,  Failures: 8\n\n",
        tests: Some([4, 8, 0, 0]),
        ..RUN_HIDDEN
    },
    Run {
        what: "JUnit 4, its first word",
        log: "FAILURES!!!\n",
        ..RUN_HIDDEN
    },
    Run {
        what: "JUnit 4, good",
        log: "JUnit version 4.13.2\n..\nTime: 0.023\n\nOK (2 tests)\n\n",
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "numbered lines",
        log: "1) open the file(a.txt)\n2) close(it)\nall is well\n",
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "JUnit console, a class that did not begin",
        log: "Test run finished after 106 ms\n[         4 containers found      ]\n[         0 containers skipped    ]\n[         4 containers started    ]\n[         0 containers aborted    ]\n[         3 containers successful ]\n[         1 containers failed     ]\n[         3 tests found           ]\n[         0 tests skipped         ]\n[         1 tests started         ]\n[         0 tests aborted         ]\n[         1 tests successful      ]\n[         0 tests failed          ]\n\n",
        tests: Some([1, 0, 0, 0]),
        ..RUN_HIDDEN
    },
    Run {
        what: "JUnit console, a class that did not begin, and why",
        log: "Failures (1):\n  JUnit Vintage:SetupTest\n    ClassSource [className = 'app.SetupTest', filePosition = null]\n    => java.lang.IllegalStateException: no database\n       app.SetupTest.setup(SetupTest.java:6)\n       java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke0(Native Method)\n       java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke(NativeMethodAccessorImpl.java:77)\n       java.base/jdk.internal.reflect.DelegatingMethodAccessorImpl.invoke(DelegatingMethodAccessorImpl.java:43)\n       java.base/java.lang.reflect.Method.invoke(Method.java:569)\n       [...]\n     Caused by: java.net.ConnectException: refused\n       [...]\n\nTest run finished after 133 ms\n[         4 containers found      ]\n[         0 containers skipped    ]\n[         4 containers started    ]\n[         0 containers aborted    ]\n[         3 containers successful ]\n[         1 containers failed     ]\n[         4 tests found           ]\n[         0 tests skipped         ]\n[         2 tests started         ]\n[         0 tests aborted         ]\n[         2 tests successful      ]\n[         0 tests failed          ]\n\n",
        tests: Some([2, 0, 0, 0]),
        told: &["JUnit Vintage:SetupTest & no database & SetupTest.java:6"],
        ..RUN_FAILED
    },
    Run {
        what: "JUnit console, no tests",
        log: "Test run finished after 40 ms\n[         2 containers found      ]\n[         0 containers skipped    ]\n[         2 containers started    ]\n[         0 containers aborted    ]\n[         2 containers successful ]\n[         0 containers failed     ]\n[         0 tests found           ]\n[         0 tests skipped         ]\n[         0 tests started         ]\n[         0 tests aborted         ]\n[         0 tests successful      ]\n[         0 tests failed          ]\n\n",
        tests: Some([0, 0, 0, 0]),
        code: 2,
        verdicts: [Failed, Inconclusive],
        untold: &["containers"],
        ..RUN_FAILED
    },
    Run {
        what: "ant's task",
        log: "    [junit] Testcase: good took 0.001 sec\n    [junit] Test app.OneTest FAILED\n\nBUILD SUCCESSFUL\nTotal time: 4 seconds\n",
        told: &["Test app.OneTest FAILED"],
        ..RUN_HIDDEN
    },
    Run {
        what: "ant",
        log: "Buildfile: /w/ant/build.xml\n\nBUILD FAILED\n/w/ant/build.xml:6: tests failed\n\nTotal time: 3 seconds\n",
        ..RUN_FAILED
    },
    Run {
        what: "surefire, parametrised tests of JUnit 4",
        log: "[INFO] Running app.ParamTest\n[ERROR] Tests run: 4, Failures: 2, Errors: 0, Skipped: 0, Time elapsed: 0.015 s <<< FAILURE! - in app.ParamTest\n[ERROR] sums[1: 2+2=5](app.ParamTest)  Time elapsed: 0.011 s  <<< FAILURE!\njava.lang.AssertionError: expected:<5> but was:<4>\n\tat app.ParamTest.sums(ParamTest.java:14)\n\n[ERROR] sums[3: 4+4=9](app.ParamTest)  Time elapsed: 0.001 s  <<< FAILURE!\njava.lang.AssertionError: expected:<9> but was:<8>\n\tat app.ParamTest.sums(ParamTest.java:14)\n\n[INFO] Results:\n[ERROR] Failures: \n[ERROR]   ParamTest.sums:14 expected:<5> but was:<4>\n[ERROR]   ParamTest.sums:14 expected:<9> but was:<8>\n[ERROR] Tests run: 4, Failures: 2, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:2.22.3:test (default-test) on project param: There are test failures.\n[ERROR] \n[ERROR] Please refer to /w/param/target/surefire-reports for the individual test results.\n[ERROR] Please refer to dump files (if any exist) [date].dump, [date]-jvmRun[N].dump and [date].dumpstream.\n[ERROR] -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException\n",
        tests: Some([2, 2, 0, 0]),
        told: &["sums[1: 2+2=5](app.ParamTest) & expected:<5> but was:<4>"],
        ..RUN_FAILED
    },
    Run {
        what: "surefire, a name in another alphabet",
        log: "[INFO] Running app.UniTest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.049 s <<< FAILURE! - in app.UniTest\n[ERROR] pr\u{fc}ft_gr\u{f6}\u{df}e(app.UniTest)  Time elapsed: 0.014 s  <<< FAILURE!\norg.junit.ComparisonFailure: gr\u{f6}\u{df}e \u{2014} \u{ab}x\u{bb} expected:<[\u{e4}]> but was:<[\u{df}]>\n\tat app.UniTest.pr\u{fc}ft_gr\u{f6}\u{df}e(UniTest.java:7)\n\n[INFO] Results:\n[ERROR] Failures: \n[ERROR]   UniTest.pr\u{fc}ft_gr\u{f6}\u{df}e:7 gr\u{f6}\u{df}e \u{2014} \u{ab}x\u{bb} expected:<[\u{e4}]> but was:<[\u{df}]>\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:2.22.3:test (default-test) on project uni: There are test failures.\n[ERROR] \n[ERROR] Please refer to /w/uni/target/surefire-reports for the individual test results.\n[ERROR] Please refer to dump files (if any exist) [date].dump, [date]-jvmRun[N].dump and [date].dumpstream.\n[ERROR] -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException\n",
        tests: Some([1, 1, 0, 0]),
        told: &["org.junit.ComparisonFailure: gr\u{f6}\u{df}e & UniTest.java:7"],
        ..RUN_FAILED
    },
    Run {
        what: "surefire, messages of several lines",
        log: "[ERROR] multi(app.MixTest)  Time elapsed: 0.009 s  <<< FAILURE!\norg.junit.ComparisonFailure: \nexpected:<first line\nsecond [line]\nthird> but was:<first line\nsecond [LINE]\nthird>\n\tat app.MixTest.multi(MixTest.java:11)\n\n[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n",
        tests: Some([0, 1, 0, 0]),
        told: &["multi(app.MixTest) & org.junit.ComparisonFailure & MixTest.java:11"],
        ..RUN_FAILED
    },
    Run {
        what: "surefire, the list alone",
        log: "[ERROR] Failures: \n[ERROR]   OneTest>BaseTest.wrongSum:12->helper:7 expected:<5> but was:<3>\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n",
        tests: Some([1, 1, 0, 0]),
        told: &["OneTest>BaseTest.wrongSum:12->helper:7 expected:<5>"],
        ..RUN_FAILED
    },
    Run {
        what: "surefire, a flaky test",
        log: "[INFO] Running app.FlakyTest\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.396 s <<< FAILURE! - in app.FlakyTest\n[ERROR] flakes(app.FlakyTest)  Time elapsed: 0.058 s  <<< FAILURE!\njava.lang.AssertionError: attempt 0\n\tat app.FlakyTest.flakes(FlakyTest.java:9)\n\n[INFO] Running app.CalcTest\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0 s - in app.CalcTest\n[INFO] Results:\n[WARNING] Flakes: \n[WARNING] app.FlakyTest.flakes(app.FlakyTest)\n[ERROR]   Run 1: FlakyTest.flakes:9 attempt 0\n[INFO]   Run 2: PASS\n[WARNING] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0, Flakes: 1\n[INFO] BUILD SUCCESS\n",
        tests: Some([4, 0, 0, 0]),
        verdicts: [Passed, Inconclusive],
        ..RUN
    },
    Run {
        what: "maven, an unresolved dependency",
        log: "[WARNING] The POM for com.example:missing-lib:jar:1.2.3 is missing, no dependency information available\n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal on project dep: Could not resolve dependencies for project t:dep:jar:1: Cannot access central (https://repo.maven.apache.org/maven2) in offline mode and the artifact com.example:missing-lib:jar:1.2.3 has not been downloaded from it before. -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/DependencyResolutionException\n",
        told: &["Could not resolve dependencies"],
        ..RUN_FAILED
    },
    Run {
        what: "maven, a pom that cannot be read",
        log: "[INFO] Scanning for projects...\n[ERROR] [ERROR] Some problems were encountered while processing the POMs:\n[FATAL] Non-parseable POM /w/badpom/pom.xml: end tag name </project> must match start tag name <dependencies> from line 1 (position: START_TAG seen ...<dependencies></project>... @1:134)  @ line 1, column 134\n @ \n[ERROR] The build could not read 1 project -> [Help 1]\n[ERROR]   \n[ERROR]   The project  (/w/badpom/pom.xml) has 1 error\n[ERROR]     Non-parseable POM /w/badpom/pom.xml: end tag name </project> must match start tag name <dependencies> from line 1 (position: START_TAG seen ...<dependencies></project>... @1:134)  @ line 1, column 134 -> [Help 2]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/ProjectBuildingException\n[ERROR] [Help 2] http://cwiki.apache.org/confluence/display/MAVEN/ModelParseException\n",
        told: &["[FATAL] Non-parseable POM"],
        untold: &["Some problems were encountered", "has 1 error"],
        ..RUN_FAILED
    },
    Run {
        what: "maven, warnings that are errors",
        log: "[ERROR] COMPILATION ERROR : \n[ERROR] /w/werror/src/main/java/app/W.java: warnings found and -Werror specified\n[INFO] 1 error\n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.10.1:compile (default-compile) on project werror: Compilation failure\n[ERROR] /w/werror/src/main/java/app/W.java: warnings found and -Werror specified\n[ERROR] \n[ERROR] -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n[ERROR] \n[ERROR] For more information about the errors and possible solutions, please read the following articles:\n[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException\n",
        told: &["W.java: warnings found and -Werror specified"],
        untold: &["COMPILATION ERROR"],
        ..RUN_FAILED
    },
    Run {
        what: "gradle, a build file",
        log: "Starting a Gradle Daemon (subsequent builds will be faster)\n\nFAILURE: Build failed with an exception.\n\n* Where:\nBuild file '/w/badgradle/build.gradle' line: 5\n\n* What went wrong:\nCould not compile build file '/w/badgradle/build.gradle'.\n> startup failed:\n  build file '/w/badgradle/build.gradle': 5: expecting '}', found '' @ line 5, column 1.\n  1 error\n\n\n* Try:\nRun with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output. Run with --scan to get full insights.\n\n* Get more help at https://help.gradle.org\n\nBUILD FAILED in 4s\n",
        told: &["Build file '/w/badgradle/build.gradle' line: 5 & expecting '}'"],
        ..RUN_FAILED
    },
    Run {
        what: "gradle, a daemon",
        log: "Starting a Gradle Daemon (1 busy Daemon could not be reused, use --status for details)\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nTask 'tset' not found in root project 'one'. Some candidates are: 'test'.\n\n* Try:\nRun gradle tasks to get a list of available tasks. Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output. Run with --scan to get full insights.\n\n* Get more help at https://help.gradle.org\n\nBUILD FAILED in 10s\n",
        told: &["Task 'tset' not found"],
        untold: &["busy Daemon"],
        ..RUN_FAILED
    },
    Run {
        what: "gradle, a test that exits",
        log: ":test FAILED\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':test'.\n> Process 'Gradle Test Executor 1' finished with non-zero exit value 9\n\n* Try:\nRun with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output. Run with --scan to get full insights.\n\n* Get more help at https://help.gradle.org\n\nBUILD FAILED in 7s\n3 actionable tasks: 3 executed\n",
        told: &["finished with non-zero exit value 9"],
        verdicts: [Crashed, Crashed],
        ..RUN_FAILED
    },
    Run {
        what: "java, a stack that was printed",
        log: "java.lang.IllegalStateException: cannot load x.cfg\n\tat Main.load(Main.java:5)\n\tat Main.main(Main.java:9)\nCaused by: java.io.FileNotFoundException: x.cfg (No such file)\n\tat Main.read(Main.java:3)\n\t... 2 more\n",
        told: &["cannot load x.cfg & Caused by: java.io.FileNotFoundException"],
        verdicts: [Failed, Inconclusive],
        ..RUN_FAILED
    },
    Run {
        what: "gradle, a daemon and no more",
        log: "Starting a Gradle Daemon, 1 busy Daemon could not be reused, use --status for details\n:compileJava\n",
        untold: &["busy Daemon"],
        verdicts: [Failed, Inconclusive],
        ..RUN_FAILED
    },
];
