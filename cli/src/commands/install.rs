//! `buildpool install`: sets up services and MCP clients.

use super::isolation;
use super::join::{self, Present};
use crate::arguments::{
    Init, InstallMcpClientArguments, InstallServiceArguments, InstallTarget, Join, JoinText, TrustOptions,
};
use crate::failure::{Failure, POOL, USAGE};
use crate::service::{Part, Scope, Service};
use crate::settings;
use crate::terminal;
use buildpool_client::directories;
use buildpool_client::{PoolUrl, UrlError};
use buildpool_gateway::install::{self, Installation};
use buildpool_worker::isolation::users::barrier;
use buildpool_worker::link::connect::{ConnectError, Dialler};
use nix::unistd::{Uid, User};
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(target: InstallTarget) -> Result<ExitCode, Failure> {
    match target {
        InstallTarget::McpClient(arguments) => mcp_client(&arguments),
        InstallTarget::Worker(arguments) => service(Part::Worker, arguments),
        InstallTarget::Coordinator(arguments) => service(Part::Coordinator, arguments),
    }
}

/// Prints the entry for the client's configuration, or adds it there.
fn mcp_client(arguments: &InstallMcpClientArguments) -> Result<ExitCode, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::while_doing(USAGE, "the present directory can't be read", &error))?;
    let mut words = Vec::new();
    if let Some(coordinator) = &arguments.coordinator {
        // The URL is written into a file that may be shared, so it must not be invalid or contain a
        // token.
        let wrong = |error: UrlError| Failure::new(USAGE, format!("--coordinator: {error}"));
        coordinator.parse::<PoolUrl>().map_err(wrong)?;
        words.extend(["--coordinator".to_owned(), coordinator.clone()]);
    }
    if arguments.read_only {
        words.push("--read-only".to_owned());
    }
    let project = here.join(arguments.directory.clone().unwrap_or_default());
    if !project.is_dir() {
        return Err(Failure::new(USAGE, format!("--directory: {} is not a directory", project.display())));
    }
    let program = settings::program()?;
    // One spelling of the path, so that a later call finds this project's entry.
    let project = project.canonicalize().unwrap_or(project);
    let is_on_path = install::is_on_path(&program);
    let installation = Installation { program, arguments: words, project, is_on_path };
    let client = arguments.client;
    let text = if arguments.remove {
        let (path, was_there) =
            installation.remove(client).map_err(|error| Failure::from_error(POOL, &error))?;
        let done = if was_there { "removed from" } else { "nothing to remove: this project has no entry in" };
        format!("{done} {}\n", path.display())
    } else if arguments.write {
        let path = installation.write(client).map_err(|error| Failure::from_error(POOL, &error))?;
        format!("{}\nnext: {}\n", path.display(), client.next_step())
    } else {
        installation.text(client)
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the unit or property list, or writes it together with the configuration that it uses.
fn service(part: Part, arguments: InstallServiceArguments) -> Result<ExitCode, Failure> {
    let scope = if arguments.system { Scope::System } else { Scope::User };
    let mut service = describe(part, scope, &arguments)?;
    let join = arguments.join.as_ref().map(JoinText::read).transpose()?;
    let below = |path: &Path| match &arguments.root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    let present = present(part, &service.config, &below(&service.config))?;
    if arguments.data_dir.is_none()
        && let Some(named) = present.as_ref().and_then(|present| present.data_dir(&service.config))
    {
        (service.data_dir, service.is_data_known) = (named, true);
    }
    // A configuration that joining writes contains the data directory.
    service.is_data_known |= join.is_some() && present.is_none();
    let home = std::env::home_dir().unwrap_or_default();
    let launchd = match arguments.init {
        Some(init) => init == Init::Launchd,
        None => std::env::consts::OS == "macos",
    };
    let (path, text) = if launchd {
        (service.plist_path(&home), service.plist())
    } else {
        (service.unit_path(&home), service.unit())
    };
    if !arguments.write {
        if let Some(why) = unreachable(&service, launchd) {
            terminal::warn(&why);
        }
        terminal::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.isolation.is_some() && present.is_some() {
        let config = service.config.display();
        let text = format!("--isolation: {config} exists; set `isolation` there, or remove the file");
        return Err(Failure::new(USAGE, text));
    }
    let joined = match (&join, &present) {
        (Some(join), Some(present)) => Some(join::changed(present, join, &arguments.trust, &service.config)?),
        (Some(join), None) => {
            let mut lines = isolation::lines(&arguments)?;
            lines.push(("data_dir", join::quoted(&service.data_dir.display().to_string())));
            Some(join::new(join, &arguments.trust, &service.config, lines))
        }
        (None, _) => None,
    };
    if let Some(join) = &join {
        let of_file =
            present.as_ref().map(|present| present.trust(&service.config, &join.url)).unwrap_or_default();
        check_join(join, &arguments.trust, of_file)?;
    }
    // With another root, the files are for another machine. Its package creates the user and sets
    // the owner.
    let owner = match scope {
        Scope::System if arguments.root.is_none() => {
            let user = service_user(&service, launchd)?;
            if let Some(why) = unreachable(&service, launchd) {
                return Err(Failure::new(USAGE, why));
            }
            Some(user)
        }
        Scope::System | Scope::User => None,
    };
    if launchd || scope == Scope::System {
        // launchd opens the log before the daemon can create the directory. systemd makes only
        // existing directories writable for the daemon.
        make_data_directory(part, &below(&service.data_dir), owner.as_ref())?;
    }
    let secrecy = if scope == Scope::System { Secrecy::Service } else { Secrecy::Private };
    let write_private = |path: &Path, text: &str| write(&below(path), text, secrecy, owner.as_ref());
    if let (Some(join), Some(joined)) = (&join, &joined) {
        if let Some(file) = &joined.token_file {
            write_private(file, &format!("{}\n", join.token))?;
        }
        write_private(&service.config, &joined.config)?;
        if present.is_some() {
            let and_token =
                joined.token_file.as_ref().map(|file| format!(", and the token in {}", file.display()));
            terminal::warn(&format!(
                "{} was there: {} changed{}; all else of it is as it was",
                service.config.display(),
                joined.changed.join(", "),
                and_token.unwrap_or_default()
            ));
        }
    } else if !below(&service.config).exists() {
        write_private(&service.config, example(part))?;
    }
    let packaged = service.packaged_unit_path().filter(|_| !launchd);
    let path = match packaged.filter(|packaged| suffices(&below(packaged), &text, &below(&path))) {
        Some(packaged) => packaged,
        None => {
            write(&below(&path), &text, Secrecy::Open, None)?;
            path
        }
    };
    terminal::print(&format!("{}\n", path.display()))?;
    for command in service.start_commands(launchd, &home, nix::unistd::getuid().as_raw()) {
        terminal::print(&format!("{command}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if a package has installed the same unit and nothing overrides it. Then the package
/// keeps it up to date.
fn suffices(packaged: &Path, text: &str, own: &Path) -> bool {
    !own.exists() && std::fs::read_to_string(packaged).is_ok_and(|found| found == text)
}

/// Refuses a token that no worker can use, before anything is written. An unreachable coordinator
/// is only a warning, because the worker retries.
fn check_join(join: &Join, given: &TrustOptions, of_file: TrustOptions) -> Result<(), Failure> {
    let mut config = buildpool_worker::Config::new(join.url.clone(), PathBuf::new());
    config.token = Some(join.token.clone());
    of_file.apply(&mut config);
    given.apply(&mut config);
    // The service reads these options from its file, and there the fingerprint in the token counts first.
    config.trust_before_token = false;
    let dialler = Dialler::new(&config).map_err(|error| Failure::from_error(USAGE, &error))?;
    super::block_on(async {
        match dialler.connect(dialler.route().current()).await {
            Ok(_) => {}
            Err(error @ (ConnectError::WrongRole(_) | ConnectError::Unknown)) => {
                return Err(Failure::new(USAGE, format!("--join: {error}; nothing was written")));
            }
            Err(error) => terminal::warn(&format!("the token could not be tried at {}: {error}", join.url)),
        }
        Ok(ExitCode::SUCCESS)
    })
    .map(|_| ())
}

/// Returns the existing configuration, unless it is the example that this command writes by
/// default.
fn present(part: Part, named: &Path, place: &Path) -> Result<Option<Present>, Failure> {
    match std::fs::read_to_string(place) {
        Ok(text) if text == example(part) => Ok(None),
        Ok(text) => Present::new(text, named).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::while_doing(USAGE, format!("{} can't be read", place.display()), &error)),
    }
}

fn describe(part: Part, scope: Scope, arguments: &InstallServiceArguments) -> Result<Service, Failure> {
    if part == Part::Coordinator && arguments.join.is_some() {
        return Err(Failure::new(USAGE, "--join: only a worker joins"));
    }
    let no_home = || Failure::new(USAGE, "this user has no home directory; name --config and --data-dir");
    let file = format!("{}.toml", part.name());
    let (config, data, user) = match scope {
        Scope::System => {
            let user = match part {
                Part::Coordinator => "buildpool",
                Part::Worker => "buildpool-worker",
            };
            (Path::new("/etc/buildpool").join(file), Path::new("/var/lib").join(user), user)
        }
        Scope::User => {
            let config = directories::configuration().ok_or_else(no_home)?.join(file);
            (config, directories::data().ok_or_else(no_home)?.join(part.name()), "")
        }
    };
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    // A session's daemon finds this directory by itself, unless this shell sets another one.
    let is_own_default = scope == Scope::User && std::env::var_os("XDG_DATA_HOME").is_none();
    Ok(Service {
        part,
        scope,
        program: settings::program()?,
        config: absolute(arguments.config.clone().unwrap_or(config)),
        data_dir: absolute(arguments.data_dir.clone().unwrap_or(data)),
        is_data_known: is_own_default && arguments.data_dir.is_none(),
        user: arguments.service_user.clone().unwrap_or_else(|| user.to_owned()),
    })
}

/// Returns the user that runs the system service. Fails if the user does not exist, because the
/// daemon could not read its files.
fn service_user(service: &Service, launchd: bool) -> Result<User, Failure> {
    let name = &service.user;
    let found = User::from_name(name)
        .map_err(|error| Failure::while_doing(POOL, format!("the user {name} can't be looked up"), &error))?;
    if let Some(why) = found.as_ref().and_then(|user| jobs_home(service, &user.dir)) {
        terminal::warn(&why);
    }
    found.ok_or_else(|| {
        // A coordinator runs no programs that need a home directory.
        let (home, made) = match service.part {
            Part::Coordinator => (service.data_dir.clone(), ""),
            Part::Worker => (service.home(), " --create-home"),
        };
        let home = home.display();
        let line = if launchd {
            format!("sysadminctl -addUser {name} -home '{home}' -shell /usr/bin/false")
        } else {
            format!("useradd --system --user-group{made} --home-dir '{home}' --shell /usr/sbin/nologin {name}")
        };
        Failure::new(
            USAGE,
            format!("--system: there is no user {name} here; make it by `{line}`, or name another by --service-user"),
        )
    })
}

/// Returns a warning if the home directory of a worker's user is inside the data directory: jobs
/// use it too.
fn jobs_home(service: &Service, home: &Path) -> Option<String> {
    if service.part == Part::Coordinator || !home.starts_with(&service.data_dir) {
        return None;
    }
    let (user, place) = (&service.user, service.home());
    Some(format!(
        "the home directory of {user} is the worker's data directory, so jobs can read its files there, and isolated jobs can't use their home directory; `install -d -m 700 -o {user} -g {user} {0} && usermod --home {0} {user}` while the worker is stopped",
        place.display()
    ))
}

/// Returns the reason why a system service could not access its program or files, with a remedy.
fn unreachable(service: &Service, launchd: bool) -> Option<String> {
    if service.scope == Scope::User {
        return None;
    }
    let hidden = service.hidden_by_unit().filter(|_| !launchd);
    let hidden =
        hidden.map(|(path, top)| (path, format!("lies below {top}, which the unit hides from the daemon")));
    let (path, why) = hidden.or_else(|| {
        let barrier = barrier(&service.program)?;
        let why = format!(
            "can't be started by {}, because this user can't enter {}",
            service.user,
            barrier.display()
        );
        Some((service.program.as_path(), why))
    })?;
    let mend = if path == service.program {
        format!("copy it, as by `install -m 755 {} /usr/local/bin/buildpool`, and run that", path.display())
    } else {
        "name another place".to_owned()
    };
    Some(format!("--system: {} {why}; {mend}", path.display()))
}

/// Creates the data directory for the daemon's user. An existing directory, such as one from
/// `token create`, is given to that user if it belongs to this user and contains no other files.
fn make_data_directory(part: Part, path: &Path, owner: Option<&User>) -> Result<(), Failure> {
    let failed =
        |error: &io::Error| Failure::while_doing(POOL, format!("{} can't be made", path.display()), error);
    if let Some(parent) = path.parent() {
        make_directories(parent, 0o755).map_err(|error| failed(&error))?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other.map_err(|error| failed(&error))?,
    }
    let Some(user) = owner else { return Ok(()) };
    let metadata = path.metadata().map_err(|error| failed(&error))?;
    if metadata.uid() == user.uid.as_raw() {
        return Ok(());
    }
    let is_ours = metadata.uid() == Uid::effective().as_raw();
    let mark = match part {
        Part::Coordinator => "auth.db",
        Part::Worker => "worker-id",
    };
    let is_data =
        path.join(mark).exists() || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if is_ours && is_data {
        return give(path, user).map_err(|error| failed(&error));
    }
    let text = format!(
        "--data-dir: {0} exists and belongs to another user than {1}, which runs the {2}; `chown -R {1}: '{0}'`, or name another",
        path.display(),
        user.name,
        part.name()
    );
    Err(Failure::new(USAGE, text))
}

/// Changes the owner of a tree. Links are changed themselves, not their targets.
fn give(path: &Path, user: &User) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in path.read_dir()? {
            give(&entry?.path(), user)?;
        }
    }
    lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
}

/// Creates missing directories, each with this mode regardless of the umask.
fn make_directories(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() || path.as_os_str().is_empty() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(parent, mode)?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(mode)),
    }
}

const fn example(part: Part) -> &'static str {
    match part {
        Part::Coordinator => include_str!("../../../deploy/coordinator.toml"),
        Part::Worker => include_str!("../../../deploy/worker.toml"),
    }
}

/// Access to a written file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    /// Only its owner may read it and its directory.
    Private,
    /// Only its owner may read it; the directory is shared with other services.
    Service,
    /// Everyone may read it.
    Open,
}

/// Writes a file under a temporary name and renames it.
fn write(path: &Path, text: &str, secrecy: Secrecy, owner: Option<&User>) -> Result<(), Failure> {
    let (file_mode, directory_mode) = match secrecy {
        Secrecy::Private => (0o600, 0o700),
        Secrecy::Service => (0o600, 0o755),
        Secrecy::Open => (0o644, 0o755),
    };
    let carry_out = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            make_directories(parent, directory_mode)?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(file_mode).open(&beside)?;
        if let Some(user) = owner {
            fchown(&file, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        file.set_permissions(Permissions::from_mode(file_mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    carry_out()
        .map_err(|error| Failure::while_doing(POOL, format!("{} can't be written", path.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::{Part, Secrecy, make_data_directory, write};
    use nix::unistd::{Uid, User};
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn what_a_service_reads_is_its_user_s_and_nobody_else_s() {
        // Only root can change owners, so other users give the files to themselves.
        let user = if Uid::effective().is_root() {
            User::from_name("nobody")
        } else {
            User::from_uid(Uid::effective())
        };
        let user = user.unwrap().unwrap();
        let place = tempfile::tempdir().unwrap();
        let (file, data) = (place.path().join("etc/worker.token"), place.path().join("var/lib/data"));
        write(&file, "secret", Secrecy::Service, Some(&user)).unwrap();
        make_data_directory(Part::Worker, &data, Some(&user)).unwrap();
        for (path, mode) in [(&file, 0o600), (&data, 0o700)] {
            let metadata = path.metadata().unwrap();
            assert_eq!((metadata.uid(), metadata.mode() & 0o777), (user.uid.as_raw(), mode));
        }
        for shared in [file.parent().unwrap(), data.parent().unwrap()] {
            let passable = shared.metadata().unwrap().mode() & 0o111;
            assert_eq!(passable, 0o111, "the service's user comes through {}", shared.display());
        }
    }

    #[test]
    fn a_data_directory_that_is_there_becomes_the_service_s_where_it_holds_nothing_else() {
        if !Uid::effective().is_root() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let user = User::from_name("nobody").unwrap().unwrap();
        let place = tempfile::tempdir().unwrap();
        // As `token create --data-dir` creates it.
        let data = place.path().join("data");
        std::fs::create_dir_all(data.join("tls")).unwrap();
        std::fs::write(data.join("auth.db"), "").unwrap();
        symlink(place.path(), data.join("link")).unwrap();
        make_data_directory(Part::Coordinator, &data, Some(&user)).unwrap();
        for own in ["", "tls", "auth.db", "link"] {
            assert_eq!(data.join(own).symlink_metadata().unwrap().uid(), user.uid.as_raw(), "{own}");
        }
        assert_eq!(place.path().metadata().unwrap().uid(), 0, "the target of a link stays");
        let other = place.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("a file"), "").unwrap();
        let refused = make_data_directory(Part::Coordinator, &other, Some(&user)).unwrap_err();
        let refused = refused.message();
        assert!(refused.contains("chown -R nobody: "), "{refused}");
        assert_eq!(other.join("a file").metadata().unwrap().uid(), 0);
    }
}
