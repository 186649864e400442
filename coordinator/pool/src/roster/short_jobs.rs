//! A series of short jobs on a worker. During a series, the worker gets grants beyond its free slots.

use crate::input::Now;
use crate::pool::{Pool, Timer};
use buildpool_protocol::ids::WorkerId;
use std::time::Duration;

/// Short jobs that ended on a worker in quick succession.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShortJobSeries {
    ended: u32,
    last_end: Duration,
    is_long_enough: bool,
    /// True if a timer for its end is set.
    is_timed: bool,
}

impl ShortJobSeries {
    /// Records the end of a short job.
    fn extend(&mut self, now: Duration, pause_max: Duration, least: u32) {
        if self.is_over(now, pause_max) {
            self.end();
        }
        self.ended = self.ended.saturating_add(1);
        self.last_end = now;
        self.is_long_enough = self.ended >= least;
    }

    /// Returns true if its last job ended too long ago.
    fn is_over(self, now: Duration, pause_max: Duration) -> bool {
        self.last_end.saturating_add(pause_max) <= now
    }

    /// Ends the series.
    pub(crate) fn end(&mut self) {
        (self.ended, self.is_long_enough) = (0, false);
    }

    /// Returns true if enough short jobs ended in it for early grants.
    pub(crate) const fn is_long_enough(self) -> bool {
        self.is_long_enough
    }
}

impl Pool {
    /// Records the end of a job on a worker. A short job extends its series, another one ends it.
    pub(crate) fn note_job_end(&mut self, now: Now, worker: WorkerId, is_short: bool) {
        let (pause_max, least) = (self.config.series_pause_max(), self.config.series_min);
        let Some(mut known) = self.roster.get_mut(worker) else { return };
        if is_short {
            known.series.extend(now.clock, pause_max, least);
        } else {
            known.series.end();
        }
        if known.series.is_long_enough && !known.series.is_timed {
            known.series.is_timed = true;
            self.timers.insert((now.clock.saturating_add(pause_max), Timer::SeriesPause(worker)));
        }
    }

    /// Ends a series that had a pause: the next job may be a long one.
    pub(crate) fn series_pause(&mut self, now: Now, worker: WorkerId) {
        let pause_max = self.config.series_pause_max();
        let Some(mut known) = self.roster.get_mut(worker) else { return };
        let series = &mut known.series;
        if series.is_long_enough && !series.is_over(now.clock, pause_max) {
            let at = series.last_end.saturating_add(pause_max);
            self.timers.insert((at, Timer::SeriesPause(worker)));
        } else {
            series.end();
            series.is_timed = false;
        }
    }
}
