//! Input of the digester: chunks, outcomes and history.

mod follower;
mod following;

use crate::attempt::LiveAttempt;
use crate::store::{JobRecord, LogError, LogReader, Logs, PassingRun};
use buildpool_digest::{Digest, Digester, Facts, History, Options};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap, Stream};
use buildpool_protocol::spec::{JobSpec, Source, TemplateSpec};

pub(crate) use follower::DigestFollower;
pub(crate) use following::{Amounts, Following};

/// Log bytes that are read at a time.
const STEP_BYTES: usize = 1 << 20;

pub(crate) fn options(spec: &JobSpec, job: JobId) -> Options {
    let roots = match &spec.source {
        Source::InPlace { directory } => vec![spec.project.clone(), directory.clone()],
        Source::Snapshot { .. } | Source::Empty => Vec::new(),
    };
    Options {
        purpose: spec.purpose,
        template: spec.template.clone(),
        roots: roots.into_iter().filter(|root| root.starts_with('/')).collect(),
        command: spec.command.to_string(),
        job: job.to_string(),
        ..Options::default()
    }
}

/// Passes whole chunks to the digester.
pub(crate) fn push(digester: &mut Digester, chunks: &[u8]) {
    for (header, payload) in each_chunk(chunks) {
        push_chunk(digester, &header, payload);
    }
}

/// Returns the chunks of a part of a log, with their headers.
fn each_chunk(mut chunks: &[u8]) -> impl Iterator<Item = (ChunkHeader, &[u8])> {
    std::iter::from_fn(move || {
        let (header, payload) = ChunkHeader::decode(chunks).ok()?;
        chunks = &chunks[usize::try_from(header.size()).unwrap_or(chunks.len()).min(chunks.len())..];
        Some((header, payload))
    })
}

fn push_chunk(digester: &mut Digester, header: &ChunkHeader, payload: &[u8]) {
    match header.kind {
        ChunkKind::Data => digester.push(header.stream, payload),
        ChunkKind::Gap => {
            if let Ok(gap) = serde_json::from_slice::<Gap>(payload) {
                digester.gap(header.stream, gap.missing_bytes, &gap.reason);
            }
        }
    }
}

/// Returns the facts that the digester needs in addition to the log.
pub(crate) fn facts(outcome: &Outcome, history: Vec<PassingRun>) -> Facts {
    let history = History {
        last_good_tests: history.iter().find_map(|run| run.tests_total),
        passing_signatures: history.into_iter().flat_map(|run| run.findings).collect(),
    };
    Facts::of_outcome(outcome, history)
}

/// Digests the stored log of a finished job again, with `template` if it is given. Blocks.
pub(crate) fn again(
    logs: &Logs,
    record: &JobRecord,
    history: Vec<PassingRun>,
    template: Option<TemplateSpec>,
) -> Result<Option<Digest>, LogError> {
    let Some((attempt, outcome)) =
        record.done.as_ref().and_then(|done| Some((done.attempt?, done.outcome.as_deref()?)))
    else {
        return Ok(None);
    };
    let mut options = options(&record.spec, record.job);
    if template.is_some() {
        options.template = template;
    }
    let mut digester = Digester::new(options);
    if outcome.log_length > 0 {
        let mut reader = logs.reader(AttemptId { job: record.job, number: attempt })?;
        if let Err(error) = feed(&mut digester, &mut reader) {
            // The intact part is digested.
            let Some(position) = error.damaged_at() else { return Err(error) };
            let missing = outcome.log_length.saturating_sub(position);
            digester.gap(Stream::Stdout, missing, &error.to_string());
        }
    }
    Ok(Some(digester.finish(&facts(outcome, history))))
}

/// Returns the digester of a live attempt after its stored log. Blocks.
pub(crate) fn from_log(logs: &Logs, attempt: &LiveAttempt) -> Result<Digester, LogError> {
    let mut digester = Digester::new(options(&attempt.spec, attempt.lease.attempt.job));
    feed(&mut digester, &mut logs.reader(attempt.lease.attempt)?)?;
    Ok(digester)
}

/// Returns a digester for an attempt with an unreadable log: each stream is one gap.
pub(crate) fn without_log(attempt: &LiveAttempt, outcome: &Outcome, reason: &str) -> Digester {
    let mut digester = Digester::new(options(&attempt.spec, attempt.lease.attempt.job));
    for stream in Stream::ALL {
        let length = outcome.seals[stream.index()].length;
        if length > 0 {
            digester.gap(stream, length, &format!("the stored log can't be read: {reason}"));
        }
    }
    digester
}

fn feed(digester: &mut Digester, reader: &mut LogReader) -> Result<(), LogError> {
    let mut position = 0;
    loop {
        let chunks = reader.read(position, STEP_BYTES)?;
        if chunks.is_empty() {
            return Ok(());
        }
        push(digester, &chunks);
        position += chunks.len() as u64;
    }
}
