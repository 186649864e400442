//! Behaviour of the records that does not depend on the database, and that of a PostgreSQL server alone.

use super::support::{done, first, granted, job, scratch};
use crate::auth::{JobsAfter, Tokens};
use crate::store::sql::server::Fence;
use crate::store::{
    EventKind, EventRange, HistoryKey, JobFilter, JobRecord, Lookup, NewEvent, ObjectsUrl, PassingRun,
    Record, Retention, Server, Store, StoreUrl, TokenUse, WorkerRecord,
};
use crate::webhooks::contract as webhooks;
use buildpool_protocol::client_link::{JobCursor, Role};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::{BuildId, TokenId, WorkerId};
use buildpool_test_postgres::Postgres;
use bytes::Bytes;
use serde_json::Map;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Records in a new, empty database.
pub(super) struct Home {
    directory: tempfile::TempDir,
    server: Option<Server>,
}

impl Home {
    fn store(&self) -> Store {
        let directory = self.directory.path();
        match &self.server {
            Some(server) => {
                let objects = ObjectsUrl::Directory(directory.join("objects"));
                Store::open_shared(directory, server, &objects, std::iter::empty()).unwrap()
            }
            None => Store::open(directory).unwrap(),
        }
    }

    fn tokens(&self) -> Tokens {
        match &self.server {
            Some(server) => Tokens::open_on(server).unwrap(),
            None => Tokens::open(self.directory.path()).unwrap(),
        }
    }
}

fn server() -> Option<Server> {
    let url: StoreUrl = Postgres::shared()?.database().parse().unwrap();
    Some(Server::new(url).unwrap())
}

/// Runs a test on SQLite, and on PostgreSQL if it is installed.
fn on_each(test: fn(&Home)) {
    test(&Home { directory: scratch(), server: None });
    if let Some(server) = server() {
        test(&Home { directory: scratch(), server: Some(server) });
    }
}

fn write(job: &JobRecord) -> Record {
    Record::Job(Box::new(job.clone()))
}

#[test]
fn jobs_are_read_back_as_they_were_written() {
    on_each(|home| {
        let store = home.store();
        let mut writer = store.writer().unwrap();
        let reader = store.reader();
        let build = BuildId::from_uuid(Uuid::from_u128(5));
        let mut one = job(1_000);
        one.client_request_id = Some("r1".into());
        one.submitter = "zero\0byte".into();
        let mut two = job(2_000);
        let mut spec = (*two.spec).clone();
        spec.build = Some(build);
        two.spec = Arc::new(spec);
        writer.commit(&[write(&one), write(&two)]).unwrap();
        assert_eq!(writer.live_jobs().unwrap(), [one.clone(), two.clone()]);

        let over = done(granted(one.clone()), Verdict::Passed, 0);
        writer.commit(&[write(&over)]).unwrap();
        writer.commit(&[write(&done(granted(one.clone()), Verdict::Failed, 0))]).unwrap();
        assert_eq!(reader.job(one.job).unwrap(), Lookup::Found(Box::new(over.clone())), "an ended job stays");
        assert_eq!(reader.job(job(0).job).unwrap(), Lookup::Unknown);
        assert_eq!(writer.live_jobs().unwrap(), std::slice::from_ref(&two));

        let list = |filter| reader.jobs(&filter, 10).unwrap();
        let all = JobFilter::default();
        assert_eq!(list(all), [two.clone(), over.clone()]);
        assert_eq!(list(JobFilter { done: Some(true), ..all }), std::slice::from_ref(&over));
        assert_eq!(list(JobFilter { done: Some(false), ..all }), std::slice::from_ref(&two));
        assert_eq!(list(JobFilter { build: Some(build), ..all }), std::slice::from_ref(&two));
        assert_eq!(list(JobFilter { since_ms: Some(1_500), ..all }), std::slice::from_ref(&two));
        assert_eq!(list(JobFilter { principal: Some("token-1"), ..all }), [two.clone(), over.clone()]);
        assert_eq!(list(JobFilter { principal: Some("token-2"), ..all }), []);
        let after = Some(JobCursor { created_at_ms: 2_000, job: two.job });
        assert_eq!(list(JobFilter { after, ..all }), std::slice::from_ref(&over));

        assert_eq!(reader.by_client_request("token-1", "r1").unwrap(), Some(one.job));
        assert_eq!(reader.by_client_request("token-2", "r1").unwrap(), None);
        assert_eq!(reader.principal_of(one.job).unwrap().as_deref(), Some("token-1"));
        assert_eq!(reader.resolve_prefix(&one.job.to_string()).unwrap(), one.job);
        assert!(reader.short_id(one.job).unwrap().len() >= 12);
    });
}

#[test]
fn a_batch_is_written_as_a_whole_and_outlives_the_process() {
    on_each(|home| {
        let one = job(1);
        let worker = WorkerRecord {
            worker: WorkerId::from_uuid(Uuid::from_u128(7)),
            name: "mini".into(),
            version: String::new(),
            slots: 1,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            draining: false,
            drain_until_ms: None,
            resumed: false,
            quarantined: None,
            first_seen_ms: 1,
            last_seen_ms: 2,
            approved: true,
            token: None,
            lost: false,
        };
        let attachable = |job: &JobRecord, attachable| Record::Attachable { job: job.job, attachable };
        let start = {
            let store = home.store();
            let mut writer = store.writer().unwrap();
            let whole = [write(&one), attachable(&one, true), attachable(&job(9), true)];
            writer.commit(&whole).unwrap();
            writer.commit(&[Record::Worker(Box::new(worker.clone()))]).unwrap();
            writer.commit(&[Record::Worker(Box::new(worker.clone()))]).unwrap();
            store.start()
        };
        let store = home.store();
        assert!(store.start() > start);
        let mut writer = store.writer().unwrap();
        assert_eq!(writer.attachable_jobs().unwrap(), std::slice::from_ref(&one));
        assert_eq!(writer.workers().unwrap(), std::slice::from_ref(&worker));
        writer.commit(&[attachable(&one, false), Record::WorkerForgotten(worker.worker)]).unwrap();
        assert_eq!((writer.attachable_jobs().unwrap().len(), writer.workers().unwrap().len()), (0, 0));
    });
}

#[test]
fn short_logs_history_and_retention_agree() {
    on_each(|home| {
        let store = home.store();
        let mut writer = store.writer().unwrap();
        let over = done(granted(job(1)), Verdict::Passed, 3);
        let log = Record::Log { attempt: first(&over), bytes: Bytes::from_static(b"\0\xff\n") };
        writer.commit(&[write(&over), log.clone()]).unwrap();
        writer.commit(&[log]).unwrap();
        let reader = store.reader();
        assert_eq!(reader.inline_log(first(&over)).unwrap().as_deref(), Some(&b"\0\xff\n"[..]));

        let key = HistoryKey::from_spec(&over.spec);
        let run = |finished_at_ms| PassingRun {
            key,
            job: over.job,
            finished_at_ms,
            duration_ms: 3,
            tests_total: Some(12),
            findings: vec!["warning: unused".into()],
        };
        for at in 0..25 {
            writer.commit(&[Record::Passed(Box::new(run(at)))]).unwrap();
        }
        let history = reader.history(key).unwrap();
        assert_eq!((history.len(), &history[0]), (20, &run(24)));
        assert_eq!(reader.usual_duration(key).unwrap(), Some(Duration::from_millis(3)));

        let other = done(granted(job(2)), Verdict::Passed, 3);
        writer.commit(&[write(&other)]).unwrap();
        let retain = |retention: Retention| {
            let retained = store.logs().retain(&retention, crate::store::now_ms() + 1_000).unwrap();
            (retained.logs_evicted, retained.records_evicted)
        };
        assert_eq!(retain(Retention { record_bytes: 0, ..Retention::default() }), (0, 2));
        let third = done(granted(job(3)), Verdict::Passed, 3);
        writer.commit(&[write(&third)]).unwrap();
        let none = Retention { log_age: Duration::ZERO, record_age: Duration::ZERO, ..Retention::default() };
        assert_eq!(retain(none), (1, 1));
        assert_eq!(reader.inline_log(first(&over)).unwrap(), None);
        for job in [over.job, other.job, third.job] {
            assert_eq!(reader.job(job).unwrap(), Lookup::Evicted);
        }
    });
}

#[test]
fn events_have_growing_ids_and_builds_and_addresses_are_counted() {
    on_each(|home| {
        let store = home.store();
        let mut writer = store.writer().unwrap();
        let reader = store.reader();
        assert_eq!(reader.event_range().unwrap(), EventRange { oldest: 1, newest: 0 });
        let build = BuildId::from_uuid(Uuid::from_u128(9));
        let of_build = |one: JobRecord| {
            let mut spec = (*one.spec).clone();
            spec.build = Some(build);
            JobRecord { spec: Arc::new(spec), ..one }
        };
        let (one, two) = (of_build(job(1)), of_build(job(2)));
        writer.commit(&[write(&one), write(&two)]).unwrap();
        writer.commit(&[write(&done(granted(one), Verdict::Passed, 0))]).unwrap();
        assert_eq!(reader.events(0, 9).unwrap(), []);
        writer.commit(&[write(&done(granted(two), Verdict::Failed, 1))]).unwrap();
        let events = reader.events(0, 9).unwrap();
        assert_eq!((events.len(), events[0].event.kind), (1, EventKind::BuildDone));
        assert_eq!(events[0].event.facts["passed_jobs_count"], 1);

        let used = |address: &str| {
            let token = TokenId::from_uuid(Uuid::from_u128(1));
            let (name, address) = ("ada".to_owned(), address.to_owned());
            Record::TokenUse(Box::new(TokenUse { token, name, address, at_ms: 1 }))
        };
        writer.commit(&["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1"].map(used)).unwrap();
        let facts = Map::new();
        let last = NewEvent { kind: EventKind::WorkerJoined, submitter: None, at_ms: 4, facts };
        writer.commit(&[Record::Event(Box::new(last.clone()))]).unwrap();
        let events = reader.events(events[0].id, 9).unwrap();
        assert_eq!((events.len(), events[0].event.kind), (2, EventKind::TokenAddress));
        assert_eq!(events[1].event, last);
        assert_eq!(reader.event_range().unwrap().newest, events[1].id);
    });
}

#[test]
fn tokens_and_their_audit_log_are_shared_by_all_who_open_them() {
    on_each(|home| {
        let (one, other) = (home.tokens(), home.tokens());
        let created = one.create(Role::Submit, "ada", None, None, "local").unwrap();
        assert_eq!(other.verify(&created.token).unwrap().name, "ada");
        let rotated = other.rotate("ada", Duration::from_secs(60), None, None, "local").unwrap();
        assert!(one.verify(&rotated.token).is_ok() && one.verify(&created.token).is_ok());
        one.revoke("ada", JobsAfter::End, "local").unwrap();
        assert!(one.verify(&created.token).is_err());
        assert_eq!(other.list().unwrap().iter().filter(|token| token.revoked_at.is_some()).count(), 2);
        let lines = other.audit_tail(2).unwrap();
        assert!(lines[0].seq > lines[1].seq);
        assert_eq!((lines.len(), lines[0].action.as_str()), (2, "token_revoke"));
    });
}

#[test]
fn webhooks_behave_alike() {
    on_each(|home| webhooks(home.directory.path(), home.server.as_ref()));
}

#[test]
fn a_leader_that_was_replaced_writes_nothing() {
    let Some(server) = server() else { return };
    let home = Home { directory: scratch(), server: Some(server.clone()) };
    let (store, tokens) = (home.store(), home.tokens());
    let mut writer = store.writer().unwrap();
    let session = server.session();
    session.batch("UPDATE lease SET epoch = 1, holder = 'one'").unwrap();
    server.set_fence(Fence { epoch: 1, holder: "one".into() });
    let one = job(1);
    writer.commit(&[write(&one)]).unwrap();
    tokens.audit("local", "kept", "", "").unwrap();

    session.batch("UPDATE lease SET epoch = 2, holder = 'two'").unwrap();
    let error = writer.commit(&[write(&job(2))]).unwrap_err();
    assert!(error.is_fenced(), "{error:?}");
    assert!(tokens.audit("local", "refused", "", "").unwrap_err().is_fenced());
    assert!(writer.attachable_jobs().is_err(), "it removes rows");
    assert_eq!(store.reader().jobs(&JobFilter::default(), 9).unwrap(), [one]);
    assert_eq!(tokens.audit_tail(9).unwrap()[0].action, "kept");
}

#[test]
fn a_leader_that_is_in_a_transaction_delays_the_next_one() {
    let Some(server) = server() else { return };
    server.migrate("records", &crate::store::database::RECORDS).unwrap();
    let session = server.session();
    session.batch("UPDATE lease SET epoch = 1, holder = 'one'").unwrap();
    server.set_fence(Fence { epoch: 1, holder: "one".into() });
    session.begin().unwrap();
    // A session without a fence, as that of another coordinator.
    let other = Server::new(server.url().clone()).unwrap().session();
    other.batch("SET lock_timeout = 100").unwrap();
    assert!(other.batch("UPDATE lease SET epoch = 2").is_err(), "the leader writes");
    assert!(other.batch("UPDATE lease SET expires_at = now()").is_ok(), "a renewal does not wait");
    session.commit().unwrap();
    other.batch("UPDATE lease SET epoch = 2").unwrap();
}

#[test]
fn a_lost_connection_is_replaced() {
    let Some(server) = server() else { return };
    let store = Home { directory: scratch(), server: Some(server.clone()) };
    let store = store.store();
    let mut writer = store.writer().unwrap();
    writer.commit(&[write(&job(1))]).unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    server.session().batch(others).unwrap();
    writer.commit(&[write(&job(2))]).unwrap();
    assert_eq!(store.reader().jobs(&JobFilter::default(), 9).unwrap().len(), 2);
}

#[test]
fn a_commit_without_an_answer_is_not_repeated() {
    let Some(server) = server() else { return };
    let home = Home { directory: scratch(), server: Some(server) };
    let store = home.store();
    let mut writer = store.writer().unwrap();
    let event = |at_ms| {
        let (kind, facts) = (EventKind::WorkerJoined, Map::new());
        Record::Event(Box::new(NewEvent { kind, submitter: None, at_ms, facts }))
    };
    writer.commit(&[event(1)]).unwrap();
    writer.commit(&[event(2), event(3)]).unwrap();
    writer.doubt(2);
    writer.commit(&[event(2), event(3), event(4)]).unwrap();
    writer.commit(&[event(5)]).unwrap();
    let times: Vec<i64> =
        store.reader().events(0, 9).unwrap().iter().map(|event| event.event.at_ms).collect();
    assert_eq!(times, [1, 2, 3, 4, 5]);
}
