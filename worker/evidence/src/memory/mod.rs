//! Memory evidence from the kernel: counters of a control group, or the kernel log. Linux only.
//! Other systems return no evidence.

pub mod cgroup;
pub mod kernel_log;

use buildpool_protocol::evidence::MemoryEvidence;
use cgroup::MemoryCounters;
use std::path::Path;

/// Sources of memory evidence.
#[derive(Clone, Debug, Default)]
pub struct MemoryQuery<'a> {
    /// Control group of the job: a directory below `/sys/fs/cgroup`.
    pub cgroup: Option<&'a Path>,
    /// Counters of the group at the start of the job. Used only with `exclusive`.
    pub before: Option<MemoryCounters>,
    /// True if only this job uses the group, so that every kill in it belongs to the job.
    pub exclusive: bool,
    /// All process ids of the job.
    pub pids: &'a [i32],
    /// Seconds since boot at the start of the job. Older kernel log entries are ignored.
    pub started_since_boot_secs: Option<f64>,
    /// Text of the kernel log.
    pub kernel_log: Option<&'a str>,
}

/// Returns the memory evidence, if there is any.
pub fn evidence(query: &MemoryQuery<'_>) -> Option<MemoryEvidence> {
    let kills = query.kernel_log.map(kernel_log::kills).unwrap_or_default();
    let after_start = |kill: &&kernel_log::OomKill| match (kill.at_secs, query.started_since_boot_secs) {
        (Some(at), Some(started)) => at + 1.0 >= started,
        _ => true,
    };
    // Search the newest kill first, because process ids are reused.
    let kill = kills.iter().rev().filter(after_start).find(|kill| query.pids.contains(&kill.pid));
    // In a shared group only the limit is meaningful, and only if a process of the job was killed.
    let group = query.cgroup.filter(|_| query.exclusive || kill.is_some());
    let counters = group.and_then(MemoryCounters::read);
    let counted = counters.as_ref().is_some_and(|now| {
        let before = query.before.as_ref().map_or(0, |before| before.oom_kills);
        query.exclusive && now.oom_kills > before
    });
    let limit = counters.as_ref().and_then(|counters| counters.limit_bytes);
    let peak = counters.as_ref().and_then(|counters| counters.peak_bytes);
    if counted || (kill.is_some() && limit.is_some()) {
        return Some(MemoryEvidence {
            oom_killed: true,
            limit_bytes: limit.or_else(|| kill.and_then(|kill| kill.limit_bytes)),
            peak_bytes: peak.or_else(|| kill.and_then(|kill| kill.resident_bytes)),
            source: if counted { "cgroup" } else { "kernel_log" }.to_owned(),
            victim: kill.map(kernel_log::OomKill::victim),
        });
    }
    if let Some(kill) = kill {
        return Some(MemoryEvidence {
            oom_killed: true,
            limit_bytes: kill.limit_bytes,
            peak_bytes: kill.resident_bytes,
            source: "kernel_log".to_owned(),
            victim: Some(kill.victim()),
        });
    }
    // Report limit and peak even without a kill, because the job may have failed to allocate
    // memory.
    let known = query.exclusive && limit.is_some();
    known.then(|| MemoryEvidence {
        oom_killed: false,
        limit_bytes: limit,
        peak_bytes: peak,
        source: "cgroup".to_owned(),
        victim: None,
    })
}
