//! Processes that could not be ended. The worker accepts no jobs while one of them lives, even
//! after a restart.

use crate::platform;
use crate::records::{self, Durability};
use buildpool_protocol::report::Survivor;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// File with the recorded processes.
const RECORD: &str = "survivors.json";

/// The format of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SurvivorFile {
    /// With the id of the machine's boot: process ids and start times are valid only within it.
    WithBoot { machine: Option<String>, processes: Vec<(Survivor, u64)> },
    /// Format of an older version.
    WithoutBoot(Vec<(Survivor, u64)>),
}

impl SurvivorFile {
    /// Returns the processes that may still live.
    fn living(self) -> Vec<(Survivor, u64)> {
        match self {
            Self::WithBoot { machine, processes } if machine == platform::machine_boot() => processes,
            Self::WithBoot { .. } => Vec::new(),
            Self::WithoutBoot(processes) => processes,
        }
    }
}

/// The known processes with their start times. Each change is stored on disk.
pub(super) struct Survivors {
    directory: PathBuf,
    known: Vec<(Survivor, u64)>,
}

impl Survivors {
    /// Reads the processes that earlier daemons left in this data directory.
    pub(super) fn open(directory: &Path) -> Self {
        let written = records::read_if_whole(directory, RECORD).unwrap_or_else(|error| {
            error!("processes that an earlier daemon could not end are not known: {error}");
            None
        });
        let known = written.map(SurvivorFile::living).unwrap_or_default();
        let mut survivors = Self { directory: directory.to_owned(), known };
        survivors.remove_ended();
        for (survivor, _) in &survivors.known {
            warn!(
                pid = survivor.pid,
                command = survivor.command,
                "a process that could not be ended still lives"
            );
        }
        survivors
    }

    /// Adds the processes that still live.
    pub(super) fn note(&mut self, survivors: &[Survivor]) {
        let before = self.known.len();
        for survivor in survivors {
            let found = platform::process(survivor.pid).map(|process| (survivor.clone(), process.started));
            if let Some(found) = found.filter(|found| !self.known.contains(found)) {
                self.known.push(found);
            }
        }
        self.write_if_changed(before);
    }

    /// Removes the processes that have ended.
    pub(super) fn remove_ended(&mut self) {
        let before = self.known.len();
        self.known.retain(|(survivor, started)| {
            platform::process(survivor.pid)
                .is_some_and(|process| process.started == *started && !process.zombie)
        });
        self.write_if_changed(before);
    }

    /// Returns the reason to accept no jobs, or `None` if all processes have ended.
    pub(super) fn reason(&self) -> Option<String> {
        let name = |(survivor, _): &(Survivor, u64)| format!("{} ({})", survivor.pid, survivor.command);
        let names: Vec<_> = self.known.iter().map(name).collect();
        (!names.is_empty()).then(|| format!("processes that could not be ended: {}", names.join(", ")))
    }

    fn write_if_changed(&self, before: usize) {
        if self.known.len() == before {
            return;
        }
        let written = if self.known.is_empty() {
            fs::remove_file(self.directory.join(RECORD))
        } else {
            let written =
                SurvivorFile::WithBoot { machine: platform::machine_boot(), processes: self.known.clone() };
            records::write(&self.directory, RECORD, &written, Durability::Power)
        };
        match written {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                error!(
                    "the processes that could not be ended can't be recorded for the next daemon: {error}"
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RECORD, Survivors};
    use buildpool_protocol::report::Survivor;
    use std::process::Command;

    #[test]
    fn who_could_not_be_ended_is_known_to_the_next_daemon_until_it_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it is on every system");
        let pid = i32::try_from(child.id()).expect("pids fit");
        let survivor = Survivor { pid, command: "sleep".into() };
        let mut first = Survivors::open(directory.path());
        assert_eq!(first.reason(), None);
        first.note(&[survivor.clone(), survivor]);
        let told = format!("processes that could not be ended: {pid} (sleep)");
        assert_eq!(first.reason(), Some(told.clone()));
        let mut next = Survivors::open(directory.path());
        assert_eq!(next.reason(), Some(told.clone()));
        // As an older version wrote it, and from before the machine was switched off, when the same
        // id and start time belonged to another process.
        let path = directory.path().join(RECORD);
        let written = std::fs::read_to_string(&path).expect("it is there");
        let record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        std::fs::write(&path, record["processes"].to_string()).expect("a disk");
        assert_eq!(Survivors::open(directory.path()).reason(), Some(told));
        let machine = record["machine"].as_str().expect("the system says it");
        std::fs::write(&path, written.replace(machine, "before")).expect("a disk");
        assert_eq!(Survivors::open(directory.path()).reason(), None);
        child.kill().expect("it runs");
        child.wait().expect("it was ours");
        next.remove_ended();
        assert_eq!(next.reason(), None);
        assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0);
    }
}
