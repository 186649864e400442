//! Samples: the output of a tool in `samples/<tool>/<case>.log`, and beside it in `<case>.txt` the expected answer.
//!
//! The first line of an expected answer has the exit code of the command, the verdict and the crash type; the next one the
//! counts of tests, if there are any. A line `keep | place | text` is written by the author: a part of a message that the
//! shortest answer must have, with its place. The lines `find` are all findings. `cargo xtask bless` rewrites all but the
//! exit code and the lines `keep`.

use buildpool_digest::Digest;
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{Finding, Verdict};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// No place.
const NOWHERE: &str = "-";

/// Output of a tool and the expected answer.
pub(crate) struct Case {
    /// The sample's files without their endings: `tool/case`.
    pub(crate) tool: String,
    pub(crate) log: String,
    /// Exit code of the command.
    pub(crate) code: i32,
    /// Part of a finding's message, with the finding's file and line; an empty file if the place does not matter.
    pub(crate) facts: Vec<(String, String, u32)>,
    /// The expected answer.
    pub(crate) answer: String,
}

/// All samples.
pub(crate) static ALL: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut logs = Vec::new();
    for tool in entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")) {
        logs.extend(
            entries(&tool).into_iter().filter(|path| path.extension().is_some_and(|end| end == "log")),
        );
    }
    logs.iter().map(|log| Case::read(log)).collect()
});

/// All samples without failures, by name and output.
static FINE: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let fine = ALL.iter().filter(|case| case.code == 0);
    fine.map(|case| (case.tool.as_str(), case.log.as_str())).collect()
});

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    paths
}

/// All samples of failures.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    ALL.iter().filter(|case| case.code != 0)
}

/// All samples without failures.
pub(crate) fn fine() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    FINE.iter()
}

impl Case {
    fn read(log: &Path) -> Self {
        let path = log.with_extension("txt");
        let answer = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{} needs a first line `exit code N`: {error}", path.display()));
        let first = answer.strip_prefix("exit code ").unwrap_or_default();
        let code = first.split([':', '\n']).next().and_then(|code| code.trim().parse().ok());
        let code = code.unwrap_or_else(|| panic!("{} begins with `exit code N`", path.display()));
        let facts = answer.lines().filter_map(|line| line.strip_prefix("keep | ")?.split_once(" | "));
        let facts = facts.map(|(place, text)| {
            let (file, line) = place.rsplit_once(':').unwrap_or_default();
            (text.to_owned(), file.to_owned(), line.parse().unwrap_or(0))
        });
        let name = |part: &Path| part.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self {
            tool: format!("{}/{}", name(log.parent().unwrap_or(log)), name(log)),
            log: std::fs::read_to_string(log).expect("a sample is UTF-8"),
            code,
            facts: facts.collect(),
            answer,
        }
    }

    /// The answer in the form of the expected one.
    pub(crate) fn told(&self, digest: &Digest) -> String {
        let mut told = format!("exit code {}: {}", self.code, digest.verdict);
        if digest.crash_type != CrashType::None {
            let _ = write!(told, ", {}", digest.crash_type.name());
        }
        told.push('\n');
        if let Some(tests) = &digest.tests {
            let counts = [tests.passed, tests.failed, tests.skipped, tests.expected_failures];
            let [passed, failed, skipped, expected] = counts;
            let _ = writeln!(
                told,
                "tests: {passed} passed, {failed} failed, {skipped} skipped, {expected} expected to fail"
            );
        }
        for line in self.answer.lines().filter(|line| line.starts_with("keep | ")) {
            let _ = writeln!(told, "{line}");
        }
        for finding in &digest.findings {
            let severity = format!("{:?}", finding.severity).to_lowercase();
            let first = finding.message.lines().next().unwrap_or_default();
            let _ = writeln!(told, "find | {severity} | {} | {first}", place(finding));
        }
        told
    }

    /// Differences from what must be in a digest for the sample's exit code.
    pub(crate) fn faults(&self, digest: &Digest) -> Vec<String> {
        let mut wrong = Vec::new();
        if !matches!(digest.verdict, Verdict::Failed | Verdict::Crashed) {
            wrong.push(format!("{}: {} for exit code {}", self.tool, digest.verdict, self.code));
        }
        for (fact, file, line) in &self.facts {
            let found = digest.findings.iter().find(|finding| finding.message.contains(fact));
            let Some(found) = found else {
                let all: Vec<_> = digest.findings.iter().map(|finding| &finding.message).collect();
                wrong.push(format!("{}: no finding says {fact:?}: {all:?}", self.tool));
                continue;
            };
            let place = found.location.as_ref();
            let fits = file.is_empty()
                || place.is_some_and(|place| place.file == *file && place.line.unwrap_or(0) == *line);
            if !fits {
                wrong.push(format!("{}: {fact:?} is at {place:?}", self.tool));
            }
        }
        let tests = |told: &str| told.lines().find(|line| line.starts_with("tests: ")).map(str::to_owned);
        let (told, expected) = (tests(&self.told(digest)), tests(&self.answer));
        if told != expected {
            wrong.push(format!("{}: {told:?} instead of {expected:?}", self.tool));
        }
        wrong
    }
}

/// The place of a finding in one word.
fn place(finding: &Finding) -> String {
    let Some(place) = &finding.location else { return NOWHERE.to_owned() };
    let mut told = place.file.clone();
    for number in [place.line, place.column].into_iter().flatten() {
        let _ = write!(told, ":{number}");
    }
    told
}

/// Differences from the expected digest of a good run. `known` is true if the exit code is
/// available.
pub(crate) fn faults_of_fine(tool: &str, digest: &Digest, known: bool) -> Vec<String> {
    let fine = match digest.verdict {
        Verdict::Passed => true,
        Verdict::Inconclusive => !known,
        _ => false,
    };
    if fine && digest.findings.is_empty() {
        return Vec::new();
    }
    let first = digest.findings.first().map(|finding| &finding.message);
    vec![format!("{tool}, exit code known {known}: {} {first:?}", digest.verdict)]
}
