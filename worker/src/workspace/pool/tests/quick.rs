//! Tests that the quick method gives the same result as the slow one.

use super::*;

/// A warm checkout with a build product.
fn warm() -> (Bench, PathBuf) {
    let bench = Bench::new();
    bench.write(".gitignore", "/target\n*.o\n");
    for number in 0..20 {
        bench.write(&format!("src/d{}/f{number}", number % 4), &format!("{number}\n"));
    }
    bench.commit();
    let root = bench.run(1);
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("target/product"), "warm").unwrap();
    (bench, root)
}

/// Returns the user's files and the products.
fn expected(bench: &Bench, products: &[&str]) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut all = contents(&bench.home());
    all.extend(products.iter().map(|path| ((*path).to_owned(), (b"warm".to_vec(), 0o100_000))));
    all
}

/// Tests every kind of change of the tree, one after the other, in a workspace with leftovers of
/// every job.
#[test]
fn every_kind_of_change_ends_in_the_same_files() {
    let (bench, root) = warm();
    let home = bench.home();
    let changes: [(&str, &dyn Fn()); 11] = [
        ("nothing", &|| {}),
        ("content", &|| bench.write("src/d1/f1", "changed\n")),
        ("a mode", &|| {
            fs::set_permissions(home.join("src/d1/f5"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("new files", &|| bench.write("new/deep/file", "x")),
        ("a directory less", &|| fs::remove_dir_all(home.join("src/d2")).unwrap()),
        ("a file for a directory", &|| {
            fs::remove_dir_all(home.join("src/d3")).unwrap();
            bench.write("src/d3", "a file now");
        }),
        ("a directory for a file", &|| {
            fs::remove_file(home.join("src/d3")).unwrap();
            bench.write("src/d3/again/file", "x");
        }),
        ("a link for a directory", &|| {
            fs::remove_dir_all(home.join("new")).unwrap();
            symlink("src", home.join("new")).unwrap();
        }),
        ("a directory for a link", &|| {
            fs::remove_file(home.join("new")).unwrap();
            bench.write("new/deep/file", "y");
        }),
        ("other letters", &|| fs::rename(home.join("src/d0"), home.join("src/D0")).unwrap()),
        ("everything", &|| {
            fs::remove_dir_all(home.join("src")).unwrap();
            bench.write("lib/one", "1");
        }),
    ];
    for (number, (what, change)) in changes.iter().enumerate() {
        fs::create_dir_all(root.join("dropped/deep")).unwrap();
        fs::write(root.join("dropped/deep/file"), "x").unwrap();
        fs::write(root.join("src/dropped"), "x").unwrap();
        change();
        assert_eq!(bench.run(number as u32 + 2), root);
        assert_eq!(contents(&root), expected(&bench, &["target/product"]), "{what}");
        let status = git(&root, &["status", "--porcelain=v2"]);
        assert_eq!(status, bench.user(&["status", "--porcelain=v2"]), "{what}");
    }
}

#[test]
fn a_dropping_where_the_new_tree_has_a_file_gives_way() {
    let (bench, root) = warm();
    let outside = bench.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    // Neither tracked nor ignored; then ignored; then links that lead out.
    fs::write(root.join("added"), "a job's").unwrap();
    fs::create_dir(root.join("tree")).unwrap();
    fs::write(root.join("tree/inner"), "a job's").unwrap();
    fs::write(root.join("forced.o"), "a job's").unwrap();
    symlink(&outside, root.join("linked")).unwrap();
    symlink(&outside, root.join("ignored.o")).unwrap();
    bench.write("added", "the user's");
    bench.write("tree", "a file");
    bench.write("forced.o", "the user's");
    bench.write("linked/file", "the user's");
    bench.write("ignored.o/file", "the user's");
    bench.user(&["add", "-f", "forced.o", "ignored.o/file"]);
    assert_eq!(bench.run(2), root);
    assert_eq!(contents(&root), expected(&bench, &["target/product"]));
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn what_is_ignored_from_now_on_is_kept_from_now_on() {
    let (bench, root) = warm();
    fs::create_dir(root.join("out")).unwrap();
    fs::write(root.join("out/product"), "warm").unwrap();
    bench.write(".gitignore", "/target\n/out\n");
    bench.run(2);
    assert_eq!(contents(&root), expected(&bench, &["target/product", "out/product"]));
    // A job's own rules apply while they exist, but not to tracked files.
    fs::create_dir(root.join("environment")).unwrap();
    fs::write(root.join("environment/.gitignore"), "*\n").unwrap();
    fs::write(root.join("environment/lib"), "warm").unwrap();
    bench.write("src/d1/f1", "changed\n");
    bench.run(3);
    assert_eq!(fs::read_to_string(root.join("environment/lib")).unwrap(), "warm");
    bench.write(".gitignore", "/target\n");
    bench.run(4);
    assert!(!root.join("out").exists() && root.join("target/product").exists());
}

#[test]
fn a_file_that_a_job_changed_in_secret_is_laid_out_again() {
    let (bench, root) = warm();
    let file = root.join("src/d1/f1");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    // With the same size and its old time. Only the inode's change time cannot be forged.
    fs::write(&file, "2\n").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    bench.run(2);
    assert_eq!(contents(&root), expected(&bench, &["target/product"]));
}

#[test]
fn where_nothing_is_to_be_done_nothing_is_written() {
    let (bench, root) = warm();
    bench.run(2);
    let index = root.parent().unwrap().join("index");
    let stamp = |path: &Path| fs::metadata(path).map(|found| (found.ino(), found.mtime_nsec())).unwrap();
    let before = (stamp(&index), stamp(&root.join(".git/index")), files(&root));
    fs::write(root.join("dropped"), "x").unwrap();
    bench.run(3);
    assert_eq!((stamp(&index), stamp(&root.join(".git/index")), files(&root)), before);
}
