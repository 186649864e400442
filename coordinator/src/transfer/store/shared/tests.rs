use super::super::{IDLE_AFTER, Limits, TransferStore};
use super::{CHAIN_AGE_MIN_MS, CONFIRM_AFTER_MS, Link, NEW_MS};
use crate::store::{Kind, Objects, ObjectsUrl, Store};
use buildpool_objects::record;
use buildpool_protocol::transfer::{Manifest, ObjectFormat};

const PROJECT: &str = "example.org/app";
const NO_LIMITS: Limits = Limits { artifact_bytes: u64::MAX, class_bytes: u64::MAX };
const HOUR_MS: i64 = 60 * 60 * 1000;

/// Shared objects in a directory.
struct Home {
    directory: tempfile::TempDir,
    store: Store,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::open(directory.path()).expect("records");
        Self { directory, store }
    }

    fn objects(&self) -> Objects {
        let url = ObjectsUrl::Directory(self.directory.path().join("shared"));
        let reader = self.store.reader();
        Objects::for_migration(&url, self.directory.path(), reader, std::iter::empty()).expect("objects")
    }

    /// Returns the store of one of several coordinators.
    fn coordinator(&self, name: &str) -> TransferStore {
        TransferStore::new(&self.directory.path().join(name), Some(self.objects()))
    }

    /// Lets time pass for all shared objects.
    fn age(&self, by_ms: i64) {
        let records = rusqlite::Connection::open(self.directory.path().join("records.db")).expect("records");
        records.execute("UPDATE objects SET stored_at_ms = stored_at_ms - ?1", [by_ms]).expect("aged");
    }

    /// Returns the chains with this snapshot.
    fn chains(&self, manifest: &Manifest) -> Vec<u64> {
        let objects = self.objects();
        let owners = objects.owners(Kind::Snapshot).expect("owners");
        let items =
            owners.iter().flat_map(|owner| objects.items(Kind::Snapshot, &owner.name).expect("items"));
        let links = items.filter_map(|item| Link::read(&item.item));
        links.filter(|link| link.fits(&record::name(manifest))).map(|link| link.chain).collect()
    }
}

/// Takes in a snapshot of one file with so many characters that can't be compressed well.
fn take_in(store: &TransferStore, characters: usize) -> Manifest {
    let cache = store.cache(PROJECT, ObjectFormat::Sha1).expect("git");
    let write = |arguments: &[&str], input: String| {
        let call = cache.git().run(&cache.place()).args(arguments).input(input.into_bytes());
        call.text().expect("an object")
    };
    let mut text: String =
        (0..characters / 64 + 1).map(|part| blake3::hash(&part.to_le_bytes()).to_hex().to_string()).collect();
    text.truncate(characters);
    let blob = write(&["hash-object", "-w", "--stdin"], text);
    let tree = write(&["mktree"], format!("100644 blob {blob}\ta\n"));
    let manifest = Manifest {
        project: PROJECT.into(),
        tree: tree.parse().expect("an id"),
        head: None,
        excludes: String::new(),
        left_behind: vec![],
        files: 1,
        bytes: characters as u64,
    };
    cache.adopt(&manifest).expect("all of it is here");
    manifest
}

#[test]
fn a_snapshot_of_an_old_chain_is_shared_again() {
    let home = Home::new();
    let one = home.coordinator("one");
    let first = take_in(&one, 4);
    one.share_snapshot(&first).expect("shared");
    // A chain ends when its later snapshots have more bytes than its first one.
    for power in 0..8 {
        one.share_snapshot(&take_in(&one, 1_000 << power)).expect("shared");
    }
    assert_eq!(home.chains(&first), [1]);
    one.share_snapshot(&first).expect("shared");
    let chains = home.chains(&first);
    assert!(chains.len() == 2 && chains[1] >= 5, "{chains:?}");
    one.share_snapshot(&first).expect("shared");
    assert_eq!(home.chains(&first), chains, "it is there");
    home.age(CHAIN_AGE_MIN_MS + HOUR_MS);
    one.tidy(&[], NO_LIMITS, |_| true);
    assert_eq!(home.chains(&first), chains[1..]);
    assert!(home.coordinator("two").has(PROJECT, &record::name(&first)));
}

#[test]
fn a_shared_snapshot_that_is_needed_again_is_not_removed_before_its_job_is_submitted() {
    let home = Home::new();
    let one = home.coordinator("one");
    let manifest = take_in(&one, 4);
    let idle_ms = i64::try_from(IDLE_AFTER.as_millis()).expect("small");
    for (age_ms, limits) in
        [(idle_ms + HOUR_MS, NO_LIMITS), (NEW_MS + HOUR_MS, Limits { class_bytes: 1, ..NO_LIMITS })]
    {
        one.share_snapshot(&manifest).expect("shared");
        home.age(age_ms);
        one.share_snapshot(&manifest).expect("shared");
        // The longest time without a new confirmation.
        home.age(CONFIRM_AFTER_MS);
        one.tidy(&[], limits, |_| true);
        assert_eq!(home.chains(&manifest), [1], "age {age_ms}");
        home.age(age_ms);
        one.tidy(&[], limits, |_| true);
        assert!(home.chains(&manifest).is_empty(), "age {age_ms}");
    }
}

#[test]
fn the_snapshot_of_a_job_is_shared_if_only_this_coordinator_has_it() {
    let home = Home::new();
    let one = home.coordinator("one");
    let manifest = take_in(&one, 4);
    let name = record::name(&manifest);
    assert!(one.has(PROJECT, &name) && !home.coordinator("two").has(PROJECT, &name));
    assert!(one.keep_for_job(PROJECT, &name).expect("shared"));
    let two = home.coordinator("two");
    assert!(two.has(PROJECT, &name));
    let unknown = take_in(&home.coordinator("three"), 5);
    assert!(!two.keep_for_job(PROJECT, &record::name(&unknown)).expect("it is not here"));
}
