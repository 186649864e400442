//! Additional checks on macOS: Xcode, simulators, sleep, restart after a power failure and automatic login.

use super::{Check, State};
use std::collections::BTreeMap;
use std::process::Command;

pub(super) fn checks(tools: &BTreeMap<String, String>) -> Vec<Check> {
    let xcode = match tools.get("xcode") {
        Some(version) => Check::new("xcode", State::Ok, version.clone()),
        None => Check::new("xcode", State::Warning, "xcodebuild does not answer, so nothing of Apple's can be built")
            .mended_by("install Xcode, then `sudo xcode-select -s /Applications/Xcode.app` and `sudo xcodebuild -license accept`"),
    };
    let output_of = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let simulators = output_of("xcrun", &["simctl", "list", "devices", "available"]).map_or_else(
        || {
            Check::new("simulators", State::Warning, "simctl does not answer")
                .mended_by("xcodebuild -runFirstLaunch")
        },
        |text| of_simulators(&text),
    );
    let power = output_of("pmset", &["-g"]);
    let sleep = power
        .as_deref()
        .map_or_else(|| Check::new("sleep", State::Warning, "pmset does not answer"), of_sleep);
    let login =
        output_of("defaults", &["read", "/Library/Preferences/com.apple.loginwindow", "autoLoginUser"]);
    let encryption = output_of("fdesetup", &["status"]);
    let login = of_login(login.as_deref(), encryption.as_deref());
    let restart = power.as_deref().and_then(of_restart);
    [xcode, simulators, sleep, login].into_iter().chain(restart).collect()
}

/// Checks that a user logs in after a restart: the worker is an agent of that user's session
/// (TN2083). `login` is the value of `autoLoginUser`, which exists only while automatic login is
/// on. `encryption` is the output of `fdesetup status`. While FileVault is on, macOS waits for a
/// password before it starts (Apple Platform Deployment, "Manage FileVault").
fn of_login(login: Option<&str>, encryption: Option<&str>) -> Check {
    let user = login.map(str::trim).filter(|user| !user.is_empty());
    if encryption.is_some_and(|text| text.lines().any(|line| line.trim() == "FileVault is On.")) {
        let text = "FileVault is on: after a power failure this Mac waits for a password, and the worker does not start";
        return Check::new("login", State::Warning, text).mended_by(
            "before a planned restart `sudo fdesetup authrestart`; in a locked room `sudo fdesetup disable`",
        );
    }
    match user {
        Some(user) => {
            Check::new("login", State::Ok, format!("`{user}` logs in automatically after a restart"))
        }
        None => Check::new(
            "login",
            State::Warning,
            "no user logs in automatically, so after a restart no agent of a user starts",
        )
        .mended_by("System Settings, Users & Groups, \"Automatically log in as\""),
    }
}

/// Parses the line `autorestart` of `pmset -g` (pmset(1): automatic restart on power loss).
/// `None` for a Mac without this setting, as a notebook.
fn of_restart(text: &str) -> Option<Check> {
    Some(match minutes(text, "autorestart")? {
        0 => Check::new("restart", State::Warning, "this Mac stays off after a power failure")
            .mended_by("sudo pmset -a autorestart 1"),
        _ => Check::new("restart", State::Ok, "this Mac starts again after a power failure"),
    })
}

/// Returns the number after a key in the output of `pmset -g`.
fn minutes(text: &str, key: &str) -> Option<u32> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(key)).then(|| words.next()?.parse().ok()).flatten())
}

/// Parses the output of `xcrun simctl list devices available`.
fn of_simulators(text: &str) -> Check {
    let is_device = |line: &&str| line.starts_with(' ') && line.contains('(');
    match text.lines().filter(is_device).count() {
        0 => Check::new("simulators", State::Warning, "there is no simulator")
            .mended_by("xcodebuild -downloadPlatform iOS"),
        count => Check::new("simulators", State::Ok, format!("{count} are available")),
    }
}

/// Parses the output of `pmset -g`: the lines `sleep` and `disksleep` with minutes, 0 for never.
fn of_sleep(text: &str) -> Check {
    match (minutes(text, "SleepDisabled"), minutes(text, "sleep")) {
        (Some(1), _) | (_, Some(0)) => Check::new("sleep", State::Ok, "this Mac does not fall asleep"),
        (_, Some(after)) => {
            let text = format!("this Mac sleeps after {after} minutes, and jobs with it");
            Check::new("sleep", State::Warning, text).mended_by("sudo pmset -a sleep 0 disksleep 0")
        }
        (_, None) => Check::new("sleep", State::Warning, "pmset does not list `sleep`"),
    }
}

#[cfg(test)]
mod tests {
    use super::{State, of_login, of_restart, of_simulators, of_sleep};

    const PMSET: &str = "System-wide power settings:\nCurrently in use:\n standby              1\n Sleep On Power Button 1\n powernap             1\n disksleep            10\n sleep                1 (sleep prevented by sharingd, powerd)\n displaysleep         10\n";

    #[test]
    fn a_mac_that_would_fall_asleep_is_found() {
        let asleep = of_sleep(PMSET);
        assert_eq!(asleep.state, State::Warning);
        assert!(asleep.text.contains("after 1 minutes") && asleep.remedy.contains("pmset -a sleep 0"));
        let awake = PMSET.replace(" sleep                1 ", " sleep                0 ");
        assert_eq!(of_sleep(&awake).state, State::Ok);
        assert_eq!(of_sleep(&format!(" SleepDisabled\t\t1\n{PMSET}")).state, State::Ok);
        assert_eq!(of_sleep("").state, State::Warning);
    }

    /// `pmset -g` of a Mac mini, shortened.
    const MINI: &str = "System-wide power settings:\nCurrently in use:\n autorestartatconnect 0\n womp                 1\n networkoversleep     0\n sleep                0\n tcpkeepalive         1\n autorestart          1\n disksleep            10\n";

    #[test]
    fn a_mac_that_stays_off_after_a_power_failure_is_found() {
        assert_eq!(of_restart(MINI).expect("the setting is there").state, State::Ok);
        let off = of_restart(&MINI.replace(" autorestart          1", " autorestart          0"))
            .expect("it is there");
        assert!(off.state == State::Warning && off.remedy.contains("autorestart 1"));
        // A longer key is another setting, and a notebook does not have this setting.
        assert!(of_restart(" autorestartatconnect 0\n").is_none() && of_restart(PMSET).is_none());
    }

    #[test]
    fn a_mac_on_which_nobody_logs_in_after_a_restart_is_found() {
        let (on, off) = (Some("FileVault is On.\n"), Some("FileVault is Off.\n"));
        let ready = of_login(Some("ci\n"), off);
        assert!(ready.state == State::Ok && ready.text.contains("`ci`"));
        assert_eq!(of_login(Some("ci\n"), None).state, State::Ok);
        // `defaults` fails if the key does not exist.
        assert!(of_login(None, off).remedy.contains("Automatically log in"));
        assert_eq!(of_login(Some("\n"), off).state, State::Warning);
        let encrypted = of_login(Some("ci\n"), on);
        assert!(encrypted.state == State::Warning && encrypted.text.contains("FileVault"));
    }

    #[test]
    fn simulators_are_counted() {
        let listed = "== Devices ==\n-- iOS 18.2 --\n    iPhone 16 (6A1F4D5C-0000-4000-8000-000000000000) (Shutdown) \n    iPhone 16 Pro (7B1F4D5C-0000-4000-8000-000000000000) (Booted) \n";
        assert_eq!(of_simulators(listed).text, "2 are available");
        assert_eq!(of_simulators("== Devices ==\n").state, State::Warning);
    }
}
