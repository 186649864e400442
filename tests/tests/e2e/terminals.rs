//! Tests of the command line on a terminal: colours, widths, the progress line, completions.

use buildpool_tests::{Finished, Place, Terminal, binary};
use std::process::{Command, Stdio};

/// Returns a program with the environment of the place, which finds `buildpool` on its path.
fn program(place: &Place, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(place.work()).stdin(Stdio::null());
    for (name, value) in place.command(["--version"]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    command.env("PATH", path);
    command
}

/// Completes a command line in bash, and returns the candidates that are not options. The last word
/// is the one at the cursor.
fn completed(place: &Place, line: &[&str]) -> Vec<String> {
    let script = "source <(buildpool completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
         _clap_complete_buildpool buildpool \"${COMP_WORDS[COMP_CWORD]}\" 2>/dev/null; \
         printf '%s\\n' \"${COMPREPLY[@]}\"";
    let arguments: Vec<&str> = ["-c", script, "bash"].iter().chain(line).copied().collect();
    let ended = Finished::from(program(place, "bash", &arguments).output().unwrap()).expect(0);
    ended
        .out()
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_list_of_jobs_fits_the_terminal_and_is_not_cut_in_a_pipe() {
    let place = Place::new();
    let long = format!("exit 3 # {}", "x".repeat(200));
    place.shell(&long).expect(3);
    place.shell("true").expect(0);
    let id = place.buildpool(&["jobs", "--json"]).expect(0).json()[1]["job_id"].as_str().unwrap().to_owned();
    let mut terminal = Terminal::start(place.command(["jobs"]), 110, 24);
    assert!(terminal.ended().success());
    terminal.wait_for("xxx…");
    let screen = terminal.screen();
    let rows: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("JOB ")).collect();
    assert_eq!(rows.len(), 3, "a row wraps: {screen}");
    let digits = id.replace('-', "");
    assert!(rows[2].starts_with(&digits[..12]) && !screen.contains(&id), "{screen}");
    assert!(rows[2].contains("failed (3)") && rows[2].contains("s ago"), "{screen}");
    assert!(terminal.written().contains("\x1b[31mfailed (3)\x1b[0m"), "{}", terminal.written());
    let mut plain = place.command(["jobs"]);
    plain.env("NO_COLOR", "1");
    let mut plain = Terminal::start(plain, 110, 24);
    assert!(plain.ended().success());
    plain.wait_for("xxx…");
    assert!(!plain.written().contains('\x1b'), "{}", plain.written());
    let piped = place.buildpool(&["jobs"]).expect(0).out();
    assert!(
        piped.contains(&digits[..12])
            && !piped.contains(&id)
            && piped.contains(&long)
            && !piped.contains('\x1b'),
        "{piped}"
    );
    let forced = place.buildpool(&["jobs", "--color", "always"]).expect(0).out();
    assert!(forced.contains("\x1b[31mfailed (3)\x1b[0m"), "{forced}");
    // The short id selects the job.
    let shown = rows[2].split_whitespace().next().unwrap();
    assert_eq!(place.buildpool(&["job", shown, "--json"]).expect(0).json()["job_id"], id);
}

#[test]
fn run_shows_a_short_output_once_and_its_progress_on_one_line() {
    let place = Place::new();
    let text = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo oh no >&2; exit 4";
    let mut terminal = Terminal::start(place.command(["run", "--", "sh", "-c", text]), 60, 24);
    terminal.wait_for("buildpool: running on ");
    terminal.wait_until("the last line is named", |screen| screen.matches("begun").count() == 2);
    let lines: Vec<String> = terminal.screen().lines().map(str::to_owned).collect();
    assert!(lines.last().unwrap().starts_with("buildpool: running on "), "{lines:?}");
    std::fs::write(place.file("go"), "").unwrap();
    assert_eq!(terminal.ended().code(), Some(4));
    terminal.wait_for("FAILED: exit code 4");
    assert!(terminal.written().contains("\x1b[31mFAILED\x1b[0m"), "{}", terminal.written());
    let screen = terminal.screen();
    assert_eq!((screen.matches("\nbegun\n").count(), screen.matches("oh no\n").count()), (1, 1), "{screen}");
    assert!(!screen.contains("buildpool: running on"), "{screen}");
}

#[test]
fn a_job_colours_its_output_and_does_not_control_the_terminal() {
    let place = Place::new();
    let output = r"\033[31mred\033[0m \033]0;title\007 \342\200\256turned\n";
    let shown = "\u{1b}[31mred\u{1b}[0m \\x1b]0;title\\x07 \\u{202e}turned";
    let mut run = Terminal::start(place.command(["run", "--", "printf", output]), 100, 24);
    assert!(run.ended().success());
    run.wait_for("turned");
    assert!(run.written().contains(shown), "{:?}", run.written());
    let id = place.buildpool(&["jobs", "--json"]).expect(0).json()[0]["job_id"].as_str().unwrap().to_owned();
    for words in [&["logs", &id][..], &["logs", &id, "--tail", "1"]] {
        let mut logs = Terminal::start(place.command(words), 100, 24);
        assert!(logs.ended().success());
        logs.wait_for("turned");
        assert!(logs.written().contains(shown), "{words:?}: {:?}", logs.written());
        let raw = place.buildpool(words).expect(0).out();
        assert_eq!(raw, "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{202e}turned\n", "{words:?}");
    }
}

#[test]
fn a_missing_separator_is_named() {
    let place = Place::new();
    let refused = place.buildpool(&["run", "ls", "-l"]).expect(125);
    assert!(refused.err().contains("tip: the command follows `--`: buildpool run -- ls -l"), "{refused}");
    assert!(place.local_pool_pid().is_none());
}

#[test]
fn a_shell_completes_subcommands_options_jobs_and_workers() {
    let place = Place::new();
    // Without a pool there are no names, and none starts.
    assert_eq!(completed(&place, &["buildpool", "cancel", ""]).len(), 0);
    assert!(place.local_pool_pid().is_none());
    assert_eq!(completed(&place, &["buildpool", "canc"]), ["cancel"]);
    assert_eq!(completed(&place, &["buildpool", "jobs", "--state", "r"]), ["running"]);
    assert_eq!(completed(&place, &["buildpool", "logs", "--stream", ""]).len(), 4);
    place.shell("true").expect(0);
    let id = place.buildpool(&["run", "--detach", "--", "sleep", "600"]).expect(0).out();
    let short = &id.replace('-', "")[..12];
    assert_eq!(completed(&place, &["buildpool", "cancel", ""]), [short]);
    assert_eq!(completed(&place, &["buildpool", "logs", ""]).len(), 2);
    assert_eq!(completed(&place, &["buildpool", "logs", &short[..11]]).concat(), short);
    let workers = place.buildpool(&["workers", "--json"]).expect(0).json();
    assert_eq!(completed(&place, &["buildpool", "drain", ""]), [workers[0]["name"].as_str().unwrap()]);
    // An unreachable coordinator costs no more than the time limit.
    let other = ["buildpool", "drain", "--coordinator", "ws://127.0.0.1:1", ""];
    assert_eq!(completed(&place, &other).len(), 0);
}

#[test]
fn each_shell_gets_a_script_and_each_subcommand_a_page() {
    let place = Place::new();
    for (shell, expected) in [
        ("bash", "-F _clap_complete_buildpool buildpool"),
        ("zsh", "#compdef buildpool"),
        ("fish", "complete --keep-order"),
    ] {
        let script = place.buildpool(&["completions", shell]).expect(0).out();
        assert!(script.contains(expected) && script.contains("BUILDPOOL_COMPLETE"), "{script}");
        let path = place.file(shell);
        std::fs::write(&path, script).unwrap();
        match program(&place, shell, &["-n", path.to_str().unwrap()]).output() {
            Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
            Err(_) => eprintln!("SKIPPED: {shell} is not on this machine"),
        }
    }
    place.buildpool(&["man", "pages"]).expect(0);
    for page in ["buildpool", "buildpool-run", "buildpool-token-create"] {
        let text = std::fs::read_to_string(place.file(format!("pages/{page}.1"))).unwrap();
        assert!(text.contains(&format!(".TH {page} 1")), "{text}");
    }
    let run = std::fs::read_to_string(place.file("pages/buildpool-run.1")).unwrap();
    assert!(run.contains("Examples:") && !run.contains("as-user"), "{run}");
    let mut names = std::fs::read_dir(place.file("pages")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().contains("keeper")), "a hidden subcommand has a page");
}
