//! What the kernel says about memory: counters of a control group, else the kernel's log. Linux only; elsewhere nothing
//! is there to read, and nothing is found.

pub mod cgroup;
pub mod kernel_log;

use buildpool_protocol::evidence::MemoryEvidence;
use cgroup::MemoryCounters;
use std::path::Path;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct MemoryQuery<'a> {
    /// The control group that holds the job: a directory below `/sys/fs/cgroup`.
    pub cgroup: Option<&'a Path>,
    /// Its counters when the job began, when it is shared with others.
    pub before: Option<MemoryCounters>,
    /// The job alone is in it, so that any kill in it is the job's.
    pub exclusive: bool,
    /// Every process id of the job.
    pub pids: &'a [i32],
    /// Seconds since boot when the job began, to pass over what is older in the kernel's log.
    pub started_since_boot_secs: Option<f64>,
    /// Text of the kernel's log.
    pub kernel_log: Option<&'a str>,
}

/// What is known, if anything is.
pub fn evidence(query: &MemoryQuery<'_>) -> Option<MemoryEvidence> {
    let kills = query.kernel_log.map(kernel_log::kills).unwrap_or_default();
    let after_start = |kill: &&kernel_log::OomKill| match (kill.at_secs, query.started_since_boot_secs) {
        (Some(at), Some(started)) => at + 1.0 >= started,
        _ => true,
    };
    // The newest first: process ids are used again.
    let kill = kills.iter().rev().filter(after_start).find(|kill| query.pids.contains(&kill.pid));
    // Of a group that others share only the limit says something, and only about one that was killed.
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
    // A limit and a peak are worth telling also when nothing was killed: the job may have failed to allocate.
    let known = query.exclusive && limit.is_some();
    known.then(|| MemoryEvidence {
        oom_killed: false,
        limit_bytes: limit,
        peak_bytes: peak,
        source: "cgroup".to_owned(),
        victim: None,
    })
}
