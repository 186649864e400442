//! Answer with one complete finding.

use super::job::{call, clean_finding};
use super::{Answer, Budget, prune};
use buildpool_digest::TextPage as Page;
use buildpool_protocol::Finding;
use serde_json::json;

/// Characters of a message that are always kept.
const MESSAGE_CHARS_MIN: usize = 200;

/// Renders both forms of a finding, truncated at its end if necessary.
pub(crate) fn finding(mut finding: Finding, budget: &Budget) -> Answer {
    clean_finding(&mut finding);
    let mut cut_bytes = 0;
    loop {
        let answer = assemble(&finding, cut_bytes);
        let excess = budget.excess(&answer);
        let lines = finding.pre_context.len() + finding.post_context.len();
        if excess == 0 || (finding.message.len() <= MESSAGE_CHARS_MIN && lines == 0) {
            return answer;
        }
        if lines > 0 {
            cut_bytes += finding.pre_context.drain(..).map(|line| line.len()).sum::<usize>();
            let keep = finding.post_context.len() / 2;
            cut_bytes += finding.post_context.drain(keep..).map(|line| line.len()).sum::<usize>();
        } else {
            let keep = finding.message.len().saturating_sub(excess + 64).max(MESSAGE_CHARS_MIN / 2);
            let keep = finding.message.floor_char_boundary(keep);
            cut_bytes += finding.message.len() - keep;
            finding.message.truncate(keep);
        }
    }
}

fn assemble(finding: &Finding, cut_bytes: usize) -> Answer {
    let mut structured = json!({
        "finding_id": finding.id,
        "job_id": finding.job,
        "finding": prune(serde_json::to_value(finding).unwrap_or_default()),
    });
    let mut page = Page::default();
    page.line(format_args!("job {} ({})", finding.job, finding.job_state));
    page.finding(finding, &finding.job);
    let evidence = &finding.evidence;
    let stream = finding.stream.map(|stream| stream.name()).filter(|_| evidence.report.is_none());
    let source = stream.unwrap_or("a report");
    page.line(format_args!("evidence: bytes {} to {} of {source}", evidence.from, evidence.to));
    evidence.report.iter().for_each(|report| page.quote(report));
    if cut_bytes > 0 {
        let stream = finding.stream.map_or("interleaved", |stream| stream.name());
        let get = call("get_job_logs", &json!({"job_id": finding.job, "stream": stream, "offset": 0}));
        page.line(format_args!("omitted: context or message: 0 lines, {cut_bytes} bytes: {get}"));
        structured["omitted"] =
            json!([{"what": "context or message", "lines": 0, "bytes": cut_bytes, "get": get}]);
    }
    Answer::new(structured, page.done().trim_end().to_owned())
}
