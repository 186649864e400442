//! Tests of working trees, workspaces and artifacts with real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use buildpool_tests::{Pool, PoolBuilder};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
    command.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Creates a committed project in the directory where commands are started.
fn project(pool: &Pool) -> PathBuf {
    let top = pool.place().work();
    git(&top, &["init", "-q", "-b", "main"]);
    fs::write(top.join(".gitignore"), "/out/\n").unwrap();
    fs::write(top.join("name"), "committed\n").unwrap();
    fs::create_dir(top.join("sub")).unwrap();
    fs::write(top.join("sub/inner"), "inner\n").unwrap();
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "first"]);
    git(&top, &["tag", "v1"]);
    top
}

/// Returns the content of the git directory, with the times of files.
fn fingerprint(top: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut all = Vec::new();
    let mut open = vec![top.join(".git")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                all.push((entry.path(), fs::read(entry.path()).unwrap(), metadata.modified().unwrap()));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn the_uncommitted_tree_is_what_runs_and_the_repository_is_not_touched() {
    let pool = Pool::start(1);
    let top = project(&pool);
    fs::write(top.join("name"), "uncommitted\n").unwrap();
    fs::write(top.join("new"), "untracked\n").unwrap();
    fs::write(top.join(".env"), "SECRET=1\n").unwrap();
    let before = fingerprint(&top);
    let run = |arguments: &[&str], command: &str| {
        let all = [&["run"], arguments, &["--", "sh", "-c", command]].concat();
        pool.buildpool(&all)
    };
    let first = run(
        &[],
        "cat name new; ls -A; git status --porcelain; git describe --tags; mkdir out; echo warm > out/product",
    );
    assert_eq!(
        first.clone().expect(0).out(),
        "uncommitted\nuntracked\n.git\n.gitignore\nname\nnew\nsub\n M name\n?? new\nv1\n"
    );
    assert!(first.err().starts_with("buildpool: kept back"), "{}", first.err());
    assert_eq!(fingerprint(&top), before);

    fs::write(top.join("name"), "again\n").unwrap();
    fs::remove_file(top.join("new")).unwrap();
    let second = run(&["--cwd", "sub"], "cat ../name inner ../out/product; test ! -e ../new");
    assert_eq!(second.expect(0).out(), "again\ninner\nwarm\n", "in the same workspace");
    let clean = run(&["--clean"], "ls out");
    assert_ne!(clean.code(), 0);
    let old = run(&["--ref", "v1"], "cat name; git rev-parse HEAD");
    let head = git(&top, &["rev-parse", "HEAD"]);
    assert_eq!(old.expect(0).out(), format!("committed\n{head}\n"));
    assert_eq!(fingerprint(&top), before);

    let outgoing = pool.data("coordinator").join("transfer/outgoing");
    buildpool_tests::wait_until("packs that workers have got are gone", || {
        fs::read_dir(&outgoing).unwrap().next().is_none()
    });

    let failed = run(&["--output", "json"], "pwd; echo \"$PWD/name:3:1: error: it is wrong\" >&2; exit 1");
    let result = failed.json();
    assert_eq!(result["snapshot"]["kept_back"][0], ".env");
    assert_eq!(
        result["tier_1_findings"][0]["location"]["file"], "name",
        "relative to the workspace: {result}"
    );
    assert_eq!(result["directory"], serde_json::Value::Null, "at the top");
    let below =
        run(&["--output", "json", "--cwd", "sub"], "echo 'inner:3:1: error: it is wrong' >&2; exit 1");
    assert_eq!((&below.json()["directory"], below.code()), (&"sub".into(), 1));
    assert_eq!(below.json()["tier_1_findings"][0]["location"]["file"], "inner", "as the tool has it");
}

#[test]
fn parallel_jobs_of_one_project_have_workspaces_of_their_own() {
    let pool = Pool::start(1);
    project(&pool);
    // Each job waits for the other, so that they run concurrently.
    let meeting = pool.place().file("meeting");
    std::fs::create_dir(&meeting).unwrap();
    let meeting = format!("MEETING={}", meeting.display());
    let both = "touch $MEETING/$BUILDPOOL_JOB_ID; for i in $(seq 3000); do [ $(ls $MEETING | wc -l) -ge 2 ] && break; sleep 0.01; done; pwd";
    let mut children: Vec<_> = (0..2)
        .map(|_| {
            let mut command = pool.command(&["run", "--env", &meeting, "--", "sh", "-c", both]);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let places: Vec<String> = children
        .drain(..)
        .map(|child| buildpool_tests::Finished::from(child.wait_with_output().unwrap()).expect(0).out())
        .collect();
    assert!(places.iter().all(|place| place.starts_with('/')) && places[0] != places[1], "{places:?}");
}

#[test]
fn artifacts_come_back_also_after_a_failure_and_from_a_worker_that_has_gone() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    project(&pool);
    let make = "mkdir -p out/deep; head -c 3000000 /dev/urandom > out/deep/big; cp out/deep/big kept; \
                printf '#!/bin/sh\\necho ran' > out/tool; chmod +x out/tool; ln -s /etc/passwd out/link; exit 3";
    let job = pool.buildpool(&[
        "run",
        "--output",
        "json",
        "--artifact",
        "out/**",
        "--artifact",
        "kept",
        "--artifact",
        "none",
        "--",
        "sh",
        "-c",
        make,
    ]);
    let result = job.json();
    let id = result["job_id"].as_str().unwrap();
    let paths: Vec<&str> =
        result["artifacts"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["kept", "out/deep/big", "out/tool"]);
    pool.kill_worker(0);
    let listed = pool.buildpool(&["artifacts", id]);
    assert!(listed.expect(0).out().contains("3000000  out/deep/big"));
    let into = pool.place().home().join("fetched");
    pool.buildpool(&["artifacts", id, "--keep-executable", "-o", into.to_str().unwrap()]).expect(0);
    assert_eq!(fs::read(into.join("kept")).unwrap(), fs::read(into.join("out/deep/big")).unwrap());
    assert_eq!(fs::read(into.join("kept")).unwrap().len(), 3_000_000);
    let tool = Command::new(into.join("out/tool")).output().unwrap();
    assert_eq!(tool.stdout, b"ran\n");
    let mut names: Vec<_> = fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept", "out"]);
}

#[test]
fn an_artifact_that_cannot_be_written_keeps_no_other_back_and_no_name_reaches_the_terminal() {
    let place = buildpool_tests::Place::new();
    let make = "mkdir out; for name in a b c; do echo $name > out/$name; done; : > \"$(printf 'out/x\\ny\\033[31m')\"";
    let all = ["run", "--output", "json", "--artifact", "out", "--", "sh", "-c", make];
    let result = place.buildpool(&all).json();
    let id = result["job_id"].as_str().unwrap();
    let into = place.home().join("fetched");
    // A directory blocks one artifact, and later no path is blocked.
    fs::create_dir_all(into.join("out/b/in the way")).unwrap();
    let some = place.buildpool(&["artifacts", id, "-o", into.to_str().unwrap()]).expect(125);
    // The first line names the pool that the command used.
    assert!(some.err().contains("`out/b`") && some.err().lines().count() == 2, "{some}");
    for name in ["a", "c"] {
        assert_eq!(fs::read_to_string(into.join("out").join(name)).unwrap(), format!("{name}\n"));
    }
    let lines: Vec<String> = some.out().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{some}");
    assert!(lines[2].ends_with(r"out/x\ny\u{1b}[31m"), "{some}");
    let listed = place.buildpool(&["artifacts", id]).expect(0).out();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(!listed.contains('\u{1b}'));
}

#[test]
fn an_artifact_from_outside_of_the_commands_directory_is_refused_before_anything_runs() {
    let place = buildpool_tests::Place::new();
    for outside in ["../x", "/etc/passwd", "out/../../x", "", "./", "a/.."] {
        let refused = place.buildpool(&["run", "--artifact", outside, "--", "touch", "ran"]).expect(125);
        assert!(refused.err().contains("without `..`"), "{refused}");
    }
    for itself in [".", "./", ".//"] {
        let refused = place.buildpool(&["run", "--artifact", itself, "--", "touch", "ran"]).expect(125);
        assert!(refused.err().contains("the command's directory itself"), "{refused}");
    }
    assert!(!place.file("ran").exists());
    place.buildpool(&["run", "--artifact", "./out/", "--", "true"]).expect(0);
}

#[test]
fn a_snapshot_survives_restarts_of_the_coordinator_and_of_the_worker_between_its_way_and_its_job() {
    let mut pool = Pool::start(1);
    let top = project(&pool);
    fs::write(top.join("large"), vec![b'x'; 5_000_000]).unwrap();
    pool.kill_worker(0);
    let detached = pool.buildpool(&["run", "--detach", "--", "wc", "-c", "large"]);
    let id = detached.expect(0).out().trim().to_owned();
    pool.restart_coordinator();
    pool.start_worker(0);
    let result = pool.wait_for_state(&id, "done");
    assert_eq!(result["verdict"], "passed", "{result}");
    let logs = pool.buildpool(&["logs", &id]);
    assert!(logs.expect(0).out().starts_with("5000000"));
}

/// Returns the git directory of the project in a data directory.
fn object_cache(projects: &Path, inner: &str) -> PathBuf {
    let found: Vec<_> = fs::read_dir(projects).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [project] = found.iter().filter(|path| path.is_dir()).collect::<Vec<_>>()[..] else {
        panic!("{found:?}")
    };
    project.join(inner)
}

/// Changes or removes all files with this extension in a cache's packs.
fn damage(cache: &Path, extension: &str, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    let mut count = 0;
    for entry in fs::read_dir(cache.join("objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|found| found == extension) {
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = change(bytes) {
                fs::write(&path, bytes).unwrap();
            }
            count += 1;
        }
    }
    assert!(count > 0, "no pack to damage");
}

/// A function that damages the object cache in this directory.
type Damage = fn(&Path);

#[test]
fn damaged_objects_of_the_coordinator_and_of_a_worker_come_anew_with_the_next_job() {
    let pool = Pool::start(1);
    let top = project(&pool);
    // Most of a pack is this file.
    let numbers: Vec<String> = (0..5000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    fs::write(top.join("numbers"), numbers.join("\n")).unwrap();
    let mut number = 0;
    let mut passes = |is_changed: bool, what: &str| {
        number += usize::from(is_changed);
        fs::write(top.join("name"), format!("{number}\n")).unwrap();
        let run = pool.buildpool(&["run", "--clean", "--", "cat", "name"]);
        assert_eq!(run.code(), 0, "{what}: {}", run.err());
        assert_eq!(run.out(), format!("{number}\n"), "{what}");
    };
    passes(true, "before");
    let kinds: [(&str, Damage); 6] = [
        ("packs cut off", |cache| damage(cache, "pack", |bytes| Some(bytes[..bytes.len() / 2].to_vec()))),
        ("packs gone", |cache| {
            damage(cache, "pack", |_| None);
            damage(cache, "idx", |_| None);
        }),
        ("indexes gone", |cache| damage(cache, "idx", |_| None)),
        ("HEAD empty", |cache| fs::write(cache.join("HEAD"), "").unwrap()),
        ("config empty", |cache| fs::write(cache.join("config"), "").unwrap()),
        ("everything gone but the records", |cache| fs::remove_dir_all(cache.join("objects")).unwrap()),
    ];
    let coordinators = object_cache(&pool.data("coordinator").join("transfer/projects"), "");
    let workers = object_cache(&pool.data("w0").join("projects"), "objects");
    for (what, damage) in kinds {
        for (whose, cache) in [("coordinator", &coordinators), ("worker", &workers)] {
            for is_changed in [true, false] {
                damage(cache);
                passes(is_changed, &format!("{whose}: {what}, changed: {is_changed}"));
            }
        }
    }
    // A worker detects this during checkout, and fetches the objects again within the job.
    damage(&workers, "pack", |mut bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        Some(bytes)
    });
    passes(false, "a byte changed");
}

#[test]
fn on_the_local_pool_a_job_is_isolated_when_it_is_asked_for() {
    let place = buildpool_tests::Place::new();
    let top = place.work();
    git(&top, &["init", "-q"]);
    fs::write(top.join("a"), "a\n").unwrap();
    let run = place.buildpool(&["run", "--snapshot", "--", "sh", "-c", "cat a; echo b > b"]);
    assert_eq!(run.expect(0).out(), "a\n");
    assert!(!top.join("b").exists());
    place.buildpool(&["run", "--", "sh", "-c", "echo b > b"]).expect(0);
    assert!(top.join("b").exists());
}

/// Typical git commands of a build, in one script.
const QUESTIONS: &str = "git describe; git describe --tags --always --dirty; git rev-parse --abbrev-ref HEAD; \
                         git log -1 --format=%s; git log --format=%h >/dev/null && echo whole; \
                         git status --porcelain";

/// Returns the output of these commands in a directory.
fn said(top: &Path) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", QUESTIONS]).current_dir(top);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Returns the output of these commands in a job submitted from this directory.
fn said_to_a_job(pool: &Pool, top: &Path, arguments: &[&str]) -> String {
    let all = [&["run"], arguments, &["--", "sh", "-c", QUESTIONS]].concat();
    let output = pool.command(&all).current_dir(top).output().unwrap();
    buildpool_tests::Finished::from(output).expect(0).out()
}

#[test]
fn git_answers_for_this_call_whatever_was_sent_before() {
    let pool = Pool::start(1);
    let origin = project(&pool);
    for name in ["second", "third"] {
        fs::write(origin.join("name"), name).unwrap();
        git(&origin, &["commit", "-qam", name]);
    }
    git(&origin, &["tag", "-am", "one", "v1.1", "HEAD~1"]);
    let url = format!("file://{}", origin.display());
    let (shallow, full) = (pool.place().home().join("shallow"), pool.place().home().join("full"));
    git(&pool.place().home(), &["clone", "-q", "--depth", "1", &url, shallow.to_str().unwrap()]);
    git(&pool.place().home(), &["clone", "-q", &url, full.to_str().unwrap()]);
    for clone in [&shallow, &full] {
        // Both clones belong to one project and share transferred objects.
        git(clone, &["remote", "set-url", "origin", "https://example.org/team/app.git"]);
        assert_eq!(said_to_a_job(&pool, clone, &[]), said(clone), "{}", clone.display());
    }
    let changes: [(&str, &dyn Fn()); 5] = [
        ("a file", &|| fs::write(full.join("untracked"), "x").unwrap()),
        ("a tag", &|| drop(git(&full, &["tag", "-am", "two", "v2"]))),
        ("a branch", &|| drop(git(&full, &["switch", "-q", "-c", "other"]))),
        ("a tag less", &|| drop(git(&full, &["tag", "-d", "v2"]))),
        ("more history", &|| drop(git(&shallow, &["fetch", "-q", "--unshallow", "--tags", &url]))),
    ];
    for (what, change) in changes {
        change();
        for clone in [&full, &shallow] {
            assert_eq!(said_to_a_job(&pool, clone, &[]), said(clone), "after {what} in {}", clone.display());
        }
    }
    git(&full, &["tag", "-am", "three", "v3"]);
    let committed = said_to_a_job(&pool, &full, &["--ref", "HEAD"]);
    assert!(committed.starts_with("v3\nv3\nHEAD\nthird\nwhole\n"), "{committed}");

    // An ignore pattern that is not in the tree.
    fs::write(full.join(".git/info/exclude"), "/prod\n").unwrap();
    let run = |command: &str| {
        let output = pool.command(&["run", "--", "sh", "-c", command]).current_dir(&full).output().unwrap();
        buildpool_tests::Finished::from(output).expect(0).out()
    };
    run("mkdir prod && echo warm > prod/made");
    assert_eq!(run("cat prod/made"), "warm\n");
}

#[test]
fn what_stays_behind_is_not_taken_for_deleted() {
    let pool = Pool::start(1);
    let top = project(&pool);
    for file in ["out-of-cone/a", "big/b", "sub/c"] {
        fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
        fs::write(top.join(file), file).unwrap();
    }
    fs::write(top.join(".buildpoolignore"), "/big\n").unwrap();
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "more"]);
    assert_eq!(said_to_a_job(&pool, &top, &[]), said(&top));
    git(&top, &["sparse-checkout", "set", "--cone", "sub", "big"]);
    assert!(!top.join("out-of-cone").exists());
    assert_eq!(said_to_a_job(&pool, &top, &[]), said(&top));
    fs::remove_file(top.join("sub/c")).unwrap();
    let answers = said_to_a_job(&pool, &top, &[]);
    assert_eq!(answers, said(&top));
    assert!(answers.ends_with(" D sub/c\n"), "{answers}");
}

#[test]
fn a_submodule_that_is_not_checked_out_is_an_empty_directory_and_stays_one() {
    let pool = Pool::start(1);
    let top = project(&pool);
    let commit = git(&top, &["rev-parse", "HEAD"]);
    git(&top, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},vendor/lib")]);
    git(&top, &["commit", "-qm", "a submodule"]);
    fs::create_dir_all(top.join("vendor/lib")).unwrap();
    let answers = said(&top);
    assert_eq!(said_to_a_job(&pool, &top, &[]), answers);
    let result = pool.buildpool(&["run", "--output", "json", "--", "true"]).json();
    let note = "the submodule vendor/lib is not checked out here, so its directory is empty";
    assert_eq!(result["snapshot"]["notes"], serde_json::json!([note]), "{result}");
    // Changes that a job makes in that directory do not reach the next job.
    let leave = "ls -A vendor/lib; touch vendor/lib/file; git init -q vendor/lib";
    for arguments in [&["--ref", "HEAD"][..], &[], &[]] {
        let all = [&["run"], arguments, &["--", "sh", "-c", leave]].concat();
        assert_eq!(pool.buildpool(&all).expect(0).out(), "", "{arguments:?}");
    }
    pool.buildpool(&["run", "--", "rm", "-r", "vendor"]).expect(0);
    assert_eq!(said_to_a_job(&pool, &top, &[]), answers);
}
