//! Tests of damaged objects of a project.

use super::*;

fn packs(bench: &Bench) -> Vec<PathBuf> {
    let project = bench.workspaces.project("example.org/team/app");
    let files = fs::read_dir(project.join("objects/objects/pack")).unwrap().map(|file| file.unwrap().path());
    let mut packs: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|found| found == "pack")).collect();
    packs.sort();
    packs
}

fn bench() -> Bench {
    let bench = Bench::new();
    // Most of the pack is this file.
    let numbers: String =
        (0..5000).map(|number: u32| format!("{}\n", number.wrapping_mul(2_654_435_761))).collect();
    bench.write("a", &numbers);
    bench.commit();
    bench.run(1);
    bench
}

#[test]
fn objects_that_are_gone_are_fetched_anew_before_a_job_fails_of_them() {
    let kinds: [fn(&Path); 2] =
        [|pack| fs::remove_file(pack.with_extension("idx")).unwrap(), |pack| fs::remove_file(pack).unwrap()];
    for damage in kinds {
        let bench = bench();
        let source = bench.deliver();
        packs(&bench).iter().for_each(|pack| damage(pack));
        let missing = bench.workspaces.missing(&source).unwrap().unwrap();
        assert_eq!((missing.trees.len(), missing.known.len()), (0, 0), "everything");
        bench.write("b", "b");
        assert!(bench.run(2).join("b").exists());
    }
}

#[test]
fn a_job_that_finds_objects_spoilt_has_them_fetched_anew_but_not_from_under_another_job() {
    let bench = bench();
    let source = bench.deliver();
    for pack in packs(&bench) {
        let mut bytes = fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, bytes).unwrap();
    }
    let prepare = |number| bench.workspaces.prepare(attempt(number), &source, true, bench.root.path());
    let lease = bench.workspaces.project("example.org/team/app").join("checkouts/1/lease");
    fs::write(&lease, attempt(9).to_string()).unwrap();
    assert!(prepare(2).unwrap_err().may_be_damage());
    assert_eq!(bench.workspaces.missing(&source).unwrap(), None, "another job reads from them");
    bench.workspaces.release(attempt(9)).unwrap();
    assert!(prepare(3).unwrap_err().may_be_damage());
    assert!(bench.workspaces.missing(&source).unwrap().is_some());
    let source = bench.deliver();
    let prepared = bench.workspaces.prepare(attempt(4), &source, true, bench.root.path()).unwrap();
    assert_eq!(fs::read(prepared.root.join("a")).unwrap(), fs::read(bench.home().join("a")).unwrap());
}
