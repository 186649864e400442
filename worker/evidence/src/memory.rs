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
    /// Counters of the group at the start of the job. Only the kills are used.
    pub before: Option<MemoryCounters>,
    /// True if only this job uses the group, so that every kill in it belongs to the job.
    pub exclusive: bool,
    /// All process ids of the job.
    pub pids: &'a [i32],
    /// Seconds since boot at the start of the job. Older kernel log entries are ignored.
    pub started_since_boot_secs: Option<f64>,
    /// Text of the kernel log.
    pub kernel_log: Option<&'a str>,
    /// Limit on the memory of each process of the job, and the peak of its largest one. In bytes.
    pub of_process: OfProcess,
    /// OOM kills on the whole machine while the job ran, if they were counted.
    pub machine_kills: Option<u64>,
}

/// Memory of single processes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfProcess {
    /// Limit on each process (`RLIMIT_DATA`).
    pub limit: Option<u64>,
    /// Peak of the largest process.
    pub peak: Option<u64>,
}

/// Returns the number of processes that the kernel has OOM-killed since boot. Linux only.
pub fn machine_kills() -> Option<u64> {
    crate::platform::machine_kills()
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
            kills_nearby: 0,
        });
    }
    if let Some(kill) = kill {
        return Some(MemoryEvidence {
            oom_killed: true,
            limit_bytes: kill.limit_bytes,
            peak_bytes: kill.resident_bytes,
            source: "kernel_log".to_owned(),
            victim: Some(kill.victim()),
            kills_nearby: 0,
        });
    }
    without_kill(query, limit, peak)
}

/// Returns the evidence if no kill is certainly one of the job: a limit that an allocation may have reached, or kills of
/// which one may be the job's.
fn without_kill(query: &MemoryQuery<'_>, limit: Option<u64>, peak: Option<u64>) -> Option<MemoryEvidence> {
    let evidence = |source: &str, limit_bytes, peak_bytes, kills_nearby| {
        let source = source.to_owned();
        Some(MemoryEvidence { limit_bytes, peak_bytes, source, kills_nearby, ..MemoryEvidence::default() })
    };
    let of_process = query.of_process;
    let is_lower = of_process.limit.is_some_and(|own| limit.is_none_or(|limit| own < limit));
    if query.exclusive && limit.is_some() && !is_lower {
        return evidence("cgroup", limit, peak, 0);
    }
    let shared = query.cgroup.and_then(MemoryCounters::read_kills).zip(query.before);
    let (source, limit, kills) = match shared.map(|(now, before)| now.saturating_sub(before.oom_kills)) {
        Some(kills) if kills > 0 => {
            let counters = query.cgroup.and_then(MemoryCounters::read);
            ("cgroup", counters.and_then(|counters| counters.limit_bytes), kills)
        }
        // Containers of a job have groups of their own.
        _ => ("machine", None, query.machine_kills.unwrap_or(0)),
    };
    // The kills may be of others, so they must not hide the limit of this job.
    let is_lower = of_process.limit.is_some_and(|own| limit.is_none_or(|limit| own < limit));
    if is_lower {
        return evidence("rlimit", of_process.limit, of_process.peak, kills);
    }
    if kills > 0 { evidence(source, limit, of_process.peak, kills) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{MemoryQuery, OfProcess, evidence};

    #[test]
    fn kills_of_others_do_not_hide_the_limit_of_the_job() {
        let of_process = OfProcess { limit: Some(128 << 20), peak: Some(100 << 20) };
        for (limited, kills, source, limit) in [
            (true, 0, "rlimit", of_process.limit),
            (true, 2, "rlimit", of_process.limit),
            (false, 2, "machine", None),
        ] {
            let of_process = if limited { of_process } else { OfProcess { limit: None, ..of_process } };
            let query = MemoryQuery { of_process, machine_kills: Some(kills), ..MemoryQuery::default() };
            let found = evidence(&query).expect("evidence");
            assert_eq!((found.source.as_str(), found.limit_bytes), (source, limit));
            assert_eq!((found.kills_nearby, found.oom_killed), (kills, false));
            assert_eq!(found.peak_bytes, Some(100 << 20));
        }
        let nothing = MemoryQuery { machine_kills: Some(0), ..MemoryQuery::default() };
        assert_eq!(evidence(&nothing), None);
    }
}
