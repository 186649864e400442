//! Digests the files below a folder once, to count instructions or to compare programs:
//! `cargo bench -p buildpool-digest --bench once -- FOLDER [ROUNDS]`. Prints the times of the start, the logs and their digests.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use buildpool_digest::{Digester, Facts, Options};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let folder = arguments
        .next()
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs"), PathBuf::from);
    let rounds = arguments.next().map_or(Ok(1), |rounds| rounds.parse())?;
    let mut logs = Vec::new();
    add_logs(&folder, &mut logs)?;
    let bytes: usize = logs.iter().map(Vec::len).sum();
    let before = Instant::now();
    let mut digester = Digester::new(Options::default());
    println!("start: {:?}", before.elapsed());
    for round in 1..=rounds {
        let (mut pushed, mut finished) = (Duration::ZERO, Duration::ZERO);
        for log in &logs {
            let before = Instant::now();
            log.chunks(64 << 10).for_each(|chunk| digester.push(Stream::Stdout, chunk));
            pushed += before.elapsed();
            let before = Instant::now();
            let mut result = JobResult::default();
            digester.finish(&Facts::default()).render(Verbosity::Minimal, None, None, &mut result);
            finished += before.elapsed();
            digester = Digester::new(Options::default());
        }
        let rate = bytes as f64 / 1e6 / pushed.as_secs_f64();
        println!(
            "round {round}: {} logs, {bytes} bytes: pushed in {pushed:?} ({rate:.0} MB/s), digests in {finished:?}",
            logs.len()
        );
    }
    Ok(())
}

fn add_logs(path: &Path, logs: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    if !path.is_dir() {
        logs.push(std::fs::read(path)?);
        return Ok(());
    }
    let mut entries: Vec<_> = std::fs::read_dir(path)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    entries.iter().try_for_each(|entry| add_logs(&entry.path(), logs))
}
