//! Reports of tools about dead child processes: compilers about their parts, build tools about compilers, test runners
//! about the processes of their tests.

use super::{Act, ERROR, FATAL, Indicator, Kind, Next, Problem, Rule, Sign, TestEvent, indented, problem};
use crate::tool::ToolId;

const DIED: Problem = problem(FATAL, Kind::Crash, 93);
/// A tool reports the death of its process, with the signal in group `sig` if the line names one.
const CHILD_DIED: Act = Act::Sign(Sign::Crash(Indicator::ChildDied("")));

/// A test runner reports the death of one of its processes.
const WORKER_DIED: Act = Act::RunnerSays(Sign::Crash(Indicator::ChildDied("")));

/// maven's lines about a dead test process: its command, its exit code, its test class.
fn forked(so_far: &[String], line: &str) -> Next {
    let own = line.strip_prefix("[ERROR] ").unwrap_or_default();
    let known = ["Command was ", "Error occurred in starting fork", "Process Exit Code: ", "Crashed tests:"];
    let class = so_far.last().is_some_and(|last| last.ends_with("Crashed tests:") || is_class(last))
        && !own.is_empty()
        && !own.contains(' ');
    if known.iter().any(|start| own.starts_with(start)) || class { Next::Part } else { Next::Beyond }
}

fn is_class(line: &str) -> bool {
    line.strip_prefix("[ERROR] ").is_some_and(|class| !class.contains(' ') && class.contains('.'))
}

/// `exitCode: null`, `signalCode: SIGSEGV`.
fn codes(so_far: &[String], line: &str) -> Next {
    let own = line.trim_start();
    let is_code = own.starts_with("exitCode:") || own.starts_with("signalCode:");
    if is_code && so_far.len() < 4 { Next::Part } else { Next::Beyond }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "compiler.part_died",
        pattern: concat!(
            r"^(?:[\w./+-]*/)?[\w.+-]+: (?:(?:internal compiler |fatal )?error: )?(?P<sig>",
            words!(),
            r") (?:signal terminated program |\(program )[\w.+-]+"
        ),
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.linker_died",
        pattern: r"^(?:[\w./+-]*/)?collect2(?:\.exe)?: (?:fatal )?error: ld terminated with signal (?P<sig>\d+)",
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.clang_part_died",
        pattern: concat!(
            r"^(?:[\w./+-]*/)?clang(?:\+\+)?(?:-[\d.]+)?: error: (?:unable to execute command: (?P<sig>",
            words!(),
            r")|(?:clang frontend|linker) command failed due to signal)"
        ),
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.rustc_died",
        pattern: r"^error: (?:rustc interrupted by (?P<sig>SIG[A-Z]+)|the compiler unexpectedly panicked)",
        acts: &[Act::Problem(DIED.follow(indented)), CHILD_DIED],
    },
    Rule {
        name: "compiler.linker_signal",
        pattern: r"^error: linking with `[^`]*` failed: signal: \d+ \((?P<sig>SIG[A-Z]+)\)",
        acts: &[Act::Problem(DIED.follow(indented)), CHILD_DIED],
    },
    Rule {
        // The rules for the compilers' messages find the error itself.
        name: "compiler.internal",
        pattern: concat!(
            r"^(?:(?:[A-Za-z]:)?[^\s:]+:(?:\d+:)* ?|[^\s(]+\(\d+\) ?: )?(?:(?:fatal )?error(?: C\d+)?: )?[Ii]nternal compiler error\b(?:: (?P<sig>",
            words!(),
            r"))?"
        ),
        acts: &[Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "maven.forked_vm",
        pattern: r"^(?:\[ERROR\] )?(?:\S.* )?(?:ExecutionException |\S+Exception: )?(?:The forked VM terminated without (?:properly saying|saying properly) goodbye|The forked VM was terminated)",
        acts: &[Act::Problem(DIED.follow(forked)), Act::WorkerDied],
    },
    Rule {
        name: "maven.forked_code",
        pattern: r"^\[ERROR\] Process Exit Code: (?P<sig>1[2-9]\d)$",
        acts: &[Act::Within("The forked VM", &CHILD_DIED)],
    },
    Rule {
        name: "gradle.executor",
        pattern: r"^(?:> )?(?:Caused by: \S+: )?Process 'Gradle Test Executor \d+' finished with non-zero exit value (?:(?P<sig>1[2-9]\d)|\d+)\b",
        acts: &[Act::Problem(DIED), Act::WorkerDied],
    },
    Rule {
        name: "gradle.daemon",
        pattern: r"^(?:FAILURE: )?Gradle build daemon (?:disappeared unexpectedly|has been stopped: since)",
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "xdist.down",
        pattern: r"^\[gw\d+\] node down: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Crash, 90)), WORKER_DIED],
    },
    Rule {
        name: "xdist.crashed",
        pattern: r"^(?:E +)?worker '?gw\d+'? crashed (?:while running '(?P<t>[^']+)'|and worker restarting disabled)",
        acts: &[Act::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "jest.worker",
        pattern: r"^\s*(?:Error: )?(?:A jest worker process \(pid=\d+\) was terminated by another process: signal=(?P<sig>SIG[A-Z]+)|Jest worker encountered \d+ child process exceptions)",
        acts: &[Act::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "vitest.worker",
        pattern: r"^\s*(?:Caused by: )?Error: (?:\[vitest-pool(?:-runner)?\]: )?Worker (?:\w+ )?(?:exited unexpectedly|emitted error)",
        acts: &[Act::Problem(DIED.follow(super::javascript::stack)), WORKER_DIED],
    },
    Rule {
        name: "playwright.worker",
        pattern: r"^\s*Error: worker process exited unexpectedly \(code=\w+, signal=(?:(?P<sig>SIG[A-Z]+)|null)\)",
        acts: &[Act::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "mocha.worker",
        pattern: r"^\s*(?:Uncaught )?(?:Error: )?Workerpool Worker terminated Unexpectedly",
        acts: &[Act::Problem(DIED.follow(codes)), WORKER_DIED],
    },
    Rule {
        name: "mocha.worker_signal",
        pattern: r"^\s+signalCode: `?(?P<sig>SIG[A-Z]+)`?",
        acts: &[Act::Within("Workerpool Worker terminated", &WORKER_DIED)],
    },
    Rule {
        // In the YAML of a file with a dead process.
        name: "node_test.file_died",
        pattern: r"^\s+signal: '(?P<sig>SIG(?:ABRT|BUS|FPE|ILL|KILL|SEGV|SYS|TRAP))'$",
        acts: &[Act::Within("exitCode: ~", &WORKER_DIED)],
    },
    Rule {
        name: "dotnet.host",
        pattern: r"^\s*(?:The [Aa]ctive [Tt]est [Rr]un (?:was aborted\. Reason: (?:Test host process crashed|Unable to communicate)|Aborted because the host process exited unexpectedly)|Reason: Test host process crashed)",
        acts: &[Act::Problem(DIED), Act::WorkerDied],
    },
    Rule {
        name: "nextest.died",
        pattern: r"^\s+(?:TRY \d+ )?(?P<sig>SIG[A-Z]+) \[\s*[\d.]+s\]\s",
        acts: &[CHILD_DIED],
    },
    Rule {
        name: "packages.script_died",
        pattern: r#"^(?:npm (?:ERR!|error) signal |(?:error |.*ELIFECYCLE\S* +|\[\S+\] )?Command failed with signal "?)(?P<sig>SIG[A-Z]+)\b"#,
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "go.tool_died",
        pattern: concat!(
            r"^(?:go build \S+: (?:\S+: )?|\S*/pkg/tool/\S+: )signal: (?P<sig>",
            words!(),
            r")(?: \(core dumped\))?$"
        ),
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        // Printed by any program written in Go.
        name: "go.program_died",
        pattern: concat!(r"^signal: (?P<sig>", words!(), r")(?: \(core dumped\))?$"),
        acts: &[
            Act::Problem(problem(ERROR, Kind::Runtime, 80)),
            Act::Sign(Sign::CrashUnder(ToolId::GoTest, Indicator::Died(""))),
        ],
    },
    Rule {
        name: "bazel.action_died",
        pattern: concat!(r"^ERROR: .* failed: \((?P<sig>", words!(), r")\): "),
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "bazel.server_died",
        pattern: r"^Server terminated abruptly \(error code: ",
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "python.pool_died",
        pattern: r"^(?:E +)?(?:\w+\.)*BrokenProcessPool: (?P<m>.*)",
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "python.fatal_signal",
        pattern: concat!(r"^(?:\S.* )?Fatal Python error: (?P<sig>", words!(), r")$"),
        acts: &[Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "pytest.died",
        pattern: concat!(
            r"^(?P<t>\S+\.py::\S+) (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        acts: &[
            Act::Test(ToolId::Pytest, TestEvent::Started),
            Act::Problem(DIED),
            Act::Sign(Sign::Crash(Indicator::Died(""))),
        ],
    },
    Rule {
        // The marks of the tests before it stand on the same line.
        name: "progress.died",
        pattern: concat!(
            r"^(?:\S+\.(?:py|rb|[cm]?[jt]sx?|php|exs|lua|pl|t|bats) )?[.FEsxXu]*[.FEX](?:[\w./-]+: (?:line )?\d+: +\d+ +)?(?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: +\(core dumped\).*| {2,}.*)?$"
        ),
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "unittest.died",
        pattern: concat!(
            r"^(?P<t>\w+ \([\w.]+\)) \.\.\. (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        acts: &[
            Act::Test(ToolId::Unittest, TestEvent::Started),
            Act::Problem(DIED),
            Act::Sign(Sign::Crash(Indicator::Died(""))),
        ],
    },
    Rule {
        name: "libtest.died",
        pattern: concat!(
            r"^test (?P<t>\S.*?) \.\.\. (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        acts: &[
            Act::Test(ToolId::CargoTest, TestEvent::Started),
            Act::Problem(DIED),
            Act::Sign(Sign::Crash(Indicator::Died(""))),
        ],
    },
    Rule {
        name: "ruby.bug",
        pattern: concat!(
            r"^(?:[A-Z][\w:]*#\w+ = )?(?:[^\s:]+:\d+: )?\[BUG\] (?:(?P<sig>",
            words!(),
            r")\b)?"
        ),
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "r.segfault",
        pattern: r"^ ?\*\*\* caught (?:segfault|bus error|illegal operation) \*\*\*",
        acts: &[
            Act::Problem(DIED.follow(super::one_more)),
            Act::Sign(Sign::Crash(Indicator::Died("SIGSEGV"))),
        ],
    },
    Rule {
        name: "julia.signal",
        pattern: r"^(?:\[\d+\] )?signal (?:\((?P<sig>\d+)(?:\.\d+)?\)|\d+ \([\d-]+\)): [A-Z]",
        acts: &[Act::Problem(DIED.follow(super::one_more)), Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "erlang.dump",
        pattern: r"^Crash dump is being written to: (?P<m>.*)",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "shell.told_number",
        pattern: r"^.*(?:terminated by|killed by|died of|died with|died from|crashed with|exited due to|exited with|exited on|failed due to|failed with) signal (?P<sig>4|5|6|8|11)\b",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
];
