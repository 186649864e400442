//! Output of shell.

use crate::rules::{Diagnostic, ERROR, Effect, FATAL, Indicator, Kind, Problem, Role, Rule, always, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("shell") };

pub(super) const DIED: Problem = problem(FATAL, Kind::Crash, 88);

/// Returns true if the shell of the command printed the line, not a script or make.
fn is_of_the_command(diagnostic: &Diagnostic) -> bool {
    let line = diagnostic.first();
    let after = |shell: &str| line.strip_prefix(shell).and_then(|rest| rest.split_once(": "));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    after("bash: line ").or_else(|| after("sh: ")).is_some_and(|(number, _)| is_number(number))
        || line.starts_with("zsh:")
}

/// A command given to a shell has no file.
fn of_script(diagnostic: &mut Diagnostic) {
    if diagnostic
        .file
        .as_deref()
        .is_some_and(|file| matches!(file, "bash" | "-bash" | "sh" | "dash" | "zsh" | "ksh"))
    {
        (diagnostic.file, diagnostic.line) = (None, None);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "shell.segfault",
        // Lines of a shell, make, zsh, gdb, gfortran and the kernel; in a program's own text, other words may precede them.
        pattern: r"^(?:(?:\S+: )?(?:(?:line )?\d+: +)?(?:\d+ +)?|g?n?make(?:\[\d+\])?: \*\*\* \[.*\] |\[\d+\] *[-+]? *\d+ +|.*\[\d+\]: |(?:Program|Thread .*) received signal SIGSEGV[,:] )(?:Segmentation fault|segmentation fault|segfault at [0-9a-f]+)(?:: 11)?(?: ip .*|[,.]? ?\(core dumped\).*| {2,}.*| - .*|\.)?$",
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Died("SIGSEGV"))],
    },
    Rule {
        name: "shell.aborted",
        pattern: r"^(?:(?:.*: (?:line )?\d+: +\d+ )?(?:Aborted|Abort trap: 6)|(?:zsh|\[\d+\])(?::\d*)?:? +(?:\d+ )?abort)(?: +\(core dumped\).*| {2,}.*)?$",
        effects: &[Effect::Problem(DIED.role(Role::AbortEcho)), Effect::Crash(Indicator::Died("SIGABRT"))],
    },
    Rule {
        name: "shell.killed",
        pattern: r"^(?:.*: (?:line )?\d+: +\d+ |g?n?make(?:\[\d+\])?: \*\*\* \[.*\] )?Killed(?:: 9)?(?: {2,}.*| \(core dumped\).*)?$",
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Killed)],
    },
    Rule {
        name: "shell.other",
        pattern: concat!(
            r"^(?:.*: (?:line )?\d+: +\d+ |g?n?make(?:\[\d+\])?: \*\*\* \[.*\] )?(?:",
            rare_shell_words!(),
            r")(?:: \d+)?(?: +\(core dumped\).*| {2,}.*)?$"
        ),
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::UnexpectedSignal)],
    },
    Rule {
        name: "shell.told_signal",
        pattern: r"^.*(?:terminated by|terminated with|died with|died of|killed by|crashed with|exited due to|exited with|exited on|due to) (?:signal |<Signals\.)?(?:\d+[ :(]*)?(?P<sig>SIG(?:SEGV|ABRT|BUS|FPE|ILL|TRAP|SYS))\b",
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        // An error in a script, which ends it.
        name: "shell.script",
        pattern: r"^(?P<f>[^\s:]+): (?:-c: )?(?:line )?(?P<l>\d+): (?P<m>(?:[Ss]yntax error|unexpected EOF|parse error)\b.*|[^\s:]+: (?:unbound variable|parameter (?:null or )?not set|bad substitution|[Bb]ad substitution|ambiguous redirect|readonly variable|division by 0.*))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 86).refine(of_script).ended(always))],
    },
    Rule {
        name: "shell.not_found",
        pattern: r"^(?:\S+: )?(?:line \d+: |\d+: )?(?:(?:cd|exec|source|\.): )?(?P<m>\S+: (?:command not found|not found|Permission denied|is a directory|No such file or directory|cannot execute.*|bad interpreter.*))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 80).ended(is_of_the_command))],
    },
    Rule {
        name: "shell.zsh_not_found",
        pattern: r"^(?:fish: Unknown command: .*|(?:zsh:\d*:? ?|env: |sh: \d+: |bash: (?:line \d+: )?)(?P<m>.*(?:not found|No such file or directory|Permission denied|syntax error).*))",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 80).ended(is_of_the_command))],
    },
    Rule {
        name: "libc.abort",
        pattern: r"^(?:\S+: )?(?:free\(\): |malloc\(\): |realloc\(\): |munmap_chunk\(\): |corrupted |double free or corruption|\*\*\* stack smashing detected|\*\*\* buffer overflow detected|munmap_chunk|malloc_consolidate|\S+\(\d+,0x[0-9a-f]+\) malloc: \*\*\* error)(?P<m>.*)",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 95)), Effect::Crash(Indicator::FatalError)],
    },
];
