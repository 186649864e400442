//! systemd units and launchd property lists of the two daemons. This module only formats text; it
//! does no I/O.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Coordinator,
    Worker,
}

/// Whether the machine or a user's session starts the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    System,
    User,
}

/// A daemon that is started with the machine or the session.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) part: Part,
    pub(crate) scope: Scope,
    /// Path of the `buildpool` program.
    pub(crate) program: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// Whether the daemon finds the data directory by its configuration or by its default.
    pub(crate) is_data_known: bool,
    /// User that runs the daemon, if the machine starts it.
    pub(crate) user: String,
}

impl Part {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
        }
    }
}

/// The packaged unit, for the machine: as restricted as the daemon's work allows.
const COORDINATOR_UNIT: &str = include_str!("../../deploy/systemd/buildpool-coordinator.service");
const WORKER_UNIT: &str = include_str!("../../deploy/systemd/buildpool-worker.service");

impl Service {
    /// Returns the path of the systemd unit.
    pub(crate) fn unit_path(&self, home: &Path) -> PathBuf {
        let name = format!("buildpool-{}.service", self.part.name());
        match self.scope {
            Scope::System => Path::new("/etc/systemd/system").join(name),
            Scope::User => home.join(".config/systemd/user").join(name),
        }
    }

    /// Returns the path of the unit from a distribution package.
    pub(crate) fn packaged_unit_path(&self) -> Option<PathBuf> {
        let directory = Path::new("/usr/lib/systemd/system");
        let name = format!("buildpool-{}.service", self.part.name());
        (self.scope == Scope::System).then(|| directory.join(name))
    }

    /// Returns the path of the launchd property list.
    pub(crate) fn plist_path(&self, home: &Path) -> PathBuf {
        let name = format!("{}.plist", self.label());
        match self.scope {
            Scope::System => Path::new("/Library/LaunchDaemons").join(name),
            Scope::User => home.join("Library/LaunchAgents").join(name),
        }
    }

    /// Returns the home directory for the user of a system worker. It is separate from the worker's
    /// data directory, because jobs use it as their home.
    pub(crate) fn home(&self) -> PathBuf {
        Path::new("/var/lib").join(format!("{}-home", self.user))
    }

    fn label(&self) -> String {
        format!("dev.buildpool.{}", self.part.name())
    }

    /// Returns the daemon's arguments. They contain `--data-dir` only if the daemon can't find the
    /// directory otherwise, because the flag would override the configuration.
    fn arguments(&self, is_data_known: bool) -> Vec<String> {
        let mut words = vec![
            self.program.display().to_string(),
            self.part.name().to_owned(),
            "--config".to_owned(),
            self.config.display().to_string(),
        ];
        if !is_data_known {
            words.extend(["--data-dir".to_owned(), self.data_dir.display().to_string()]);
        }
        words
    }

    /// Returns the systemd unit.
    pub(crate) fn unit(&self) -> String {
        // systemd passes the directory that it creates to the daemon (`STATE_DIRECTORY`).
        let is_made = self.scope == Scope::System && self.is_data_packaged();
        let words = self.arguments(self.is_data_known || is_made);
        let start = words.iter().map(|word| systemd_word(word)).collect::<Vec<_>>().join(" ");
        let mut out = String::new();
        for line in self.packaged().lines() {
            let key = line.split_once('=').map_or(line, |(key, _)| key);
            match (key, self.scope) {
                ("ExecStart", _) => out.push_str(&format!("ExecStart={start}")),
                ("User", Scope::System) => out.push_str(&format!("User={}", self.user)),
                ("StateDirectory", Scope::System) if !self.is_data_packaged() => {
                    out.push_str(&format!("ReadWritePaths={}", systemd_path(&self.data_dir)));
                }
                ("StateDirectoryMode", Scope::System) if !self.is_data_packaged() => continue,
                ("WantedBy", Scope::User) => out.push_str("WantedBy=default.target"),
                (_, Scope::User) if !IN_A_SESSION.contains(&key) && !line.starts_with(['[', '#']) => continue,
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        out
    }

    /// Returns true if systemd creates the data directory for the packaged unit.
    fn is_data_packaged(&self) -> bool {
        let value = |key: &str| self.packaged().lines().find_map(|line| line.strip_prefix(key));
        let name = value("StateDirectory=").unwrap_or_default();
        self.data_dir == Path::new("/var/lib").join(name)
    }

    const fn packaged(&self) -> &'static str {
        match self.part {
            Part::Coordinator => COORDINATOR_UNIT,
            Part::Worker => WORKER_UNIT,
        }
    }

    /// Returns a path that the daemon needs but the system unit hides, with the hidden directory.
    pub(crate) fn hidden_by_unit(&self) -> Option<(&Path, &'static str)> {
        if self.scope == Scope::User {
            return None;
        }
        let is_set = |line: &str| self.packaged().lines().any(|other| other == line);
        // systemd.exec(5), `ProtectHome=` and `PrivateTmp=`.
        let hidden = [
            ("ProtectHome=yes", &["/home", "/root", "/run/user"][..]),
            ("PrivateTmp=yes", &["/tmp", "/var/tmp"][..]),
        ];
        let hidden = hidden.into_iter().filter(|(line, _)| is_set(line)).flat_map(|(_, paths)| paths);
        let needed = [&self.program, &self.config, &self.data_dir];
        let mut pairs = hidden.flat_map(|top| needed.map(|path| (path.as_path(), *top)));
        pairs.find(|(path, top)| path.starts_with(top))
    }

    /// Returns the property list.
    pub(crate) fn plist(&self) -> String {
        let log = self.data_dir.join("log.txt");
        let mut list = List::default();
        list.string("Label", &self.label());
        list.array("ProgramArguments", &self.arguments(self.is_data_known));
        match (self.part, self.scope) {
            // Simulators, keychains and code signing need the GUI session.
            (Part::Worker, Scope::User) => {
                list.string("LimitLoadToSessionType", "Aqua");
                list.string("ProcessType", "Interactive");
            }
            (Part::Coordinator, Scope::User) => list.string("ProcessType", "Interactive"),
            (_, Scope::System) => list.string("UserName", &self.user),
        }
        list.boolean("KeepAlive", true);
        list.boolean("RunAtLoad", true);
        if self.part == Part::Worker {
            // Keepers outlive the daemon.
            list.boolean("AbandonProcessGroup", true);
        }
        list.integer("ExitTimeOut", 60);
        list.integer("Umask", 0o077);
        list.nested("SoftResourceLimits", "NumberOfFiles", 65_536);
        for key in ["StandardOutPath", "StandardErrorPath"] {
            list.string(key, &log.display().to_string());
        }
        list.done()
    }

    /// Returns the commands that start the service now and at every start of the machine or
    /// session.
    pub(crate) fn start_commands(&self, launchd: bool, home: &Path, uid: u32) -> Vec<String> {
        let unit = format!("buildpool-{}", self.part.name());
        match (launchd, self.scope) {
            (false, Scope::System) => {
                vec!["systemctl daemon-reload".to_owned(), format!("systemctl enable --now {unit}")]
            }
            (false, Scope::User) => vec![
                "systemctl --user daemon-reload".to_owned(),
                format!("systemctl --user enable --now {unit}"),
                "loginctl enable-linger".to_owned(),
            ],
            (true, scope) => {
                let domain = match scope {
                    Scope::System => "system".to_owned(),
                    Scope::User => format!("gui/{uid}"),
                };
                // `bootstrap` does not reload a loaded service, so unload it first. An error of
                // `bootout` means only that it was not loaded.
                vec![
                    format!("launchctl bootout {domain}/{} 2>/dev/null", self.label()),
                    format!("launchctl bootstrap {domain} '{}'", self.plist_path(home).display()),
                ]
            }
        }
    }
}

/// Keys of the packaged units that also work in a user's session. The others need privileges that a
/// session lacks.
const IN_A_SESSION: &[&str] = &[
    "",
    "Description",
    "Documentation",
    "Type",
    "StartLimitIntervalSec",
    "Restart",
    "RestartSec",
    "RestartSteps",
    "RestartMaxDelaySec",
    "OOMPolicy",
    "RestartPreventExitStatus",
    "KillMode",
    "TimeoutStopSec",
    "UMask",
    "NoNewPrivileges",
];

/// Quotes a word of `ExecStart` (systemd.service(5), COMMAND LINES): in quotes if it contains
/// blanks, with `%` and `$` doubled.
fn systemd_word(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    if escaped.contains(char::is_whitespace) { format!("\"{escaped}\"") } else { escaped }
}

/// Quotes a path in a list of paths (systemd.exec(5), `ReadWritePaths=`): as a word, but without
/// variables.
fn systemd_path(path: &Path) -> String {
    systemd_word(&path.display().to_string()).replace("$$", "$")
}

/// Builder of a property list.
#[derive(Default)]
struct List(String);

impl List {
    fn key(&mut self, key: &str) {
        // Writing to a `String` can't fail.
        let _ = writeln!(self.0, "    <key>{key}</key>");
    }

    fn value(&mut self, value: &str) {
        let _ = writeln!(self.0, "    {value}");
    }

    fn string(&mut self, key: &str, text: &str) {
        self.key(key);
        self.value(&format!("<string>{}</string>", xml(text)));
    }

    fn boolean(&mut self, key: &str, value: bool) {
        self.key(key);
        self.value(if value { "<true/>" } else { "<false/>" });
    }

    fn integer(&mut self, key: &str, value: u32) {
        self.key(key);
        self.value(&format!("<integer>{value}</integer>"));
    }

    fn array(&mut self, key: &str, texts: &[String]) {
        self.key(key);
        self.value("<array>");
        for text in texts {
            self.value(&format!("    <string>{}</string>", xml(text)));
        }
        self.value("</array>");
    }

    fn nested(&mut self, key: &str, inner: &str, value: u32) {
        self.key(key);
        self.value("<dict>");
        self.value(&format!("    <key>{inner}</key>"));
        self.value(&format!("    <integer>{value}</integer>"));
        self.value("</dict>");
    }

    fn done(self) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n{}</dict>\n</plist>\n",
            self.0
        )
    }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{Part, Scope, Service};
    use plist::Value;
    use std::path::Path;

    fn service(part: Part, scope: Scope) -> Service {
        Service {
            part,
            scope,
            program: "/opt/build & pool/buildpool".into(),
            config: "/etc/buildpool/worker.toml".into(),
            data_dir: "/var/lib/buildpool".into(),
            is_data_known: false,
            user: "buildpool".into(),
        }
    }

    fn dictionary(service: &Service) -> plist::Dictionary {
        let list = Value::from_reader_xml(service.plist().as_bytes()).unwrap();
        list.into_dictionary().unwrap()
    }

    /// Keys that launchd requires, with the documents that describe them.
    #[test]
    fn the_property_lists_say_what_launchd_needs_to_know() {
        use Part::{Coordinator, Worker};
        use Scope::{System, User};
        let text = |text: &str| Some(Value::String(text.to_owned()));
        for (part, scope, key, expected, source) in [
            (
                Worker,
                User,
                "LimitLoadToSessionType",
                text("Aqua"),
                "TN2083: per-user GUI services are Aqua agents",
            ),
            (Worker, User, "ProcessType", text("Interactive"), "launchd.plist(5): Standard is throttled"),
            (
                Worker,
                User,
                "AbandonProcessGroup",
                Some(true.into()),
                "launchd.plist(5): else the group is killed",
            ),
            (Worker, System, "AbandonProcessGroup", Some(true.into()), "launchd.plist(5)"),
            (Coordinator, User, "AbandonProcessGroup", None, "it leaves nothing behind"),
            (Worker, System, "UserName", text("buildpool"), "launchd.plist(5): only in the system domain"),
            (Coordinator, System, "UserName", text("buildpool"), "launchd.plist(5): as root otherwise"),
            (Worker, User, "UserName", None, "launchd.plist(5): only in the system domain"),
            (
                Worker,
                System,
                "LimitLoadToSessionType",
                None,
                "launchd.plist(5): daemons have no session type",
            ),
            (Worker, User, "KeepAlive", Some(true.into()), "launchd.plist(5): restarted whenever it ends"),
            (Coordinator, System, "RunAtLoad", Some(true.into()), "launchd.plist(5)"),
            (Worker, User, "ExitTimeOut", Some(60.into()), "launchd.plist(5): 20 s before SIGKILL otherwise"),
            (Worker, User, "Umask", Some(63.into()), "launchd.plist(5): a decimal number"),
        ] {
            let found = dictionary(&service(part, scope)).get(key).cloned();
            assert_eq!(found, expected, "{part:?} {scope:?} {key}: {source}");
            let shipped = match (part, scope) {
                (Coordinator, System) => include_str!("../../deploy/launchd/dev.buildpool.coordinator.plist"),
                (Worker, User) => include_str!("../../deploy/launchd/dev.buildpool.worker.plist"),
                _ => continue,
            };
            let shipped = Value::from_reader_xml(shipped.as_bytes()).unwrap();
            let found = shipped.as_dictionary().unwrap().get(key).cloned();
            assert_eq!(found, expected, "as it is shipped: {part:?} {key}: {source}");
        }
        let list = dictionary(&service(Worker, User));
        let arguments = list.get("ProgramArguments").and_then(Value::as_array).unwrap();
        assert_eq!(arguments[0].as_string(), Some("/opt/build & pool/buildpool"));
        let limits = list.get("SoftResourceLimits").and_then(Value::as_dictionary).unwrap();
        assert_eq!(limits.get("NumberOfFiles"), Some(&65_536.into()), "256 is the system's own");
    }

    #[test]
    fn units_of_a_session_have_nothing_that_needs_the_machine_s_rights() {
        for part in [Part::Coordinator, Part::Worker] {
            let unit = service(part, Scope::User).unit();
            for key in
                ["User=", "ProtectSystem=", "CapabilityBoundingSet=", "network-online", "StateDirectory="]
            {
                assert!(!unit.contains(key), "{key} in\n{unit}");
            }
            for kept in
                ["WantedBy=default.target", "Restart=always", "StartLimitIntervalSec=0", "OOMPolicy=continue"]
            {
                assert!(unit.contains(kept), "{kept} in\n{unit}");
            }
            let system = service(part, Scope::System).unit();
            assert!(system.contains("\nUser=buildpool\n") && system.contains("WantedBy=multi-user.target"));
        }
        let worker = service(Part::Worker, Scope::User).unit();
        assert!(worker.contains("KillMode=process"), "keepers outlive the daemon");
        assert!(worker.contains("ExecStart=\"/opt/build & pool/buildpool\" worker --config "), "{worker}");
    }

    #[test]
    fn the_machine_s_unit_leaves_the_data_directory_open() {
        let packaged = service(Part::Coordinator, Scope::System);
        assert!(packaged.unit().contains("\nStateDirectory=buildpool\n"), "{}", packaged.unit());
        let elsewhere = Service { data_dir: "/srv/the 1% pool".into(), ..packaged.clone() }.unit();
        assert!(elsewhere.contains("\nReadWritePaths=\"/srv/the 1%% pool\"\n"), "{elsewhere}");
        assert!(!elsewhere.contains("StateDirectory"), "{elsewhere}");
        assert!(elsewhere.contains("ProtectSystem=strict"));
        // A flag would override the configuration, now or later.
        assert!(elsewhere.contains(" --data-dir \"/srv/the 1%% pool\"\n"), "{elsewhere}");
        assert!(!packaged.unit().contains("--data-dir"), "{}", packaged.unit());
        let named = Service { data_dir: "/srv/pool".into(), is_data_known: true, ..packaged };
        assert!(named.unit().contains("\nReadWritePaths=/srv/pool\n"), "{}", named.unit());
        assert!(!named.unit().contains("--data-dir") && !named.plist().contains("--data-dir"));
    }

    #[test]
    fn what_the_unit_hides_from_its_own_daemon_is_known() {
        let coordinator = service(Part::Coordinator, Scope::System);
        assert_eq!(coordinator.hidden_by_unit(), None);
        let home = Service { program: "/root/.cargo/bin/buildpool".into(), ..coordinator.clone() };
        assert_eq!(home.hidden_by_unit(), Some((home.program.as_path(), "/root")));
        let temporary = Service { config: "/tmp/coordinator.toml".into(), ..coordinator.clone() };
        assert_eq!(temporary.hidden_by_unit(), Some((temporary.config.as_path(), "/tmp")));
        let data = Service { data_dir: "/home/ci/pool".into(), ..coordinator };
        assert_eq!(data.hidden_by_unit(), Some((data.data_dir.as_path(), "/home")));
        let worker = Service { part: Part::Worker, ..home };
        assert_eq!(worker.hidden_by_unit(), None, "builds need those directories");
        let agent = Service { part: Part::Coordinator, scope: Scope::User, ..worker };
        assert_eq!(agent.hidden_by_unit(), None);
    }

    #[test]
    fn each_goes_where_its_system_looks() {
        let home = Path::new("/Users/ci");
        let agent = service(Part::Worker, Scope::User);
        assert_eq!(agent.plist_path(home), home.join("Library/LaunchAgents/dev.buildpool.worker.plist"));
        let start = agent.start_commands(true, home, 501);
        assert_eq!(start[0], "launchctl bootout gui/501/dev.buildpool.worker 2>/dev/null");
        assert!(start[1].starts_with("launchctl bootstrap gui/501 "), "{start:?}");
        let daemon = service(Part::Coordinator, Scope::System);
        assert_eq!(daemon.unit_path(home), Path::new("/etc/systemd/system/buildpool-coordinator.service"));
        assert_eq!(daemon.start_commands(true, home, 0)[1].split(' ').nth(2), Some("system"));
    }
}
