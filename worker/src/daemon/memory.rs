//! The control group of a worker and its attempts. Systems without control groups return nothing.

use crate::platform;
use crate::platform::cgroup::DelegatedGroups;
use crate::records::MemoryGroup;
use buildpool_evidence::memory::cgroup::{MemoryCounters, group_of};
use buildpool_protocol::ids::AttemptId;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the group of an attempt, with its counters before the attempt: its own, or the one of this process, which its
/// attempts inherit.
pub(super) fn group(slots: u32, groups: Option<&DelegatedGroups>, attempt: AttemptId) -> Option<MemoryGroup> {
    if let Some(groups) = groups.filter(|groups| groups.limit_memory()) {
        let path = groups.of_attempt(&name(attempt));
        return Some(MemoryGroup { path, before: Some(MemoryCounters::default()), is_exclusive: true });
    }
    // The group of a process changes only by hand.
    static OWN: OnceLock<Option<(PathBuf, &'static Path)>> = OnceLock::new();
    let (path, v2) = OWN.get_or_init(own_group).clone()?;
    let kills = MemoryCounters::read_kills(&path);
    let before = kills.map(|oom_kills| MemoryCounters { oom_kills, ..MemoryCounters::default() });
    let is_exclusive = before.is_some() && slots == 1 && is_of_one_service(&path, v2);
    Some(MemoryGroup { path, before, is_exclusive })
}

/// Returns the group of this process, and the mount point of version 2.
fn own_group() -> Option<(PathBuf, &'static Path)> {
    let groups = platform::control_groups()?;
    let (v1, v2) = (Path::new(groups.memory_mount), Path::new(groups.mount));
    Some((group_of(&groups.own, v1, v2)?, v2))
}

/// Returns the name of an attempt in the name of its group.
pub(super) fn name(attempt: AttemptId) -> String {
    format!("{}.{}", attempt.job, attempt.number)
}

/// Returns true if the group belongs to one service or container. A service has its own group, and
/// a container sees its group as the root. A login session shares one group. The real root of
/// version 2 has no counters.
fn is_of_one_service(group: &Path, root: &Path) -> bool {
    group == root || group.extension().is_some_and(|extension| extension == "service")
}

#[cfg(test)]
mod tests {
    use super::is_of_one_service;
    use std::path::Path;

    #[test]
    fn a_service_and_a_container_have_a_group_of_their_own() {
        let root = Path::new("/c");
        for (group, expected) in [
            ("/c", true),
            ("/c/system.slice/buildpool-worker.service", true),
            ("/c/user.slice/user-0.slice/session-3.scope", false),
            ("/c/user.slice", false),
        ] {
            assert_eq!(is_of_one_service(Path::new(group), root), expected, "{group}");
        }
    }
}
