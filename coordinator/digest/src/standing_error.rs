//! Finds errors and remarks that contradict exit code 0: of compilers, linters and interpreters.

use crate::command::Command;
use crate::findings::RawFinding;
use crate::markers::Markers;
use crate::ranking::{Ranking, headline};
use crate::rules::{Fails, Kind, Role};
use crate::tool::ToolId;
use buildpool_protocol::report::Severity;

/// Minimum certainty, in percent, of a failed test that no runner counted.
const SURE_TEST_MIN: u8 = 85;

/// Headline of the most likely error, or else of the first remark of a linter, that no later success cancels.
/// `last_text` is the order of the log's last line with text, `last_statement` the same without the context of an error.
pub(crate) fn standing_error(
    ranking: &Ranking,
    markers: &Markers,
    command: &Command,
    (last_text, last_statement): (u64, u64),
) -> Option<String> {
    let findings = &ranking.findings;
    if findings.errors.is_empty() && findings.warnings.is_empty() && findings.remarks.is_empty() {
        // The questions about the command would cost a short job more than the rest of its digest.
        return None;
    }
    let stands = |found: &RawFinding| {
        !found.probe
            && !found.in_test
            && !markers.runs.contains(found.order)
            && !markers.runs.is_past(found.order)
            && !ToolId::of_rule(found.rule).is_some_and(|tool| command.forgives(tool.commands()))
    };
    // What such a command prints is of another run, apart from its own errors.
    let only_reads = command.only_reads();
    let is_read = |found: &RawFinding| only_reads && !command.prints_as_own(first_line(found));
    // A linter whose exit code counts has accepted its remarks.
    let may_hide = command.may_hide_exit_codes();
    let runs_linter = ToolId::all().any(|tool| tool.lints && command.runs(tool.commands()));
    let is_accepted = |found: &RawFinding| found.kind == Kind::Lint && runs_linter && !may_hide;
    let success = markers.success.as_ref().map_or(0, |success| success.order);
    let is_silent =
        markers.success.as_ref().is_some_and(|by| by.what.runs_tests && by.what.begins_in_silence);
    let may_be_of_test =
        |found: &RawFinding| found.fails == Fails::OutsideTests && is_silent && found.order < success;
    // A script may end with the errors of a cleanup. Its tests have passed before.
    let hides_last_code = command.may_hide_last_exit_code();
    let is_of_cleanup =
        |found: &RawFinding| found.role == Role::Vague && markers.has_passed_tests() && found.order > success;
    let hides_last = |found: &RawFinding| {
        hides_last_code && !is_of_cleanup(found) || command.may_end_in_silence(first_line(found))
    };
    // The log of a run that was cut short has failed tests and no total.
    let is_failed_test = |found: &RawFinding| {
        may_hide
            && found.kind == Kind::Test
            && found.fails == Fails::BySeverity
            && found.test.is_some()
            && found.sure >= SURE_TEST_MIN
            && found.order > success
    };
    let errors = findings.errors.iter().filter(|found| {
        let hides_last = hides_last(found);
        // The total of tests that passed may be indented.
        let end = if hides_last && found.order > success { last_statement } else { last_text };
        (is_failed_test(found) || shows_failure(found, end, hides_last))
            && stands(found)
            && !may_be_of_test(found)
            && !is_read(found)
            && !is_accepted(found)
    });
    let orders: Vec<u64> = errors.map(|found| found.order).collect();
    if let Some(first) = ranking.ranked.iter().find(|ranked| orders.contains(&ranked.found.order)) {
        return Some(first.headline());
    }
    let accepts = ToolId::all().any(|tool| {
        tool.lints && (command.forgives(tool.commands()) || command.accepts_remarks_of(tool.commands()))
    });
    if !may_hide || accepts || only_reads {
        return None;
    }
    // `pylint a | cat`: the exit code of the linter is hidden. `make lint | cat`: a linter printed it, and the pipe hides its code.
    let hides_linter = ToolId::all().any(|tool| tool.lints && command.hides_exit_code_of(tool.commands()));
    let pipes_program = !runs_linter && command.pipes_program();
    let is_of_hidden_linter = |found: &RawFinding| {
        hides_linter
            || pipes_program
                && found.location.is_some()
                && ToolId::of_rule(found.rule).is_some_and(|tool| tool.lints)
    };
    let remarks = findings.warnings.iter().chain(&findings.remarks).filter(|found| {
        let counts = match found.fails {
            Fails::Always | Fails::OutsideTests => true,
            Fails::AtEnd => is_of_hidden_linter(found) || found.last >= last_text,
            Fails::BySeverity => is_of_hidden_linter(found) && found.remark,
            Fails::Never => false,
        };
        counts && found.order > success.max(markers.ignored) && stands(found)
    });
    remarks.min_by_key(|found| found.order).map(headline)
}

/// The first line of a message.
fn first_line(found: &RawFinding) -> &str {
    found.lines.first().map_or("", String::as_str)
}

/// Returns true if only a failed program prints such an error. `hides_last`: the exit code of the program that printed the
/// log's last line is not known, so any error that ends the log may have ended the program.
fn shows_failure(found: &RawFinding, last_text: u64, hides_last: bool) -> bool {
    let is_last = found.last >= last_text && found.role != Role::Unknown;
    match found.fails {
        Fails::Always | Fails::OutsideTests => return true,
        Fails::AtEnd => return is_last && hides_last,
        Fails::Never => return false,
        Fails::BySeverity if found.remark || found.severity > Severity::Error => return false,
        Fails::BySeverity => {}
    }
    let ends_log = is_last && (hides_last || !matches!(found.role, Role::Vague | Role::Mark));
    match found.kind {
        Kind::Build | Kind::Lint => {
            found.location.as_ref().is_some_and(|place| place.line.is_some()) || ends_log
        }
        Kind::Runtime => found.ended || ends_log,
        Kind::Infrastructure | Kind::Consequence => ends_log,
        Kind::Crash | Kind::Test => is_last && hides_last,
    }
}
