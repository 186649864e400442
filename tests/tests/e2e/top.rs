//! Tests of `buildpool top` in a pseudo terminal.

use buildpool_tests::{Pool, PoolBuilder, Terminal, wait_until};
use nix::sys::signal::Signal;

fn top(pool: &Pool) -> Terminal {
    let terminal = Terminal::start(pool.command(&["top"]), 80, 24);
    terminal.wait_for("live");
    terminal
}

fn detach(pool: &Pool, script: &str) -> String {
    let run = ["run", "--no-snapshot", "--detach", "--", "sh", "-c", script];
    pool.buildpool(&run).expect(0).out().trim().to_owned()
}

/// Checks that the terminal is as the program found it.
fn assert_restored(terminal: &Terminal) {
    terminal.wait_until("the alternate screen is left", |_| !terminal.is_alternate());
    assert!(!terminal.hides_cursor() && terminal.echoes());
}

#[test]
fn top_shows_the_pool_and_its_keys_work() {
    let pool = PoolBuilder::default().worker(&["--name", "mini-1", "--slots", "1"]).start();
    detach(&pool, "echo bad; exit 3");
    let running = detach(&pool, "i=0; while :; do i=$((i+1)); echo \"step $i\"; sleep 0.2; done");
    let waiting = detach(&pool, "echo waits");
    let mut terminal = top(&pool);
    terminal.wait_for("slots 1/1  running 1  queued 1  failed 1");
    // The last line of the running job changes.
    terminal.wait_for("step ");
    for text in ["mini-1  1/1", "failed (3)", "#1"] {
        assert!(terminal.screen().contains(text), "{}", terminal.screen());
    }
    // The log of the job follows.
    terminal.press("\r");
    terminal.wait_for("following");
    terminal.wait_for("step 10\n");
    terminal.press("q");
    terminal.wait_for("Running 1");
    // A smaller and a larger terminal.
    terminal.resize(60, 16);
    terminal.wait_until("the screen is redrawn", |screen| {
        screen.lines().next().is_some_and(|line| line.len() <= 60)
    });
    terminal.wait_for("Tab list");
    terminal.resize(120, 30);
    terminal.wait_for("? help  q quit");
    // The filter leaves one list empty.
    terminal.press("/waits\r");
    terminal.wait_for("Running 0");
    terminal.press("\x1b");
    terminal.wait_for("Running 1");
    terminal.press("c");
    terminal.wait_for("y / n");
    terminal.press("y");
    let job = |id: &str| pool.buildpool(&["job", id, "--json"]).expect(0).json();
    wait_until("the job is cancelled", || job(&running)["verdict"] == "cancelled");
    wait_until("the next job ends", || job(&waiting)["verdict"] == "passed");
    terminal.wait_for("Running 0");
    terminal.press("\x1b[Z");
    terminal.wait_for("▸Workers");
    terminal.press("dy");
    terminal.wait_for("draining");
    wait_until("the worker drains", || {
        pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["draining"] == true
    });
    terminal.press("dy");
    terminal.wait_for("ready");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
    assert_restored(&terminal);
}

#[test]
fn top_leaves_the_terminal_as_it_was_however_it_ends() {
    let pool = Pool::start(1);
    for (end, code) in [("q", 0), ("\x03", 0)] {
        let mut terminal = top(&pool);
        assert!(terminal.is_alternate() && !terminal.echoes());
        terminal.press(end);
        assert_eq!(terminal.ended().code(), Some(code), "{end:?}");
        assert_restored(&terminal);
    }
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 0), (Signal::SIGHUP, 0)] {
        let mut terminal = top(&pool);
        terminal.signal(signal);
        assert_eq!(terminal.ended().code(), Some(code), "{signal}");
        assert_restored(&terminal);
    }
    let refused = pool.buildpool(&["top"]).expect(2);
    assert!(refused.err().contains("top needs a terminal"), "{refused}");
}

#[test]
fn top_shows_a_lost_connection_and_heals() {
    let mut pool = Pool::start(1);
    let mut terminal = top(&pool);
    pool.kill_coordinator();
    terminal.wait_for("no connection for");
    terminal.wait_for("trying again");
    pool.start_coordinator_again();
    terminal.wait_until("the connection is back", |screen| screen.starts_with("live"));
    detach(&pool, "exit 7");
    terminal.wait_for("failed (7)");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
}
