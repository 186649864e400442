//! Events in the database: ids, the end of builds, addresses of tokens.

use super::support::{done, granted, job, scratch};
use crate::store::limits::EVENTS_MAX;
use crate::store::{EventKind, EventRange, JobRecord, NewEvent, Record, Store, TokenUse};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::{BuildId, TokenId};
use serde_json::{Map, json};
use std::sync::Arc;
use uuid::Uuid;

fn event(at_ms: i64) -> Record {
    let (kind, facts) = (EventKind::WorkerJoined, Map::new());
    Record::Event(Box::new(NewEvent { kind, submitter: None, at_ms, facts }))
}

#[test]
fn ids_only_grow_also_over_a_restart_after_all_events_were_removed() {
    let directory = scratch();
    {
        let store = Store::open(directory.path()).unwrap();
        let reader = store.reader();
        assert_eq!(reader.event_range().unwrap(), EventRange { oldest: 1, newest: 0 });
        store.writer().unwrap().commit(&[event(1), event(2)]).unwrap();
        let after: Vec<u64> = reader.events(1, 9).unwrap().iter().map(|event| event.id).collect();
        assert_eq!(after, [2]);
    }
    let connection = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
    connection.execute_batch("DELETE FROM events").unwrap();
    drop(connection);
    let store = Store::open(directory.path()).unwrap();
    let reader = store.reader();
    assert_eq!(reader.event_range().unwrap(), EventRange { oldest: 3, newest: 2 });
    store.writer().unwrap().commit(&[event(3)]).unwrap();
    assert_eq!(reader.events(0, 9).unwrap()[0].id, 3);
}

#[test]
fn the_oldest_events_are_removed() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let many: Vec<Record> = (0..i64::from(EVENTS_MAX) + 3).map(event).collect();
    writer.commit(&many).unwrap();
    let newest = u64::from(EVENTS_MAX) + 3;
    assert_eq!(store.reader().event_range().unwrap(), EventRange { oldest: 4, newest });
}

#[test]
fn a_build_is_done_with_its_last_job() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let build = BuildId::from_uuid(Uuid::from_u128(9));
    let of_build = |one: JobRecord| {
        let mut spec = (*one.spec).clone();
        spec.build = Some(build);
        JobRecord { spec: Arc::new(spec), ..one }
    };
    let write = |one: &JobRecord| Record::Job(Box::new(one.clone()));
    let (first, second) = (of_build(job(1)), of_build(job(2)));
    writer.commit(&[write(&first), write(&second)]).unwrap();
    writer.commit(&[write(&done(granted(first), Verdict::Passed, 0))]).unwrap();
    assert_eq!(store.reader().events(0, 9).unwrap(), []);
    let last = done(granted(second), Verdict::Failed, 1);
    writer.commit(&[write(&last)]).unwrap();
    // The record of an ended job does not change, so the build does not end again.
    writer.commit(&[write(&last)]).unwrap();
    let events = store.reader().events(0, 9).unwrap();
    assert_eq!((events.len(), events[0].event.kind), (1, EventKind::BuildDone));
    let expected =
        json!({ "request_id": build.request_id(), "status": "failed", "jobs": 2, "passed_jobs_count": 1 });
    assert_eq!(json!(events[0].event.facts), expected);
}

#[test]
fn a_token_has_one_event_for_each_further_address() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let used = |address: &str| {
        let token = TokenId::from_uuid(Uuid::from_u128(1));
        let (name, address) = ("ada".to_owned(), address.to_owned());
        Record::TokenUse(Box::new(TokenUse { token, name, address, at_ms: 1 }))
    };
    writer.commit(&["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"].map(used)).unwrap();
    let events = store.reader().events(0, 9).unwrap();
    assert_eq!(events.len(), 1, "the first address is no event: {events:?}");
    assert_eq!(events[0].event.facts["address"], "192.0.2.2");
}
