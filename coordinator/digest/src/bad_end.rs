//! Finds signs of a failure in the last lines of a log: a trace that no line follows, or a count of failures.
//!
//! They count only if the exit code of the program that printed them is hidden: `npx jest | tail -5`.

use crate::text::{TailLines, clip_chars, front_length};

/// Number of lines with text, from the end, that are searched.
const LINES_MAX: usize = 6;
/// The same for the exit code of a program.
const CODE_LINES_MAX: usize = 2;
/// Words before an exit code.
const CODE_WORDS: &[&str] = &["exit status", "exit code", "exited with code", "exited with status"];
/// Maximum length of a line in a cause, in characters.
const LINE_CHARS_MAX: usize = 200;

/// Texts of the last lines of traces: the beginning of the line, a text somewhere in it, and its end.
const TRACES: &[(&str, &str, &str)] = &[
    // Java, Kotlin, Scala and Groovy.
    ("at ", "(", ".java)"),
    ("at ", ".java:", ")"),
    ("at ", ".kt:", ")"),
    ("at ", ".scala:", ")"),
    ("at ", ".groovy:", ")"),
    ("at ", "(Native Method)", ""),
    ("at ", "(Unknown Source)", ""),
    // .NET.
    ("at ", ":line ", ""),
    // Ruby and Crystal.
    ("from ", ":in `", "'"),
    ("from ", ":in '", "'"),
    ("from ", " in '", "'"),
    ("from ???", "", ""),
    ("(See full trace by running task with --trace)", "", ""),
    // PHP.
    ("#", " {main}", ""),
    ("#", ".php(", ")"),
    ("thrown in ", " on line ", ""),
    // Addresses of C, Crystal, D and Fortran.
    ("#", " 0x", ""),
    ("#", " in ???", ""),
    ("[0x", "] ", ""),
    ("??:? ", "[0x", "]"),
    // Erlang, Elixir, Julia, Haskell, OCaml.
    ("in call from ", "/", ""),
    ("(elixir ", ".ex:", ""),
    ("in expression starting at ", ":", ""),
    ("error, called at ", ".hs:", ""),
    ("Called from ", ", characters ", ""),
    // Go and Rust.
    ("", " +0x", ""),
    ("note: run with `RUST_BACKTRACE=", "", ""),
    // Python, Lua, Perl, Tcl, Racket.
    ("File \"", "\", line ", ""),
    ("[C]: in ", "", ""),
    ("", ".lua:", " in main chunk"),
    ("", ") called at ", ""),
    ("(file \"", "\" line ", ")"),
    ("(procedure \"", "\" line ", ")"),
    ("body of \"", ".rkt\"", ""),
    // Node.js, below the trace of an uncaught exception.
    ("Node.js v", "", ""),
];
/// Beginnings of lines above the last line of a trace.
const HEADS: &[&str] = &["Caused by:", "Backtrace for: #<"];
/// Last lines of an error that Node.js prints with its members.
const CLOSERS: &[&str] = &["}", "},", "]"];
/// Words of a line that counts failures.
const FAILURES: &str = "error errors failed failing failure failures";
/// Other words of such a line.
const OTHERS: &str = "a affecting all and by checked completed count detected done duration executed file files finished \
    found from has have in is it line lines ms of ok on out pass passed passing pending problem problems ran s skip \
    skipped spec specs succeeded success suite suites test tests time total warn warning warnings were with xfailed";

/// Words of a line whose failures are repaired, or may be followed by a success.
const NOT_FINAL: &str = "attempt attempts corrected fixed repaired retries retry retrying try";

/// Returns a sentence's part about the sign of failure with which the log ends. A count alone is a sign only behind a pipe.
pub(crate) fn bad_end(tails: &[TailLines], has_pipe: bool) -> Option<String> {
    let own = |line: String| line.get(front_length(line.as_bytes())..).unwrap_or_default().trim().to_owned();
    let lines = |tail: &TailLines| -> Vec<String> {
        tail.backwards().map(own).filter(|line| !line.is_empty()).take(LINES_MAX).collect()
    };
    tails.iter().find_map(|tail| of_lines(&lines(tail), has_pipe))
}

/// The same for the last lines, the last one first.
fn of_lines(lines: &[String], has_pipe: bool) -> Option<String> {
    let shown = |line: &str| clip_chars(line, LINE_CHARS_MAX).into_owned();
    let last = lines.first()?;
    let is_error = || lines.iter().any(|line| is_trace(line) || line.starts_with("code: '"));
    let is_below = |line: &String| HEADS.iter().any(|head| line.starts_with(head));
    if is_trace(last) || lines.iter().take(2).any(is_below) || CLOSERS.contains(&last.as_str()) && is_error()
    {
        return Some(format!("inside a stack trace: {}", shown(last)));
    }
    if let Some(code) = lines.iter().take(CODE_LINES_MAX).find(|line| names_exit_code(line)) {
        return Some(format!("with the exit code of a program that failed: {}", shown(code)));
    }
    let count = lines.iter().find(|line| has_pipe && counts_failures(line))?;
    Some(format!("with a count of failures: {}", shown(count)))
}

fn is_trace(line: &str) -> bool {
    let is_of = |(start, part, end): &(&str, &str, &str)| {
        let rest = line.strip_prefix(start).and_then(|rest| rest.split_once(part));
        rest.is_some_and(|(_, rest)| rest.ends_with(end) || part.is_empty())
    };
    is_js_frame(line) || is_numbered_frame(line) || TRACES.iter().any(is_of)
}

/// Returns true for a frame of a stack of JavaScript or Rust: `at f (a.js:1:2)`.
fn is_js_frame(line: &str) -> bool {
    let numbers = line.trim_end_matches(')').rsplit(':').take(2);
    line.starts_with("at ") && numbers.filter(|number| number.parse::<u32>().is_ok()).count() == 2
}

/// Returns true for a frame with an address, of Rust or V8: `37:     0x55d94b3d6971 - _start`.
fn is_numbered_frame(line: &str) -> bool {
    let number = line.split_once(": ").filter(|(number, _)| number.parse::<u32>().is_ok());
    number.is_some_and(|(_, rest)| rest.trim_start().starts_with("0x"))
}

/// Returns true for a line that has only counts, one of them of failures: `Found 0 warnings and 1 error.`, `PASS=1 ERROR=1`.
/// One word may be the name of a program or of the part that failed.
fn counts_failures(line: &str) -> bool {
    if line.len() > LINE_CHARS_MAX {
        return false;
    }
    let has = |list: &str, word: &str| list.split(' ').any(|entry| entry == word);
    let words = line.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    let words: Vec<String> = words.map(|word| word.trim_matches(['-', '.', '_']).to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| has(NOT_FINAL, word)) {
        return false;
    }
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_count =
        |word: Option<&&str>| word.and_then(|word| word.parse::<u32>().ok()).is_some_and(|count| count > 0);
    let unknown = words.iter().filter(|word| !is_number(word) && !has(FAILURES, word) && !has(OTHERS, word));
    let counted = |(at, word): (usize, &&str)| {
        let before = || at.checked_sub(1).and_then(|at| words.get(at));
        let is_of_tests = || before().is_some_and(|word| matches!(*word, "test" | "tests" | "suites"));
        has(FAILURES, word)
            && if is_after(line, word) {
                is_count(words.get(at + 1))
            } else {
                is_count(before())
                    || is_of_tests() && is_count(at.checked_sub(2).and_then(|at| words.get(at)))
                    || words.get(at + 1) == Some(&"count") && is_count(words.get(at + 2))
            }
    };
    unknown.count() <= 1 && words.iter().enumerate().any(counted)
}

/// Whether the line names an exit code other than 0, and is not the result of a test that passed.
fn names_exit_code(line: &str) -> bool {
    let lower = line.to_lowercase();
    let code = CODE_WORDS.iter().find_map(|words| {
        let rest = lower.split_once(words)?.1.trim_start_matches([' ', ':', '=', '`', '\'']);
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u8>().ok()
    });
    code.is_some_and(|code| code != 0) && !["✓", "✔", "ok", "pass"].iter().any(|mark| lower.starts_with(mark))
}

/// Whether a number follows the word as its value: `failed: 1`, `ERROR=1`, `Error Count: 1`.
fn is_after(line: &str, word: &str) -> bool {
    let lower = line.to_lowercase();
    let rest = lower.find(word).map_or("", |at| &lower[at + word.len()..]);
    rest.trim_start_matches(['\'', '"', ' ']).starts_with([':', '='])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_trace_are_known() {
        for line in [
            "at f (a.js:1:2)",
            "at com.acme.A.f(A.java:3)",
            "at N.C.M() in /w/A.cs:line 5",
            "from a.rb:2:in `<main>'",
            "from /usr/lib/crystal/main.cr:127:3 in 'main'",
            "[0x55558a333f06] main +6 in /tmp/a",
            "thrown in /w/a.php on line 3",
            "#10  0xffffffffffffffff in ???",
            "in call from init:start_em/1",
            "/w/a.go:12 +0x1d",
            "(file \"a.tcl\" line 2)",
            "File \"/w/a.py\", line 3 in f",
            "Node.js v20.20.2",
            "38:                0x0 - <unknown>",
            "12: 0x12a6793  [node]",
        ] {
            assert!(is_trace(line), "{line}");
        }
        for line in
            ["at noon", "from a to b", "#3 done", "at 10:30:00 the build ended", "[0x1]", "see a.java:3"]
        {
            assert!(!is_trace(line), "{line}");
        }
    }

    #[test]
    fn an_exit_code_of_a_failed_program_is_known() {
        for line in
            ["exit status 1", "Halting VM with exit status 2", "Process completed with exit code 127."]
        {
            assert!(names_exit_code(line), "{line}");
        }
        for line in
            ["exit status 0", "exit codes are documented", "✓ fails with exit code 1", "exit code: none"]
        {
            assert!(!names_exit_code(line), "{line}");
        }
    }

    #[test]
    fn a_count_of_failures_is_known() {
        for line in [
            "1 error",
            "Found 0 warnings and 1 error.",
            "svelte-check found 1 error and 0 warnings in 1 file",
            "FOUND 1 ERROR AFFECTING 1 LINE",
            "Done. PASS=1 WARN=0 ERROR=1 SKIP=1 TOTAL=3",
            "✖  1 of 1 failed (100%)   00:05        1        -        1        -        -",
            "│ Failing:      1 │",
            "failed: 1",
            "\t 1 Error(s)",
            "3 tests failed",
            "2 failed, 10 passed in 0.3s",
            "Validation Error Count: 1",
        ] {
            assert!(counts_failures(line), "{line}");
        }
        for line in [
            "0 errors",
            "Found 0 errors in 12 files",
            "passed: 12, failed: 0",
            "Attempt 1 failed, trying the next mirror",
            "Attempt 1 failed",
            "A TOTAL OF 2 ERRORS WERE FIXED IN 1 FILE",
            "1 passed, 1 expected failure of the parser",
            "wrote 12 files with error pages",
            "error 404",
            "All 12 tests passed",
        ] {
            assert!(!counts_failures(line), "{line}");
        }
    }
}
