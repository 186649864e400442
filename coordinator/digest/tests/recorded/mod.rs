//! Recorded logs and the known facts about each.

use buildpool_digest::{Digest, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A recorded log.
pub(crate) struct Log {
    pub(crate) id: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) outcome: String,
    pub(crate) must_keep: Vec<String>,
}

/// Reads the logs in a directory's manifest.
pub(crate) fn read(directory: &Path) -> Vec<Log> {
    let manifest = std::fs::read_to_string(directory.join("manifest.jsonl")).expect("the set has a manifest");
    let logs = manifest.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let entry: Value = serde_json::from_str(line).expect("each line of the manifest is JSON");
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let keep = entry["must_keep"].as_array().cloned().unwrap_or_default();
        Log {
            id: text("id"),
            bytes: std::fs::read(directory.join(text("file"))).expect("each log of the manifest is there"),
            exit_code: entry["exit_code"].as_i64(),
            outcome: text("outcome"),
            must_keep: keep.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        }
    });
    logs.collect()
}

/// Logs, with names, of commands that exited with 0 although one of their steps failed.
pub(crate) fn hidden() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two_steps");
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        (name, std::fs::read(path).expect("it can be read"))
    };
    paths.into_iter().map(read).collect()
}

/// Directories of the logs next to the tests, and of the larger set in `BUILDPOOL_CORPUS`.
pub(crate) fn sets() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let larger = std::env::var_os("BUILDPOOL_CORPUS").map(PathBuf::from).filter(|path| path.exists());
    std::iter::once(own).chain(larger).collect()
}

/// Converts an exit code of the manifests to an ending.
pub(crate) fn ending(code: i64) -> Ending {
    // The manifests write a fatal signal as its negative number.
    let name = |signal: i64| match signal {
        6 => "SIGABRT",
        11 => "SIGSEGV",
        9 => "SIGKILL",
        _ => "SIGTERM",
    };
    if code < 0 {
        Ending::Signaled { signal: -code as i32, name: name(-code).to_owned(), core_dump: false }
    } else {
        Ending::Exited { code: code as i32 }
    }
}

impl Log {
    /// Returns true if the verdict contradicts the known outcome. `known` is true if the exit code
    /// is available.
    pub(crate) fn is_contradicted(&self, verdict: Verdict, known: bool) -> bool {
        match (self.outcome.as_str(), verdict) {
            ("pass", Verdict::Passed) | ("fail" | "crash", Verdict::Failed | Verdict::Crashed) => false,
            ("pass" | "fail" | "crash", Verdict::Inconclusive) => known,
            ("pass" | "fail" | "crash", _) => true,
            _ => false,
        }
    }

    /// Facts that a digest in `normal` does not show.
    pub(crate) fn missing(&self, digest: &Digest) -> Vec<String> {
        let mut result = JobResult::default();
        digest.render(Verbosity::Normal, None, None, &mut result);
        let shown = words(&text(&result));
        let is_missing = |fact: &&String| !shown.contains(&words(fact));
        self.must_keep.iter().filter(is_missing).map(|fact| format!("{}: {fact}", self.id)).collect()
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
