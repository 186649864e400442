//! Lists: jobs, workers, templates. When a list is too long its end goes, counted.

use super::clean::one_line;
use super::job::call;
use super::text::Page;
use super::{Answer, Budget, prune};
use buildpool_protocol::client_link::{JobSummary, WorkerSummary};
use buildpool_protocol::spec::TemplateSpec;
use serde_json::{Value, json};
use std::fmt::Write;

/// One entry in both forms.
struct Entry {
    structured: Value,
    line: String,
}

/// What a list answers with when it is too long.
struct Rest<'a> {
    name: &'static str,
    title: String,
    more: &'a str,
    next: Vec<String>,
    notes: Vec<String>,
}

fn list(mut entries: Vec<Entry>, rest: &Rest<'_>, budget: &Budget) -> Answer {
    let total = entries.len();
    loop {
        let answer = assemble(&entries, total, rest);
        if budget.excess(&answer) == 0 || entries.is_empty() {
            return answer;
        }
        entries.truncate(entries.len() * 3 / 4);
    }
}

fn assemble(entries: &[Entry], total: usize, rest: &Rest<'_>) -> Answer {
    let values: Vec<&Value> = entries.iter().map(|entry| &entry.structured).collect();
    let mut structured = json!({ rest.name: values, "next": rest.next });
    let mut page = Page::default();
    page.line(&rest.title);
    entries.iter().for_each(|entry| page.line(format_args!("- {}", entry.line)));
    if !rest.notes.is_empty() {
        structured["problems"] = json!(rest.notes);
        page.list("problems:", &rest.notes);
    }
    if entries.len() < total {
        let left = total - entries.len();
        structured["omitted"] = json!([{"what": rest.name, "lines": left, "get": rest.more}]);
        page.line(format_args!("omitted: {left} {}: {}", rest.name, rest.more));
    }
    page.list("next:", &rest.next);
    Answer::new(structured, page.done())
}

/// Jobs, newest first.
pub(crate) fn jobs(jobs: &[JobSummary], budget: &Budget) -> Answer {
    let entries = jobs.iter().map(job_entry).collect();
    let next = match jobs.first() {
        Some(job) => vec![call("get_job", &json!({"job_id": job.job_id}))],
        None => Vec::new(),
    };
    let title = format!("{} jobs, newest first", jobs.len());
    // A list has no second page here; on a terminal it has no such limit.
    let more = format!("buildpool jobs --limit {}", jobs.len());
    list(entries, &Rest { name: "jobs", title, more: &more, next, notes: Vec::new() }, budget)
}

fn job_entry(job: &JobSummary) -> Entry {
    let command = one_line(&job.command);
    let mut structured = prune(serde_json::to_value(job).unwrap_or_default());
    structured["command"] = json!(command);
    structured["verdict"] = json!(job.verdict);
    let mut line = format!("{} {}", job.job_id, job.state.name());
    if let Some(verdict) = job.verdict {
        let _ = write!(line, " {verdict}");
    }
    if let Some(code) = job.exit_code {
        let _ = write!(line, ", exit code {code}");
    }
    if let Some(worker) = &job.worker {
        let worker = one_line(worker);
        structured["worker"] = json!(worker);
        let _ = write!(line, ", worker {worker}");
    }
    if let Some(secs) = job.duration_secs {
        let _ = write!(line, ", {secs} s");
    }
    let submitter = one_line(&job.submitter);
    structured["submitter"] = json!(submitter);
    let _ = write!(line, ", {} by {submitter}: {command}", job.created_at);
    if let Some(waiting) = &job.waiting {
        let reason = one_line(&waiting.reason);
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
    Entry { structured, line }
}

/// Workers, by name.
pub(crate) fn workers(workers: &[WorkerSummary], budget: &Budget) -> Answer {
    let entries = workers.iter().map(worker_entry).collect();
    let connected = workers.iter().filter(|worker| worker.connected).count();
    let title = format!("{} workers, {connected} connected", workers.len());
    let next = if workers.is_empty() {
        vec!["start a worker: buildpool worker --coordinator URL --token TOKEN".to_owned()]
    } else {
        Vec::new()
    };
    list(
        entries,
        &Rest { name: "workers", title, more: "buildpool workers", next, notes: Vec::new() },
        budget,
    )
}

fn worker_entry(worker: &WorkerSummary) -> Entry {
    let labels: Vec<String> = labels_of(worker);
    let jobs = worker.jobs.len();
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
    if jobs > 0 {
        let _ = write!(line, ", runs {}", worker.jobs.join(", "));
    }
    Entry { structured, line }
}

/// A worker's labels as selectors.
pub(crate) fn labels_of(worker: &WorkerSummary) -> Vec<String> {
    worker
        .labels
        .iter()
        .map(
            |(key, value)| if value.is_empty() { one_line(key) } else { one_line(&format!("{key}={value}")) },
        )
        .collect()
}

/// Templates, and what is wrong with the others.
pub(crate) fn templates(
    templates: &[TemplateSpec],
    file: Option<&str>,
    problems: Vec<String>,
    budget: &Budget,
) -> Answer {
    let entries = templates
        .iter()
        .map(|template| {
            let mut structured =
                json!({"name": template.name, "description": one_line(&template.description)});
            let mut line = format!("{}: {}", template.name, one_line(&template.description));
            if let Some(pattern) = &template.include_regex {
                structured["include_regex"] = json!(one_line(pattern));
                let _ = write!(line, "; include_regex {}", one_line(pattern));
            }
            if let Some(paragraphs) = template.tail_paragraphs {
                structured["tail_paragraphs"] = json!(paragraphs);
                let _ = write!(line, "; tail_paragraphs {paragraphs}");
            }
            Entry { structured, line }
        })
        .collect();
    let from =
        file.map_or_else(|| "no configuration file".to_owned(), |file| format!("built in and from {file}"));
    let title = format!("{} templates ({from})", templates.len());
    let rest = Rest {
        name: "templates",
        title,
        more: "the configuration file has them all",
        next: Vec::new(),
        notes: problems,
    };
    let mut answer = list(entries, &rest, budget);
    if let Some(file) = file {
        answer.structured["file"] = json!(file);
    }
    answer
}
