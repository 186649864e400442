//! Tests of coordinators that share a bucket, and of standbys that pass connections on.

use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use buildpool_tests::{Cluster, Peer, wait_until};
use std::process::{Command, Stdio};

fn start(keys: &str) -> Option<(Postgres, Cluster)> {
    let (postgres, (objects, settings)) = (Postgres::start()?, bucket()?);
    let database = postgres.database();
    let cluster = Cluster::start_on_bucket(&[database.clone(), database], (&objects, settings), keys);
    Some((postgres, cluster))
}

/// Returns the URL of an empty bucket and the settings of its client. `BUILDPOOL_TEST_OBJECTS` names another one than that
/// of the S3 server of the tests, as `az://CONTAINER`. The provider's variables are its settings then.
fn bucket() -> Option<(String, Vec<(String, String)>)> {
    if let Ok(url) = std::env::var("BUILDPOOL_TEST_OBJECTS") {
        let providers = ["AWS_", "GOOGLE_", "AZURE_", "AZURITE_"];
        let is_setting = |name: &str| providers.iter().any(|provider| name.starts_with(provider));
        let settings = std::env::vars().filter(|(name, _)| is_setting(name)).collect();
        return Some((format!("{url}/{}", uuid::Uuid::now_v7()), settings));
    }
    let server = S3::shared()?;
    Some((format!("s3://{}/pool", server.bucket()), server.environment()))
}

/// The next leader has an empty data directory, so it gets everything from the bucket.
#[test]
fn jobs_keep_logs_snapshots_artifacts_and_input_over_the_loss_of_a_leader() {
    let Some((_postgres, mut cluster)) = start("") else { return };
    let work = cluster.pool.place().work();
    assert!(Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap().success());
    let snapshot = cluster.pool.place().file("answer");
    std::fs::write(&snapshot, "one\n").unwrap();
    let script = "seq 1 200000; cp answer made";
    let over = ["run", "--output", "json", "--artifact", "made", "--", "sh", "-c", script];
    let over = cluster.pool.buildpool(&over).expect(0).json()["job_id"].as_str().unwrap().to_owned();

    // Two jobs use both slots, and two with another snapshot and with input wait.
    let go = cluster.pool.place().file("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let run = |cluster: &Cluster, words: &[&str]| {
        let all: Vec<&str> = ["run", "--detach"].iter().chain(words).copied().collect();
        cluster.pool.buildpool(&all).expect(0).out().trim().to_owned()
    };
    for _ in 0..2 {
        run(&cluster, &["--no-snapshot", "--", "sh", "-c", &wait]);
    }
    std::fs::write(&snapshot, "two\n").unwrap();
    let queued = run(&cluster, &["--", "cat", "answer"]);
    let input = cluster.pool.place().file("input");
    std::fs::write(&input, "three\n".repeat(100_000)).unwrap();
    let mut reader = cluster.pool.command(&["run", "--no-snapshot", "--", "wc", "-c"]);
    let reader = reader.stdin(std::fs::File::open(&input).unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the input is stored", || {
        let jobs = cluster.pool.buildpool(&["jobs", "--limit", "9", "--json"]).json();
        jobs.as_array().is_some_and(|jobs| jobs.len() == 5)
    });

    let old = cluster.leader();
    cluster.kill(old);
    cluster.leader_after(old);
    std::fs::write(&go, "").unwrap();
    let pool = &cluster.pool;
    pool.wait_for_state(&queued, "done");
    assert_eq!(pool.buildpool(&["logs", &queued]).expect(0).out(), "two\n");
    let log = pool.buildpool(&["logs", &over]).expect(0).out();
    assert_eq!((log.lines().count(), log.lines().last()), (200_000, Some("200000")));
    let place = pool.place().home().join("fetched");
    pool.buildpool(&["artifacts", &over, "--output", place.to_str().unwrap()]).expect(0);
    assert_eq!(std::fs::read_to_string(place.join("made")).unwrap(), "one\n");
    let counted = reader.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "600000");
    for index in 0..2 {
        assert!(!cluster.log(index).contains("the-secret"), "a credential is in the log of c{index}");
    }
}

#[test]
fn a_standby_with_proxy_passes_links_and_requests_on() {
    let Some((_postgres, mut cluster)) = start("proxy = true") else { return };
    let leader = cluster.leader();
    let standby = 1 - leader;
    cluster.wait_for_standby(standby);
    wait_until("the standby knows the leader", || {
        cluster.get(standby, "/v1/jobs").is_some_and(|answer| answer.starts_with("HTTP/1.1 401"))
    });
    assert!(cluster.get(standby, "/healthz").unwrap().starts_with("HTTP/1.1 200"));
    let url = cluster.url(standby).to_owned();
    let run =
        ["run", "--no-snapshot", "--output", "stream", "--coordinator", &url, "--", "seq", "1", "50000"];
    let output = cluster.pool.buildpool(&run).expect(0).out();
    assert_eq!((output.lines().count(), output.lines().last()), (50_000, Some("50000")));

    cluster.kill(leader);
    cluster.leader_after(leader);
    cluster.pool.buildpool(&["run", "--no-snapshot", "--coordinator", &url, "--", "true"]).expect(0);
}

/// A link through a standby ends with the leader, so the peer connects again.
#[test]
fn a_link_through_a_standby_ends_with_its_leader() {
    let Some((_postgres, mut cluster)) = start("proxy = true") else { return };
    let leader = cluster.leader();
    cluster.wait_for_standby(1 - leader);
    let address = cluster.url(1 - leader).rsplit('/').next().unwrap().to_owned();
    let token = cluster.pool.token().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut peer = runtime.block_on(async {
        let dialled = Peer::dial(address.parse().unwrap(), "/v1/client", Some(&token)).await;
        let mut peer = dialled.expect("the standby passes it on");
        assert!(peer.ping().await);
        peer
    });
    cluster.kill(leader);
    // Fails if the standby keeps the link.
    runtime.block_on(peer.close_reason());
}

#[test]
fn a_client_behind_a_standby_gets_the_reason_when_postgresql_is_away() {
    let Some((mut postgres, cluster)) = start("proxy = true") else { return };
    postgres.stop();
    wait_until("no coordinator leads", || {
        (0..2).all(|index| {
            cluster.get(index, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 503"))
        })
    });
    let failed = cluster.pool.buildpool(&["jobs"]).err();
    assert!(failed.contains("the PostgreSQL server of `store.url` does not answer"), "{failed}");
    postgres.run();
}

#[test]
fn the_history_of_tests_is_known_to_the_next_leader() {
    let Some((_postgres, mut cluster)) = start("") else { return };
    let script = "echo \"<testsuite name='s'><testcase classname='a' name='shaky'><failure message='no'/></testcase></testsuite>\" >out.xml; exit 1";
    let run = ["run", "--no-snapshot", "--report", "out.xml", "--", "sh", "-c", script];
    assert_eq!(cluster.pool.buildpool(&run).code(), 1);
    let lists = |cluster: &Cluster| cluster.pool.buildpool(&["tests", "--json"]).out().contains("shaky");
    wait_until("the leader lists the test", || lists(&cluster));
    let old = cluster.leader();
    cluster.kill(old);
    cluster.leader_after(old);
    wait_until("the next leader lists the test", || lists(&cluster));
}

#[test]
fn a_coordinator_without_its_postgresql_server_is_not_ready() {
    let Some((mut postgres, cluster)) = start("") else { return };
    let is_ready =
        |index| cluster.get(index, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"));
    assert!(is_ready(0) && is_ready(1));
    postgres.stop();
    for index in 0..2 {
        wait_until("the reason is told", || {
            let answer = cluster.get(index, "/readyz").unwrap_or_default();
            answer.starts_with("HTTP/1.1 503") && answer.contains("does not answer")
        });
    }
    postgres.run();
    wait_until("both are ready", || is_ready(0) && is_ready(1));
}
