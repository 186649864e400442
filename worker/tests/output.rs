//! Tests that output is complete, with any bytes and with any failure of the link.

mod support;

use buildpool_protocol::output::Stream;
use support::{argv, pool, shell, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_arrive_as_they_were() {
    let (coordinator, _worker, data) = pool().await;
    let copy = data.path().join("copy");
    let text = format!(
        "(printf 'a\\000b\\377\\376 no newline'; head -c 3000000 /dev/urandom; head -c 2000000 /dev/zero) | tee {}",
        copy.display()
    );
    let lease = coordinator.grant(shell(&text));
    coordinator.outcome(lease).await;
    let expected = std::fs::read(copy).expect("the copy");
    assert!(coordinator.stdout(lease) == expected, "{} bytes differ", expected.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_streams_keep_their_order() {
    let (coordinator, _worker, _data) = pool().await;
    // Each write waits until the previous one is in the spool, which is next to the job's
    // directory.
    let lease = coordinator.grant(shell(
        "size() { cat ../log 2>/dev/null | wc -c; }
         written() { while [ $(size) -le $1 ]; do sleep 0.002; done; }
         for i in 1 2 3 4 5; do n=$(size); echo out $i; written $n; n=$(size); echo err $i >&2; written $n; done",
    ));
    coordinator.outcome(lease).await;
    let order = coordinator.read(|book| book.logs[&lease.attempt].order.clone());
    let expected: Vec<_> = (0..5).flat_map(|_| [Stream::Stdout, Stream::Stderr]).collect();
    assert_eq!(order, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_link_costs_no_byte() {
    let (coordinator, _worker, data) = pool().await;
    let copy = data.path().join("copy");
    let lease = coordinator.grant(shell(&format!(
        "for i in $(seq 1 60); do head -c 200000 /dev/urandom; sleep 0.01; done | tee {}",
        copy.display()
    )));
    for cut in 1..=4 {
        until("more output", || {
            coordinator.read(|book| {
                let length = book.logs.get(&lease.attempt).map_or(0, |log| log.state.position);
                (length > cut * 1_000_000).then_some(())
            })
        })
        .await;
        coordinator.cut();
        coordinator.registered(1 + usize::try_from(cut).expect("small")).await;
    }
    let outcome = coordinator.outcome(lease).await;
    let expected = std::fs::read(copy).expect("the copy");
    assert!(coordinator.stdout(lease) == expected, "{} bytes differ", expected.len());
    assert_eq!(outcome.seals[0].blake3, blake3::hash(&expected).to_hex().as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_coordinator_lost_is_sent_again() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell("seq 1 200000; while [ ! -e go ]; do sleep 0.01; done; seq 1 10"));
    coordinator.until_output(lease, "\n200000\n").await;
    coordinator.read(|book| drop(book.logs.remove(&lease.attempt)));
    let whole = (1..=200_000).map(|n| format!("{n}\n")).collect::<String>();
    coordinator.send(buildpool_protocol::worker_link::ToWorker::Position { lease, position: 0 });
    coordinator.until_output(lease, "\n200000\n").await;
    assert!(coordinator.stdout(lease) == whole.as_bytes());
    coordinator.cancel(lease);
    coordinator.outcome(lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_on_the_way_than_the_window() {
    let (coordinator, _worker, _data) = pool().await;
    coordinator.read(|book| {
        book.sends_no_answers = true;
        book.report_every = Some(std::time::Duration::from_millis(50));
    });
    coordinator.cut();
    coordinator.registered(2).await;
    let lease = coordinator.grant(argv(&["head", "-c", "40000000", "/dev/zero"]));
    let position =
        || coordinator.read(|book| book.logs.get(&lease.attempt).map_or(0, |log| log.state.position));
    let limit = buildpool_protocol::limits::OUTPUT_WINDOW_BYTES;
    until("the window to be full", || (position() >= limit).then_some(())).await;
    assert!(position() <= limit + (1 << 20), "{}", position());
    coordinator.read(|book| book.sends_no_answers = false);
    let so_far = position();
    coordinator.send(buildpool_protocol::worker_link::ToWorker::Position { lease, position: so_far });
    coordinator.outcome(lease).await;
    assert_eq!(coordinator.stdout(lease).len(), 40_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_reach_the_process_and_nothing_else() {
    let (coordinator, _worker, data) = pool().await;
    let secret = "hunter2/s3cret+word";
    let mut spec = shell(
        "echo plain $KEY; printf %s $KEY | base64; printf 'hunter2/s3'; sleep 0.05; printf 'cret+word\\n'; echo ${#KEY} >&2; while [ ! -e go ]; do sleep 0.01; done",
    );
    spec.secrets = vec!["KEY".into()];
    let lease = coordinator.grant_with(spec, &[("KEY", secret)]);
    coordinator.until_output(lease, "19\n").await;
    until("the masked lines", || (coordinator.stdout(lease).ends_with(b"***\n")).then_some(())).await;
    let stdout = String::from_utf8(coordinator.stdout(lease)).expect("text");
    assert!(stdout.starts_with("plain ***\n") && !stdout.contains("hunter2"), "{stdout}");
    let encoded = "aHVudGVyMi9zM2NyZXQrd29yZA";
    for entry in walkdir::WalkDir::new(data.path()).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_file() {
            let bytes = std::fs::read(entry.path()).expect("ours");
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(secret) && !text.contains(encoded), "{}", entry.path().display());
        }
    }
    coordinator.cancel(lease);
    coordinator.outcome(lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_is_the_workers_and_the_jobs() {
    let (coordinator, _worker, _data) = pool().await;
    let mut spec = shell("env; echo; cat; pwd; ls -A");
    spec.env.insert("GIVEN".into(), "by the job".into());
    spec.env.insert("BUILDPOOL_TOKEN".into(), "no".into());
    let lease = coordinator.grant(spec);
    coordinator.outcome(lease).await;
    let stdout = String::from_utf8(coordinator.stdout(lease)).expect("text");
    assert!(stdout.contains("GIVEN=by the job\n"));
    assert!(stdout.contains(&format!("BUILDPOOL_JOB_ID={}\n", lease.attempt.job)));
    assert!(stdout.contains("BUILDPOOL_ATTEMPT=1\n"));
    assert!(stdout.contains("HOME=") && stdout.contains("PATH="));
    assert!(!stdout.contains("BUILDPOOL_TOKEN") && !stdout.contains("CARGO_"), "{stdout}");
    assert!(stdout.ends_with("/empty\n"), "an empty directory, and empty input: {stdout}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_inherited_and_signals_are_as_in_a_login() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell(
        "ls /proc/self/fd | tr '\\n' ' '; echo; grep -E 'Sig(Blk|Ign)' /proc/self/status; ps -o sid=,pgid=,pid= -p $$",
    ));
    coordinator.outcome(lease).await;
    let stdout = String::from_utf8(coordinator.stdout(lease)).expect("text");
    // The fourth descriptor belongs to the directory listing.
    assert!(stdout.starts_with("0 1 2 3 "), "{stdout}");
    // The C library reserves two signals and ignores them in spawned processes (32 and 33).
    let sets = stdout.lines().filter_map(|line| line.split_once(":\t"));
    let sets: Vec<u64> =
        sets.map(|(_, set)| u64::from_str_radix(set, 16).expect("a set") & !(0b11 << 31)).collect();
    assert_eq!(sets, [0, 0], "{stdout}");
    let ids: Vec<_> = stdout.lines().last().expect("a line").split_whitespace().collect();
    assert!(
        ids.len() == 3 && ids[0] == ids[1] && ids[1] == ids[2],
        "a session and a group of its own: {stdout}"
    );
}
