//! Tests all ways in which a real process can end, over a real link.

mod support;

use buildpool_protocol::outcome::{EndReason, Ending, StartFailure};
use buildpool_protocol::output::Stream;
use std::time::Duration;
use support::{argv, pool, shell};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_and_its_output_and_end_come_back() {
    let (coordinator, _worker, data) = pool().await;
    let lease = coordinator.grant(shell("echo out; echo err >&2; exit 3"));
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 3 });
    assert_eq!(outcome.acted, None);
    assert_eq!(coordinator.stdout(lease), b"out\n");
    assert_eq!(coordinator.stream(lease, Stream::Stderr), b"err\n");
    assert!(outcome.started_at_ms.is_some());
    assert!(outcome.usage.max_rss_bytes > 0);
    assert!(outcome.leaked.is_empty() && outcome.survivors.is_empty() && outcome.gaps.is_empty());
    support::until("the attempt to be forgotten", || {
        let left = std::fs::read_dir(data.path().join("attempts")).expect("a directory").count();
        (left == 0).then_some(())
    })
    .await;
    coordinator.read(|book| {
        assert_eq!(book.registers.len(), 1);
        assert_eq!(book.authorizations, [Some("Bearer bp_1_token".to_owned())]);
        assert_eq!(book.registers[0].labels.get("os").map(String::as_str), Some(std::env::consts::OS));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_are_the_process_own() {
    let (coordinator, _worker, _data) = pool().await;
    for code in [0, 1, 65, 127, 255] {
        let lease = coordinator.grant(shell(&format!("exit {code}")));
        let outcome = coordinator.outcome(lease).await;
        assert_eq!(outcome.ending, Ending::Exited { code });
    }
    // A shell that reports its child's signal exits by itself, so the ending is an exit.
    let lease = coordinator.grant(shell("sh -c 'kill -SEGV $$'; exit $?"));
    assert_eq!(coordinator.outcome(lease).await.ending, Ending::Exited { code: 139 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_by_signal_are_named() {
    let (coordinator, _worker, _data) = pool().await;
    for name in ["SEGV", "ABRT", "TRAP", "ILL", "BUS", "FPE", "KILL", "TERM", "INT", "SYS", "PIPE"] {
        let lease = coordinator.grant(shell(&format!("ulimit -c 0; kill -{name} $$")));
        let outcome = coordinator.outcome(lease).await;
        let Ending::Signaled { signal, name: found, core_dump } = outcome.ending else {
            panic!("SIG{name} ended as {:?}", outcome.ending);
        };
        assert_eq!(found, format!("SIG{name}"));
        assert!(signal > 0 && !core_dump);
        assert_eq!(outcome.acted, None, "SIG{name} was not ours");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_started_says_why() {
    let (coordinator, _worker, data) = pool().await;
    let plain = data.path().join("plain");
    std::fs::write(&plain, "no program").expect("a file");
    let lost = data.path().join("lost");
    std::fs::write(&lost, "#!/nowhere/interpreter\n").expect("a file");
    std::fs::set_permissions(&lost, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let start = async |spec| match coordinator.outcome(coordinator.grant(spec)).await.ending {
        Ending::NotStarted(failure) => failure,
        other => panic!("it started: {other:?}"),
    };
    assert!(matches!(
        start(argv(&["no-such-program-anywhere"])).await,
        StartFailure::NotFound { program } if program == "no-such-program-anywhere"
    ));
    assert!(matches!(start(argv(&["/no/such/program"])).await, StartFailure::NotFound { .. }));
    for path in [&plain, &lost, &data.path().to_path_buf()] {
        let failure = start(argv(&[path.to_str().expect("text")])).await;
        assert!(matches!(failure, StartFailure::NotExecutable { .. }), "{}: {failure:?}", path.display());
    }
    let mut spec = shell("true");
    spec.source = buildpool_protocol::spec::Source::InPlace { directory: "/no/such/directory".into() };
    assert!(matches!(
        start(spec).await,
        StartFailure::Directory { path, .. } if path == "/no/such/directory"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_is_ours_and_says_so() {
    let (coordinator, _worker, _data) = pool().await;
    let after = Duration::from_millis(200);
    let mut spec = shell("sleep 1000");
    spec.timeout = Some(after);
    let outcome = coordinator.outcome(coordinator.grant(spec)).await;
    assert_eq!(outcome.acted, Some(EndReason::Timeout { after, held: None }));
    assert!(matches!(outcome.ending, Ending::Signaled { ref name, .. } if name == "SIGTERM"));

    let mut spec = shell("echo begin; sleep 1000");
    spec.idle_timeout = Some(after);
    let outcome = coordinator.outcome(coordinator.grant(spec)).await;
    assert_eq!(outcome.acted, Some(EndReason::IdleTimeout { after }));
}
