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
        what: "gradle, which tells of no skipped test",
        log: "> Task :test\n\napp.ATest > later STARTED\n\napp.ATest > adds STARTED\n\napp.ATest > adds PASSED\n\napp.ATest > last STARTED\n\nBUILD SUCCESSFUL in 8s\n",
        ..RUN
    },
    Run {
        what: "gradle, which tells the beginnings only",
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
];
