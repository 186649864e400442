//! Reads memory counters of a control group, version 1 or 2. The files in the directory decide the
//! version. The directory is a parameter, so that tests can provide their own.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// A higher limit means no limit: version 1 writes the largest page-aligned number.
const NO_LIMIT: u64 = 1 << 60;

/// Counters at one point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryCounters {
    /// Number of OOM-killed processes in the group or below it.
    pub oom_kills: u64,
    /// The smallest limit of the group and its ancestors, in bytes.
    pub limit_bytes: Option<u64>,
    /// Peak memory use in bytes.
    pub peak_bytes: Option<u64>,
}

impl MemoryCounters {
    /// Reads the counters of a group. Returns `None` without a memory controller.
    pub fn read(group: &Path) -> Option<Self> {
        Self::read_v2(group).or_else(|| Self::read_v1(group))
    }

    /// Reads only the number of killed processes, which needs one file. Returns `None` without a memory controller.
    pub fn read_kills(group: &Path) -> Option<u64> {
        let counted =
            text(&group.join("memory.events")).or_else(|| text(&group.join("memory.oom_control")))?;
        Some(keyed(&counted, "oom_kill").unwrap_or(0))
    }

    /// Reads version 2. `memory.events` contains the kills (`oom_kill`), including those of groups
    /// below.
    fn read_v2(group: &Path) -> Option<Self> {
        let events = text(&group.join("memory.events"))?;
        Some(Self {
            oom_kills: keyed(&events, "oom_kill").unwrap_or(0),
            limit_bytes: limit_upward(group, "memory.max"),
            peak_bytes: number(&group.join("memory.peak")).or_else(|| number(&group.join("memory.current"))),
        })
    }

    /// Reads version 1. `memory.oom_control` contains the kills since Linux 4.13.
    fn read_v1(group: &Path) -> Option<Self> {
        let control = text(&group.join("memory.oom_control"))?;
        Some(Self {
            oom_kills: keyed(&control, "oom_kill").unwrap_or(0),
            limit_bytes: limit_upward(group, "memory.limit_in_bytes"),
            peak_bytes: number(&group.join("memory.max_usage_in_bytes")),
        })
    }
}

/// Returns the memory group of a process. `proc_cgroup` is the text of `/proc/PID/cgroup`, the
/// mounts are the mount points of the two versions.
pub fn group_of(proc_cgroup: &str, mount_v1: &Path, mount_v2: &Path) -> Option<PathBuf> {
    let mut unified = None;
    for line in proc_cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let below = path.trim_start_matches('/');
        if below.split('/').any(|part| part == "..") {
            continue;
        }
        if controllers.split(',').any(|controller| controller == "memory") {
            return Some(mount_v1.join(below));
        }
        if id == "0" && controllers.is_empty() {
            unified = Some(mount_v2.join(below));
        }
    }
    unified
}

fn text(path: &Path) -> Option<String> {
    let content = crate::files::read_head(path, 64 << 10).ok()?;
    String::from_utf8(content).ok()
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

fn keyed(content: &str, key: &str) -> Option<u64> {
    content.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok()).flatten()
    })
}

/// Returns the smallest limit of a group and its ancestors. Groups without a limit have `max` or a
/// huge number.
fn limit_upward(group: &Path, file: &str) -> Option<u64> {
    let mut smallest: Option<u64> = None;
    for at in group.ancestors().take(32) {
        if fs::symlink_metadata(at.join(file)).is_err() {
            break;
        }
        if let Some(limit) = number(&at.join(file)).filter(|limit| *limit < NO_LIMIT) {
            smallest = Some(smallest.map_or(limit, |known| known.min(limit)));
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_with_a_limit_further_up() {
        let root = tempfile::TempDir::new().expect("a directory");
        let group = root.path().join("job");
        fs::create_dir(&group).expect("made");
        let write = |path: &Path, content: &str| fs::write(path, content).expect("written");
        write(&root.path().join("memory.max"), "67108864\n");
        write(&group.join("memory.max"), "max\n");
        write(&group.join("memory.events"), "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n");
        write(&group.join("memory.peak"), "67100000\n");
        let expected =
            MemoryCounters { oom_kills: 1, limit_bytes: Some(67_108_864), peak_bytes: Some(67_100_000) };
        assert_eq!(MemoryCounters::read(&group), Some(expected));
        assert_eq!(MemoryCounters::read_kills(&group), Some(1));
    }

    #[test]
    fn version_1_without_a_limit() {
        let group = tempfile::TempDir::new().expect("a directory");
        let write = |name: &str, content: &str| fs::write(group.path().join(name), content).expect("written");
        write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        write("memory.max_usage_in_bytes", "4096\n");
        let expected = MemoryCounters { oom_kills: 3, limit_bytes: None, peak_bytes: Some(4096) };
        assert_eq!(MemoryCounters::read(group.path()), Some(expected));
        assert_eq!(MemoryCounters::read_kills(group.path()), Some(3));
        assert_eq!(MemoryCounters::read_kills(Path::new("/nonexistent")), None);
        assert_eq!(MemoryCounters::read(Path::new("/nonexistent")), None);
    }

    #[test]
    fn the_group_of_a_process() {
        let (one, two) = (Path::new("/c/memory"), Path::new("/c/unified"));
        let mixed = "5:memory:/jobs/a\n1:name=systemd:/x\n0::/y\n";
        assert_eq!(group_of(mixed, one, two), Some("/c/memory/jobs/a".into()));
        assert_eq!(group_of("0::/user.slice\n", one, two), Some("/c/unified/user.slice".into()));
        assert_eq!(group_of("0::/../../etc\n", one, two), None);
    }
}
