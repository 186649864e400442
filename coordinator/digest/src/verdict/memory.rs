//! A lack of memory that the kernel did not attribute to a process of the job. The log shows that a process was killed, or
//! that an allocation failed; the worker knows the limit and counted the kills.

use super::{Decision, VerdictInput, VerdictRow, decision, doing};
use crate::reports::memory_words;
use crate::rules::Indicator;
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{KnownFrom, Verdict};

/// Exit code of a shell whose child died of SIGKILL.
const SHELL_KILLED: i32 = 137;

/// Ruling for a command that died of this signal.
pub(super) fn of_signal(name: &str, case: &VerdictInput<'_>) -> Option<Decision> {
    let killed =
        (name == "SIGKILL").then(|| ("The command died of SIGKILL".to_owned(), KnownFrom::WaitStatus));
    killed
        .and_then(|killed| killed_nearby(VerdictRow::SignalMemoryKill, killed, case))
        .or_else(|| refused(VerdictRow::SignalMemoryLimit, case))
}

/// Ruling for a command that exited with this code, which is not 0.
pub(super) fn of_code(code: i32, case: &VerdictInput<'_>) -> Option<Decision> {
    let kills = [Indicator::Killed, Indicator::Died("SIGKILL"), Indicator::ChildDied("SIGKILL")];
    let sign = case.crashes.iter().find(|seen| kills.contains(&seen.what));
    let by_make = case.errors.first_error().filter(|error| error.ends_with(" Error 137"));
    let killed = match (sign, by_make) {
        (Some(sign), _) => {
            let text = format!("A process of the job was killed: {}", sign.line.trim());
            Some((text, KnownFrom::Marker))
        }
        (None, Some(error)) => Some((
            format!("A process of the job seems to have been killed: {error}"),
            KnownFrom::ShellConvention,
        )),
        (None, None) if code == SHELL_KILLED => {
            let text = format!("Exit code {code} usually means that a program was killed by SIGKILL");
            Some((text, KnownFrom::ShellConvention))
        }
        (None, None) => None,
    };
    killed
        .and_then(|killed| killed_nearby(VerdictRow::CodeMemoryKill, killed, case))
        .or_else(|| refused(VerdictRow::CodeMemoryLimit, case))
}

/// A process was killed, and the kernel killed some for memory in a group or a machine that the job shares with others.
fn killed_nearby(rule: VerdictRow, killed: (String, KnownFrom), case: &VerdictInput<'_>) -> Option<Decision> {
    let memory = case.memory.filter(|memory| memory.kills_nearby > 0)?;
    let (text, known_from) = killed;
    let place = match memory.source.as_str() {
        "cgroup" => "in the worker's control group",
        _ => "on the worker's machine",
    };
    let processes = match memory.kills_nearby {
        1 => "1 process".to_owned(),
        kills => format!("{} processes", crate::answer_text::thousands(kills)),
    };
    let text = format!(
        "{text}{}. The kernel killed {processes} {place} for lack of memory while the job ran, so that was probably the reason ({}).",
        doing(case),
        memory_words(memory)
    );
    Some(decision(rule, Verdict::Crashed, CrashType::OutOfMemory, known_from, text))
}

/// A process printed that an allocation failed, and the job has a memory limit.
fn refused(rule: VerdictRow, case: &VerdictInput<'_>) -> Option<Decision> {
    let memory = case.memory.filter(|memory| memory.limit_bytes.is_some())?;
    let sign = case.crashes.iter().find(|seen| seen.what == Indicator::OutOfMemory)?;
    let text = format!(
        "A process of the job ran out of memory{}: {} ({}).",
        doing(case),
        sign.line.trim(),
        memory_words(memory)
    );
    let mut decision = decision(rule, Verdict::Crashed, CrashType::OutOfMemory, KnownFrom::Marker, text);
    decision.line = Some(sign.line.clone());
    Some(decision)
}
