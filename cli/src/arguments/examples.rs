//! Examples at the end of the help texts. A test parses each of their commands.

pub(super) const PROGRAM: &str = "\
Examples:
  # Run the tests of the current directory
  buildpool run -- cargo test
  # Watch the pool, and list its newest jobs
  buildpool top
  buildpool jobs
  # Print the output of a job, as it is written
  buildpool logs -f 0193a1b2c3d4

Without --coordinator, commands use this user's local pool, which starts on the first job.";

pub(super) const RUN: &str = "\
Examples:
  # Run the tests with the working tree as it is
  buildpool run -- cargo test
  # On a Mac with Xcode 26, for at most ten minutes
  buildpool run --label os=macos --label xcode=26 --timeout 10m -- xcodebuild test -scheme App
  # A pipe needs a shell
  buildpool run -- sh -c 'make 2>&1 | tee build.log'
  # On two systems, as one build with one answer
  buildpool run --on os=linux os=macos -- swift test
  # In the background: print the id, wait for the end later
  buildpool run --detach -- make all

The exit code is that of the command; 124 after a timeout, 130 after a cancel, 125 if the pool failed.";

pub(super) const DIGEST: &str = "\
Examples:
  # Find the failures in a log
  buildpool digest --exit-code 1 < build.log
  # With the counts of a test report
  buildpool digest --report junit.xml --json < test.log";

pub(super) const JOBS: &str = "\
Examples:
  # The newest jobs
  buildpool jobs
  # The failed jobs of one submitter
  buildpool jobs --verdict failed --submitter ada
  # The running jobs, for a script
  buildpool jobs --state running --json";

pub(super) const JOB: &str = "\
Examples:
  buildpool job 0193a1b2c3d4
  # More detail, and the reason for each part of the answer
  buildpool job --verbosity normal 0193a1b2c3d4
  buildpool job --explain 0193a1b2c3d4";

pub(super) const WAIT: &str = "\
Examples:
  buildpool wait 0193a1b2c3d4
  # Two jobs, for at most an hour
  buildpool wait --timeout 1h 0193a1b2c3d4 0193a1b2c3d5";

pub(super) const LOGS: &str = "\
Examples:
  # Follow a running job
  buildpool logs -f 0193a1b2c3d4
  # The last lines of its errors
  buildpool logs --stream stderr --tail 20 0193a1b2c3d4";

pub(super) const ARTIFACTS: &str = "\
Examples:
  buildpool artifacts 0193a1b2c3d4
  # Fetch them
  buildpool artifacts 0193a1b2c3d4 --output ./out";

pub(super) const CANCEL: &str = "\
Examples:
  buildpool cancel 0193a1b2c3d4
  buildpool cancel 0193a1b2c3d4 --reason duplicate";

pub(super) const RETRY: &str = "\
Examples:
  buildpool retry 0193a1b2c3d4
  # To find out whether the machine is at fault
  buildpool retry 0193a1b2c3d4 --worker mini-7";

pub(super) const WORKERS: &str = "\
Examples:
  buildpool workers
  # Approve a new worker; free the name of one that will not return
  buildpool workers approve mini-7
  buildpool workers forget mini-3
  # Upgrade all Macs with the files of a release in the directory release
  buildpool workers upgrade --to 0.2.0 --release release --label os=macos";

pub(super) const DRAIN: &str = "\
Examples:
  # Before maintenance: wait for its jobs, for at most an hour
  buildpool drain mini-3 --deadline 1h
  buildpool resume mini-3";

pub(super) const RESUME: &str = "\
Examples:
  buildpool resume mini-3";

pub(super) const TOKEN: &str = "\
Examples:
  # For a new worker, and for a person or an agent
  buildpool token create --role worker --name mini-7
  buildpool token create --role submit --name ada --expires 90d
  buildpool token list
  buildpool token revoke ada";

pub(super) const AUDIT: &str = "\
Examples:
  buildpool audit --limit 100";

pub(super) const BACKUP: &str = "\
Examples:
  buildpool backup /var/backups/buildpool";

pub(super) const RESTORE: &str = "\
Examples:
  buildpool restore --data-dir /var/lib/buildpool /var/backups/buildpool";

pub(super) const CERTIFICATE: &str = "\
Examples:
  buildpool certificate show
  buildpool certificate rotate";

pub(super) const COORDINATOR: &str = "\
Examples:
  buildpool coordinator --config /etc/buildpool/coordinator.toml
  # For a trial on this machine
  buildpool coordinator --listen 127.0.0.1:7420 --data-dir ./pool";

pub(super) const WORKER: &str = "\
Examples:
  buildpool worker --config /etc/buildpool/worker.toml
  # With labels that jobs select, and two slots
  buildpool worker --coordinator wss://pool.example.com:7420 --label team=ios --slots 2";

pub(super) const MCP: &str = "\
Examples:
  # Over standard input and output, as MCP clients start it
  buildpool mcp
  # Over HTTP at http://127.0.0.1:8500/mcp
  buildpool mcp --http 127.0.0.1:8500";

pub(super) const DOCTOR: &str = "\
Examples:
  buildpool doctor
  # This machine as a worker
  buildpool doctor --worker /etc/buildpool/worker.toml";

pub(super) const INSTALL: &str = "\
Examples:
  buildpool install mcp-client claude-code --write
  buildpool install coordinator --system --write
  buildpool install worker --write --join -";

pub(super) const TESTS: &str = "\
Examples:
  buildpool tests --failing
  # Tests that passed and failed with the same files
  buildpool tests --flaky --project github.com/acme/app --json";

pub(super) const EVENTS: &str = "\
Examples:
  buildpool events
  # Each line is one event; --after continues after an event that was processed
  buildpool events --json --after 4711";

pub(super) const TOP: &str = "\
Examples:
  buildpool top
  buildpool top --coordinator wss://pool.example.com:7420

Keys: arrows or j k move, Tab changes the list, Enter opens the log, / filters, c cancels the job,
d drains or resumes the worker, ? lists the keys, q quits.";

pub(super) const PAGE: &str = "\
Examples:
  buildpool page
  buildpool page --no-open
  buildpool page --coordinator wss://pool.example.com:7420

The printed address signs in once, within a minute. For a pool with a self-made certificate, the page is
served at a port of this machine until Ctrl-C.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  # For new shells of this user
  buildpool completions bash > ~/.local/share/bash-completion/completions/buildpool
  buildpool completions fish > ~/.config/fish/completions/buildpool.fish
  # In ~/.zshrc, after compinit: source <(buildpool completions zsh)";

pub(super) const MAN: &str = "\
Examples:
  buildpool man ~/.local/share/man/man1";
