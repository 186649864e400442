//! Additional checks on macOS: Xcode, simulators and sleep settings.

use super::{Check, State};
use std::collections::BTreeMap;
use std::process::Command;

pub(super) fn checks(tools: &BTreeMap<String, String>) -> Vec<Check> {
    let xcode = match tools.get("xcode") {
        Some(version) => Check::new("xcode", State::Ok, version.clone()),
        None => Check::new("xcode", State::Warning, "xcodebuild does not answer, so nothing of Apple's can be built")
            .mended_by("install Xcode, then `sudo xcode-select -s /Applications/Xcode.app` and `sudo xcodebuild -license accept`"),
    };
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let simulators = said("xcrun", &["simctl", "list", "devices", "available"]).map_or_else(
        || {
            Check::new("simulators", State::Warning, "simctl does not answer")
                .mended_by("xcodebuild -runFirstLaunch")
        },
        |text| of_simulators(&text),
    );
    let sleep = said("pmset", &["-g"])
        .map_or_else(|| Check::new("sleep", State::Warning, "pmset does not answer"), |text| of_sleep(&text));
    vec![xcode, simulators, sleep]
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
    let minutes = |key: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        lines.find_map(|mut words| {
            (words.next() == Some(key)).then(|| words.next()?.parse::<u32>().ok()).flatten()
        })
    };
    match (minutes("SleepDisabled"), minutes("sleep")) {
        (Some(1), _) | (_, Some(0)) => Check::new("sleep", State::Ok, "this Mac does not fall asleep"),
        (_, Some(after)) => {
            let text = format!("this Mac sleeps after {after} minutes, and jobs with it");
            Check::new("sleep", State::Warning, text).mended_by("sudo pmset -a sleep 0 disksleep 0")
        }
        (_, None) => Check::new("sleep", State::Warning, "pmset says nothing of sleep"),
    }
}

#[cfg(test)]
mod tests {
    use super::{State, of_simulators, of_sleep};

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

    #[test]
    fn simulators_are_counted() {
        let listed = "== Devices ==\n-- iOS 18.2 --\n    iPhone 16 (6A1F4D5C-0000-4000-8000-000000000000) (Shutdown) \n    iPhone 16 Pro (7B1F4D5C-0000-4000-8000-000000000000) (Booted) \n";
        assert_eq!(of_simulators(listed).text, "2 are available");
        assert_eq!(of_simulators("== Devices ==\n").state, State::Warning);
    }
}
