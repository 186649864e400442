//! Tests a full disk, core dumps and a wrong certificate.

mod support;

use buildpool_protocol::outcome::{Ending, StartFailure};
use buildpool_protocol::report::GapEntry;
use buildpool_worker::{Config, Shutdown, WorkerError, run};
use std::path::Path;
use support::{Coordinator, Worker, config, pool, processes_of, shell, until};

/// A small separate file system, if this user can mount one.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let options = format!("size={size},mode=700");
        let mounted = nix::mount::mount(
            Some("tmpfs"),
            directory.path(),
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options.as_str()),
        );
        if let Err(error) = mounted {
            eprintln!("SKIPPED: no small file system can be mounted here: {error}");
            return None;
        }
        Some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Fills the disk except for about `left` bytes.
#[cfg(target_os = "linux")]
fn fill(disk: &Path, left: u64) -> std::path::PathBuf {
    let filler = disk.join("filler");
    let free = buildpool_worker::platform::disk_room(disk).expect("a disk").free;
    let bytes = usize::try_from(free - left).expect("small");
    std::fs::write(&filler, vec![1; bytes]).expect("there is room");
    filler
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_holds_the_process_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let coordinator = Coordinator::start().await;
    let _worker = Worker::start(config(&coordinator, disk.path()));
    coordinator.registered(1).await;
    until("a keeper's reserve", || disk.path().join("keepers/0.reserve").exists().then_some(())).await;
    let filler = fill(disk.path(), 2 << 20);
    let lease = coordinator.grant(shell("head -c 6000000 /dev/zero; echo end >&2"));
    let free = || buildpool_worker::platform::disk_room(disk.path()).expect("a disk").free;
    until("the disk to be full", || (free() < 128 << 10).then_some(())).await;
    let leader = processes_of(lease);
    assert!(!leader.is_empty(), "the process waits at its pipe");
    std::fs::remove_file(filler).expect("it is there");
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(outcome.gaps, []);
    assert_eq!(coordinator.stdout(lease).len(), 6_000_000);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_disk_cost_is_counted_and_the_outcome_is_written_all_the_same() {
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let coordinator = Coordinator::start().await;
    let _worker = Worker::start(config(&coordinator, disk.path()));
    coordinator.registered(1).await;
    until("a keeper's reserve", || disk.path().join("keepers/0.reserve").exists().then_some(())).await;
    let _filler = fill(disk.path(), 2 << 20);
    let mut spec = shell("head -c 6000000 /dev/zero; echo end >&2");
    spec.grace = Some(std::time::Duration::from_millis(50));
    let lease = coordinator.grant(spec);
    let free = || buildpool_worker::platform::disk_room(disk.path()).expect("a disk").free;
    until("the disk to be full", || (free() < 128 << 10).then_some(())).await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    let missing: u64 = outcome.gaps.iter().map(|gap: &GapEntry| gap.bytes).sum();
    let arrived = coordinator.stdout(lease).len() as u64;
    assert!(missing > 0, "{outcome:?}");
    assert!(arrived + missing <= 6_000_000);
    assert!(outcome.gaps[0].reason.contains("disk refused"), "{}", outcome.gaps[0].reason);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_disk_has_no_room_for_comes_back_at_once_and_none_is_taken_until_there_is_room() {
    // The disk has enough bytes, but not enough inodes.
    let Some(disk) = SmallDisk::mount("24m,nr_inodes=400") else { return };
    let coordinator = Coordinator::start().await;
    let _worker = Worker::start(config(&coordinator, disk.path()));
    coordinator.registered(1).await;
    until("a keeper's reserve", || disk.path().join("keepers/0.reserve").exists().then_some(())).await;
    let files = disk.path().join("files");
    std::fs::create_dir(&files).expect("there is room");
    let number = (0..).find(|number| std::fs::write(files.join(number.to_string()), "").is_err());
    assert!(number.is_some_and(|number| number < 400), "{number:?}");
    let outcome = coordinator.outcome(coordinator.grant(shell("true"))).await;
    let Ending::NotStarted(StartFailure::Resources { reason }) = &outcome.ending else {
        panic!("it ended as {:?}", outcome.ending);
    };
    assert!(reason.contains("No space left"), "{reason}");
    let quarantined = || coordinator.read(|book| book.condition.quarantined.clone());
    let told = until("the worker's reason to take no jobs", quarantined).await;
    assert!(told.contains("No space left"), "{told}");
    let other = coordinator.grant(shell("true"));
    let declined =
        until("the next one to be declined", || coordinator.read(|book| book.declined.pop())).await;
    assert_eq!(declined.0, other);
    std::fs::remove_dir_all(&files).expect("it is there");
    until("the worker to take jobs again", || quarantined().is_none().then_some(())).await;
    let outcome = coordinator.outcome(coordinator.grant(shell("true"))).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_dump_is_a_fact_beside_the_signal() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let mut config = config(&coordinator, data.path());
    config.core_bytes_max = Some(64 << 20);
    let _worker = Worker::start(config);
    coordinator.registered(1).await;
    let lease = coordinator.grant(shell("kill -ABRT $$"));
    let outcome = coordinator.outcome(lease).await;
    let Ending::Signaled { name, core_dump, .. } = outcome.ending else {
        panic!("it ended as {:?}", outcome.ending);
    };
    assert_eq!(name, "SIGABRT");
    // The system also decides whether a core dump is written. With a limit of 0 there is none.
    let without = coordinator.grant(shell("ulimit -c 0; kill -ABRT $$"));
    let Ending::Signaled { core_dump: none, .. } = coordinator.outcome(without).await.ending else {
        panic!("it did not die of its signal");
    };
    assert!(!none || core_dump);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_refused_at_once() {
    let data = tempfile::tempdir().expect("a directory");
    let refused = async |change: fn(&mut Config)| {
        let mut config = Config::new("ws://127.0.0.1:1", data.path());
        change(&mut config);
        let (_handle, shutdown) = Shutdown::new();
        run(config, shutdown).await.expect_err("it cannot work").to_string()
    };
    let error = refused(|config| config.coordinator = "http://pool".into()).await;
    assert!(error.contains("valid are ws://"), "{error}");
    let error = refused(|config| config.coordinator = "wss://pool".into()).await;
    assert!(error.contains("fingerprint"), "{error}");
    let error = refused(|config| config.slots = 0).await;
    assert!(error.contains("slots"), "{error}");
    let error = refused(|config| config.data_dir = "/proc/no/such/place".into()).await;
    assert!(error.contains("can't be used"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_worker_in_one_directory_is_refused() {
    let (coordinator, worker, _data) = pool().await;
    let (_handle, shutdown) = Shutdown::new();
    let error = run(worker.config.clone(), shutdown).await.expect_err("the directory is taken");
    assert!(matches!(error, WorkerError::DataDirectory(_)), "{error}");
    assert_eq!(coordinator.read(|book| book.registers.len()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_keepers_a_job_is_the_pools_failure() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let mut config = config(&coordinator, data.path());
    config.keeper_command = vec!["/no/such/keeper".into()];
    let _worker = Worker::start(config);
    coordinator.registered(1).await;
    let outcome = coordinator.outcome(coordinator.grant(shell("true"))).await;
    let Ending::NotStarted(failure) = outcome.ending else { panic!("it started") };
    assert_eq!(failure.exit_code(), None, "{failure:?}");
}
