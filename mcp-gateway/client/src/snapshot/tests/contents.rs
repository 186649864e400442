//! Contents of snapshots.

use super::*;

#[test]
fn modified_added_and_deleted_files_links_and_modes_are_as_on_disk() {
    let project = Project::new();
    let clean = project.take_as_it_is();
    assert_eq!(clean.id().as_str(), project.git(&["rev-parse", "HEAD^{tree}"]));
    project.write("src/main.rs", "fn main() { panic!() }\n");
    project.write("new/deep/file with space\tand tab.txt", "new");
    project.write("ünïcode.txt", "x");
    project.write("binary", [0, 159, 146, 150, 13, 10]);
    fs::remove_file(project.path("src/lib.rs")).unwrap();
    symlink("main.rs", project.path("src/link")).unwrap();
    symlink("/nowhere/at/all", project.path("dangling")).unwrap();
    fs::set_permissions(project.path("README"), fs::Permissions::from_mode(0o755)).unwrap();
    let dirty = project.take_as_it_is();
    assert_eq!((dirty.manifest.files, clean.manifest.files), (7, 3));
    assert_eq!(project.take_as_it_is().id(), dirty.id());

    project.git(&["add", "-A"]);
    assert_eq!(project.take_as_it_is().id(), dirty.id(), "staged changes make no difference");
    project.git(&["stash", "-q"]);
    assert_eq!(project.take_as_it_is().id(), clean.id());
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_link() {
    let project = Project::new();
    project.take_as_it_is();
    fs::remove_file(project.path("README")).unwrap();
    project.write("README/inside", "x");
    fs::rename(project.path("src"), project.path("source")).unwrap();
    symlink("source", project.path("src")).unwrap();
    project.take_as_it_is();
    fs::remove_file(project.path("src")).unwrap();
    project.write("src", "a file now");
    project.take_as_it_is();
}

#[test]
fn no_ignore_file_of_gits_speaks_against_ours() {
    let project = Project::new();
    project.write(".gitignore", "*\n!*/\n!*.c\n!.*ignore\n");
    project.write("data/.gitignore", "!big.bin\n");
    project.write(".buildpoolignore", "private.c\n*.bin\n/:odd\n/nested/\n");
    for path in
        ["private.c", "deep/private.c", "public.c", "data/big.bin", "data/other.c", ":odd/a.c", "nested/b.c"]
    {
        project.write(path, path);
    }
    project.git(&["add", "-A"]);
    project.git(&["rm", "-q", "--cached", "-r", "nested"]);
    project.git(&["commit", "-qm", "ignored"]);
    project.git(&["init", "-q", "nested"]);
    let behind = ["private.c", "deep/private.c", "data/big.bin", ":odd/a.c", "nested/b.c"];
    let expected = project.on_disk(&behind);
    assert_eq!(project.contents(&project.take()), expected);
    project.git(&["rm", "-q", "--cached", "-r", "."]);
    assert!(expected.contains_key("data/other.c") && expected.contains_key("public.c"));
    let files: Contents = project.on_disk(&[&behind[..], &["README", "src/main.rs", "src/lib.rs"]].concat());
    assert_eq!(project.contents(&project.take()), files, "untracked");
}

#[test]
fn our_ignore_file_asks_for_nothing_that_the_user_ignores() {
    let project = Project::new();
    project.write(".git/info/exclude", "mine.c\n/out/\n");
    project.write("sub/.gitignore", "deep.c\n");
    project.write(".buildpoolignore", "*\n!*/\n!*.c\n");
    for path in ["mine.c", "yours.c", "out/a.c", "sub/mine.c", "sub/deep.c", "sub/other.c", "sub/other.h"] {
        project.write(path, path);
    }
    let taken: Vec<String> = project.contents(&project.take()).into_keys().collect();
    assert_eq!(taken, ["sub/other.c", "yours.c"]);
}

#[test]
fn ignored_files_stay_whatever_says_so_and_follow_the_rules_as_they_change() {
    let project = Project::new();
    project.write(".gitignore", "*.log\n/target/\n!keep.log\n");
    project.write("a.log", "x");
    project.write("keep.log", "x");
    project.write("target/debug/big", "x");
    fs::write(project.path(".git/info/exclude"), "private\n").unwrap();
    project.write("private", "x");
    project.write(".buildpoolignore", "assets/*.mov\nREADME\n");
    project.write("assets/a.mov", "x");
    project.write("assets/b.png", "x");
    let snapshot = project.take();
    let mut expected = project.on_disk(&["a.log", "target/debug/big", "private", "assets/a.mov", "README"]);
    assert_eq!(project.contents(&snapshot), expected);
    assert_eq!(snapshot.manifest.excludes, "private\nassets/*.mov\nREADME\n");

    project.git(&["add", "-f", "a.log"]);
    project.write(".buildpoolignore", "assets/*.mov\n");
    let snapshot = project.take();
    expected = project.on_disk(&["target/debug/big", "private", "assets/a.mov"]);
    assert_eq!(project.contents(&snapshot), expected, "tracked although it is ignored");

    project.git(&["rm", "-q", "--cached", "a.log"]);
    project.write(".gitignore", "*.log\n/target/\n*.png\n");
    let snapshot = project.take();
    expected = project.on_disk(&[
        "a.log",
        "keep.log",
        "target/debug/big",
        "private",
        "assets/a.mov",
        "assets/b.png",
    ]);
    assert_eq!(project.contents(&snapshot), expected, "untracked and newly ignored");
}

#[test]
fn a_file_that_changes_without_changing_its_size_or_second_is_seen() {
    let project = Project::new();
    for round in 0..20 {
        project.write("src/main.rs", format!("fn main() {{ {:04} }}\n", round));
        project.take_as_it_is();
    }
}

#[test]
fn only_a_touched_file_changes_nothing() {
    let project = Project::new();
    let first = project.take();
    let touched = fs::File::options().write(true).open(project.path("README")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(project.take_as_it_is().id(), first.id());
}

#[test]
fn no_conversion_of_line_ends_encodings_keywords_or_filters_takes_place() {
    for autocrlf in ["true", "input", "false"] {
        let project = Project::empty();
        project.git(&["init", "-q"]);
        project.git(&["config", "core.autocrlf", autocrlf]);
        project.git(&["config", "filter.shout.clean", "tr a-z A-Z"]);
        project.git(&["config", "filter.lfs.clean", "printf pointer #"]);
        project.write(
            ".gitattributes",
            "*.bat eol=crlf\n*.c ident\n*.u working-tree-encoding=UTF-16LE\n*.loud filter=shout\n*.bin filter=lfs\n* text=auto\n",
        );
        project.write("dos.txt", "a\r\nb\r\n");
        project.write("unix.txt", "a\nb\n");
        project.write("run.bat", "@echo\r\n");
        project.write("v.c", "$Id: 1234 $\n");
        project.write("wide.u", [b'a', 0, b'\n', 0]);
        project.write("x.loud", "quiet\n");
        project.write("image.bin", "the whole image");
        project.commit("converted");
        assert_eq!(project.git(&["show", "HEAD:image.bin"]), "pointer");
        project.take_as_it_is();
        project.write("dos.txt", "a\r\nc\r\n");
        project.write("x.loud", "other\n");
        project.take_as_it_is();
    }
}

#[test]
fn the_second_snapshot_packs_as_its_difference_and_a_cut_transfer_finds_the_same_pack() {
    let project = Project::new();
    for number in 0..500 {
        project.write(&format!("src/part{number}.rs"), format!("fn part{number}() {{}}\n").repeat(30));
    }
    project.commit("more");
    let first = project.take();
    let (full, _) = first.pack(None, None).unwrap();
    first.delivered(Some(&full)).unwrap();
    assert!(!full.path.exists());
    project.write("src/part7.rs", "fn part7() { changed() }\n".repeat(30));
    let second = project.take();
    assert_eq!(second.bases(), vec![first.id().clone()]);
    let (thin, _) = second.pack(Some(first.id()), Some(&[])).unwrap();
    assert!(thin.length < 1000, "{}", thin.length);
    let before = fs::metadata(&thin.path).unwrap().ino();
    assert_eq!(second.pack(Some(first.id()), Some(&[])).unwrap().0, thin);
    assert_eq!(fs::metadata(&thin.path).unwrap().ino(), before);
}

#[test]
fn a_directory_without_a_repository_is_its_own_project() {
    let project = Project::empty();
    project.write("a/b.txt", "b");
    project.write("c", "c");
    project.write(".gitignore", "*.o\n");
    project.write("c.o", "object");
    let snapshot = project.take();
    assert_eq!(project.contents(&snapshot), project.on_disk(&["c.o"]));
    assert_eq!((snapshot.manifest.head.clone(), snapshot.directory.as_str()), (None, ""));
    assert!(!project.path(".git").exists());
    fs::remove_file(project.path("c")).unwrap();
    assert_eq!(project.contents(&project.take()), project.on_disk(&["c.o"]));
    project.git(&["init", "-q", "--object-format=sha256"]);
    let snapshot = project.take();
    assert_eq!(
        project.contents(&snapshot),
        project.on_disk(&["c.o"]),
        "it became a repository of another format"
    );
}

#[test]
fn a_commit_can_be_taken_instead_of_the_files() {
    let project = Project::new();
    project.git(&["tag", "v1"]);
    project.write("README", "changed");
    project.commit("second");
    project.write("README", "and uncommitted");
    let take = |name: &str| take(&Options { commit: Some(name.into()), ..project.options() });
    let before = fingerprint(&project.top(), false);
    let old = take("v1").unwrap();
    assert_eq!(project.contents(&old)["README"].1, b"read me\n");
    assert_eq!(old.manifest.head.as_ref().unwrap().commit.as_str(), project.git(&["rev-parse", "v1"]));
    assert_eq!((old.manifest.files, old.manifest.bytes), (3, 35));
    assert_eq!(project.contents(&take("HEAD").unwrap())["README"].1, b"changed");
    for wrong in ["v2", "--all", "HEAD:README", ""] {
        let error = take(wrong).unwrap_err();
        assert!(matches!(error, SnapshotError::UnknownRef { .. }), "{wrong}: {error}");
    }
    assert_same(&before, &fingerprint(&project.top(), false));
}

#[test]
fn history_reaches_back_to_the_nearest_tag() {
    let project = Project::new();
    assert_eq!(project.take().manifest.head.unwrap().history.len(), 0);
    project.git(&["tag", "-am", "annotated", "v1.0"]);
    for number in 0..3 {
        project.commit(&format!("later {number}"));
    }
    project.git(&["tag", "light"]);
    project.git(&["checkout", "-q", "-b", "side", "HEAD~2"]);
    project.commit("side");
    project.git(&["merge", "-q", "--no-edit", "main"]);
    let head = project.take().manifest.head.unwrap();
    assert_eq!(head.branch.as_deref(), Some("side"));
    let names: Vec<_> = head.tags.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(names, ["light", "v1.0"]);
    assert_eq!(head.history.len(), 5, "three, one on the side and the tagged one");
    assert_eq!(head.shallow.len(), 0, "the tagged commit is the first one");
}

/// Returns the output of git with only a snapshot's commits and tags.
fn said_elsewhere(project: &Project, questions: &[&[&str]]) -> Vec<String> {
    let snapshot = project.take();
    let elsewhere = tempfile::tempdir().unwrap();
    git(elsewhere.path(), &["init", "-q", "--bare"]);
    let (_, into) = snapshot.pack(None, None).unwrap();
    let mut unpack = git_command(elsewhere.path(), &["unpack-objects", "-q"]);
    assert!(unpack.stdin(rewound(into)).status().unwrap().success());
    let head = snapshot.manifest.head.as_ref().unwrap();
    let shallow: String = head.shallow.iter().map(|id| format!("{id}\n")).collect();
    fs::write(elsewhere.path().join("shallow"), shallow).unwrap();
    for tag in &head.tags {
        git(elsewhere.path(), &["update-ref", &format!("refs/tags/{}", tag.name), tag.object.as_str()]);
    }
    git(elsewhere.path(), &["update-ref", "--no-deref", "HEAD", head.commit.as_str()]);
    let say = |question: &&[&str]| said_by(elsewhere.path(), question);
    questions.iter().map(say).collect()
}

fn said_by(directory: &Path, question: &[&str]) -> String {
    let output = git_command(directory, question).output().unwrap();
    let words = if output.status.success() { output.stdout } else { b"no answer".to_vec() };
    String::from_utf8(words).unwrap()
}

/// Commands for both places. Their output does not depend on the number of objects.
const DESCRIBE: &[&[&str]] = &[&["describe", "--abbrev=40"], &["describe", "--tags", "--abbrev=40"]];

#[track_caller]
fn assert_described_alike(project: &Project) {
    let here: Vec<String> = DESCRIBE.iter().map(|question| said_by(&project.top(), question)).collect();
    assert_eq!(said_elsewhere(project, DESCRIBE), here);
}

/// Runs a command that commits, with this minute as its time.
fn at(project: &Project, minute: u32, arguments: &[&str]) {
    let time = format!("@{} +0000", 1_700_000_000 + minute * 60);
    let status = git_command(&project.top(), arguments).env("GIT_COMMITTER_DATE", time).status().unwrap();
    assert!(status.success(), "{arguments:?}");
}

const EMPTY: &[&str] = &["commit", "-q", "--allow-empty", "-m", "x"];

#[test]
fn a_tag_is_found_behind_merges_of_what_is_older_than_it() {
    let project = Project::empty();
    project.git(&["init", "-q", "-b", "main"]);
    at(&project, 1, EMPTY);
    project.git(&["tag", "-am", "one", "v1"]);
    at(&project, 2, EMPTY);
    project.git(&["branch", "dev"]);
    at(&project, 3, EMPTY);
    project.git(&["tag", "-am", "two", "v2"]);
    project.git(&["switch", "-q", "dev"]);
    at(&project, 4, &["merge", "-q", "--no-ff", "--no-edit", "v2"]);
    assert_described_alike(&project);
    at(&project, 5, EMPTY);
    assert_described_alike(&project);
    assert!(said_by(&project.top(), &["describe"]).starts_with("v2-2-g"));
}

#[test]
fn of_two_sides_with_tags_the_same_one_is_nearer() {
    let project = Project::empty();
    project.git(&["init", "-q", "-b", "main"]);
    (0..5).for_each(|minute| at(&project, minute, EMPTY));
    for (side, tag, begin, before, after) in [("left", "t1", 10, 3, 6), ("right", "t2", 14, 9, 4)] {
        project.git(&["switch", "-q", "-c", side, "main"]);
        (0..before).for_each(|minute| at(&project, begin + minute, EMPTY));
        project.git(&["tag", "-am", tag, tag]);
        (0..after).for_each(|minute| at(&project, begin + before + minute, EMPTY));
    }
    at(&project, 60, &["merge", "-q", "--no-edit", "left"]);
    assert_described_alike(&project);
}

#[test]
fn whatever_was_merged_and_tagged_the_description_is_the_same() {
    for seed in 1..=12_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut stream = String::new();
        for number in 1..=40_u64 {
            let time = 1_700_000_000 + number * 60 - below(200);
            stream += &format!(
                "commit refs/heads/main\nmark :{number}\ncommitter n <e@x> {time} +0000\ndata 1\nx\n"
            );
            if number > 1 {
                let first = number - 1 - below(3).min(number - 2);
                stream += &format!("from :{first}\n");
                if below(3) == 0 {
                    let second = 1 + below(number - 1);
                    if second != first {
                        stream += &format!("merge :{second}\n");
                    }
                }
            } else {
                stream += "M 644 inline file\ndata 1\nx\n";
            }
            stream += "\n";
            match below(14) {
                0 => stream += &format!("reset refs/tags/light-{number}\nfrom :{number}\n\n"),
                1 => {
                    stream +=
                        &format!("tag v{number}\nfrom :{number}\ntagger n <e@x> {time} +0000\ndata 1\nx\n");
                }
                _ => {}
            }
        }
        let project = Project::empty();
        project.git(&["init", "-q", "-b", "main"]);
        let mut import = git_command(&project.top(), &["fast-import", "--quiet", "--force"]);
        let mut import = import.stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut import.stdin.take().unwrap(), stream.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
        project.git(&["reset", "-q", "--hard", "main"]);
        println!("seed {seed}: {}", project.git(&["log", "--graph", "--oneline", "--decorate"]));
        assert_described_alike(&project);
    }
}

#[test]
fn the_end_of_a_shallow_clone_is_one_in_the_workspace_though_it_has_the_tag() {
    let origin = Project::new();
    origin.commit("second");
    origin.git(&["tag", "-am", "three", "v3"]);
    let project = Project::empty();
    fs::remove_dir(project.top()).unwrap();
    let url = format!("file://{}", origin.top().display());
    git(project.root.path(), &["clone", "-q", "--depth", "1", "--branch", "v3", &url, "project"]);
    for _ in 0..2 {
        let answers = said_elsewhere(&project, &[&["describe"], &["log", "--format=%s"]]);
        let subject = project.git(&["log", "--format=%s"]) + "\n";
        assert_eq!(answers[1], subject);
        assert!(answers[0].starts_with("v3"), "{answers:?}");
        project.commit("later");
    }
}

#[test]
fn what_stays_behind_without_being_deleted_is_named() {
    let project = Project::new();
    for file in ["in/a", "out/deep/b", "out/c", "big/data", "deleted"] {
        project.write(file, file);
    }
    project.commit("more");
    fs::remove_file(project.path("deleted")).unwrap();
    assert_eq!(project.take().manifest.left_behind, [""; 0]);
    project.write(".buildpoolignore", "/big\n");
    assert_eq!(project.take().manifest.left_behind, ["big/"]);
    for sparse in ["--no-sparse-index", "--sparse-index"] {
        project.git(&["sparse-checkout", "set", "--cone", sparse, "in", "src"]);
        for _ in 0..2 {
            let left = project.take().manifest.left_behind;
            assert_eq!(left, ["big/", "out/"], "{sparse}");
        }
        project.write("in/a", sparse);
        assert_eq!(project.take().manifest.left_behind, ["big/", "out/"], "{sparse}");
    }
    project.git(&["sparse-checkout", "disable"]);
    assert_eq!(project.take().manifest.left_behind, ["big/"]);
}
