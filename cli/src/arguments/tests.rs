use super::{Arguments, Subcommand, separated};
use clap::{Command, CommandFactory, Parser};

#[test]
fn the_definitions_agree_with_each_other() {
    Arguments::command().debug_assert();
}

#[test]
fn the_help_of_a_subcommand_begins_with_its_own_sentence() {
    let (listed, mut built) = (Arguments::command(), Arguments::command());
    built.build();
    let sentence = |command: &Command| command.get_about().map(ToString::to_string);
    for subcommand in listed.get_subcommands() {
        let name = subcommand.get_name();
        let of_help = sentence(built.find_subcommand(name).unwrap());
        assert_eq!(
            of_help,
            sentence(subcommand),
            "{name}: write the comments of its flattened options with `//`"
        );
    }
}

#[test]
fn a_command_keeps_every_argument_of_its_own() {
    let line = [
        "buildpool",
        "run",
        "--priority",
        "-3",
        "--label",
        "os=macos",
        "--",
        "cargo",
        "test",
        "--",
        "--nocapture",
        "-p",
    ];
    let Subcommand::Run(run) = Arguments::try_parse_from(line).unwrap().subcommand else { panic!("no run") };
    assert_eq!(run.command, ["cargo", "test", "--", "--nocapture", "-p"]);
    assert_eq!(run.priority, -3);
    assert_eq!(run.labels[0].to_string(), "os=macos");
}

#[test]
fn bad_values_are_refused_with_what_is_valid() {
    for (line, expected) in [
        (&["run", "--resource", "simulator", "--", "true"][..], "NAME=N"),
        (&["run", "--resource", "simulator=0", "--", "true"], "N at least 1"),
        (&["jobs", "--limit", "0"], "'--limit <N>': valid are whole numbers from 1 to 4294967295"),
        (&["run", "--env", "=x", "--", "true"], "NAME=VALUE"),
        (&["run", "--env", "2a=x", "--", "true"], "does not begin with a digit and has no `=`"),
        (&["run", "--secret", "A B", "--", "true"], "valid is one that does not begin with a digit"),
        (
            &["run", "--priority", "foo", "--", "true"],
            "valid are whole numbers from -2147483648 to 2147483647",
        ),
        (&["run", "--timeout", "soon", "--", "true"], "valid are 90s"),
        (&["run", "--on-lost", "cry", "--", "true"], "rerun, wait, fail"),
        (&["run", "--verbosity", "loud", "--", "true"], "minimal, normal (standard), full (verbose)"),
        (&["run", "--label", "a b", "--", "true"], "letters, digits"),
        (&["run"], "COMMAND"),
        (&["logs", "1", "--stream", "x"], "interleaved"),
        (&["jobs", "--state", "x"], "queued, preparing, running, sealing, done"),
        (&["digest", "--exit-code", "256"], "valid are whole numbers from -64 to 255"),
        (&["digest", "--exit-code", "1", "--signal", "SIGSEGV"], "cannot be used with"),
        (&["token", "create", "--role", "king", "--name", "n"], "worker, submit, read, admin"),
        (&["token", "create", "--role", "worker", "--name", "n", "--expires", "0s"], "is zero"),
        (&["token", "create", "--role", "worker"], "--name <NAME>"),
        (&["token", "create", "--role", "worker", "--count", "2"], "--prefix <TEXT>"),
        (
            &["token", "create", "--role", "worker", "--count", "0", "--prefix", "m"],
            "valid are whole numbers from 1 to 1000",
        ),
        (
            &["token", "create", "--role", "worker", "--name", "n", "--count", "2", "--prefix", "m"],
            "cannot be used with",
        ),
        (&["token", "rotate", "n", "--expires", "0"], "is zero"),
        (&["token", "list", "--data-dir", "d", "--coordinator", "ws://h"], "cannot be used with"),
        (
            &["token", "create", "--role", "worker", "--name", "n", "--expires", "99999999d"],
            "'--expires <DURATION>': `99999999d` is too long; valid is up to 36500d",
        ),
        (&["mcp", "--http", "127.0.0.1:0", "--project", "x"], "`x` has no directory; valid is NAME=DIR"),
        (&["mcp", "--http", "x"], "'--http <ADDRESS>': valid are an IP address and a port"),
        (&["coordinator", "--listen", "localhost:7420"], "'--listen <ADDRESS>': valid are an IP address"),
        // After a space, a value that begins with a hyphen is still a value.
        (
            &["run", "--timeout", "-1s", "--", "true"],
            "'--timeout <DURATION>': `-1s` is not a duration; valid are",
        ),
        (
            &["run", "--idle-timeout", "-1s", "--", "true"],
            "'--idle-timeout <DURATION>': `-1s` is not a duration",
        ),
        (&["run", "--retries", "-1", "--", "true"], "'--retries <N>': valid are whole numbers from 0 to 100"),
        (&["run", "--max-snapshot-mb", "-1", "--", "true"], "valid are whole numbers from 0"),
        (&["logs", "1", "--tail", "-1"], "'--tail <N>': valid are whole numbers from 0"),
        (&["logs", "1", "--attempt", "0"], "'--attempt <N>': valid are whole numbers from 1"),
        (&["logs", "1", "--attempt", "-1"], "'--attempt <N>': valid are whole numbers from 1"),
        (&["events", "--after", "x"], "'--after <ID>': valid are whole numbers from 0"),
        (&["jobs", "--limit", "-1"], "'--limit <N>': valid are whole numbers from 1"),
        (&["audit", "--limit", "-1"], "'--limit <N>': valid are whole numbers from 1"),
        (&["worker", "--slots", "-1"], "'--slots <N>': -1 is not in 0.."),
        (&["drain", "w", "--deadline", "-1s"], "'--deadline <DURATION>': `-1s` is not a duration"),
        (&["job", "1", "--wait", "-1s"], "'--wait <DURATION>': `-1s` is not a duration"),
        (&["token", "rotate", "n", "--grace", "-1h"], "'--grace <DURATION>': `-1h` is not a duration"),
    ] {
        let line = ["buildpool"].iter().chain(line);
        let error = Arguments::try_parse_from(line.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{:?}: {error}", line.collect::<Vec<_>>());
    }
}

#[test]
fn run_without_a_separator_suggests_it() {
    for (line, expected) in [
        (&["run", "ls", "-l"][..], Some("buildpool run -- ls -l")),
        (&["run", "--label", "a=b", "sh", "-c", "a b"], Some("buildpool run … -- sh -c 'a b'")),
        (&["run", "--labell", "x", "ls"], None),
        (&["run", "ls", "--", "x"], None),
        (&["jobs", "ls"], None),
    ] {
        let error = Arguments::try_parse_from(["buildpool"].iter().chain(line)).unwrap_err();
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(separated(&error, &words).as_deref(), expected, "{line:?}");
    }
}

#[test]
fn every_subcommand_has_examples_that_are_valid() {
    let program = Arguments::command();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in [&program].into_iter().chain(visible) {
        let name = command.get_name();
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut lines = 0;
        for line in text.lines().filter_map(|line| line.strip_prefix("  buildpool")) {
            let line = line.split(['<', '>']).next().unwrap_or_default();
            // Quotes are in commands of `sh -c` only.
            let words = ["buildpool"].into_iter().chain(line.split_whitespace());
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{name}: {line}: {:?}", parsed.err());
            lines += 1;
        }
        assert!(lines > 0, "{name} has no examples");
    }
}
