//! Concurrent changes and calls.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn agents_at_once_with_one_and_with_two_caches_get_the_same_tree() {
    let project = Project::new();
    for number in 0..200 {
        project.write(&format!("d{}/f{number}", number % 10), format!("{number}"));
    }
    let before = fingerprint(&project.top(), true);
    let caches = ["cache", "cache", "cache", "other", "other"];
    let trees: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = caches
            .iter()
            .map(|cache| {
                let options = Options { cache: Some(project.root.path().join(cache)), ..project.options() };
                scope.spawn(move || take(&options).unwrap().id().clone())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:?}");
    assert_same(&before, &fingerprint(&project.top(), true));
}

#[test]
fn under_constant_edits_a_snapshot_is_consistent_or_names_what_changed() {
    let project = Project::new();
    project.write("left", "0\n");
    project.write("right", "0\n");
    project.commit("equal");
    let stop = AtomicBool::new(false);
    let before = fingerprint(&project.top(), true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The two files are always written in this order, so `left` is never older than
            // `right`.
            for number in 1_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                for side in ["left", "right"] {
                    let beside = project.root.path().join(side);
                    fs::write(&beside, format!("{number}\n")).unwrap();
                    fs::rename(beside, project.path(side)).unwrap();
                }
            }
        });
        let done = scope.spawn(|| {
            for _ in 0..15 {
                let snapshot = take(&project.options()).unwrap();
                let contents = project.contents(&snapshot);
                let number =
                    |side: &str| String::from_utf8_lossy(&contents[side].1).trim().parse::<u64>().unwrap();
                let consistent = number("left") == number("right") || number("left") == number("right") + 1;
                assert!(consistent || !snapshot.changed_meanwhile.is_empty());
            }
        });
        let result = done.join();
        stop.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    assert_same(&before, &fingerprint(&project.top(), true));
}

#[test]
fn git_of_the_users_at_work_meanwhile_is_not_disturbed() {
    let project = Project::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                project.write("README", format!("{number}"));
                // Fails if another process held the index or a ref.
                project.commit("again");
            }
        });
        let done = scope.spawn(|| {
            for _ in 0..25 {
                take(&project.options()).unwrap();
            }
        });
        let result = done.join();
        stop.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    project.git(&["fsck", "--strict"]);
    project.take_as_it_is();
}

#[test]
fn a_pack_outlives_the_delivery_of_another_and_goes_when_nobody_asks_for_it() {
    let project = Project::new();
    let first = project.take();
    project.write("README", "changed meanwhile\n");
    let second = project.take();
    let (mine, _) = first.pack(None, None).unwrap();
    let (others, file) = second.pack(None, None).unwrap();
    // As another process leaves it while its git is writing.
    let unfinished = others.path.with_extension("1-0.new");
    fs::write(&unfinished, "PACK").unwrap();
    first.delivered(Some(&mine)).unwrap();
    assert!(!mine.path.exists() && others.path.exists() && unfinished.exists());

    // Another process has sent the same pack; the open file must stay complete.
    second.delivered(Some(&others)).unwrap();
    let sum = buildpool_objects::incoming::checksum_of_open(&rewound(file)).unwrap();
    assert_eq!(sum, (others.blake3.clone(), others.length));
    assert_eq!(second.pack(None, None).unwrap().0.length, others.length, "and it can be made again");

    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60);
    for path in [&others.path, &unfinished] {
        fs::File::options().write(true).open(path).unwrap().set_modified(yesterday).unwrap();
    }
    let (third, _) = first.pack(None, None).unwrap();
    assert!(third.path.exists() && !others.path.exists() && !unfinished.exists());
}

#[test]
fn what_changes_while_an_index_is_written_is_seen_by_the_next_look() {
    use crate::snapshot::{repository::Repository, store::Store};
    let project = Project::new();
    project.git(&["config", "core.trustctime", "false"]);
    let git = buildpool_objects::Git::find().unwrap();
    let repository = Repository::find(&git, &project.top()).unwrap();
    let store = Store::open(&project.root.path().join("cache"), &repository).unwrap();
    let index = store.index();
    let written = store.write_index(&index, |place| {
        project.write("a", "1");
        git.run(place).args(["update-index", "--add", "a"]).output()?;
        project.write("a", "2");
        // As written by a git with many more files to read.
        let file = fs::File::options().write(true).open(&index).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5)).unwrap();
        Ok(())
    });
    written.unwrap();
    let look = git.run(&store.place(index)).args(["diff-files", "--name-only"]).text().unwrap();
    assert_eq!(look, "a");
}
