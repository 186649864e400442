//! The time limit of a disconnected attempt. The coordinator may grant the job again, or end it,
//! `lost_after` without contact. The keeper's own limit is earlier by a margin, in which the
//! process tree is ended.

use crate::limits::CUT_OFF_GRACE_MAX;
use buildpool_protocol::limits::SELF_FENCE_MARGIN;
use buildpool_protocol::spec::OnLost;
use std::time::Duration;

/// Returns the time without contact after which the tree is ended, and its grace period. The time
/// is `None` if the job stays with its worker.
pub(super) fn cut_off(
    lost_after: Duration,
    on_lost: OnLost,
    grace: Duration,
) -> (Option<Duration>, Duration) {
    let margin = SELF_FENCE_MARGIN.min(lost_after / 2);
    let after = match on_lost {
        OnLost::Rerun | OnLost::Fail => Some(lost_after - margin),
        OnLost::Wait => None,
    };
    (after, grace.min(CUT_OFF_GRACE_MAX).min(margin / 3))
}

#[cfg(test)]
mod tests {
    use super::cut_off;
    use buildpool_protocol::spec::OnLost;
    use std::time::Duration;

    #[test]
    fn the_tree_is_gone_before_the_job_may_run_elsewhere() {
        let seconds = Duration::from_secs;
        assert_eq!(cut_off(seconds(900), OnLost::Rerun, seconds(3600)), (Some(seconds(840)), seconds(20)));
        assert_eq!(cut_off(seconds(4), OnLost::Rerun, seconds(10)).0, Some(seconds(2)));
        for lost_after in [0, 1, 7, 60, 90, 900] {
            let (after, grace) = cut_off(seconds(lost_after), OnLost::Rerun, seconds(10));
            assert!(after.expect("it may run elsewhere") + grace <= seconds(lost_after));
        }
        assert_eq!(cut_off(seconds(900), OnLost::Wait, seconds(10)).0, None);
        assert_eq!(cut_off(seconds(900), OnLost::Fail, seconds(10)).0, Some(seconds(840)));
    }
}
