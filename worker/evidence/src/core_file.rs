//! Finds core files on Linux and reads a backtrace from them with gdb, within a time limit.

use crate::files;
use crate::limits::{DEBUGGER_OUTPUT_BYTES_MAX, DEBUGGER_TIME_MAX, FRAMES_MAX};
use crate::run_tool;
use crate::text;
use buildpool_protocol::report::CrashReport;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Limit on the directory entries read in one directory.
const ENTRIES_MAX: usize = 10_000;

/// Finds a core file of the job that is newer than the start of the job. Searches the job's
/// directory, then the directory of `core_pattern`. In the second directory the file name must
/// contain a process id of the job.
pub(crate) fn find(
    directory: &Path,
    core_pattern: &str,
    pids: &[i32],
    started_at_ms: i64,
) -> Option<PathBuf> {
    let own =
        candidates(directory, started_at_ms).into_iter().find(|path| has_pid(path, pids) || is_plain(path));
    own.or_else(|| {
        let shared = Path::new(core_pattern.trim()).parent().filter(|parent| parent.is_absolute())?;
        candidates(shared, started_at_ms).into_iter().find(|path| has_pid(path, pids))
    })
}

/// Returns a message with the program that receives core dumps, if `core_pattern` is a pipe.
pub(crate) fn piped_to(core_pattern: &str) -> Option<String> {
    let handler = core_pattern.trim().strip_prefix('|')?;
    let program = handler.split_whitespace().next().unwrap_or(handler);
    let hint =
        if program.contains("systemd-coredump") { "; `coredumpctl info` on the worker shows it" } else { "" };
    Some(format!("the core went to {}{hint}", text::name(program)))
}

fn candidates(directory: &Path, started_at_ms: i64) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<(i64, PathBuf)> = entries
        .take(ENTRIES_MAX)
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("core")))
        .filter_map(|path| Some((files::modified_at_ms(&path).ok()?, path)))
        .filter(|(modified, path)| modified.saturating_add(2_000) >= started_at_ms && is_core(path))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Returns true if the file is an ELF file of type `ET_CORE`.
fn is_core(path: &Path) -> bool {
    files::read_head(path, 18).is_ok_and(|head| {
        let kind = match head.get(5) {
            Some(2) => head.get(16..18).map(|kind| [kind[1], kind[0]]),
            _ => head.get(16..18).map(|kind| [kind[0], kind[1]]),
        };
        head.starts_with(b"\x7fELF") && kind == Some([4, 0])
    })
}

fn is_plain(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "core")
}

fn has_pid(path: &Path, pids: &[i32]) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split(|c: char| !c.is_ascii_digit())
        .any(|digits| digits.parse().is_ok_and(|pid| pids.contains(&pid)))
}

/// Returns the gdb command for a core file. It disables start-up files and auto-load scripts,
/// because the job can write them.
fn debugger(core: &Path) -> Vec<OsString> {
    let options =
        ["gdb", "-batch", "-nx", "-nh", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"];
    let settings = ["-ex", "set width 0", "-ex", "info inferiors", "-ex", "bt 20"];
    let mut command: Vec<OsString> = options.iter().chain(&settings).map(OsString::from).collect();
    let mut argument = OsString::from("--core=");
    argument.push(core);
    command.push(argument);
    command
}

/// Reads a crash report from a core file.
///
/// # Errors
///
/// Returns the reason if the debugger fails or exceeds its time limit.
pub(crate) fn explain(core: &Path) -> Result<CrashReport, String> {
    let without_program = run_tool::output(&debugger(core), DEBUGGER_TIME_MAX, DEBUGGER_OUTPUT_BYTES_MAX)?;
    let first = String::from_utf8_lossy(&without_program).into_owned();
    let mut report = parse(&first, core);
    // The core file contains the path of the program. With the program, gdb can resolve symbol
    // names.
    if let Some(program) = report.process_path.as_deref().filter(|program| Path::new(program).is_file()) {
        let mut command = debugger(core);
        command.push(OsString::from(format!("--exec={program}")));
        command.push(OsString::from(format!("--symbols={program}")));
        if let Ok(output) = run_tool::output(&command, DEBUGGER_TIME_MAX, DEBUGGER_OUTPUT_BYTES_MAX) {
            let better = parse(&String::from_utf8_lossy(&output), core);
            if !better.top_frames.is_empty() {
                report.top_frames = better.top_frames;
            }
        }
    }
    Ok(report)
}

fn parse(output: &str, core: &Path) -> CrashReport {
    let mut report = CrashReport {
        file_path: core.display().to_string(),
        timestamp: files::written_at(core),
        matched_by: Some("pid".to_owned()),
        ..CrashReport::default()
    };
    let mut unnamed = 0_usize;
    for line in output.lines().take(10_000) {
        if let Some(rest) = line.strip_prefix("Core was generated by `") {
            let program = rest.trim_end_matches(['.', '\'']).split(' ').next().unwrap_or("");
            report.process_name = text::name(program.rsplit('/').next().unwrap_or(program));
            let absolute = core.parent().map(|parent| parent.join(program)).filter(|_| program.contains('/'));
            report.process_path = absolute.map(|path| text::name(&path.display().to_string()));
        } else if let Some(rest) = line.strip_prefix("Program terminated with signal ") {
            report.signal = Some(text::name(rest.split([',', '.']).next().unwrap_or(rest)));
        } else if let Some(pid) = core_pid(line) {
            report.pid = Some(pid);
        } else if let Some((number, frame)) = frame(line) {
            // gdb prints the innermost frame when it loads the core, and again with the backtrace.
            if number == 0 {
                report.top_frames.clear();
                unnamed = 0;
            }
            if report.top_frames.len() >= FRAMES_MAX {
                continue;
            }
            let named = frame
                .split_once(" in ")
                .filter(|(address, _)| address.starts_with("0x"))
                .map_or(frame, |(_, name)| name);
            if named.starts_with("?? (") {
                unnamed += 1;
            } else {
                report.top_frames.push(text::name(named));
            }
        }
    }
    if unnamed > 0 {
        let (frames, names) = if unnamed == 1 { ("frame", "a name") } else { ("frames", "names") };
        report.top_frames.push(format!("… and {unnamed} {frames} without {names}"));
    }
    report
}

/// Parses the line of `info inferiors` for a core: `* 1    process 23083    1 (core)    ./prog`. The threads that gdb lists have
/// ids of their own.
fn core_pid(line: &str) -> Option<i64> {
    let (_, rest) = line.strip_prefix("* ")?.split_once(" process ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Parses a frame: `#1  0x0000555 in main () at a.c:7`. Returns its number and the text after it.
fn frame(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    Some((number.parse().ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_debugger_prints_is_read() {
        let output = "[New LWP 12]\nCore was generated by `./build/prog --x 1'.\nProgram terminated with signal SIGSEGV, Segmentation fault.\n#0  0x0000555 in crash (p=0x0) at a.c:3\n3\t  *p = 1;\n[Current thread is 1 (LWP 12)]\n  Num  Description  Connection  Executable\n* 1    process 11   1 (core)\n#0  0x0000555 in crash (p=0x0) at a.c:3\n#1  main () at a.c:7\n";
        let report = parse(output, Path::new("/w/core"));
        assert_eq!(report.signal.as_deref(), Some("SIGSEGV"));
        assert_eq!(report.process_path.as_deref(), Some("/w/./build/prog"));
        assert_eq!((report.process_name.as_str(), report.pid), ("prog", Some(11)));
        assert_eq!(report.top_frames, ["crash (p=0x0) at a.c:3", "main () at a.c:7"]);
    }

    #[test]
    fn frames_without_names_are_counted_and_not_shown() {
        let frames = "#0  0x01 in ?? ()\n#0  0x01 in ?? ()\n#1  0x02 in ?? () from /lib/libc.so.6\n#2  0x03 in main () at a.c:7\n#3  0x04 in ?? ()\n";
        let report = parse(frames, Path::new("/w/core"));
        assert_eq!(report.top_frames, ["main () at a.c:7", "… and 3 frames without names"]);
        assert_eq!(parse("#0  0x01 in ?? ()\n", Path::new("c")).top_frames, ["… and 1 frame without a name"]);
    }

    #[test]
    fn only_a_core_of_the_job_is_taken() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[16] = 4;
        let write = |name: &str, content: &[u8]| {
            std::fs::write(directory.path().join(name), content).expect("written")
        };
        write("core.txt", b"no core");
        assert_eq!(find(directory.path(), "core", &[7], 0), None);
        write("core.8", &elf);
        assert_eq!(find(directory.path(), "core", &[7], 0), None);
        write("core.7", &elf);
        assert_eq!(find(directory.path(), "core", &[7], 0), Some(directory.path().join("core.7")));
        assert_eq!(find(directory.path(), "core", &[7], i64::MAX), None);
        assert!(piped_to("|/usr/lib/systemd/systemd-coredump %P").expect("piped").contains("coredumpctl"));
        assert_eq!(piped_to("core"), None);
    }
}
