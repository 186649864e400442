//! The progress line of a job.

use crate::durations;
use buildpool_protocol::client_link::Progress;
use buildpool_protocol::report::JobState;
use buildpool_protocol::shown::{counted, output_line, thousands};
use std::time::{Duration, Instant};

/// Seconds without output after which the line shows them.
const SILENCE_SECS: u64 = 30;

/// State of the progress line.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    submitted: Instant,
    started: Option<Instant>,
    last: Option<Progress>,
}

impl ProgressLine {
    pub(crate) fn new(now: Instant) -> Self {
        Self { submitted: now, started: None, last: None }
    }

    /// Stores a progress message of the coordinator.
    pub(crate) fn update(&mut self, progress: Progress, now: Instant) {
        if progress.state >= JobState::Running && self.started.is_none() {
            self.started = Some(now);
        }
        self.last = Some(progress);
    }

    /// Returns the current line.
    pub(crate) fn text(&self, now: Instant) -> String {
        match &self.last {
            None => "buildpool: submitted".to_owned(),
            Some(progress) => format!("buildpool: {}", self.of(progress, now).join(" · ")),
        }
    }

    fn of(&self, progress: &Progress, now: Instant) -> Vec<String> {
        let waited = now.duration_since(self.submitted);
        let mut parts = Vec::new();
        match progress.state {
            JobState::Queued => {
                let waiting = progress.waiting.as_ref();
                parts.push(match waiting.and_then(|waiting| waiting.position) {
                    Some(position) if position > 1 => format!("queued behind {}", position - 1),
                    Some(_) | None => "queued".to_owned(),
                });
                parts.push(durations::show(waited));
                parts.extend(waiting.map(|waiting| super::one_line(&waiting.reason)));
                return parts;
            }
            JobState::Preparing | JobState::Running | JobState::Sealing | JobState::Done => {
                let worker = progress.worker.as_ref().map_or(String::new(), |worker| format!(" on {worker}"));
                parts.push(format!("{}{worker}", progress.state.name()));
            }
        }
        let ran = self.started.map_or(Duration::ZERO, |started| now.duration_since(started));
        parts.push(durations::show(ran));
        if !progress.connected {
            parts.push("its worker can't be reached".to_owned());
        }
        parts.extend(progress.waiting.as_ref().map(|waiting| super::one_line(&waiting.reason)));
        let facts = [(progress.lines, "line"), (progress.errors, "error")];
        parts.extend(facts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(*count, what)));
        match (progress.tests_done, progress.tests_total) {
            (0, None) => {}
            (done, None) => parts.push(counted(done, "test")),
            (done, Some(total)) => parts.push(format!("{} of {}", thousands(done), counted(total, "test"))),
        }
        match progress.silent_secs {
            Some(secs) if secs >= SILENCE_SECS => {
                parts.push(format!("silent for {}", durations::show(Duration::from_secs(secs))));
            }
            Some(_) | None => {}
        }
        parts.extend(progress.running_test.as_ref().map(|test| format!("test {}", super::one_line(test))));
        if !progress.text.is_empty() {
            parts.push(output_line(&progress.text));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::ProgressLine;
    use buildpool_protocol::client_link::Progress;
    use buildpool_protocol::report::{JobState, Waiting};
    use std::time::{Duration, Instant};

    #[test]
    fn the_line_says_where_the_job_stands() {
        let begun = Instant::now();
        let after = |secs| begun + Duration::from_secs(secs);
        let mut line = ProgressLine::new(begun);
        assert_eq!(line.text(begun), "buildpool: submitted");
        let waiting =
            Waiting { reason: "all slots\nare taken".into(), position: Some(3), ..Waiting::default() };
        line.update(Progress { waiting: Some(waiting), ..Progress::default() }, after(1));
        assert_eq!(line.text(after(12)), "buildpool: queued behind 2 · 12s · all slots ⏎ are taken");
        let running = Progress {
            state: JobState::Running,
            connected: true,
            worker: Some("mini-3".into()),
            lines: 1,
            errors: 2,
            tests_done: 4,
            tests_total: Some(9),
            ..Progress::default()
        };
        line.update(running.clone(), after(20));
        assert_eq!(
            line.text(after(83)),
            "buildpool: running on mini-3 · 1m03s · 1 line · 2 errors · 4 of 9 tests"
        );
        line.update(Progress { connected: false, ..running.clone() }, after(90));
        assert!(line.text(after(90)).contains("its worker can't be reached"));
        let last = Progress {
            silent_secs: Some(75),
            running_test: Some("a::b".into()),
            text: "Linking \x1b[1mapp".into(),
            tests_done: 0,
            tests_total: None,
            ..running
        };
        line.update(last, after(90));
        let text = line.text(after(90));
        assert!(text.ends_with(" · silent for 1m15s · test a::b · Linking app"), "{text}");
    }
}
