//! Tests of the state and of its screens. `UPDATE_GOLDEN=1` rewrites the golden screens.

use super::view::draw;
use super::{Action, Key, Link, Lists, Panel, Top};
use buildpool_protocol::client_link::{JobSummary, WorkerSummary};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobState, Verdict, Waiting};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::Path;

const NOW: &str = "2026-11-24T10:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn id(number: u32) -> String {
    format!("0193aaaa-{number:04}-7001-8000-000000000000")
}

fn job(number: u32, state: JobState, command: &str) -> JobSummary {
    JobSummary {
        job_id: id(number),
        command: command.to_owned(),
        state,
        verdict: None,
        exit_code: None,
        worker: (state != JobState::Queued).then(|| "mini-2".to_owned()),
        submitter: "ada".to_owned(),
        created_at: "2026-11-24T09:57:00Z".to_owned(),
        duration_secs: Some(75.0),
        waiting: None,
        project: None,
        started_at: None,
        request_id: None,
        headline: None,
        labels: Vec::new(),
    }
}

fn queued(number: u32, position: u64, command: &str) -> JobSummary {
    let reason = "all slots of the matching workers are in use".to_owned();
    let waiting = Some(Waiting { reason, position: Some(position), ..Waiting::default() });
    JobSummary { waiting, ..job(number, JobState::Queued, command) }
}

fn ended(number: u32, verdict: Verdict, exit_code: i32, command: &str) -> JobSummary {
    JobSummary { verdict: Some(verdict), exit_code: Some(exit_code), ..job(number, JobState::Done, command) }
}

fn worker(name: &str) -> WorkerSummary {
    WorkerSummary {
        name: name.to_owned(),
        worker_id: format!("id of {name}"),
        token: None,
        connected: true,
        draining: false,
        quarantined: None,
        slots: 2,
        busy: 1,
        labels: Default::default(),
        resources: Default::default(),
        accepts: Vec::new(),
        jobs: Vec::new(),
        last_seen: Some("2026-11-24T09:59:00Z".to_owned()),
        version: "0.1.0".to_owned(),
        disk_free_bytes: None,
        disk_total_bytes: None,
        upgrade_target: None,
        upgrade: None,
    }
}

fn lists() -> Lists {
    let busy = WorkerSummary { jobs: vec![id(1)], busy: 1, ..worker("mini-2") };
    let away = WorkerSummary { connected: false, busy: 0, ..worker("mini-10") };
    let sick = WorkerSummary { quarantined: Some("its disk is full".into()), ..worker("mini-9") };
    let drained = WorkerSummary { draining: true, ..worker("mini-1") };
    Lists {
        jobs: vec![
            job(1, JobState::Running, "cargo test --workspace"),
            job(2, JobState::Preparing, "xcodebuild test -scheme App"),
            queued(4, 2, "make all"),
            queued(3, 1, "swift build"),
            ended(5, Verdict::Failed, 65, "xcodebuild -scheme App test"),
            ended(6, Verdict::Passed, 0, "true"),
            ended(7, Verdict::TimedOut, 0, "sleep 900"),
        ],
        workers: vec![busy, away, sick, drained],
        last_lines: [(id(1), "test wire::frames ... \u{1b}[32mok".to_owned())].into(),
        is_cut: false,
    }
}

fn top() -> Top {
    let mut top = Top::new("wss://pool.example.com:7420", now());
    top.update(lists());
    top
}

fn press(top: &mut Top, keys: &str) -> Option<Action> {
    keys.chars().fold(None, |_, c| {
        top.key(match c {
            '\n' => Key::Enter,
            '\t' => Key::Next,
            '\u{1b}' => Key::Escape,
            '\u{8}' => Key::Backspace,
            c => Key::Char(c),
        })
    })
}

fn screen(top: &mut Top, columns: u16, rows: u16) -> String {
    top.resize(columns, rows);
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(top, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..rows {
        let line: String = (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[track_caller]
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == text, "{name} differs; `cargo xtask bless` rewrites it:\n{text}");
}

#[test]
fn the_screens_are_as_the_golden_files() {
    let mut top = top();
    golden("top-lists.txt", &screen(&mut top, 80, 24));
    golden("top-wide.txt", &screen(&mut top, 140, 40));
    golden("top-small.txt", &screen(&mut top, 40, 12));
    press(&mut top, "/make");
    golden("top-filter.txt", &screen(&mut top, 80, 24));
    press(&mut top, "\u{1b}?");
    golden("top-help.txt", &screen(&mut top, 80, 24));
    press(&mut top, "xc");
    golden("top-cancel.txt", &screen(&mut top, 80, 24));
    press(&mut top, "n");
    top.connect(Link::Lost { secs: 12, reason: "connection refused".to_owned() });
    golden("top-lost.txt", &screen(&mut top, 80, 24));
    top.connect(Link::Live);
    press(&mut top, "\n");
    let log = top.log().unwrap();
    log.push(Stream::Stdout, b"   Compiling app v0.1.0\nrunning 2 te");
    log.push(Stream::Stderr, b"warning: \x1b[33munused\x1b[0m\n");
    log.push(Stream::Stdout, b"sts\n 10%\r100%\n\ttab\n");
    log.end("complete");
    golden("top-log.txt", &screen(&mut top, 80, 24));
    assert_eq!(screen(&mut top, 30, 5).lines().next(), Some("top needs 40 x 12"));
}

#[test]
fn each_key_has_its_action() {
    let job = id(1);
    for (keys, expected) in [
        ("q", Some(Action::Quit)),
        ("cy", Some(Action::Cancel { job: job.clone() })),
        ("cn", None),
        ("c\u{1b}", None),
        ("\n", Some(Action::OpenLog { job: job.clone() })),
        ("\nq", Some(Action::CloseLog)),
        ("\n\u{1b}q", Some(Action::Quit)),
        // The third list has failures, which are done already.
        ("\t\tc", None),
        ("\t\tcy", None),
        ("\t\n", Some(Action::OpenLog { job: id(3) })),
        ("\tj\n", Some(Action::OpenLog { job: id(4) })),
        ("\tjjjk\n", Some(Action::OpenLog { job: id(3) })),
        // No worker is selected.
        ("dy", None),
        // Workers in trouble come first, then in numeric order.
        ("\t\t\tdy", Some(Action::Drain { worker: "id of mini-9".into(), draining: true })),
        ("\t\t\tjdy", Some(Action::Drain { worker: "id of mini-10".into(), draining: true })),
        ("\t\t\tjjdy", Some(Action::Drain { worker: "id of mini-1".into(), draining: false })),
        ("\t\t\tG\n", Some(Action::OpenLog { job: job.clone() })),
        ("\t\t\t\n", None),
        ("?q", None),
        ("?qq", Some(Action::Quit)),
        ("/q", None),
        ("/swift\n\t\n", Some(Action::OpenLog { job: id(3) })),
        ("/nothing\n\n", None),
        ("/nothing\u{1b}\n", Some(Action::OpenLog { job })),
        ("/swiff\u{8}t\n\tcy", Some(Action::Cancel { job: id(3) })),
    ] {
        assert_eq!(press(&mut top(), keys), expected, "{keys:?}");
        let mut top = top();
        press(&mut top, keys);
        assert_eq!(top.key(Key::Interrupt), Some(Action::Quit), "Ctrl-C after {keys:?}");
    }
}

#[test]
fn a_selection_stays_on_its_job_when_the_lists_change() {
    let mut top = top();
    press(&mut top, "\tj");
    assert_eq!(top.selected_job().map(|job| job.job_id.clone()), Some(id(4)));
    let mut changed = lists();
    changed.jobs.insert(0, queued(9, 0, "first now"));
    top.update(changed);
    assert_eq!(top.selected_job().map(|job| job.job_id.clone()), Some(id(4)));
    // When the job leaves the list, the row in its place is selected.
    let mut changed = lists();
    changed.jobs.retain(|job| job.job_id != id(4));
    top.update(changed);
    assert_eq!(top.selected_job().map(|job| job.job_id.clone()), Some(id(3)));
    top.update(Lists::default());
    assert!(top.selected_job().is_none());
    assert_eq!(press(&mut top, "cy"), None);
}

#[test]
fn a_log_follows_its_end_until_it_is_scrolled() {
    let mut top = top();
    press(&mut top, "\n");
    let fill = |top: &mut Top, from: u32| {
        for number in from..from + 100 {
            top.log().unwrap().push(Stream::Stdout, format!("line {number}\n").as_bytes());
        }
    };
    fill(&mut top, 0);
    assert!(screen(&mut top, 80, 24).contains("line 99"));
    press(&mut top, "kkk");
    fill(&mut top, 100);
    let paused = screen(&mut top, 80, 24);
    assert!(paused.contains("line 96\n") && !paused.contains("line 97"), "{paused}");
    press(&mut top, "G");
    fill(&mut top, 200);
    assert!(screen(&mut top, 80, 24).contains("line 299"));
    press(&mut top, "g");
    assert!(screen(&mut top, 80, 24).contains("line 0\n"));
    // The memory for a log is bounded, and so is a line without an end.
    (0..60).for_each(|block| fill(&mut top, 300 + block * 100));
    assert_eq!(top.log().unwrap().lines.len(), 5_000);
    top.log().unwrap().push(Stream::Stderr, &[b'x'; 100_000]);
    assert_eq!(top.log().unwrap().lines.len(), 5_000);
}

#[test]
fn texts_of_other_parties_can_not_control_the_terminal() {
    let mut top = top();
    let mut hostile = lists();
    let evil = "a\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}\u{200b}\nb\tc";
    for job in &mut hostile.jobs {
        job.command = evil.to_owned();
        job.worker = Some(evil.to_owned());
    }
    for worker in &mut hostile.workers {
        worker.name = evil.to_owned();
        worker.quarantined = Some(evil.to_owned());
    }
    hostile.last_lines.insert(id(1), evil.to_owned());
    top.update(hostile);
    top.notify(evil);
    let mut screens = vec![screen(&mut top, 140, 40)];
    press(&mut top, "c");
    screens.push(screen(&mut top, 140, 40));
    press(&mut top, "n\n");
    top.log().unwrap().push(Stream::Stdout, evil.as_bytes());
    top.log().unwrap().end(evil);
    screens.push(screen(&mut top, 140, 40));
    for text in screens {
        let is_bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert!(!text.contains(is_bad), "{text:?}");
    }
}

#[test]
fn the_focused_list_gets_the_free_rows() {
    for focus in Panel::ALL {
        let mut top = top();
        let mut many = lists();
        many.jobs.extend((100..160).map(|number| job(number, JobState::Running, "r")));
        many.jobs.extend((200..260).map(|number| queued(number, u64::from(number), "q")));
        many.jobs.extend((300..360).map(|number| ended(number, Verdict::Failed, 1, "f")));
        many.workers.extend((20..80).map(|number| worker(&format!("w{number}"))));
        top.update(many);
        while top.focus != focus {
            top.key(Key::Next);
        }
        top.key(Key::End);
        let text = screen(&mut top, 80, 24);
        assert_eq!(text.lines().count(), 24);
        let last = ["w79", "0193aaaa0159", "0193aaaa0259", "0193aaaa0359"][focus.index()];
        assert!(text.contains(last), "{focus:?}: {text}");
    }
}
