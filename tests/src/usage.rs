//! Memory, processor time and open files of a pool's processes.

use crate::Pool;

/// Memory and open files of a set of processes, at present.
pub struct Usage {
    /// Resident memory in MiB.
    pub memory: f64,
    /// Open file descriptors.
    pub descriptors: usize,
}

/// Returns the present usage of the coordinator, and of the worker and its keepers together.
pub fn usage(pool: &Pool) -> (Usage, Usage) {
    let coordinator = pool.coordinator_pid();
    let mut others = Usage { memory: 0.0, descriptors: 0 };
    for pid in processes(pool).filter(|pid| *pid != coordinator) {
        others.memory += status_mib(pid, "VmRSS");
        others.descriptors += descriptors(pid);
    }
    let own = Usage { memory: status_mib(coordinator, "VmRSS"), descriptors: descriptors(coordinator) };
    (own, others)
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Returns the processor seconds of coordinator, worker and keepers so far, without the jobs.
pub fn processor_secs(pool: &Pool) -> f64 {
    let ticks: u64 = processes(pool)
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter_map(|stat| {
            let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').map(str::to_owned).collect();
            Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
        })
        .sum();
    ticks as f64 / 100.0
}

/// Returns the peak memory in MiB: of the coordinator, and of worker and keepers together.
pub fn peak_memory(pool: &Pool) -> (f64, f64) {
    let coordinator = pool.coordinator_pid();
    let others = processes(pool).filter(|pid| *pid != coordinator).map(|pid| status_mib(pid, "VmHWM")).sum();
    (status_mib(coordinator, "VmHWM"), others)
}

/// Returns a field of `/proc/PID/status` in MiB; 0 if the process is gone.
pub fn status_mib(pid: u32, field: &str) -> f64 {
    status_bytes(pid, field).unwrap_or_default() as f64 / f64::from(1 << 20)
}

/// Returns a field of `/proc/PID/status` in bytes, or `None` if the process is gone.
pub fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| {
        let kib = line.strip_prefix(field)?.strip_prefix(':')?.trim().strip_suffix(" kB")?;
        Some(kib.parse::<u64>().ok()? << 10)
    })
}

/// Returns the pool's own processes: coordinator, worker and keepers.
fn processes(pool: &Pool) -> impl Iterator<Item = u32> {
    let mut found = vec![pool.coordinator_pid()];
    let worker = (pool.data("w0").exists()).then(|| pool.worker_pid(0));
    found.extend(worker);
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let is_keeper = line.split(|byte| *byte == 0).nth(1) == Some(b"keeper");
        let parent = std::fs::read_to_string(entry.path().join("stat"))
            .ok()
            .and_then(|stat| stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok());
        if is_keeper && (worker.is_some() && parent == worker) {
            found.push(pid);
        }
    }
    found.into_iter()
}
