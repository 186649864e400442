//! Lists of jobs, workers and templates. The end of a list that is too long is cut and counted.

use super::cut::shorten;
use super::job::call;
use super::{Answer, Budget, prune};
use buildpool_digest::TextPage as Page;
use buildpool_protocol::client_link::{JobCursor, JobSummary, WorkerSummary};
use buildpool_protocol::ids::short_ids;
use buildpool_protocol::report::{JobState, Omission};
use buildpool_protocol::shown::{counted, one_line};
use buildpool_protocol::spec::TemplateSpec;
use serde_json::{Value, json};
use std::fmt::Write;

/// Limits on a text of an entry (a command, a pattern), in bytes. The second one applies if the
/// list is still too long.
const SHORT_BYTES: [usize; 2] = [240, 60];
/// Limit on a problem of a configuration, in bytes.
const PROBLEM_BYTES: usize = 480;

/// One entry in both forms.
#[derive(Default)]
struct Entry {
    structured: Value,
    line: String,
    /// Bytes removed from its texts.
    gone: usize,
    /// Call that returns the complete texts.
    whole: String,
}

/// The parts of a list other than its entries.
#[derive(Default)]
struct Rest {
    name: &'static str,
    title: String,
    /// Call that returns the omitted entries.
    more: String,
    /// Calls that return the entries after each one, if the list can continue there.
    after: Vec<String>,
    next: Vec<String>,
    notes: Vec<String>,
    /// Omissions other than the cuts made here.
    omitted: Vec<Omission>,
    /// Entries beyond the requested number.
    further: Option<Omission>,
    file: Option<String>,
}

/// Renders a list. `entries` returns the entries with texts of at most the given number of bytes.
/// If the list is still too long, its end is cut.
fn list(entries: impl Fn(usize) -> Vec<Entry>, mut rest: Rest, budget: &Budget) -> Answer {
    let mut shown = Vec::new();
    for most in SHORT_BYTES {
        shown = entries(most);
        let answer = assemble(&shown, shown.len(), &rest);
        if budget.excess(&answer) == 0 {
            return answer;
        }
    }
    let total = shown.len();
    loop {
        let answer = assemble(&shown, total, &rest);
        if budget.excess(&answer) == 0 || (shown.is_empty() && rest.notes.is_empty()) {
            return answer;
        }
        // Cut problems before entries.
        let notes = rest.notes.len();
        if notes > shown.len() / 4 {
            rest.notes.truncate(notes / 2);
            let more = rest.more.clone();
            omit(&mut rest.omitted, "problems", notes - notes / 2, 0, more);
        } else {
            shown.truncate(shown.len() * 3 / 4);
        }
    }
}

fn omit(omitted: &mut Vec<Omission>, part: &str, lines: usize, bytes: usize, get: String) {
    let (lines, bytes) = (lines as u64, bytes as u64);
    match omitted.iter_mut().find(|cut| cut.what == part) {
        Some(cut) => {
            cut.lines += lines;
            cut.bytes += bytes;
        }
        None if lines + bytes > 0 => omitted.push(Omission { what: part.to_owned(), lines, bytes, get }),
        None => {}
    }
}

fn assemble(entries: &[Entry], total: usize, rest: &Rest) -> Answer {
    let values: Vec<&Value> = entries.iter().map(|entry| &entry.structured).collect();
    let mut structured = json!({ rest.name: values });
    let mut page = Page::default();
    page.line(&rest.title);
    if let Some(file) = &rest.file {
        structured["file"] = json!(file);
        page.line(format_args!("file: {file}"));
    }
    entries.iter().for_each(|entry| page.line(format_args!("- {}", entry.line)));
    if !rest.notes.is_empty() {
        structured["problems"] = json!(rest.notes);
        page.list("problems:", &rest.notes);
    }
    let mut omitted = rest.omitted.clone();
    if entries.len() == total {
        // If the requested entries do not fit, a larger request would not help.
        omitted.extend(rest.further.clone());
    }
    let after = entries.len().checked_sub(1).and_then(|last| rest.after.get(last));
    omit(&mut omitted, rest.name, total - entries.len(), 0, after.unwrap_or(&rest.more).clone());
    if let Some(short) = entries.iter().find(|entry| entry.gone > 0) {
        let gone = entries.iter().map(|entry| entry.gone).sum();
        omit(&mut omitted, "long texts", 0, gone, short.whole.clone());
    }
    if !omitted.is_empty() {
        structured["omitted"] = prune(json!(omitted));
        page.omitted(&omitted);
    }
    if !rest.next.is_empty() {
        structured["next"] = json!(rest.next);
        page.next(&rest.next);
    }
    Answer::new(structured, page.done().trim_end().to_owned())
}

/// Returns a text on one line with at most `most` bytes. Adds the removed bytes to `gone`.
fn short(text: &str, most: usize, gone: &mut usize) -> String {
    let mut text = one_line(text);
    *gone += shorten(&mut text, most);
    text
}

/// Parameters of a request for a list of jobs.
pub(crate) struct JobsQuery {
    pub(crate) state: Option<JobState>,
    pub(crate) limit: u64,
    pub(crate) rest: JobsRest,
}

/// The jobs after those of a list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum JobsRest {
    Nothing,
    /// At least one older job.
    Older,
    /// The coordinator stopped its search at this place.
    NotSearched(JobCursor),
}

impl JobsQuery {
    /// Returns the call that continues the list after a place.
    fn call_after(&self, place: Option<JobCursor>) -> String {
        let mut arguments = json!({"limit": self.limit});
        if let Some(state) = self.state {
            arguments["state"] = json!(state.name());
        }
        if let Some(cursor) = place {
            arguments["cursor"] = json!(cursor);
        }
        call("list_jobs", &arguments)
    }
}

/// The position after a job in a list.
fn cursor_after(job: &JobSummary) -> Option<JobCursor> {
    let created: jiff::Timestamp = job.created_at.parse().ok()?;
    Some(JobCursor { created_at_ms: created.as_millisecond(), job: job.job_id.parse().ok()? })
}

/// Renders jobs, newest first.
pub(crate) fn jobs(jobs: &[JobSummary], query: &JobsQuery, budget: &Budget) -> Answer {
    let mut next: Vec<String> =
        jobs.first().map(|job| call("get_job", &json!({"job_id": job.job_id}))).into_iter().collect();
    let mut title = format!("{}, newest first", counted(jobs.len() as u64, "job"));
    let after: Vec<String> = jobs.iter().map(|job| query.call_after(cursor_after(job))).collect();
    let mut further = None;
    match query.rest {
        JobsRest::Nothing => {}
        JobsRest::Older => {
            further = after.last().map(|get| Omission {
                what: "older jobs, at least".to_owned(),
                lines: 1,
                bytes: 0,
                get: get.clone(),
            });
        }
        JobsRest::NotSearched(cursor) => {
            title.push_str("; the search for older ones is not complete");
            next.insert(0, query.call_after(Some(cursor)));
        }
    }
    let rest = Rest { name: "jobs", title, after, next, further, ..Rest::default() };
    let ids = short_ids(jobs.iter().map(|job| job.job_id.as_str()));
    list(|most| jobs.iter().zip(&ids).map(|(job, id)| job_entry(job, id, most)).collect(), rest, budget)
}

fn job_entry(job: &JobSummary, id: &str, most: usize) -> Entry {
    let mut gone = 0;
    let command = short(&job.command, most, &mut gone);
    let mut structured = prune(serde_json::to_value(job).unwrap_or_default());
    structured["command"] = json!(command);
    let mut line = format!("{id} {}", job.state.name());
    if let Some(verdict) = job.verdict {
        let _ = write!(line, " {verdict}");
    }
    if let Some(code) = job.exit_code {
        let _ = write!(line, ", exit code {code}");
    }
    if let Some(worker) = &job.worker {
        let worker = short(worker, most, &mut gone);
        structured["worker"] = json!(worker);
        let _ = write!(line, ", worker {worker}");
    }
    if let Some(secs) = job.duration_secs {
        let _ = write!(line, ", {secs:.1} s");
    }
    let submitter = short(&job.submitter, most, &mut gone);
    structured["submitter"] = json!(submitter);
    let _ = write!(line, ", {} by {submitter}: {command}", job.created_at);
    if let Some(waiting) = &job.waiting {
        let reason = short(&waiting.reason, most, &mut gone);
        structured["waiting"]["reason"] = json!(reason);
        let _ = write!(line, " (waiting since {}: {reason}", waiting.since);
        if let Some(position) = waiting.position {
            let _ = write!(line, ", position {position}");
        }
        if let Some(secs) = waiting.estimate_secs {
            let _ = write!(line, ", begins in about {secs} s");
        }
        line.push(')');
    }
    Entry { structured, line, gone, whole: call("get_job", &json!({"job_id": job.job_id})) }
}

/// Renders workers, in the given order.
pub(crate) fn workers(workers: &[WorkerSummary], budget: &Budget) -> Answer {
    let connected = workers.iter().filter(|worker| worker.connected).count();
    let start = match workers {
        [] => "; a person starts one by `buildpool worker --coordinator URL --token TOKEN`",
        _ => "",
    };
    let title = format!("{}, {connected} connected{start}", counted(workers.len() as u64, "worker"));
    // The list has no second page, so no call returns the rest.
    let more = "a person has them by `buildpool workers`".to_owned();
    let rest = Rest { name: "workers", title, more, ..Rest::default() };
    let mut ids = short_ids(workers.iter().flat_map(|worker| &worker.jobs).map(String::as_str)).into_iter();
    let jobs: Vec<Vec<String>> =
        workers.iter().map(|worker| ids.by_ref().take(worker.jobs.len()).collect()).collect();
    list(
        |_| workers.iter().zip(&jobs).map(|(worker, jobs)| worker_entry(worker, jobs)).collect(),
        rest,
        budget,
    )
}

/// Returns a worker's entry. `jobs` are the short ids of its jobs.
fn worker_entry(worker: &WorkerSummary, jobs: &[String]) -> Entry {
    let labels: Vec<String> = labels_of(worker);
    let mut structured = json!({
        "name": one_line(&worker.name),
        "connected": worker.connected,
        "slots": worker.slots,
        "busy": worker.busy,
        "labels": labels,
        "jobs": worker.jobs,
        "version": one_line(&worker.version),
    });
    let mut line = format!(
        "{}: {}, {} of {} slots busy, labels {}, version {}",
        one_line(&worker.name),
        if worker.connected { "connected" } else { "away" },
        worker.busy,
        worker.slots,
        if labels.is_empty() { "none".to_owned() } else { labels.join(", ") },
        one_line(&worker.version),
    );
    if worker.draining {
        structured["draining"] = json!(true);
        line.push_str(", draining");
    }
    if let Some(reason) = &worker.quarantined {
        structured["quarantined"] = json!(one_line(reason));
        let _ = write!(line, ", quarantined: {}", one_line(reason));
    }
    if !worker.resources.is_empty() {
        structured["resources"] = json!(worker.resources);
        let resources: Vec<String> =
            worker.resources.iter().map(|(name, count)| format!("{name}={count}")).collect();
        let _ = write!(line, ", resources {}", resources.join(", "));
    }
    if let Some(seen) = &worker.last_seen {
        structured["last_seen"] = json!(seen);
        let _ = write!(line, ", last seen {seen}");
    }
    if !jobs.is_empty() {
        let _ = write!(line, ", runs {}", jobs.join(", "));
    }
    Entry { structured, line, ..Entry::default() }
}

/// Returns the labels of a worker as selectors.
pub(crate) fn labels_of(worker: &WorkerSummary) -> Vec<String> {
    worker
        .labels
        .iter()
        .map(
            |(key, value)| if value.is_empty() { one_line(key) } else { one_line(&format!("{key}={value}")) },
        )
        .collect()
}

/// Renders templates, and the problems of invalid ones.
pub(crate) fn templates(
    templates: &[TemplateSpec],
    file: Option<&str>,
    problems: &[String],
    budget: &Budget,
) -> Answer {
    let file = file.map(one_line);
    let from =
        if file.is_some() { "built in and from the configuration file" } else { "no configuration file" };
    let title = format!("{} ({from})", counted(templates.len() as u64, "template"));
    let more = "the configuration file has them all".to_owned();
    let (mut omitted, mut gone) = (Vec::new(), 0);
    let notes = problems.iter().map(|problem| short(problem, PROBLEM_BYTES, &mut gone)).collect();
    omit(&mut omitted, "problems", 0, gone, more.clone());
    let rest = Rest { name: "templates", title, more, notes, omitted, file, ..Rest::default() };
    list(|most| templates.iter().map(|template| template_entry(template, most)).collect(), rest, budget)
}

fn template_entry(template: &TemplateSpec, most: usize) -> Entry {
    let mut gone = 0;
    let name = short(&template.name, most, &mut gone);
    let description = short(&template.description, most, &mut gone);
    let mut structured = json!({"name": name, "description": description});
    let mut line = format!("{name}: {description}");
    if let Some(pattern) = &template.include_regex {
        let pattern = short(pattern, most, &mut gone);
        structured["include_regex"] = json!(pattern);
        let _ = write!(line, "; include_regex {pattern}");
    }
    if let Some(paragraphs) = template.tail_paragraphs {
        structured["tail_paragraphs"] = json!(paragraphs);
        let _ = write!(line, "; tail_paragraphs {paragraphs}");
    }
    Entry { structured, line, gone, whole: "the configuration file has it whole".to_owned() }
}
