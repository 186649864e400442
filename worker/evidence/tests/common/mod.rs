//! Helpers that collect reports from a temporary directory.

use buildpool_evidence::{Context, collect};
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::outcome::Ending;
use std::fs;
use tempfile::TempDir;

/// Writes files, each newer than the one before, and collects the files that the pattern matches.
pub(crate) fn collected(files: &[(&str, &str)], pattern: &str) -> Evidence {
    let directory = TempDir::new().expect("a directory");
    for ((name, text), secs) in files.iter().zip(1..) {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        fs::write(&path, text).expect("written");
        let written =
            std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_001 + secs * 1_000);
        fs::File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(written))
            .expect("set");
    }
    let (patterns, ending) = ([pattern.to_owned()], Ending::Exited { code: 65 });
    collect(&Context { report_patterns: &patterns, ..Context::new(directory.path(), &[], &ending) })
}
