//! Tests of both daemons as services under a real systemd, with the shipped units.

use buildpool_tests::{Finished, Machine, binary, wait_until};
use std::path::Path;
use std::process::Command;

const SERVICES: [&str; 2] = ["buildpool-coordinator", "buildpool-worker"];

/// Creates both users like docs/operating.md.
const USERS: &str = "
useradd --system --user-group --home-dir /var/lib/buildpool --shell /usr/sbin/nologin buildpool
useradd --system --user-group --create-home --home-dir /var/lib/buildpool-worker-home --shell /usr/sbin/nologin buildpool-worker";

/// Installs and starts both services on one machine. `config.toml` lets root submit jobs.
fn start_services(machine: &Machine) {
    machine.sh("buildpool install coordinator --system --write").expect(0);
    machine.sh("systemctl daemon-reload; systemctl enable --now buildpool-coordinator").expect(0);
    let token = |role: &str| {
        let create = format!("buildpool token create --role {role} --name {role}");
        machine.sh(&create).expect(0).out().trim().to_owned()
    };
    let join = format!("wss://127.0.0.1:7420#{}\n", token("worker"));
    machine.sh_with_input("buildpool install worker --system --write --join -", &join).expect(0);
    machine.sh("systemctl daemon-reload; systemctl enable --now buildpool-worker").expect(0);
    let settings = format!("coordinator = \"wss://127.0.0.1:7420\"\ntoken = \"{}\"\n", token("submit"));
    machine
        .sh_with_input("mkdir -p .config/buildpool; cat >.config/buildpool/config.toml", &settings)
        .expect(0);
    wait_until("the worker has joined", || machine.sh("buildpool workers").out().contains("ready"));
}

/// Runs a job with a snapshot, an artifact, and a log long enough for a digest in the background.
fn run_a_job(machine: &Machine) {
    machine.sh("git init -q repository; echo 1 >repository/file").expect(0);
    let job = "cd repository; buildpool run --artifact out -- sh -c 'id -un; cat file; seq 1000000 >&2; echo made >out'";
    let ran: Finished = machine.sh(job).expect(0);
    assert_eq!(ran.out(), "buildpool-worker\n1\n");
    machine.sh("test $(buildpool jobs --json | wc -c) -gt 2").expect(0);
    machine.sh("buildpool backup /root/backup").expect(0);
}

/// Checks that commands on the coordinator's machine find its configuration without a flag, unless
/// a pool is named.
fn assert_the_configuration_is_found(machine: &Machine) {
    machine.sh("rm -r .config").expect(0);
    for command in ["token list", "audit", "doctor", "doctor --full"] {
        let found = machine.sh(&format!("buildpool {command}")).expect(0);
        assert!(!found.out().contains("local pool") && !found.out().is_empty(), "{command}: {found}");
    }
    let listed = machine.sh("buildpool token list --json --config /etc/buildpool/coordinator.toml").expect(0);
    assert_eq!(listed.out(), machine.sh("buildpool token list --json").expect(0).out());
    let named = machine.sh("BUILDPOOL_URL=local buildpool token list").expect(125);
    assert!(named.err().contains("local pool does not run"), "{named}");
}

fn assert_nothing_was_restarted(machine: &Machine) {
    for unit in SERVICES {
        let state = ["ActiveState", "NRestarts"].map(|property| machine.show(unit, property));
        assert_eq!(state, ["active", "0"], "{unit}");
    }
}

#[test]
fn both_services_run_jobs_as_install_writes_them() {
    let Some(machine) = Machine::boot("pool") else { return };
    machine.bring_program();
    machine.sh(USERS).expect(0);
    machine.sh("install -m 755 buildpool /usr/local/bin/buildpool").expect(0);
    start_services(&machine);
    run_a_job(&machine);
    assert_nothing_was_restarted(&machine);
    // A refused system call is an error for its caller and does not kill it.
    let refused = machine.sh("buildpool run --no-snapshot -- date --set=@0");
    assert_eq!(refused.code(), 1, "the job was not killed by SIGSYS: {refused}");
    for unit in SERVICES {
        let properties = ["StartLimitIntervalUSec", "OOMPolicy", "SystemCallErrorNumber"];
        assert_eq!(properties.map(|property| machine.show(unit, property)), ["0", "continue", "1"], "{unit}");
    }
    assert_the_configuration_is_found(&machine);
}

#[test]
fn both_services_run_jobs_as_the_debian_package_installs_them() {
    let Some(machine) = Machine::boot("pool") else { return };
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/debian/build");
    let package = Command::new(build).arg(binary()).arg(machine.path("/root")).output().expect("it runs");
    assert!(package.status.success(), "{}", String::from_utf8_lossy(&package.stderr));
    machine.sh("dpkg --install --force-depends ./buildpool_*.deb").expect(0);
    start_services(&machine);
    for unit in SERVICES {
        let fragment = machine.show(unit, "FragmentPath");
        assert!(fragment.starts_with("/lib/") || fragment.starts_with("/usr/lib/"), "{unit}: {fragment}");
    }
    run_a_job(&machine);
    // An upgrade under running services.
    let before = SERVICES.map(|unit| machine.show(unit, "ExecMainPID"));
    machine.sh("dpkg --install --force-depends ./buildpool_*.deb").expect(0);
    wait_until("both services run again", || {
        let now = SERVICES.map(|unit| machine.show(unit, "ExecMainPID"));
        now.iter().zip(&before).all(|(now, before)| now != before && now != "0")
    });
    wait_until("the worker has joined again", || machine.sh("buildpool workers").out().contains("ready"));
    assert_nothing_was_restarted(&machine);
}

/// Returns the shell blocks of a section of docs/operating.md.
fn blocks_of(section: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let (_, rest) = guide.split_once(&format!("\n## {section}\n")).expect(section);
    let section = rest.split("\n## ").next().expect("a text");
    section
        .split("```sh\n")
        .skip(1)
        .map(|part| part.split("```").next().expect("a text").to_owned())
        .collect()
}

/// Runs exactly the commands of the page. Only the names of the machines and the printed tokens are
/// replaced.
#[test]
fn the_guide_leads_from_its_first_line_to_a_finished_job() {
    let Some(pool) = Machine::boot("pool") else { return };
    let (worker, desk) = (pool.boot_beside("linux-1"), pool.boot_beside("desk"));
    pool.sh("ip address add 192.0.2.10/32 dev lo").expect(0);
    for machine in [&pool, &worker, &desk] {
        machine.bring_program();
        machine.sh("echo 192.0.2.10 pool.example.com >>/etc/hosts").expect(0);
    }
    let blocks = blocks_of("A pool on three machines");
    let [coordinating, working, submitting] = blocks.as_slice() else { panic!("{blocks:?}") };
    let coordinated = pool.sh(coordinating).expect(0);
    let tokens: Vec<String> =
        coordinated.out().lines().filter(|line| line.starts_with("bp_")).map(str::to_owned).collect();
    assert_eq!(tokens.len(), 3, "{coordinated}");
    let printed = coordinated.err();
    let join = printed.split_whitespace().find(|part| part.contains("#bp_")).expect("a join text");
    assert_eq!(join, format!("wss://pool.example.com:7420#{}", tokens[1]));
    worker.sh_with_input(working, &format!("{join}\n")).expect(0);
    desk.sh("install -m 755 buildpool /usr/local/bin/buildpool; git init -q repository").expect(0);
    // `systemctl` does not wait until the worker is connected.
    let as_ada = format!("BUILDPOOL_URL=wss://pool.example.com:7420 BUILDPOOL_TOKEN={}", tokens[2]);
    wait_until("the worker has joined", || {
        desk.sh(&format!("{as_ada} buildpool workers")).out().contains("linux-1")
    });
    let submitting =
        format!("cd repository; {}", submitting.replace("TOKEN=TOKEN", &format!("TOKEN={}", tokens[2])));
    let ran = desk.sh(&submitting).expect(0);
    assert!(ran.out().contains("linux-1") && ran.out().contains("\ngit version "), "{ran}");
    assert!(!ran.out().contains("failed "), "{ran}");
    assert!(!worker.path("/root/.bash_history").exists());

    let [certificate] = &blocks_of("The certificate")[..] else { panic!("one block") };
    let shown = pool.sh(certificate).expect(0);
    assert!(shown.out().starts_with("ok\n"), "{shown}");
    pool.sh("buildpool certificate show >new.pem").expect(0);
    let fetch = |file: &str| {
        pool.sh(&format!("curl --silent --fail --cacert {file} https://pool.example.com:7420/healthz")).code()
    };
    wait_until("the new certificate is in use", || fetch("new.pem") == 0);
    assert_eq!(fetch("buildpool-ca.pem"), 0, "the file from before the rotation is still good");
    // All tokens are older than the certificate.
    worker.sh("systemctl restart buildpool-worker").expect(0);
    wait_until("the worker has joined again", || desk.sh(&submitting).code() == 0);
    for machine in [&pool, &worker] {
        let failed = machine.sh("systemctl list-units --failed --no-legend").out();
        assert!(!failed.contains("buildpool"), "{failed}");
    }
}

/// systemd's own limit is five starts within ten seconds.
#[test]
fn a_service_that_fails_to_start_is_started_again_until_its_cause_is_gone() {
    let Some(machine) = Machine::boot("pool") else { return };
    machine.bring_program();
    machine.sh(USERS).expect(0);
    machine.sh("install -m 755 buildpool /usr/local/bin/buildpool").expect(0);
    machine.sh("mkdir /etc/buildpool; echo 'liste = 1' >/etc/buildpool/coordinator.toml").expect(0);
    machine.sh("buildpool install coordinator --system --write").expect(0);
    machine.sh("systemctl daemon-reload; systemctl enable --now buildpool-coordinator").expect(0);
    let restarts = || machine.show(SERVICES[0], "NRestarts").parse::<u32>().expect("a number");
    wait_until("more failures than systemd allows by itself", || restarts() > 6);
    machine.sh("echo 'listen = \"127.0.0.1:7420\"' >/etc/buildpool/coordinator.toml").expect(0);
    wait_until("it listens", || machine.sh("test -s /var/lib/buildpool/url").code() == 0);
}
