//! Isolation of jobs from other files of their worker. `docs/security.md` lists the protection of
//! each mode.
//!
//! A mode is a program that runs before the job's command. It hides the data directory, with other
//! workspaces, logs and the worker's identity, and the files with the worker's token. The job's own
//! files stay accessible.

pub mod as_user;
pub mod hidden;
pub mod permissions;
pub mod users;

use self::hidden::Hidden;
use self::users::JobUser;
use nix::unistd::Uid;
use serde::Deserialize;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A shell in the sandbox starts the command, so that a missing or non-executable program ends with
/// 127 or 126 as usual.
const EXEC: [&str; 4] = ["/bin/sh", "-c", r#"exec "$@""#, "sh"];
/// Descriptor of the job's variables, separated by NUL, for the mode's program. They are not on its
/// command line, which all users can read. They are also not in its own environment, where a job's
/// `LD_PRELOAD` would run outside of the sandbox.
pub const VARIABLES_FD: i32 = 3;
/// The program of macOS that runs a command with a sandbox profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Paths of kernel settings. Root owns them and can write them without any capability. Missing
/// paths are skipped.
const KERNEL_SETTINGS: [&str; 8] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/acpi",
    "/proc/fs",
    "/proc/mtrr",
    "/sys",
];
/// Devices that builds use, in addition to the devices of every sandbox.
const BUILD_DEVICES: [&str; 4] = ["/dev/kvm", "/dev/fuse", "/dev/dri", "/dev/net"];

/// Isolation mode of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// No isolation: a job has the rights of the worker's user.
    #[default]
    None,
    /// Linux: separate namespaces for mounts and processes, and no capabilities.
    Bubblewrap,
    /// macOS: a profile that denies access to the worker's files and signals to other processes.
    SandboxExec,
    /// Linux, with a worker that runs as root: each job runs as a separate user that cannot gain
    /// rights.
    User,
}

/// All modes, in the order of help texts.
const ALL: [Isolation; 4] = [Isolation::None, Isolation::Bubblewrap, Isolation::User, Isolation::SandboxExec];

/// Files that a job can and cannot access.
#[derive(Debug)]
pub struct JobAccess<'a> {
    /// Hidden paths: the worker's data directory and others.
    pub hidden: &'a Hidden,
    /// The job's part of the data directory, and its own directory at any place.
    pub own: &'a [PathBuf],
    /// Parts of the data directory that it may only read.
    pub readable: &'a [PathBuf],
    /// Working directory of the command.
    pub directory: &'a Path,
    /// False for a job that has only a loopback interface of its own.
    pub has_network: bool,
    /// Home directory of the worker's user. The job can't write it, because its trust class has a home
    /// directory.
    pub account_home: Option<&'a Path>,
    /// User of the job, if that is not the worker's user.
    pub user: Option<&'a JobUser>,
}

impl Isolation {
    /// Returns the name used in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bubblewrap => "bubblewrap",
            Self::SandboxExec => "sandbox-exec",
            Self::User => "user",
        }
    }

    /// Returns the arguments that run this command in isolation. `program` is the result of
    /// [`Isolation::program`].
    pub fn wrap(self, program: &Path, argv: Vec<String>, access: &JobAccess<'_>) -> Vec<String> {
        let before = match self {
            Self::None => return argv,
            Self::Bubblewrap => bubblewrap(program, access, Uid::effective().is_root()),
            Self::SandboxExec => vec![program.display().to_string(), "-p".to_owned(), profile(access)],
            Self::User => as_user::command_line(program, access.user),
        };
        let exec = EXEC.into_iter().map(str::to_owned);
        before.into_iter().chain(exec).chain(argv).collect()
    }

    /// Returns true if files are hidden by their paths.
    pub const fn hides_paths(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::SandboxExec)
    }

    /// Returns true if the job's variables are sent through [`VARIABLES_FD`].
    pub const fn hands_variables_inside(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::User)
    }

    /// Returns the absolute path of the mode's program. The worker's own `PATH` is searched, not a
    /// job's, which could select another program.
    pub fn program(self, path: Option<&OsStr>) -> Option<PathBuf> {
        match self {
            Self::None => None,
            Self::Bubblewrap => std::env::split_paths(path?)
                .filter(|directory| directory.is_absolute())
                .map(|directory| directory.join("bwrap"))
                .find(|program| program.is_file()),
            Self::SandboxExec => Some(PathBuf::from(SANDBOX_EXEC)).filter(|program| program.is_file()),
            Self::User => crate::platform::own_executable().ok(),
        }
    }

    /// Returns the program that is missing on this machine, if there is one.
    pub fn missing(self, path: Option<&OsStr>) -> Option<&'static str> {
        let needed = match self {
            Self::None => return None,
            Self::Bubblewrap => "bwrap (package bubblewrap)",
            Self::SandboxExec => SANDBOX_EXEC,
            Self::User if !crate::platform::HAS_OTHER_USERS => return Some("Linux"),
            Self::User => "its own program",
        };
        self.program(path).is_none().then_some(needed)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            format!("`{text}` is not an isolation mode; valid are {}", ALL.map(Self::name).join(", "))
        })
    }
}

/// Access rule of one path. For equal paths, a later variant overrides an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rule {
    /// The job can read and write it.
    Own,
    /// The job can only read it.
    Readable,
    /// It is above a hidden path and must not be renamed.
    Parent,
    HiddenFile,
    HiddenDirectory,
}

impl JobAccess<'_> {
    /// Returns the rules, outer paths first. The rule of a path applies to everything below it that
    /// has no rule of its own.
    fn rules(&self) -> Vec<(Rule, &Path)> {
        let hide = |is_directory| if is_directory { Rule::HiddenDirectory } else { Rule::HiddenFile };
        let own = self.own.iter().map(|path| (Rule::Own, path.as_path()));
        let readable = self.readable.iter().map(|path| (Rule::Readable, path.as_path()));
        let parents = self.hidden.parents().map(|path| (Rule::Parent, path));
        let hidden = self.hidden.hidden_paths().map(|(path, is_directory)| (hide(is_directory), path));
        let mut rules: Vec<_> = own.chain(readable).chain(parents).chain(hidden).collect();
        rules.sort_by_key(|(rule, path)| (path.components().count(), *rule));
        rules
    }
}

/// Returns bubblewrap's arguments. The order matters: a later mount covers an earlier one. A mount
/// point cannot be renamed in the sandbox.
fn bubblewrap(program: &Path, access: &JobAccess<'_>, is_root: bool) -> Vec<String> {
    let mut command_line: Vec<String> = Vec::new();
    let mut add = |option: &str, operands: &[&Path]| {
        command_line.push(option.to_owned());
        command_line.extend(operands.iter().map(|path| path.display().to_string()));
    };
    let (root, null, devices) = (Path::new("/"), Path::new("/dev/null"), Path::new("/dev"));
    add(&program.display().to_string(), &[]);
    add("--args", &[Path::new(&VARIABLES_FD.to_string())]);
    add("--bind", &[root, root]);
    if is_root {
        // The machine's disk devices belong to root, and contain all hidden files.
        add("--dev", &[devices]);
        for device in BUILD_DEVICES.map(Path::new) {
            add("--dev-bind-try", &[device, device]);
        }
    } else {
        add("--dev-bind", &[devices, devices]);
    }
    add("--unshare-pid", &[]);
    if !access.has_network {
        add("--unshare-net", &[]);
    }
    add("--proc", &[Path::new("/proc")]);
    for place in KERNEL_SETTINGS.map(Path::new) {
        add("--ro-bind-try", &[place, place]);
    }
    if let Some(home) = access.account_home {
        add("--ro-bind-try", &[home, home]);
    }
    let is_closed = |path: &Path| access.account_home.is_some_and(|home| path.starts_with(home));
    for (rule, path) in access.rules() {
        match rule {
            Rule::Own => add("--bind-try", &[path, path]),
            Rule::Readable => add("--ro-bind-try", &[path, path]),
            // There is already a mount at this path.
            Rule::Parent if path == devices => {}
            Rule::Parent if is_closed(path) => add("--ro-bind", &[path, path]),
            Rule::Parent => add("--bind", &[path, path]),
            Rule::HiddenFile => add("--ro-bind", &[null, path]),
            Rule::HiddenDirectory => add("--tmpfs", &[path]),
        }
    }
    add("--chdir", &[access.directory]);
    command_line.extend(["--cap-drop", "ALL", "--"].map(str::to_owned));
    command_line
}

/// Returns the profile for `sandbox-exec`. Later rules override earlier ones.
fn profile(access: &JobAccess<'_>) -> String {
    let mut lines = vec!["(version 1)".to_owned(), "(allow default)".to_owned()];
    for (rule, path) in access.rules() {
        let (what, filter) = match rule {
            Rule::Own => ("allow file-read* file-write*", "subpath"),
            Rule::Readable => ("allow file-read*", "subpath"),
            // Renaming unlinks the old name.
            Rule::Parent => ("deny file-write-unlink", "literal"),
            Rule::HiddenFile | Rule::HiddenDirectory => ("deny file-read* file-write*", "subpath"),
        };
        lines.push(format!("({what} ({filter} {}))", quoted(path)));
    }
    lines.push("(deny signal)".to_owned());
    lines.push("(allow signal (target same-sandbox))".to_owned());
    lines.push("(deny process-info*)".to_owned());
    lines.push("(allow process-info* (target same-sandbox))".to_owned());
    lines.join("\n")
}

/// Quotes a string for the profile's language, which is a Scheme.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::{Hidden, Isolation, JobAccess};
    use std::path::{Path, PathBuf};

    fn wrap(mode: Isolation) -> Vec<String> {
        let own = [PathBuf::from("/var/w/workspaces/1/tree")];
        let hidden = Hidden::of(&[("/etc/no \"such\" file", false), ("/var/w", true)], &["/etc", "/var"]);
        let readable = [PathBuf::from("/var/w/projects/p/objects")];
        let access = JobAccess {
            hidden: &hidden,
            own: &own,
            readable: &readable,
            directory: Path::new("/var/w/workspaces/1/tree/sub"),
            has_network: true,
            account_home: None,
            user: None,
        };
        let program = Path::new(if mode == Isolation::SandboxExec {
            "/usr/bin/sandbox-exec"
        } else {
            "/usr/bin/bwrap"
        });
        mode.wrap(program, vec!["cargo".into(), "test".into()], &access)
    }

    #[test]
    fn without_isolation_the_command_is_as_it_was() {
        assert_eq!(wrap(Isolation::None), ["cargo", "test"]);
    }

    #[test]
    fn in_bubblewrap_the_data_directory_goes_before_what_is_put_back() {
        let command_line = wrap(Isolation::Bubblewrap);
        let at = |word: &str| command_line.iter().position(|other| other == word).expect(word);
        assert_eq!(command_line[..3], ["/usr/bin/bwrap", "--args", "3"]);
        assert!(at("--tmpfs") < at("--bind-try"), "{command_line:?}");
        let objects = at("/var/w/projects/p/objects");
        assert!(at("--tmpfs") < objects && command_line[objects - 1] == "--ro-bind-try", "{command_line:?}");
        assert_eq!(command_line[at("--tmpfs") + 1], "/var/w");
        for parent in ["/etc", "/var"] {
            let pinned =
                command_line.windows(3).position(|three| three == ["--bind", parent, parent]).expect(parent);
            assert!(pinned < at("--ro-bind"), "{command_line:?}");
        }
        assert!(command_line.windows(2).any(|pair| pair == ["--cap-drop", "ALL"]));
        assert!(at("--unshare-pid") < at("--proc"), "the other processes are not seen");
        assert_eq!(command_line[command_line.len() - 2..], ["cargo", "test"]);
    }

    #[test]
    fn in_bubblewrap_the_kernel_s_settings_are_read_only_and_root_has_no_disks() {
        let directory = Path::new("/");
        let hidden = Hidden::of(&[], &[]);
        let (own, account_home) = ([PathBuf::from("/root/w/tree")], Some(Path::new("/root")));
        let access = JobAccess {
            hidden: &hidden,
            own: &own,
            readable: &[],
            directory,
            has_network: false,
            account_home,
            user: None,
        };
        for is_root in [false, true] {
            let command_line = super::bubblewrap(Path::new("/usr/bin/bwrap"), &access, is_root);
            let three = |three: [&str; 3]| command_line.windows(3).position(|other| other == three);
            let proc = command_line.iter().position(|word| word == "--proc");
            for place in ["/proc/sys", "/proc/sysrq-trigger", "/sys"] {
                assert!(three(["--ro-bind-try", place, place]) > proc, "{command_line:?}");
            }
            let (closed, tree) =
                (three(["--ro-bind-try", "/root", "/root"]), ["--bind-try", "/root/w/tree", "/root/w/tree"]);
            assert!(closed.is_some() && three(tree) > closed, "{command_line:?}");
            assert_eq!(three(["--dev-bind", "/dev", "/dev"]).is_none(), is_root, "{command_line:?}");
        }
    }

    #[test]
    fn the_profile_denies_first_and_quotes_what_it_names() {
        let command_line = wrap(Isolation::SandboxExec);
        assert_eq!(command_line[..2], ["/usr/bin/sandbox-exec", "-p"]);
        let lines: Vec<&str> = command_line[2].lines().collect();
        assert_eq!(lines[..2], ["(version 1)", "(allow default)"]);
        assert_eq!(lines[2], "(deny file-write-unlink (literal \"/etc\"))");
        assert_eq!(lines[3], "(deny file-write-unlink (literal \"/var\"))");
        assert!(lines[4].contains(r#"(subpath "/etc/no \"such\" file")"#), "{}", lines[4]);
        assert_eq!(lines[5], "(deny file-read* file-write* (subpath \"/var/w\"))");
        assert_eq!(lines[6], "(allow file-read* file-write* (subpath \"/var/w/workspaces/1/tree\"))");
        assert_eq!(lines[7], "(allow file-read* (subpath \"/var/w/projects/p/objects\"))");
        let depth =
            command_line[2].chars().fold(0_i32, |depth, c| depth + i32::from(c == '(') - i32::from(c == ')'));
        assert_eq!(depth, 0, "every parenthesis is closed");
    }

    #[test]
    fn a_mode_is_known_by_its_name_only() {
        assert_eq!("bubblewrap".parse(), Ok(Isolation::Bubblewrap));
        assert!("jail".parse::<Isolation>().unwrap_err().contains("none, bubblewrap, user, sandbox-exec"));
        assert_eq!(
            Isolation::Bubblewrap.missing(Some("/nowhere".as_ref())),
            Some("bwrap (package bubblewrap)")
        );
        let here = tempfile::tempdir().expect("a directory");
        std::fs::write(here.path().join("bwrap"), "").expect("written");
        let path = format!("relative:{}", here.path().display());
        assert_eq!(Isolation::Bubblewrap.program(Some(path.as_ref())), Some(here.path().join("bwrap")));
    }
}
