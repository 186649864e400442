//! Limits on the resources of a job: memory, processes, processors, disk.

use super::memory;
use crate::config::Config;
use crate::platform::cgroup::{AttemptGroup, DelegatedGroups, GroupLimits};
use crate::platform::{self, DiskRoom};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::spec::{CPUS, JobSpec};
use std::io;
use std::path::Path;

/// Name of the file in the data directory with the limits in force, for `doctor`.
pub(crate) const LIMITS: &str = "limits";
/// Part of the memory that remains for the worker and the system: one sixteenth.
const MEMORY_RESERVE: u64 = 16;
/// The smallest default limit on the disk space of a job, in bytes.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// Returns the control group of an attempt.
pub(super) fn group(
    groups: &DelegatedGroups,
    config: &Config,
    spec: &JobSpec,
    attempt: AttemptId,
) -> AttemptGroup {
    let limits = GroupLimits {
        memory_bytes: spec.memory_bytes().or_else(|| memory_share(config)),
        processes: Some(config.processes_of_group()),
        cpus: spec.resources.get(CPUS).copied(),
    };
    groups.limited(&memory::name(attempt), &limits)
}

/// Returns the memory of a job without a request: the share of a slot, in bytes.
fn memory_share(config: &Config) -> Option<u64> {
    let all = platform::memory_bytes()?;
    Some((all - all / MEMORY_RESERVE) / u64::from(config.slots.max(1)))
}

/// Returns the limit on the disk space of a job: the configured one, or the share of a slot in the free space.
pub(super) fn disk_bytes(config: &Config, room: io::Result<DiskRoom>) -> Option<u64> {
    let share = |room: DiskRoom| {
        let free = room.free.saturating_sub(config.space.free_min(room));
        (free / u64::from(config.slots.max(1))).max(DISK_BYTES_MIN)
    };
    config.disk_bytes_max.or_else(|| Some(share(room.ok()?)))
}

/// Returns the limits in force, for users.
pub(super) fn in_force(groups: &Result<DelegatedGroups, String>, config: &Config) -> String {
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let disk = config.disk_bytes_max.map_or_else(|| "a slot's share of the free space".to_owned(), mebibytes);
    let disk = format!("disk: {disk}");
    match groups {
        Ok(groups) => {
            let memory = memory_share(config).map_or_else(|| "no default".to_owned(), mebibytes);
            format!(
                "by a control group for each job, in {}: memory by --memory (default {memory}), at most {} processes, processors by --cpus; {disk}",
                groups.directory().display(),
                config.processes_of_group()
            )
        }
        Err(reason) => {
            let processes = config
                .processes_of_job()
                .map_or_else(|| "the system's".to_owned(), |processes| processes.to_string());
            let memory = match platform::MEMORY_LIMIT {
                Some(_) => "memory of each process by --memory (no default)",
                None => "no limit on memory",
            };
            format!(
                "by rlimits: {memory}, processes of each user: {processes}, no limit on processors; {disk}. No control groups: {reason}"
            )
        }
    }
}

/// Returns the limits that the worker with this data directory had in force at its last start.
///
/// # Errors
/// Fails if there is no such worker, or the file can't be read.
pub fn recorded(data_dir: &Path) -> io::Result<String> {
    std::fs::read_to_string(data_dir.join(LIMITS))
}

#[cfg(test)]
mod tests {
    use super::{DISK_BYTES_MIN, disk_bytes, memory_share};
    use crate::config::Config;
    use crate::platform::{DiskRoom, memory_bytes};

    #[test]
    fn defaults_follow_the_machine_and_the_slots() {
        let mut config = Config::new("ws://h:1", "/d");
        config.slots = 2;
        let all = memory_bytes().expect("the machine has memory");
        let share = memory_share(&config).expect("a share");
        assert!(share < all / 2 && share > all / 3, "{share} of {all}");
        config.space.free_min_bytes = Some(10 << 30);
        let room = |free| Ok(DiskRoom { free, total: 1 << 40 });
        assert_eq!(disk_bytes(&config, room(110 << 30)), Some(50 << 30));
        assert_eq!(disk_bytes(&config, room(5 << 30)), Some(DISK_BYTES_MIN));
        config.disk_bytes_max = Some(7);
        assert_eq!(disk_bytes(&config, room(5 << 30)), Some(7));
    }
}
