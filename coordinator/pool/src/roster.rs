//! The known workers of the pool, connected or not.

mod short_jobs;
mod worker;

pub(crate) use worker::{Contact, Worker, WorkerMut};

use crate::effect::WorkerRecord;
use crate::input::Session;
use crate::offers::{OfferKey, Offers};
use buildpool_protocol::ids::{BootId, WorkerId};
use buildpool_protocol::spec::{Access, JobSpec, Selector};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Default, Debug)]
pub(crate) struct Roster {
    workers: BTreeMap<WorkerId, Worker>,
    sessions: BTreeMap<Session, WorkerId>,
    names: BTreeMap<String, WorkerId>,
    /// The workers of each token's name.
    tokens: BTreeMap<String, BTreeSet<WorkerId>>,
    offers: Offers,
    /// The workers that accept jobs now ([`Worker::is_open`]).
    open: Offers,
    /// The text of [`Roster::labels`], until a worker changes.
    labels_text: OnceCell<String>,
}

impl Roster {
    pub(crate) fn get(&self, worker: WorkerId) -> Option<&Worker> {
        self.workers.get(&worker)
    }

    /// Returns a worker for changes of everything but its name, token, labels and resources (see
    /// [`Roster::set_record`]).
    pub(crate) fn get_mut(&mut self, worker: WorkerId) -> Option<WorkerMut<'_>> {
        Some(WorkerMut::new(self.workers.get_mut(&worker)?, &mut self.open))
    }

    pub(crate) fn by_session(&self, session: Session) -> Option<WorkerId> {
        self.sessions.get(&session).copied()
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<WorkerId> {
        self.names.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.workers.iter()
    }

    /// Returns true if a worker accepts jobs now.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the workers that accept jobs now and could run this one when idle, by identity. Workers that accept no
    /// jobs are not looked at.
    pub(crate) fn open_for<'a>(
        &'a self,
        spec: &'a JobSpec,
    ) -> impl Iterator<Item = (&'a WorkerId, &'a Worker)> {
        self.in_index(&self.open, spec).filter(|(_, worker)| worker.is_open())
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Returns the workers that could run a job when idle, by identity. Only workers with its
    /// rarest requirement, or that accept its submitter, are looked at.
    pub(crate) fn fitting<'a>(
        &'a self,
        spec: &'a JobSpec,
    ) -> impl Iterator<Item = (&'a WorkerId, &'a Worker)> {
        self.in_index(&self.offers, spec)
    }

    fn in_index<'a>(
        &'a self,
        index: &'a Offers,
        spec: &'a JobSpec,
    ) -> impl Iterator<Item = (&'a WorkerId, &'a Worker)> {
        let is_named = !spec.access.workers.is_empty();
        let named: BTreeSet<WorkerId> =
            spec.access.workers.iter().filter_map(|name| self.by_name(name)).collect();
        let any = (!is_named).then(|| index.candidates(spec));
        let workers = named.into_iter().chain(any.into_iter().flatten());
        let workers = workers.filter_map(|id| self.workers.get_key_value(&id));
        workers.filter(|(_, worker)| worker.could_run(spec))
    }

    /// Returns the number of workers that [`Roster::fitting`] looks at.
    pub(crate) fn candidates(&self, spec: &JobSpec) -> usize {
        match spec.access.workers.len() {
            0 => self.offers.candidates(spec).most(),
            named => named,
        }
    }

    /// Returns the requirement of a job that the fewest workers meet, as a key of [`Roster::offers_of`]. `None` if it has
    /// none, or is restricted to workers by their names.
    pub(crate) fn rarest(&self, spec: &JobSpec) -> Option<OfferKey> {
        let selectors = spec.selectors.iter().chain(&spec.access.labels);
        let resources = spec.resources.iter().filter(|(_, count)| **count > 0);
        let is_named = !spec.access.workers.is_empty();
        self.offers.rarest_key(selectors, resources.map(|(name, _)| name)).filter(|_| !is_named)
    }

    pub(crate) fn insert(&mut self, worker: Worker) {
        let (id, record) = (worker.record.worker, Arc::clone(&worker.record));
        self.offers.insert(id, worker.offers());
        self.workers.insert(id, worker);
        drop(self.get_mut(id));
        self.index(&record);
    }

    /// Replaces the record of a worker.
    pub(crate) fn set_record(&mut self, record: WorkerRecord) {
        let Some(worker) = self.workers.get_mut(&record.worker) else { return };
        let (id, record) = (record.worker, Arc::new(record));
        self.offers.remove(id, worker.offers());
        self.open.remove(id, worker.offers());
        let before = worker.set_record(Arc::clone(&record));
        self.offers.insert(id, worker.offers());
        drop(self.get_mut(id));
        self.remove_from_index(&before);
        self.index(&record);
    }

    fn index(&mut self, record: &WorkerRecord) {
        self.labels_text.take();
        let id = record.worker;
        self.names.insert(record.name.clone(), id);
        if let Some(token) = &record.token {
            self.tokens.entry(token.clone()).or_default().insert(id);
        }
    }

    fn remove_from_index(&mut self, record: &WorkerRecord) {
        self.labels_text.take();
        let id = record.worker;
        if self.names.get(&record.name) == Some(&id) {
            self.names.remove(&record.name);
        }
        let Some(token) = &record.token else { return };
        if let Some(of_token) = self.tokens.get_mut(token) {
            of_token.remove(&id);
            if of_token.is_empty() {
                self.tokens.remove(token);
            }
        }
    }

    /// Returns the workers of a token's name.
    pub(crate) fn of_token(&self, token: &str) -> impl Iterator<Item = &Worker> {
        self.tokens.get(token).into_iter().flatten().filter_map(|id| self.workers.get(id))
    }

    /// Returns true if a token may bring one more worker: there are free places, and they are not
    /// kept for other tokens.
    pub(crate) fn has_place(&self, token: &str) -> bool {
        let own = self.tokens.get(token).map_or(0, BTreeSet::len);
        let free = WORKERS_MAX.saturating_sub(self.workers.len());
        own < free.min(WORKERS_OF_TOKEN_MAX)
    }

    /// Returns the worker whose place a new worker of this token takes: an absent and idle one of
    /// the same token. If the token has none of its own, one of any token. Workers that never got a
    /// job go first, then those with the oldest contact.
    pub(crate) fn replaceable(&self, token: &str) -> Option<WorkerId> {
        let is_idle = |worker: &&Worker| worker.session().is_none() && worker.jobs.is_empty();
        let rank = |worker: &&Worker| (worker.has_run, worker.record.last_seen_ms);
        if self.tokens.contains_key(token) {
            return self.of_token(token).filter(is_idle).min_by_key(rank).map(|worker| worker.record.worker);
        }
        self.workers.values().filter(is_idle).min_by_key(rank).map(|worker| worker.record.worker)
    }

    /// Returns the absent worker of this token with the oldest contact that never got a job, if
    /// there are more of them than a pool remembers.
    pub(crate) fn unused(&self, token: &str) -> Option<WorkerId> {
        let is_unused =
            |worker: &&Worker| worker.session().is_none() && worker.jobs.is_empty() && !worker.has_run;
        let unused: Vec<&Worker> = self.of_token(token).filter(is_unused).collect();
        let oldest = unused.iter().min_by_key(|worker| worker.record.last_seen_ms);
        oldest.filter(|_| unused.len() > UNUSED_OF_TOKEN_MAX).map(|worker| worker.record.worker)
    }

    /// Removes a placeholder worker after its last attempt.
    pub(crate) fn remove_if_nameless(&mut self, worker: WorkerId) {
        let is_nameless = |worker: &Worker| {
            worker.record.slots == 0 && worker.session().is_none() && worker.jobs.is_empty()
        };
        if self.workers.get(&worker).is_some_and(is_nameless) {
            self.remove(worker);
        }
    }

    pub(crate) fn remove(&mut self, worker: WorkerId) {
        if let Some(removed) = self.workers.remove(&worker) {
            self.offers.remove(worker, removed.offers());
            self.open.remove(worker, removed.offers());
            self.remove_from_index(&removed.record);
        }
    }

    pub(crate) fn connect(&mut self, worker: WorkerId, session: Session, boot: BootId) {
        let Some(mut known) = self.get_mut(worker) else { return };
        let old = std::mem::replace(&mut known.contact, Contact::Connected { session, boot });
        drop(known);
        if let Contact::Connected { session: old, .. } = old {
            self.sessions.remove(&old);
        }
        self.sessions.insert(session, worker);
    }

    /// Marks the worker of a session as absent. Returns `None` if the session was superseded.
    pub(crate) fn disconnect(&mut self, session: Session, now: Duration) -> Option<WorkerId> {
        let worker = self.sessions.remove(&session)?;
        if let Some(mut known) = self.get_mut(worker) {
            known.contact = Contact::Absent { since: now };
        }
        Some(worker)
    }

    /// Compares the indexes with all workers.
    ///
    /// # Errors
    /// The worker that is missing in an index, or is there without a reason.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let (mut offers, mut open) = (Offers::default(), Offers::default());
        for (id, worker) in &self.workers {
            offers.insert(*id, worker.offers());
            if worker.is_open() {
                open.insert(*id, worker.offers());
            }
            if self.open.contains(*id) != worker.is_open() {
                let name = &worker.record.name;
                return Err(format!("liveness: worker {name} is open: {}, not as indexed", worker.is_open()));
            }
        }
        if (offers, open) != (self.offers.clone(), self.open.clone()) {
            return Err("liveness: the index of workers differs from their records".to_owned());
        }
        Ok(())
    }

    /// Compares the workers that a job finds with those that a look at all workers finds.
    ///
    /// # Errors
    /// The two numbers of workers.
    pub(crate) fn audit_search(&self, spec: &JobSpec) -> Result<(), String> {
        let all = || self.workers.iter().filter(|(_, worker)| worker.could_run(spec)).map(|(id, _)| id);
        let all_open = all().filter(|id| self.get(**id).is_some_and(Worker::is_open));
        let found = self.fitting(spec).map(|(id, _)| id).eq(all());
        if !found || !self.open_for(spec).map(|(id, _)| id).eq(all_open) {
            let (found, open) = (self.fitting(spec).count(), self.open_for(spec).count());
            return Err(format!("liveness: {found} workers and {open} open ones of {} fit", all().count()));
        }
        Ok(())
    }

    /// Returns true if a known worker has a label that this selector matches.
    pub(crate) fn is_offered(&self, selector: &Selector) -> bool {
        self.offers.has(selector)
    }

    pub(crate) fn is_satisfiable(&self, spec: &JobSpec) -> bool {
        self.fitting(spec).next().is_some()
    }

    /// Returns one sentence about the requirement that no known worker meets.
    pub(crate) fn what_is_missing(&self, spec: &JobSpec) -> String {
        if self.workers.is_empty() {
            return "no worker has joined this pool yet".to_owned();
        }
        for selector in &spec.selectors {
            if !self.is_offered(selector) {
                return format!("no worker has the label `{selector}`; there are: {}", self.labels());
            }
        }
        for (name, count) in &spec.resources {
            let most = self.workers.values().filter_map(|worker| worker.record.resources.get(name)).max();
            match most {
                None => return format!("no worker has the resource `{name}`"),
                Some(most) if most < count => {
                    return format!("no worker has {count} of the resource `{name}`; the most is {most}");
                }
                Some(_) => {}
            }
        }
        if let Some(reason) = self.not_admitted(spec) {
            return reason;
        }
        let labels = spec.selectors.iter().map(ToString::to_string);
        let resources = spec.resources.iter().map(|(name, count)| format!("{name}={count}"));
        let wanted: Vec<_> = labels.chain(resources).collect();
        format!("no single worker has all requested labels and resources ({})", wanted.join(", "))
    }

    /// Returns the reason if restrictions exclude the job from each worker with the required labels and resources.
    fn not_admitted(&self, spec: &JobSpec) -> Option<String> {
        let wanted = spec.selectors.iter();
        let resources = spec.resources.iter().filter(|(_, count)| **count > 0).map(|(name, _)| name);
        let fitting: Vec<&Worker> = match self.offers.rarest(wanted, resources) {
            Some(few) => few
                .iter()
                .filter_map(|id| self.get(*id))
                .filter(|worker| worker.offers_all_of(spec))
                .collect(),
            None => self.workers.values().filter(|worker| worker.offers_all_of(spec)).collect(),
        };
        if fitting.is_empty() {
            return None;
        }
        let Access { names, workers, labels, .. } = &spec.access;
        let submitter = names.first().map(String::as_str).unwrap_or_default();
        if !fitting.iter().any(|worker| worker.accepts(names)) {
            let accepted: BTreeSet<&str> =
                fitting.iter().flat_map(|worker| &worker.record.accepts).map(String::as_str).collect();
            let accepted = joined(accepted.into_iter(), LABELS_SHOWN_MAX);
            return Some(format!(
                "the workers that fit accept jobs of {accepted} only, not of `{submitter}`"
            ));
        }
        let labels = labels.iter().map(ToString::to_string);
        let only: Vec<String> = workers.iter().map(|name| format!("name={name}")).chain(labels).collect();
        Some(format!(
            "this job of `{submitter}` is restricted to {} (by its token or by `--network none`), and no worker there fits",
            joined(only.iter().map(String::as_str), LABELS_SHOWN_MAX)
        ))
    }

    /// Names the labels of the workers. Each job that no worker fits needs this text.
    fn labels(&self) -> &str {
        self.labels_text.get_or_init(|| self.named_labels())
    }

    fn named_labels(&self) -> String {
        let mut labels = self.workers.values().flat_map(|worker| worker.record.labels.iter());
        let read: BTreeSet<(&String, &String)> = labels.by_ref().take(LABELS_READ_MAX).collect();
        let text = |(key, value): &(&String, &String)| {
            if value.is_empty() { (*key).clone() } else { format!("{key}={value}") }
        };
        let texts: Vec<String> = read.iter().map(text).collect();
        if labels.next().is_none() {
            return joined(texts.iter().map(String::as_str), LABELS_SHOWN_MAX);
        }
        let (shown, _) = first(texts.iter().map(String::as_str), LABELS_SHOWN_MAX);
        format!("{shown} and more")
    }
}

/// Joins the first texts of a list, and adds the number of the others.
fn joined<'a>(texts: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let all = texts.len();
    let (shown, count) = first(texts, most);
    if all > count { format!("{shown} and {} more", all - count) } else { shown }
}

/// Joins the first texts of a list, and returns their number. Workers choose these texts, and each waiting job of a list has
/// its reason with them.
fn first<'a>(texts: impl Iterator<Item = &'a str>, most: usize) -> (String, usize) {
    let (mut shown, mut count) = (String::new(), 0);
    for text in texts.take(most) {
        if shown.len() > LABELS_BYTES_SHOWN_MAX {
            break;
        }
        let separator = if count > 0 { ", " } else { "" };
        let end = text.floor_char_boundary(LABEL_BYTES_SHOWN_MAX);
        let cut = if end < text.len() { "…" } else { "" };
        shown = format!("{shown}{separator}{}{cut}", &text[..end]);
        count += 1;
    }
    (shown, count)
}

/// Limit on the workers that a pool remembers, connected or not.
const WORKERS_MAX: usize = 20_000;
/// Limit on the remembered workers of one token's name.
pub(crate) const WORKERS_OF_TOKEN_MAX: usize = 1_000;
/// Limit on the absent workers of one token's name that never got a job.
const UNUSED_OF_TOKEN_MAX: usize = 256;
/// Limit on the labels that one refusal reads, of all workers.
const LABELS_READ_MAX: usize = 1_000;
/// Limit on the labels shown in a refusal.
const LABELS_SHOWN_MAX: usize = 40;
/// Limit on the bytes of each shown label, and of all of them before the last one.
const LABEL_BYTES_SHOWN_MAX: usize = 100;
const LABELS_BYTES_SHOWN_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::{Roster, UNUSED_OF_TOKEN_MAX, WORKERS_OF_TOKEN_MAX, Worker};
    use crate::effect::WorkerRecord;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn away(number: usize, token: &str) -> Worker {
        let record = WorkerRecord {
            worker: format!("00000000-0000-7000-9000-{number:012x}").parse().expect("a UUID"),
            name: format!("mac-{number}"),
            slots: 1,
            labels: BTreeMap::from([("kind".to_owned(), format!("of-{token}"))]),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            draining: false,
            drain_until_ms: None,
            resumed: false,
            lost: false,
            last_seen_ms: i64::try_from(number).expect("small"),
            version: String::new(),
            approved: true,
            token: Some(token.to_owned()),
        };
        Worker::absent(record, Duration::ZERO)
    }

    #[test]
    fn one_token_has_a_part_of_the_places_and_replaces_its_own_workers() {
        let mut roster = Roster::default();
        let mut first = away(0, "eve");
        first.has_run = true;
        roster.insert(first);
        (1..WORKERS_OF_TOKEN_MAX).for_each(|number| roster.insert(away(number, "eve")));
        assert!(!roster.has_place("eve") && roster.has_place("ada"));
        let replaced =
            roster.replaceable("eve").and_then(|id| roster.get(id)).map(|worker| &*worker.record.name);
        assert_eq!(replaced, Some("mac-1"), "the oldest that never got a job");
        let mut number = WORKERS_OF_TOKEN_MAX;
        for token in 0..20 {
            let token = format!("eve-{token}");
            while roster.has_place(&token) {
                roster.insert(away(number, &token));
                number += 1;
            }
        }
        assert!(roster.has_place("ada"), "places stay free for others");
    }

    #[test]
    fn few_absent_workers_without_a_job_are_remembered() {
        let mut roster = Roster::default();
        (0..UNUSED_OF_TOKEN_MAX).for_each(|number| roster.insert(away(number, "eve")));
        assert_eq!(roster.unused("eve"), None);
        roster.insert(away(UNUSED_OF_TOKEN_MAX, "eve"));
        let unused = roster.unused("eve").expect("one too many");
        assert_eq!(roster.by_name("mac-0"), Some(unused));
        roster.remove(unused);
        assert_eq!((roster.by_name("mac-0"), roster.unused("eve"), roster.unused("ada")), (None, None, None));
    }

    #[test]
    fn long_labels_are_cut_in_the_reason_of_a_job() {
        let mut roster = Roster::default();
        let mut record = WorkerRecord::clone(&away(0, "ada").record);
        record.labels = (0..60).map(|number| (format!("l{number:02}"), "é".repeat(500))).collect();
        roster.insert(Worker::absent(record, Duration::ZERO));
        let text = roster.labels();
        assert!(text.starts_with("l00=éé") && text.contains("é…, l01=é"), "{text}");
        assert!(text.ends_with(" more") && text.len() < 1_200, "{} bytes", text.len());
    }

    #[test]
    fn workers_are_found_by_label_and_name_also_after_a_change() {
        let mut roster = Roster::default();
        (0..3).for_each(|number| roster.insert(away(number, if number == 2 { "eve" } else { "ada" })));
        assert_eq!(roster.labels(), "kind=of-ada, kind=of-eve");
        let names = |roster: &Roster, selector: &str| -> Vec<String> {
            let spec = JobSpec {
                selectors: vec![selector.parse().expect("a selector")],
                ..JobSpec::new(Command::Shell("true".into()), Source::Empty)
            };
            roster.fitting(&spec).map(|(_, worker)| worker.record.name.clone()).collect()
        };
        assert_eq!(names(&roster, "kind=of-ada"), ["mac-0", "mac-1"]);
        assert_eq!(names(&roster, "kind"), ["mac-0", "mac-1", "mac-2"]);
        assert!(names(&roster, "kind=of-bob").is_empty() && names(&roster, "other").is_empty());
        let mut record = WorkerRecord::clone(&away(0, "ada").record);
        record.labels = BTreeMap::from([("other".to_owned(), String::new())]);
        record.name = "mini".to_owned();
        roster.set_record(record);
        assert_eq!(
            (names(&roster, "kind=of-ada"), names(&roster, "other")),
            (vec!["mac-1".to_owned()], vec!["mini".to_owned()])
        );
        assert_eq!(roster.by_name("mac-0"), None);
        assert_eq!(roster.labels(), "kind=of-ada, kind=of-eve, other");
    }
}
