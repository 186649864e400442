//! Prints the digests of all files below folders, in several forms. The outputs before and after a change to the digester show what
//! it changes: `cargo run --release -p buildpool-digest --example digests -- samples tests/logs > before`.
#![expect(clippy::print_stdout, reason = "it is a program whose output is the digests")]

use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{Purpose, Verbosity};
use std::path::{Path, PathBuf};

/// Exit code and verbosity of each form; without an exit code, the log alone decides.
const FORMS: [(Option<i32>, Verbosity); 4] = [
    (None, Verbosity::Minimal),
    (Some(0), Verbosity::Normal),
    (Some(1), Verbosity::Minimal),
    (Some(1), Verbosity::Full),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for folder in std::env::args().skip(1) {
        add_files(Path::new(&folder), &mut files)?;
    }
    files.sort();
    for file in files {
        let log = std::fs::read(&file)?;
        for (number, (code, verbosity)) in FORMS.into_iter().enumerate() {
            println!("=== {} exit code {code:?} {verbosity:?}", file.display());
            // Each form cuts the log into chunks of another size, because the digest must not depend on it.
            println!("{}", digest(&log, 1009 << (3 * number), code, verbosity));
        }
    }
    Ok(())
}

fn digest(log: &[u8], chunk_bytes: usize, code: Option<i32>, verbosity: Verbosity) -> String {
    let mut digester = Digester::new(Options { purpose: Purpose::Build, ..Options::default() });
    for chunk in log.chunks(chunk_bytes) {
        digester.push(Stream::Stdout, chunk);
    }
    let live = digester.live();
    let mut facts = Facts::log_only();
    facts.ending = code.map(|code| Ending::Exited { code });
    let digest = digester.finish(&facts);
    let (mut shown, mut json) = (JobResult::default(), JobResult::default());
    digest.render(verbosity, None, None, &mut shown);
    digest.render_json(verbosity, None, None, 0, &mut json);
    format!("{live:?}\n{}\n{}\n{}", text(&shown), json.to_json(), digest.explain())
}

fn add_files(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        add_files(&entry?.path(), files)?;
    }
    Ok(())
}
