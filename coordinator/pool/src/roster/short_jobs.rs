//! A series of short jobs on a worker. During a series, the worker gets grants beyond its free slots.

use crate::input::Now;
use crate::pool::Pool;
use buildpool_protocol::ids::WorkerId;
use std::time::Duration;

/// Short jobs that ended on a worker in quick succession.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShortJobSeries {
    ended: u32,
    last_end: Duration,
}

impl ShortJobSeries {
    /// Records the end of a job that was short.
    fn note_end(&mut self, now: Duration, pause_max: Duration) {
        if self.is_over(now, pause_max) {
            self.end();
        }
        self.ended = self.ended.saturating_add(1);
        self.last_end = now;
    }

    /// Returns true if its last job ended too long ago.
    fn is_over(self, now: Duration, pause_max: Duration) -> bool {
        now.saturating_sub(self.last_end) > pause_max
    }

    /// Ends the series.
    pub(crate) fn end(&mut self) {
        self.ended = 0;
    }
}

impl Pool {
    /// Records the end of a job on a worker. A short job extends its series, another one ends it.
    pub(crate) fn note_job_end(&mut self, now: Now, worker: WorkerId, is_short: bool) {
        let (pause_max, least) = (self.config.series_pause_max(), self.config.series_min);
        let Some(mut known) = self.roster.get_mut(worker) else { return };
        if is_short {
            known.series.note_end(now.clock, pause_max);
        } else {
            known.series.end();
        }
        known.is_in_series = known.series.ended >= least;
        if known.is_in_series {
            self.series.insert(worker);
        }
    }

    /// Ends the series that had a pause. The first job after a pause may be a long one.
    pub(crate) fn end_old_series(&mut self, now: Now) {
        let pause_max = self.config.series_pause_max();
        let Self { series, roster, .. } = self;
        series.retain(|worker| {
            let Some(mut known) = roster.get_mut(*worker) else { return false };
            if known.series.is_over(now.clock, pause_max) {
                known.series.end();
                known.is_in_series = false;
            }
            known.is_in_series
        });
    }
}
