//! Links a "not found" failure to files that the snapshot left behind.

use crate::text::clip_chars;
use buildpool_protocol::report::{JobResult, JobState, Verdict};

/// Phrases of tools for a missing file, program or module, in lower case.
const PHRASES: [&str; 15] = [
    "not found",
    "notfound",
    "cannot find",
    "can't find",
    "could not find",
    "no module named",
    "no such module",
    "no such file or directory",
    "enoent",
    "cannot load such file",
    "can't resolve",
    "could not resolve",
    "failed to resolve",
    "unable to find",
    "does not exist",
];
/// Directories that package managers fill. They are listed before other entries.
const DEPENDENCIES: [&str; 8] =
    ["node_modules", "bower_components", ".venv", "venv", "Pods", "Carthage", "vendor", "deps"];
/// Maximum number of entries in a cause.
const NAMED_MAX: usize = 3;
/// Maximum length of an entry in a cause, in characters.
const NAME_CHARS_MAX: usize = 60;

/// Entries that a job may have needed and that were not in its workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    names: Vec<String>,
    more: usize,
    /// Command that installs the missing entries, if one is configured.
    pub install: Option<String>,
}

/// Returns the entries of the snapshot's `left_behind` that may explain this result. Returns None
/// unless the job failed, its output or cause reports something missing, and no `setup` prepared
/// the workspace.
pub fn missed(result: &JobResult) -> Option<Missed> {
    let snapshot = result.snapshot.as_ref().filter(|snapshot| !snapshot.left_behind.is_empty())?;
    let is_bad = matches!(result.verdict, Some(Verdict::Failed | Verdict::Crashed | Verdict::Inconclusive));
    if result.state != JobState::Done || !is_bad || result.setup.is_some() || !reads_missing(result) {
        return None;
    }
    let is_dependency =
        |name: &&String| DEPENDENCIES.iter().any(|known| name.rsplit('/').next() == Some(known));
    let mut names: Vec<&String> = snapshot.left_behind.iter().filter(is_dependency).collect();
    if names.is_empty() {
        names = snapshot.left_behind.iter().collect();
    }
    let shown = names.iter().take(NAMED_MAX);
    Some(Missed {
        names: shown.map(|name| clip_chars(name, NAME_CHARS_MAX).into_owned()).collect(),
        more: names.len().saturating_sub(NAMED_MAX),
        install: snapshot.setup_suggestion.clone(),
    })
}

impl Missed {
    /// Sentence that is appended to a cause.
    pub fn sentence(&self) -> String {
        let more = if self.more == 0 { String::new() } else { format!(" and {} more", self.more) };
        let left = format!("Left behind, so not in the workspace: {}{more}.", self.names.join(", "));
        match &self.install {
            Some(install) => {
                format!("{left} `setup: {install}` in .buildpool/config.yaml installs it before a job.")
            }
            None => left,
        }
    }
}

fn reads_missing(result: &JobResult) -> bool {
    let messages = result.tier_1_findings.iter().map(|finding| finding.message.as_str());
    let context = result
        .tier_1_findings
        .iter()
        .flat_map(|finding| finding.pre_context.iter().chain(&finding.post_context).map(String::as_str));
    let others = result.other_findings.iter().map(|finding| finding.message.as_str());
    let cause = result.cause.iter().map(|cause| cause.text.as_str());
    let output = [&result.stdout, &result.stderr, &result.filtered_output];
    let output = output.into_iter().flatten().map(String::as_str);
    let mut texts = messages.chain(context).chain(others).chain(cause).chain(output);
    result.exit_code == Some(127)
        || texts.any(|text| {
            let text = text.to_ascii_lowercase();
            PHRASES.iter().any(|phrase| text.contains(phrase))
        })
}

#[cfg(test)]
mod tests {
    use super::missed;
    use buildpool_protocol::report::{
        Cause, JobResult, JobState, KnownFrom, SetupResult, SnapshotInfo, Verdict,
    };

    fn failed(said: &str) -> JobResult {
        JobResult {
            state: JobState::Done,
            verdict: Some(Verdict::Failed),
            cause: Some(Cause { text: said.to_owned(), known_from: KnownFrom::Marker }),
            snapshot: Some(SnapshotInfo {
                left_behind: ["build", "node_modules", "app/node_modules"].map(str::to_owned).to_vec(),
                setup_suggestion: Some("npm ci".to_owned()),
                ..SnapshotInfo::default()
            }),
            ..JobResult::default()
        }
    }

    #[test]
    fn a_missing_module_is_connected_with_the_dependencies_that_stayed() {
        for said in [
            "Error: Cannot find module 'x'",
            "ModuleNotFoundError: No module named 'requests'",
            "sh: 1: vitest: not found",
            "error: no such module 'Alamofire'",
        ] {
            let missed = missed(&failed(said)).unwrap();
            assert_eq!(missed.install.as_deref(), Some("npm ci"));
            let expected = "Left behind, so not in the workspace: node_modules, app/node_modules. \
                            `setup: npm ci` in .buildpool/config.yaml installs it before a job.";
            assert_eq!(missed.sentence(), expected);
        }
    }

    #[test]
    fn other_failures_and_prepared_workspaces_are_not() {
        assert_eq!(missed(&failed("assertion failed: 1 == 2")), None);
        let mut result = failed("Cannot find module 'x'");
        result.setup = Some(SetupResult::default());
        assert_eq!(missed(&result), None);
        let mut result = failed("Cannot find module 'x'");
        result.verdict = Some(Verdict::Passed);
        assert_eq!(missed(&result), None);
        let mut result = failed("Cannot find module 'x'");
        let snapshot = result.snapshot.as_mut().unwrap();
        snapshot.left_behind = vec!["a -> /x".into(); 5];
        snapshot.setup_suggestion = None;
        let sentence = missed(&result).unwrap().sentence();
        assert_eq!(sentence, "Left behind, so not in the workspace: a -> /x, a -> /x, a -> /x and 2 more.");
    }
}
