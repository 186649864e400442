use super::{Fetch, IDLE_AFTER, Limits, STALE_AFTER, TransferStore};
use buildpool_objects::record;
use buildpool_protocol::transfer::{Manifest, ObjectFormat, SnapshotName};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const NO_LIMITS: Limits = Limits { artifact_bytes: u64::MAX, class_bytes: u64::MAX };

fn age(path: &Path, by: Duration) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path(), by);
        }
    }
    File::open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

#[test]
fn a_project_in_its_first_upload_stays_and_an_idle_one_goes_when_nobody_has_it() {
    let root = tempfile::tempdir().unwrap();
    let store = TransferStore::new(root.path(), None);
    let tidy = || store.tidy(&[], NO_LIMITS, |_| true);
    let cache = store.cache("example.org/app", ObjectFormat::Sha1).unwrap();
    tidy();
    assert!(cache.directory().exists(), "nothing is recorded yet");
    let taking_in = cache.hold().unwrap();
    age(cache.directory(), IDLE_AFTER + Duration::from_secs(3600));
    tidy();
    assert!(cache.directory().exists(), "another transfer is in progress");
    drop(taking_in);
    age(cache.directory(), IDLE_AFTER - Duration::from_secs(3600));
    tidy();
    assert!(cache.directory().exists(), "not for long");
    age(cache.directory(), IDLE_AFTER + Duration::from_secs(3600));
    tidy();
    assert!(!cache.directory().exists());
}

#[test]
fn the_snapshots_of_a_class_have_a_limit_and_those_not_used_for_long_go_first() {
    let root = tempfile::tempdir().unwrap();
    let all = TransferStore::new(root.path(), None);
    let project = |class: &str, name: &str| {
        let cache = all.of_class(class).cache(name, ObjectFormat::Sha1).unwrap();
        fs::write(cache.directory().join("filler"), [0_u8; 200_000]).unwrap();
        cache.directory().to_owned()
    };
    let (old, new, other) = (project("ada", "old"), project("ada", "new"), project("eve", "old"));
    age(&old, Duration::from_secs(3600));
    age(&other, Duration::from_secs(3600));
    let bytes = all.of_class("ada").class_bytes();
    assert!((400_000..520_000).contains(&bytes), "{bytes}");
    all.tidy(&[], Limits { class_bytes: 720_000, ..NO_LIMITS }, |_| true);
    assert!(old.exists());
    all.tidy(&[], Limits { class_bytes: 500_000, ..NO_LIMITS }, |_| true);
    assert_eq!((old.exists(), new.exists(), other.exists()), (false, true, true));
}

#[test]
fn what_lies_here_is_for_this_user_only_after_an_upgrade_too() {
    let data = tempfile::tempdir().expect("a directory");
    let open = data.path().join("transfer/incoming");
    fs::create_dir_all(&open).expect("a disk");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("it is its owner's");
    let store = TransferStore::new(data.path(), None);
    for directory in [store.root.clone(), open, store.outgoing(), store.root.join("projects")] {
        let mode = fs::metadata(&directory).expect("it is made").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
    }
}

/// A snapshot of one file, taken in.
fn kept(store: &TransferStore, project: &str) -> SnapshotName {
    let cache = store.cache(project, ObjectFormat::Sha1).expect("git");
    let write = |arguments: &[&str], input: String| {
        let call = cache.git().run(&cache.place()).args(arguments).input(input.into_bytes());
        call.text().expect("an object")
    };
    let blob = write(&["hash-object", "-w", "--stdin"], "text".into());
    let tree = write(&["mktree"], format!("100644 blob {blob}\ta\n"));
    let manifest = Manifest {
        project: project.into(),
        tree: tree.parse().expect("an id"),
        head: None,
        excludes: String::new(),
        left_behind: vec![],
        files: 1,
        bytes: 4,
    };
    cache.adopt(&manifest).expect("all of it is here");
    record::name(&manifest)
}

#[test]
fn a_snapshot_whose_objects_are_gone_is_not_said_to_be_here() {
    let root = tempfile::tempdir().expect("a directory");
    let store = TransferStore::new(root.path(), None);
    let place = ("example.org/app", ObjectFormat::Sha1);
    let keep = || kept(&store, place.0);
    let objects = store.cache(place.0, place.1).expect("git").directory().join("objects");
    let name = keep();
    store.open_checked(place.0, place.1).expect("git");
    assert!(store.has(place.0, &name), "it is whole");
    fs::remove_dir_all(&objects).expect("a disk");
    store.open_checked(place.0, place.1).expect("git");
    assert!(!store.has(place.0, &name), "found at a look");

    assert_eq!(keep(), name, "it is taken anew");
    fs::remove_dir_all(&objects).expect("a disk");
    let fetch = Fetch { project: place.0.into(), name: name.clone(), trees: vec![], known: vec![] };
    store.after(store.pack(&fetch), place).expect_err("nothing to make a pack of");
    assert!(!store.has(place.0, &name), "found by the failure");
}

#[test]
fn a_snapshot_of_one_class_is_not_here_for_another() {
    let root = tempfile::tempdir().expect("a directory");
    let all = TransferStore::new(root.path(), None);
    let (ada, eve) = (all.of_class("submitter:ada"), all.of_class("submitter:eve"));
    let name = kept(&ada, "example.org/app");
    assert!(ada.has("example.org/app", &name));
    for other in [&eve, &all] {
        assert!(!other.has("example.org/app", &name));
        let cache = other.cache("example.org/app", ObjectFormat::Sha1).expect("git");
        assert!(!cache.has_tree(&name.tree), "nor can it be built on");
        assert_ne!(other.incoming(), ada.incoming());
    }
    fs::create_dir_all(ada.incoming()).expect("a disk");
    let cut = ada.incoming().join("cut");
    fs::write(&cut, "part of a pack").expect("a disk");
    age(&cut, STALE_AFTER + Duration::from_secs(3600));
    all.tidy(&[], NO_LIMITS, |_| true);
    assert!(!cut.exists(), "what was never finished goes in each class");
}

#[test]
fn artifacts_together_have_a_limit_and_the_oldest_go_first() {
    let root = tempfile::tempdir().unwrap();
    let store = TransferStore::new(root.path(), None);
    let jobs: Vec<PathBuf> = (1..=4_u128)
        .map(|number| {
            let directory =
                root.path().join("transfer/artifacts").join(uuid::Uuid::from_u128(number).to_string());
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("file"), vec![0; 1_000]).unwrap();
            directory
        })
        .collect();
    let left = || jobs.iter().map(|job| job.exists()).collect::<Vec<_>>();
    store.limit_artifacts(4_000);
    assert_eq!(left(), [true; 4]);
    store.limit_artifacts(2_500);
    assert_eq!(left(), [false, false, true, true]);
}
