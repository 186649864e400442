//! `buildpool jobs`

use crate::arguments::JobsArguments;
use crate::durations;
use crate::failure::Failure;
use crate::settings;
use crate::terminal::table::{Cell, Table};
use crate::terminal::{self, Colour};
use buildpool_client::JobsPage;
use buildpool_protocol::client_link::{JobQuery, JobSummary};
use buildpool_protocol::ids::short_ids;
use buildpool_protocol::limits::JOBS_PAGE_MAX;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(arguments: &JobsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        let query = JobQuery {
            state: arguments.state,
            submitter: arguments.submitter.clone(),
            label: arguments.label.clone(),
            verdict: arguments.verdict,
            ..JobQuery::default()
        };
        let limit = arguments.limit.min(JOBS_PAGE_MAX as u32);
        let JobsPage { mut jobs, next_cursor } = client.query_jobs(query, limit + 1).await?;
        let is_cut = jobs.len() > limit as usize;
        jobs.truncate(limit as usize);
        if is_cut && !arguments.form.json {
            let more = (2 * limit).min(JOBS_PAGE_MAX as u32);
            terminal::warn(&format!("the newest {limit}; `--limit {more}` shows older ones too"));
        } else if let Some(searched) = next_cursor.filter(|_| !is_cut) {
            let until = jiff::Timestamp::from_millisecond(searched.created_at_ms).unwrap_or_default();
            terminal::warn(&format!(
                "the pool has too many jobs for one search; those created before {until} were not searched"
            ));
        }
        if arguments.form.json {
            terminal::print_json(&jobs)?;
        } else {
            terminal::print(&table(&jobs))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn table(jobs: &[JobSummary]) -> String {
    let mut table = Table::new(["JOB", "STATE", "VERDICT", "WORKER", "CREATED", "TIME", "COMMAND"]);
    let ids = short_ids(jobs.iter().map(|job| job.job_id.as_str()));
    for (job, id) in jobs.iter().zip(ids) {
        let time = job.duration_secs.map_or(String::new(), |secs| {
            durations::show(Duration::try_from_secs_f64(secs).unwrap_or_default())
        });
        table.row([
            id.into(),
            state(job),
            verdict(job),
            job.worker.as_deref().unwrap_or_default().into(),
            ago(&job.created_at).into(),
            time.into(),
            job.command.as_str().into(),
        ]);
    }
    table.text()
}

fn state(job: &JobSummary) -> Cell {
    if job.verdict.is_some() {
        return job.state.name().into();
    }
    let position = job.waiting.as_ref().and_then(|waiting| waiting.position);
    let place = position.map_or(String::new(), |position| format!(" #{position}"));
    Cell::coloured(format!("{}{place}", job.state.name()), Colour::Yellow)
}

/// Returns an empty cell until the job is done.
fn verdict(job: &JobSummary) -> Cell {
    let Some(verdict) = job.verdict else { return "".into() };
    let code = match job.exit_code {
        Some(code) if code != 0 => format!(" ({code})"),
        Some(_) | None => String::new(),
    };
    Cell::coloured(format!("{verdict}{code}"), Colour::of(verdict))
}

/// Formats the time since a moment. Returns the text unchanged if it can't be parsed.
pub(super) fn ago(moment: &str) -> String {
    let Ok(moment) = moment.parse::<jiff::Timestamp>() else { return moment.to_owned() };
    let since = jiff::Timestamp::now().duration_since(moment);
    format!("{} ago", durations::coarse(Duration::try_from(since).unwrap_or_default()))
}
