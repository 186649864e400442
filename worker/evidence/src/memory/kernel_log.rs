//! Parses out-of-memory kills in the kernel log, in the formats of `dmesg` and `/dev/kmsg`.

use crate::text;

/// One out-of-memory kill.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OomKill {
    /// Process id of the killed process.
    pub pid: i32,
    /// Process name, truncated by the kernel to 15 bytes.
    pub process: String,
    /// Resident memory of the process, in bytes.
    pub resident_bytes: Option<u64>,
    /// Limit of the control group in bytes, or `None` if the whole machine was out of memory.
    pub limit_bytes: Option<u64>,
    /// Seconds since boot.
    pub at_secs: Option<f64>,
}

impl OomKill {
    /// Returns name and process id: `rustc (pid 4711)`.
    pub fn victim(&self) -> String {
        format!("{} (pid {})", self.process, self.pid)
    }
}

/// Returns all kills in a log, in order.
pub fn kills(log: &str) -> Vec<OomKill> {
    let mut kills = Vec::new();
    let mut limit = None;
    for line in log.lines() {
        let (at_secs, message) = split_time(line);
        if message.contains(" invoked oom-killer") {
            limit = None;
        } else if let Some(kilobytes) =
            message.strip_prefix("memory: usage ").and_then(|rest| after(rest, "limit "))
        {
            limit = leading_number(kilobytes).and_then(|number| number.checked_mul(1024));
        } else if let Some(kill) = killed(message) {
            let limit_bytes = limit.take().filter(|_| message.starts_with("Memory cgroup"));
            kills.push(OomKill { limit_bytes, at_secs, ..kill });
        }
    }
    kills
}

/// Splits off the time of a line: `[ 12.345678] text` or `6,339,12345678,-;text`.
fn split_time(line: &str) -> (Option<f64>, &str) {
    if let Some(rest) = line.strip_prefix('[')
        && let Some((time, message)) = rest.split_once("] ")
    {
        return (time.trim().parse().ok(), message);
    }
    if let Some((head, message)) = line.split_once(';') {
        let micros = head.split(',').nth(2).and_then(|micros| micros.parse::<f64>().ok());
        if micros.is_some() {
            return (micros.map(|micros| micros / 1e6), message);
        }
    }
    (None, line)
}

/// Parses a kill. `Memory cgroup out of memory: Killed process 4711 (rustc) total-vm:1kB,
/// anon-rss:2kB, file-rss:3kB, shmem-rss:0kB, …` and `Out of memory: Killed process …`. Older
/// kernels first write `Kill process … score … or sacrifice child`.
fn killed(message: &str) -> Option<OomKill> {
    let at = message.find("Killed process ")?;
    let head = message.get(..at)?;
    if !(head.is_empty() || head.to_ascii_lowercase().contains("out of memory")) {
        return None;
    }
    let rest = message.get(at + "Killed process ".len()..)?;
    let pid = leading_number(rest).and_then(|pid| i32::try_from(pid).ok())?;
    let (_, named) = rest.split_once('(')?;
    let (name, sizes) = named.split_once(") ").or_else(|| named.split_once("), "))?;
    let kilobytes = |key: &str| after(sizes, key).and_then(leading_number);
    let parts = [kilobytes("anon-rss:"), kilobytes("file-rss:"), kilobytes("shmem-rss:")];
    let resident = parts.iter().flatten().try_fold(0_u64, |sum, part| sum.checked_add(*part));
    Some(OomKill {
        pid,
        process: text::name(name),
        resident_bytes: resident
            .filter(|_| parts.iter().any(Option::is_some))
            .and_then(|sum| sum.checked_mul(1024)),
        ..OomKill::default()
    })
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key).map(|(_, rest)| rest)
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[  100.000000] cc1plus invoked oom-killer: gfp_mask=0xcc0\n\
        [  100.000100] memory: usage 65536kB, limit 65536kB, failcnt 28\n\
        [  100.000200] Memory cgroup out of memory: Killed process 321 (cc1 plus) total-vm:90000kB, anon-rss:60000kB, file-rss:1000kB, shmem-rss:0kB, UID:0\n\
        3,200,200500000,-;Out of memory: Killed process 999 (java) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB\n\
        [  300.0] audit: Killed process nothing\n";

    #[test]
    fn kills_of_a_group_and_of_the_machine() {
        let kills = kills(LOG);
        assert_eq!(kills.len(), 2);
        assert_eq!(kills[0].victim(), "cc1 plus (pid 321)");
        assert_eq!(kills[0].limit_bytes, Some(65536 * 1024));
        assert_eq!(kills[0].resident_bytes, Some(61000 * 1024));
        assert_eq!(kills[0].at_secs, Some(100.0002));
        assert_eq!((kills[1].pid, kills[1].limit_bytes, kills[1].at_secs), (999, None, Some(200.5)));
    }
}
