//! Selects the processes of a tree from a process table. Pure.

use std::collections::BTreeSet;

/// A process in the system's table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// Start time in the system's own unit. It distinguishes a later process with the same id.
    pub started: u64,
    /// True if it has ended and is not reaped.
    pub zombie: bool,
    /// Its name.
    pub name: String,
}

/// Content of the system's table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The processes read.
    pub processes: Vec<Process>,
    /// True if all processes were read.
    pub is_whole: bool,
}

/// Marks of the processes in a tree.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// All descendants of this process, except itself.
    pub below: Option<i32>,
    /// All processes in the session or group of this process.
    pub session: Option<i32>,
    /// Processes found in the tree earlier, as pid and start time.
    pub known: BTreeSet<(i32, u64)>,
    /// Processes to exclude.
    pub except: BTreeSet<i32>,
}

/// Returns the living processes of a tree: those with a mark, and all their descendants.
pub fn members(
    table: &[Process],
    selection: &Selection,
    mut is_marked: impl FnMut(&Process) -> bool,
) -> Vec<Process> {
    let mut inside: BTreeSet<i32> = selection.below.into_iter().collect();
    for process in table {
        let by_session =
            selection.session.is_some_and(|leader| process.session == leader || process.group == leader);
        let by_memory = selection.known.contains(&(process.pid, process.started));
        if by_session || by_memory || is_marked(process) {
            inside.insert(process.pid);
        }
    }
    for excepted in &selection.except {
        if selection.below != Some(*excepted) {
            inside.remove(excepted);
        }
    }
    // Each pass finds at least one more generation. A table has fewer generations than processes.
    loop {
        let before = inside.len();
        for process in table {
            if inside.contains(&process.parent) && !selection.except.contains(&process.pid) {
                inside.insert(process.pid);
            }
        }
        if inside.len() == before {
            break;
        }
    }
    table
        .iter()
        .filter(|process| {
            inside.contains(&process.pid)
                && selection.below != Some(process.pid)
                && !selection.except.contains(&process.pid)
                && !process.zombie
        })
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Process, Selection, members};
    use std::collections::BTreeSet;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process {
            pid,
            parent,
            group: session,
            session,
            started: u64::from(pid.unsigned_abs()) * 10,
            zombie: false,
            name: format!("p{pid}"),
        }
    }

    fn table() -> Vec<Process> {
        vec![
            process(1, 0, 1),
            process(50, 1, 50),  // keeper
            process(60, 50, 60), // leader
            process(61, 60, 60), // child
            process(62, 61, 62), // grandchild in a session of its own
            process(70, 50, 70), // orphan that came to the keeper
            process(80, 1, 80),  // orphan that did not
            process(81, 80, 80), // and its child
            process(90, 1, 60),  // orphan in the leader's session
            process(99, 1, 99),  // a stranger
        ]
    }

    fn pids(found: &[Process]) -> Vec<i32> {
        found.iter().map(|process| process.pid).collect()
    }

    #[test]
    fn each_mark_finds_its_processes_and_their_descendants() {
        let below = Selection { below: Some(50), ..Selection::default() };
        let session = Selection { session: Some(60), ..Selection::default() };
        let known = Selection { known: BTreeSet::from([(80, 800), (99, 1)]), ..Selection::default() };
        for (selection, marked, expected) in [
            (&below, 0, vec![60, 61, 62, 70]),
            (&session, 0, vec![60, 61, 62, 90]),
            (&known, 0, vec![80, 81]),
            (&Selection::default(), 80, vec![80, 81]),
            (&Selection::default(), 0, vec![]),
        ] {
            let found = members(&table(), selection, |process| process.pid == marked);
            assert_eq!(pids(&found), expected, "{selection:?} with mark {marked}");
        }
    }

    #[test]
    fn excepted_and_zombies_are_left_out() {
        let mut table = table();
        table[3].zombie = true;
        let selection = Selection { below: Some(50), except: BTreeSet::from([70]), ..Selection::default() };
        assert_eq!(pids(&members(&table, &selection, |_| false)), [60, 62]);
    }
}
