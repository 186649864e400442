//! How programs die in a terminal: shells' words, C and C++ runtimes, sanitizers, assertions.

use super::{Act, ERROR, FATAL, Indicator, Kind, Next, Problem, Rule, Sign, indented_or_blank, problem};
use crate::tool::ToolId;

/// A sanitizer's report: up to its summary.
fn sanitizer(so_far: &[String], line: &str) -> Next {
    if line.starts_with("SUMMARY: ") {
        Next::Last
    } else if so_far.len() > 60 || line.starts_with("==================") && so_far.len() > 1 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn what(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.trim_start().starts_with("what():") { Next::Last } else { Next::Beyond }
}

/// valgrind's stack below its message, and its text about the address.
fn valgrind_lines(so_far: &[String], line: &str) -> Next {
    let body = line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit());
    if line.starts_with("==") && body.starts_with("  ") && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// `==1==    at 0x10915E: main (a.c:5)`.
fn frame_in_brackets(draft: &mut super::Draft) {
    let places: Vec<String> = draft
        .lines
        .iter()
        .filter_map(|line| Some(line.trim_end().strip_suffix(')')?.rsplit_once('(')?.1.to_owned()))
        .filter(|place| !place.starts_with("in ") && !place.starts_with("vg_"))
        .collect();
    let _placed = places.iter().any(|place| super::set_place(draft, place));
}

const DIED: Problem = problem(FATAL, Kind::Crash, 88);

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "shell.segfault",
        // Lines of a shell, make, zsh, gdb, gfortran and the kernel; in a program's own text, other words may precede them.
        pattern: r"^(?:(?:\S+: )?(?:(?:line )?\d+: +)?(?:\d+ +)?|g?n?make(?:\[\d+\])?: \*\*\* \[.*\] |\[\d+\] *[-+]? *\d+ +|.*\[\d+\]: |(?:Program|Thread .*) received signal SIGSEGV[,:] )(?:Segmentation fault|segmentation fault|segfault at [0-9a-f]+)(?:: 11)?(?: ip .*|[,.]? ?\(core dumped\).*| {2,}.*| - .*|\.)?$",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("SIGSEGV")))],
    },
    Rule {
        name: "shell.aborted",
        pattern: r"^(?:(?:.*: (?:line )?\d+: +\d+ )?(?:Aborted|Abort trap: 6)|(?:zsh|\[\d+\])(?::\d*)?:? +(?:\d+ )?abort)(?: +\(core dumped\).*| {2,}.*)?$",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("SIGABRT")))],
    },
    Rule {
        name: "make.died",
        pattern: concat!(r"^g?n?make(?:\[\d+\])?: \*\*\* \[.*\] (?P<sig>", shell_words!(), r")\b"),
        acts: &[Act::Sign(Sign::Crash(Indicator::Died(""))), Act::Sign(Sign::Failure(ToolId::MakeRecipe))],
    },
    Rule {
        name: "shell.killed",
        pattern: r"^(?:.*: (?:line )?\d+: +\d+ |g?n?make(?:\[\d+\])?: \*\*\* \[.*\] )?Killed(?:: 9)?(?: {2,}.*| \(core dumped\).*)?$",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Killed))],
    },
    Rule {
        name: "shell.other",
        pattern: concat!(
            r"^(?:.*: (?:line )?\d+: +\d+ |g?n?make(?:\[\d+\])?: \*\*\* \[.*\] )?(?:",
            rare_shell_words!(),
            r")(?:: \d+)?(?: +\(core dumped\).*| {2,}.*)?$"
        ),
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::UnexpectedSignal))],
    },
    Rule {
        name: "rust.signal",
        pattern: r"^.*\(signal: \d+, (?P<sig>SIG[A-Z]+)(?:: .*)?\)",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::ChildDied("")))],
    },
    Rule {
        name: "shell.told_signal",
        pattern: r"^.*(?:terminated by|terminated with|died with|died of|killed by|crashed with|exited due to|exited with|exited on|due to) (?:signal |<Signals\.)?(?:\d+[ :(]*)?(?P<sig>SIG(?:SEGV|ABRT|BUS|FPE|ILL|TRAP|SYS))\b",
        acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::Died("")))],
    },
    Rule {
        name: "shell.not_found",
        pattern: r"^(?:\S+: )?(?:line \d+: |\d+: )?(?:(?:cd|exec|source|\.): )?(?P<m>\S+: (?:command not found|not found|Permission denied|is a directory|No such file or directory|cannot execute.*|bad interpreter.*))$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 80))],
    },
    Rule {
        name: "shell.zsh_not_found",
        pattern: r"^(?:fish: Unknown command: .*|(?:zsh:\d*:? ?|env: |sh: \d+: |bash: (?:line \d+: )?)(?P<m>.*(?:not found|No such file or directory|Permission denied|syntax error).*))",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 80))],
    },
    Rule {
        name: "cxx.terminate",
        pattern: r"^(?:libc\+\+abi(?:\.dylib)?: )?terminat(?:e called|ing)(?: (?:after throwing|due to|without|with|recursively|because).*)?",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 95).follow(what)),
            Act::Sign(Sign::Crash(Indicator::UncaughtException)),
        ],
    },
    Rule {
        name: "c.assert",
        pattern: r"^(?:\S+: )?(?P<f>[^\s:]+):(?P<l>\d+): .*: Assertion .* failed\.",
        acts: &[Act::Problem(problem(FATAL, Kind::Crash, 95)), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "libc.abort",
        pattern: r"^(?:\S+: )?(?:free\(\): |malloc\(\): |realloc\(\): |munmap_chunk\(\): |corrupted |double free or corruption|\*\*\* stack smashing detected|\*\*\* buffer overflow detected|munmap_chunk|malloc_consolidate|\S+\(\d+,0x[0-9a-f]+\) malloc: \*\*\* error)(?P<m>.*)",
        acts: &[Act::Problem(problem(FATAL, Kind::Crash, 95)), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "sanitizer.error",
        pattern: r"^(?:\d+: )?=*\d*=*(?:ERROR|WARNING|FATAL): (?:Address|Leak|Thread|Memory|UndefinedBehavior|HWAddress|DataFlow)Sanitizer:? (?P<m>.*)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 96).follow(sanitizer).owning().refine(frame)),
            Act::Sign(Sign::Crash(Indicator::Sanitizer)),
        ],
    },
    Rule {
        name: "sanitizer.ubsan",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): runtime error: (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Crash, 95).follow(indented_or_blank)),
            Act::Sign(Sign::Crash(Indicator::Sanitizer)),
        ],
    },
    Rule {
        name: "sanitizer.summary",
        pattern: r"^SUMMARY: \w+Sanitizer: (?P<m>.*)",
        acts: &[Act::Sign(Sign::Crash(Indicator::Sanitizer)), Act::Summary],
    },
    Rule {
        name: "valgrind.error",
        pattern: r"^==\d+== (?:Invalid (?:read|write|free)|Conditional jump|Use of uninitialised|Syscall param|Process terminating|Source and destination overlap|Mismatched free|Jump to the invalid|[\d,]+ (?:\([^)]*\) )?bytes in [\d,]+ blocks are definitely lost).*",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Crash, 92).follow(valgrind_lines).refine(frame_in_brackets),
        )],
    },
    Rule {
        name: "valgrind.errors",
        pattern: r"^==\d+== ERROR SUMMARY: [1-9]\d* errors",
        acts: &[Act::Problem(problem(ERROR, Kind::Crash, 85)), Act::Summary],
    },
];

/// The first frame with a source place that is not the runtime's own.
fn frame(draft: &mut super::Draft) {
    for line in &draft.lines {
        let trimmed = line.trim_start();
        if !trimmed.starts_with('#') {
            continue;
        }
        let Some(place) = trimmed.split_whitespace().next_back().or(Some("")) else { continue };
        let place = if place.starts_with('(') {
            trimmed.split_whitespace().rev().nth(1).unwrap_or(place)
        } else {
            place
        };
        let mut parts = place.splitn(3, ':');
        if let (Some(file), Some(row)) = (parts.next(), parts.next())
            && file.contains('.')
            && !file.contains("sanitizer")
            && let Ok(row) = row.parse()
        {
            draft.file = Some(file.to_owned());
            draft.line = Some(row);
            draft.column = parts.next().and_then(|column| column.parse().ok());
            return;
        }
    }
}
