//! Others at work at the same time.

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
            // Two files that are always written in this order: `left` is never older than `right`.
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
                // Fails if anybody else held the index or a ref.
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
