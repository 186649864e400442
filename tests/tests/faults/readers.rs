//! Tests of readers that connect and disconnect.

use buildpool_client::{Client, Endpoint, FollowQuery, JobEvent, Target};
use buildpool_coordinator::store::{Retention, Store};
use buildpool_protocol::client_link::Cursor;
use buildpool_protocol::output::Stream;
use buildpool_tests::{Dice, Direction, Pool, Proxy, Workload};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_reader_that_leaves_and_resumes_by_cursor_again_and_again_reads_each_byte_once() {
    let times = match std::env::var("BUILDPOOL_FAULT_COUNT") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 200_u32,
    };
    let pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    // The job ends before the reader, which continues to read after the end of the job.
    let bytes = u64::from(times) * 15_000;
    let job = workload.submit(&pool, bytes, Duration::from_secs(3), &[]);
    workload.submit(&pool, bytes, Duration::from_secs(3), &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let token = pool.token();
    let endpoint = Endpoint::new(pool.url().parse().unwrap(), Some(token.parse().unwrap()));
    let (read, resumed) = runtime.block_on(async {
        let mut client = Client::connect(Target::Named(endpoint.clone()), "reader").await.unwrap();
        let mut dice = Dice::new(7);
        let mut read = [Vec::new(), Vec::new()];
        let mut cursor: Option<Cursor> = None;
        let mut resumed = 0;
        loop {
            let query = FollowQuery { job: job.id.clone(), cursor, ..FollowQuery::default() };
            let mut events = client.follow(query).await.unwrap();
            let mut left = if resumed < times { 1 + dice.below(2) } else { u64::MAX };
            loop {
                match events.next().await.unwrap() {
                    JobEvent::Output(output) => {
                        // A chunk is read completely or not at all: a cursor is always between two
                        // chunks.
                        let mut position = output.from;
                        for chunk in &output.chunks {
                            if left == 0 {
                                break;
                            }
                            read[chunk.header.stream.index()].extend_from_slice(chunk.data());
                            position += chunk.header.size();
                            left -= 1;
                        }
                        cursor = Some(Cursor { attempt: output.attempt, position, within: 0 });
                    }
                    JobEvent::End(_) => return (read, resumed),
                    other => panic!("not expected: {other:?}"),
                }
                if left == 0 {
                    break;
                }
            }
            resumed += 1;
            if dice.below(10) == 0 {
                drop(events);
                client.close().await;
                client = Client::connect(Target::Named(endpoint.clone()), "reader").await.unwrap();
            }
        }
    });
    eprintln!("resumed {resumed} times");
    assert!(resumed > times / 4, "resumed {resumed} times only");
    workload.wait(&pool);
    workload.check(&pool);
    for stream in Stream::ALL {
        let truth = std::fs::read(job.notes.join(format!("1.{}", stream.index() + 1))).unwrap();
        assert_eq!(blake3::hash(&read[stream.index()]), blake3::hash(&truth), "{stream}");
    }
}

#[test]
fn a_stream_that_says_little_is_read_without_the_other() {
    let pool = Pool::start(1);
    let proxy = Proxy::start(pool.address());
    // Long lines, because the digest's time depends on the number of lines.
    let script = "echo early >&2; seq -s, 1 1300000 | fold -w 1000; echo late >&2; seq 1 100";
    let id = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", script]);
    let id = id.expect(0).out().trim().to_owned();
    pool.wait_for_state(&id, "done");
    let url = proxy.url();
    let asked = ["logs", &id, "--coordinator", &url, "--stream", "stderr"];
    for (tail, expected) in
        [(&["--tail", "1"][..], "late\n"), (&["--tail", "9"], "early\nlate\n"), (&[], "early\nlate\n")]
    {
        let before = proxy.bytes(Direction::Down);
        let read = pool.buildpool(&[&asked[..], tail].concat()).expect(0);
        assert_eq!([&read.stdout[..], &read.stderr].concat(), expected.as_bytes(), "{tail:?}");
        let came = proxy.bytes(Direction::Down) - before;
        assert!(came < 4_000_000, "{came} bytes for {tail:?}");
    }
}

#[test]
fn a_log_that_is_not_kept_a_job_that_is_not_and_one_that_never_was_are_three_answers() {
    let mut pool = Pool::start(1);
    let run = || {
        let id = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "seq", "100000"]).expect(0).out();
        pool.wait_for_state(id.trim(), "done");
        id.trim().to_owned()
    };
    let (first, second) = (run(), run());
    // The hourly retention, as if this much time had passed.
    let hour = Duration::from_secs(3600);
    let pass = |pool: &mut Pool, record_age: Duration, later: Duration| {
        pool.kill_coordinator();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + later;
        let store = Store::open(&pool.data("coordinator")).unwrap();
        let retention = Retention {
            log_age: hour,
            log_bytes: u64::MAX,
            free_bytes: 0,
            record_age,
            ..Retention::default()
        };
        let done = store.logs().retain(&retention, i64::try_from(now.as_millis()).unwrap()).unwrap();
        drop(store);
        pool.start_coordinator_again();
        (done.logs_evicted, done.records_evicted)
    };
    assert_eq!(pass(&mut pool, hour * 9, hour * 2), (2, 0));
    let ask = |pool: &Pool, words: &[&str], code| pool.buildpool(words).expect(code);
    assert_eq!(ask(&pool, &["job", &first, "--json"], 0).json()["verdict"], "passed", "the record is there");
    let no_log = ask(&pool, &["logs", &first], 1);
    assert!(no_log.err().contains("was here and is not kept any more"), "{no_log}");
    assert_eq!(pass(&mut pool, hour * 9, hour * 20), (0, 2));
    for id in [&first, &second] {
        for words in [["job", id], ["logs", id], ["cancel", id]] {
            let gone = ask(&pool, &words, 1);
            assert!(gone.err().contains("was here") && gone.err().contains("removed by retention"), "{gone}");
        }
    }
    let unknown = ask(&pool, &["job", &uuid::Uuid::now_v7().to_string()], 1);
    assert!(unknown.err().contains("no job") && unknown.err().contains("is known here"), "{unknown}");
}
