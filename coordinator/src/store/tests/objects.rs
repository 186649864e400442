//! The shared objects: the same behaviour in a directory and in a bucket.

use super::support::{Produced, done, first, granted, job, read_all, scratch};
use crate::store::objects::{Key, Kind, Objects};
use crate::store::sql::Connection;
use crate::store::{Database, ObjectsUrl, RECORDS, Reader, Record, Store};
use buildpool_protocol::report::Verdict;
use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use rusqlite::params;
use std::fs;
use std::os::unix::fs::PermissionsExt;

struct Home {
    directory: tempfile::TempDir,
    url: ObjectsUrl,
    environment: Vec<(String, String)>,
}

impl Home {
    fn open(&self, start: u64) -> Objects {
        self.open_at(start, self.environment.clone())
    }

    fn open_at(&self, start: u64, environment: Vec<(String, String)>) -> Objects {
        let path = self.directory.path().join("records.db");
        let database = Database::File(path);
        let _made: Connection =
            database.open_newest(&crate::store::Disk::default(), &RECORDS).expect("tables");
        let data = self.directory.path().join("data");
        let reader = Reader::new(database);
        Objects::open(&self.url, &data, (reader, start), environment.into_iter()).expect("opened")
    }

    fn file(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    }
}

fn in_directory() -> Home {
    let directory = scratch();
    let url = ObjectsUrl::Directory(directory.path().join("shared"));
    Home { directory, url, environment: Vec::new() }
}

fn in_bucket(server: &S3) -> (Home, String) {
    let bucket = server.bucket();
    let url = format!("s3://{bucket}/team/pool").parse().expect("a URL");
    (Home { directory: scratch(), url, environment: server.environment() }, bucket)
}

/// Runs a test on a directory, and on a bucket if there is an S3 server.
fn on_each(test: fn(&Home)) {
    test(&in_directory());
    if let Some(server) = S3::shared() {
        test(&in_bucket(server).0);
    }
}

const fn key(item: &str) -> Key<'_> {
    Key { kind: Kind::Artifact, owner: "owner", item }
}

fn read(home: &Home, objects: &Objects, item: &str) -> Option<Vec<u8>> {
    let path = home.directory.path().join("read");
    fs::remove_file(&path).ok();
    objects.get_file(key(item), &path).expect("read").then(|| fs::read(&path).expect("a file"))
}

#[test]
fn objects_are_read_back_replaced_and_removed() {
    on_each(|home| {
        let objects = home.open(1);
        objects.probe().expect("usable");
        assert_eq!(read(home, &objects, "a"), None);
        let long: Vec<u8> = (0..40_000_000_u32).map(|index| (index % 251) as u8).collect();
        objects.put_file(key("a"), &home.file("long", &long)).expect("stored");
        objects.put(key("b"), b"short").expect("stored");
        objects.put(key("empty"), b"").expect("stored");
        let other = home.open(2);
        assert_eq!(read(home, &other, "a"), Some(long));
        assert_eq!(read(home, &other, "b").as_deref(), Some(&b"short"[..]));
        assert_eq!(read(home, &other, "empty").as_deref(), Some(&b""[..]));
        let owners = other.owners(Kind::Artifact).expect("listed");
        assert_eq!((owners.len(), owners[0].bytes), (1, 40_000_005));

        other.put(key("a"), b"new").expect("replaced");
        assert_eq!(read(home, &objects, "a").as_deref(), Some(&b"new"[..]));
        objects.remove(Kind::Artifact, "owner", |item| item.item != "b").expect("removed");
        assert_eq!(read(home, &objects, "a"), None);
        assert_eq!(objects.items(Kind::Artifact, "owner").expect("listed").len(), 1);
    });
}

/// A leader that was paused removes the bytes that it chose before, after the next leader stored the same object again.
#[test]
fn an_earlier_leader_removes_nothing_of_a_later_one_and_the_sweep_removes_what_it_left() {
    on_each(|home| {
        let (old, new) = (home.open(1), home.open(2));
        old.put(key("a"), b"one").expect("stored");
        let chosen = old.items(Kind::Artifact, "owner").expect("listed");
        new.put(key("a"), b"two").expect("stored");
        old.remove(Kind::Artifact, "owner", |item| chosen.contains(item)).expect("nothing to remove");
        assert_eq!(read(home, &new, "a").as_deref(), Some(&b"two"[..]));

        // The row of an object of an earlier leader is gone, and its bytes stay.
        old.put(key("left"), b"left").expect("stored");
        let rows = rusqlite::Connection::open(home.directory.path().join("records.db")).expect("opened");
        rows.execute("DELETE FROM objects WHERE item = ?1", params!["left"]).expect("deleted");
        let tomorrow = crate::store::now_ms() + 2 * 24 * 60 * 60 * 1000;
        assert_eq!(old.sweep(tomorrow).expect("swept"), 0, "an upload of this start may be under way");
        assert_eq!(new.sweep(crate::store::now_ms()).expect("swept"), 0, "it is new");
        assert_eq!(new.sweep(tomorrow).expect("swept"), 1);
        assert_eq!(read(home, &new, "a").as_deref(), Some(&b"two"[..]));
    });
}

#[test]
fn the_sweep_removes_a_file_that_a_killed_leader_was_writing() {
    let home = in_directory();
    let (old, new) = (home.open(1), home.open(2));
    old.put(key("a"), b"whole").expect("stored");
    let directory = home.directory.path().join("shared/artifact/owner");
    let whole = fs::read_dir(&directory).expect("listed").next().expect("a file").expect("a file").path();
    let mut unfinished = whole.clone().into_os_string();
    unfinished.push(".01a204df-0000-7000-8000-000000000000.unfinished");
    fs::write(&unfinished, b"who").expect("written");
    let tomorrow = crate::store::now_ms() + 2 * 24 * 60 * 60 * 1000;
    assert_eq!(new.sweep(tomorrow).expect("swept"), 1);
    assert!(whole.exists() && !std::path::Path::new(&unfinished).exists());
}

#[test]
fn damaged_bytes_are_refused() {
    let home = in_directory();
    let objects = home.open(1);
    objects.put(key("a"), b"right").expect("stored");
    let directory = home.directory.path().join("shared/artifact/owner");
    let file = fs::read_dir(directory).expect("listed").next().expect("a file").expect("a file").path();
    fs::write(file, b"wrong").expect("written");
    assert_damaged(&home, &objects);

    let Some(server) = S3::shared() else { return };
    let (home, bucket) = in_bucket(server);
    let objects = home.open(1);
    objects.put(key("a"), b"right").expect("stored");
    let name = server.names(&bucket).pop().expect("an object");
    assert!(name.starts_with("team/pool/artifact/owner/1."), "{name}");
    server.overwrite(&bucket, &name, "wrong");
    assert_damaged(&home, &objects);
}

fn assert_damaged(home: &Home, objects: &Objects) {
    let path = home.directory.path().join("read");
    let error = objects.get_file(key("a"), &path).expect_err("damaged");
    assert!(error.to_string().contains("is damaged"), "{error}");
    assert!(!path.exists());
}

/// The first upload ends after some parts, as when the process is killed. The second one sends the rest only.
#[test]
fn an_upload_goes_on_where_it_was() {
    let Some(server) = S3::shared() else { return };
    let (home, bucket) = in_bucket(server);
    let long: Vec<u8> = (0..100_000_000_u32).map(|index| (index / 7 % 253) as u8).collect();
    let file = home.file("long", &long);
    let gate = Gate::start(server.port(), 60_000_000);
    let objects = home.open_at(1, S3::environment_at(gate.port));
    assert!(objects.put_file(key("a"), &file).is_err(), "the connection is cut");
    drop(objects);
    let sent = gate.passed();
    assert!(sent > 60_000_000, "{sent}");

    let gate = Gate::start(server.port(), u64::MAX);
    let objects = home.open_at(2, S3::environment_at(gate.port));
    objects.put_file(key("a"), &file).expect("stored");
    assert!(gate.passed() < 80_000_000, "{} bytes were sent again", gate.passed());
    assert_eq!(read(&home, &objects, "a"), Some(long));
    assert_eq!(server.names(&bucket).len(), 1);
    assert_eq!(fs::read_dir(home.directory.path().join("data/uploads")).expect("listed").count(), 0);
}

#[test]
fn credentials_are_in_no_message() {
    let Some(server) = S3::shared() else { return };
    let (home, _) = in_bucket(server);
    let missing = Home { url: "s3://missing/x".parse().expect("a URL"), ..home };
    let objects = missing.open(1);
    let error = objects.probe().expect_err("there is no such bucket");
    let text = format!("{} {error:?} {objects:?}", buildpool_protocol::error::chain(&error));
    assert!(text.contains("NoSuchBucket") && !text.contains("the-secret"), "{text}");
}

/// A sealed log is read by another coordinator from the bucket.
#[test]
fn sealed_logs_are_shared_through_a_bucket() {
    let (Some(postgres), Some(server)) = (Postgres::shared(), S3::shared()) else { return };
    let records = crate::store::Server::new(postgres.database().parse().expect("a URL")).expect("usable");
    let (home, _) = in_bucket(server);
    let open = |name: &str| {
        let directory = home.directory.path().join(name);
        Store::open_shared(&directory, &records, &home.url, home.environment.clone().into_iter())
            .expect("opened")
    };
    let over = done(granted(job(1)), Verdict::Passed, 0);
    let attempt = first(&over);
    let log = Produced::lines(attempt, 200_000, 1_000);
    let one = open("one");
    let mut writer = one.logs().open(attempt).expect("opened");
    writer.append(0, &log.bytes).expect("appended");
    writer.sync().expect("synced");
    writer.abandon().expect("closed");
    one.logs().publish(attempt).expect("published");
    let mut over = over;
    over.attempts[0].ended.as_mut().expect("it ended").log_length = log.length();
    one.writer().expect("a writer").commit(&[Record::Job(Box::new(over))]).expect("written");
    drop(writer);
    drop(one);
    let two = open("two");
    assert_eq!(read_all(&mut two.logs().reader(attempt).expect("a log"), 1 << 20), log.bytes);
    // Only this user may read the copy.
    for entry in fs::read_dir(home.directory.path().join("two/logs")).expect("a directory") {
        let mode = entry.and_then(|entry| entry.metadata()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
    let everything = crate::store::Retention { log_age: std::time::Duration::ZERO, ..Default::default() };
    let retained = two.logs().retain(&everything, crate::store::now_ms() + 1_000).expect("retained");
    assert_eq!((retained.logs_evicted, retained.log_bytes), (1, 0));
    assert!(two.objects().expect("shared").owners(Kind::Log).expect("listed").is_empty());
}

/// Passes connections to a server on this machine until a number of bytes was sent.
struct Gate {
    port: u16,
    passed: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Gate {
    fn start(server: u16, limit: u64) -> Self {
        use std::io::{Read, Write};
        use std::net::{Shutdown, TcpListener, TcpStream};
        use std::sync::atomic::Ordering;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let passed = std::sync::Arc::<std::sync::atomic::AtomicU64>::default();
        let total = passed.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut upstream = TcpStream::connect(("127.0.0.1", server)).expect("a server");
                let (mut from, mut back) =
                    (upstream.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
                std::thread::spawn(move || std::io::copy(&mut from, &mut back).ok());
                let total = total.clone();
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = client.read(&mut buffer) {
                        if total.fetch_add(count as u64, Ordering::Relaxed) > limit
                            || upstream.write_all(&buffer[..count]).is_err()
                        {
                            break;
                        }
                    }
                    client.shutdown(Shutdown::Both).ok();
                    upstream.shutdown(Shutdown::Both).ok();
                });
            }
        });
        Self { port, passed }
    }

    fn passed(&self) -> u64 {
        self.passed.load(std::sync::atomic::Ordering::Relaxed)
    }
}
