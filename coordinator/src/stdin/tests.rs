use super::{Free, Input, InputProgress, Inputs, SenderGuard};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::stdin::StdinEnd;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

fn job() -> JobId {
    JobId::from_uuid(uuid::Uuid::from_u128(7))
}

/// A disk without an end.
fn all() -> Free {
    Box::new(|| None)
}

/// Descriptors of this process on files below a directory.
#[cfg(target_os = "linux")]
fn descriptors(directory: &std::path::Path) -> usize {
    let of = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let all = std::fs::read_dir("/proc/self/fd").expect("listed");
    all.filter_map(of).filter(|path| path.starts_with(directory)).count()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_wait_keep_no_file_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    for number in 0..100 {
        let input = inputs.open(JobId::from_uuid(uuid::Uuid::from_u128(number))).expect("opened");
        input.append(0, b"abc").expect("stored");
        input.sync().expect("synced");
    }
    assert_eq!(descriptors(&directory.path().canonicalize().expect("there")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitter_stores_as_much_as_stays_free_and_its_next_input_ends_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, Box::new(|| Some(100))));
    let open = |number, submitter| {
        let job = JobId::from_uuid(uuid::Uuid::from_u128(number));
        let input = inputs.open(job).expect("opened");
        inputs.belongs_to(&input, submitter);
        (job, input)
    };
    let ((first, one), (_, two)) = (open(1, "eve"), open(2, "eve"));
    one.append(0, &[0; 40]).expect("stored");
    two.append(0, &[0; 40]).expect("cut");
    let end = end_of(&two).await;
    assert_eq!(end.seal.length, 0);
    assert!(end.reason.is_some_and(|reason| reason.contains("`eve` have 40 bytes")));
    assert!(inputs.has_room("eve", 40).is_err() && inputs.has_room("ada", 40).is_ok());
    let (_, other) = open(3, "ada");
    other.append(0, &[0; 40]).expect("stored");
    assert_eq!(other.progress().borrow().stored, 40);
    drop(one);
    inputs.discard(first);
    assert!(inputs.has_room("eve", 40).is_ok(), "the bytes of a job that is over are given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_for_a_job_that_is_over_are_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    let input = inputs.open(job()).expect("opened");
    std::fs::remove_file(directory.path().join("stdin").join(job().to_string())).expect("removed");
    assert!(input.append(0, b"abc").is_err(), "a live job's file must be there");
    inputs.finish(job());
    input.append(0, b"abc").expect("dropped");
    assert_eq!((input.sync().expect("nothing to do"), input.read(0, 3).expect("over")), (0, None));
}

async fn end_of(input: &Input) -> StdinEnd {
    let mut progress = input.progress();
    let ended = progress.wait_for(InputProgress::is_complete);
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends");
    ended.expect("it is open").end.clone().expect("an end")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_is_the_same_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    let first = open().open(job()).expect("opened");
    first.append(0, b"abc").expect("stored");
    first.append(2, b"cde").expect("stored");
    first.append(9, b"after a hole").expect("dropped");
    assert_eq!(first.sync().expect("synced"), 5);
    let second = open().open(job()).expect("opened");
    assert_eq!(second.progress().borrow().stored, 5);
    let seal = Seal { length: 7, blake3: blake3::hash(b"abcdefg").to_hex().to_string() };
    let end = StdinEnd { seal, reason: None };
    second.end(end.clone()).expect("noted");
    assert!(second.progress().borrow().end.is_none(), "bytes before the end are missing");
    second.append(5, b"fg").expect("stored");
    let third = open().open(job()).expect("opened");
    assert_eq!(third.progress().borrow().end, Some(end));
    third.append(7, b"after the end").expect("dropped");
    assert_eq!(third.read(0, 7).expect("read").expect("live"), b"abcdefg");
    assert_eq!(third.progress().borrow().stored, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_ends_with_a_reason_when_its_client_stays_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, Duration::from_millis(50), all()));
    let input = inputs.open(job()).expect("opened");
    let first = SenderGuard::new(inputs.clone(), input.clone());
    input.append(0, b"abc").expect("stored");
    let second = SenderGuard::new(inputs.clone(), input.clone());
    drop(first);
    // The second client is there, so the end does not come of the first one's departure.
    let early = tokio::time::timeout(Duration::from_millis(200), end_of(&input)).await;
    assert!(early.is_err(), "{early:?}");
    drop(second);
    let end = end_of(&input).await;
    assert_eq!(end.seal.length, 3);
    assert_eq!(end.seal.blake3, blake3::hash(b"abc").to_hex().as_str());
    assert!(end.reason.is_some_and(|reason| reason.contains("has been away")));
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_of_jobs_that_are_over_are_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    let input = open().open(job()).expect("opened");
    input.append(0, b"abc").expect("stored");
    input.end(StdinEnd { seal: Seal { length: 3, blake3: String::new() }, reason: None }).expect("ended");
    let count = || std::fs::read_dir(directory.path().join("stdin")).expect("listed").count();
    open().remove_stale(|_| true);
    assert_eq!(count(), 2);
    open().remove_stale(|_| false);
    assert_eq!(count(), 0);
}

/// Files in the directory of inputs.
fn files(directory: &std::path::Path) -> usize {
    std::fs::read_dir(directory.join("stdin")).expect("listed").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_finished_twice_stays_for_a_retry() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    let seal = inputs.store(job(), "ada", "abc").expect("stored");
    inputs.finish(job());
    inputs.finish(job());
    // Files are removed in order, so this one shows that the removals before it are done.
    let other = JobId::from_uuid(uuid::Uuid::from_u128(8));
    inputs.store(other, "ada", "def").expect("stored");
    inputs.discard(other);
    let removed = async {
        while files(directory.path()) > 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), removed).await.expect("removed");
    let retry = JobId::from_uuid(uuid::Uuid::from_u128(9));
    assert_eq!(inputs.copy(job(), retry).expect("copied"), Some(seal));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_input_whose_file_is_gone_is_not_kept_any_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
    inputs.store(job(), "ada", "abc").expect("stored");
    inputs.finish(job());
    std::fs::remove_dir_all(directory.path().join("stdin")).expect("removed");
    let retry = JobId::from_uuid(uuid::Uuid::from_u128(9));
    assert_eq!(inputs.copy(job(), retry).expect("no error"), None);
}
