//! The decisions of `buildpool workers upgrade`: which workers are upgraded, and the next step for one of them. Pure; the
//! shell is `commands/upgrade`.

use buildpool_protocol::client_link::WorkerSummary;
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::spec::Selector;
use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};
use std::time::Duration;

/// Time after which an order is sent again to a worker that shows no sign of it: it was killed, or the order was lost.
const ORDER_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The requested upgrade.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) version: String,
    /// Names of the workers. All if empty.
    pub(crate) names: Vec<String>,
    /// Labels that a worker must have.
    pub(crate) labels: Vec<Selector>,
    /// Targets that the release has programs for.
    pub(crate) targets: Vec<String>,
}

/// The plan for one worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Planned {
    /// It gets the program of this target.
    Upgrade { target: String },
    /// It has the version.
    UpToDate,
    /// It can't be upgraded. Nothing is changed then.
    Refused(String),
}

/// Returns the selected workers in the order of the list, each with its plan.
///
/// # Errors
/// A name that no worker has, or a selection without workers.
pub(crate) fn plan<'a>(
    workers: &'a [WorkerSummary],
    wanted: &Wanted,
) -> Result<Vec<(&'a WorkerSummary, Planned)>, String> {
    let is_named = |name: &str| workers.iter().any(|worker| worker.name == name);
    if let Some(name) = wanted.names.iter().find(|name| !is_named(name)) {
        return Err(format!("no worker is named `{}`; `buildpool workers` lists them", name.escape_debug()));
    }
    let is_selected = |worker: &&WorkerSummary| {
        (wanted.names.is_empty() || wanted.names.contains(&worker.name))
            && wanted.labels.iter().all(|label| label.matches(&worker.labels))
    };
    let selected: Vec<_> =
        workers.iter().filter(is_selected).map(|worker| (worker, planned(worker, wanted))).collect();
    if selected.is_empty() {
        return Err("no worker has these names and labels; `buildpool workers` lists them".to_owned());
    }
    Ok(selected)
}

fn planned(worker: &WorkerSummary, wanted: &Wanted) -> Planned {
    if worker.version == wanted.version {
        return Planned::UpToDate;
    }
    if !worker.connected {
        return Planned::Refused("is not connected: start it, or name only the others".to_owned());
    }
    let Some(target) = &worker.upgrade_target else {
        return Planned::Refused(
            "accepts no programs: set `upgrades = true` in its configuration and start it again".to_owned(),
        );
    };
    // A universal program has the code of both kinds of Mac.
    let universal = target.ends_with("-apple-darwin").then_some("universal-apple-darwin");
    let candidates = [Some(target.as_str()), universal];
    let found = candidates.into_iter().flatten().find(|name| wanted.targets.iter().any(|has| has == name));
    match found {
        Some(target) => Planned::Upgrade { target: target.to_owned() },
        None => Planned::Refused(format!(
            "needs a program for {target}: put buildpool-{}-{target}.tar.gz and SHA256SUMS of the release into the directory",
            wanted.version
        )),
    }
}

/// The next step for a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing, until its state changes.
    Wait,
    /// Send the order.
    Order,
    /// It runs the new program.
    Done,
    /// Its upgrade ended without the new program, for this reason.
    Failed(String),
}

/// Returns the order of another command that a worker carries out.
pub(crate) fn other_order(worker: &WorkerSummary, id: UpgradeId) -> Option<&UpgradeState> {
    worker.upgrade.as_ref().filter(|state| state.id != id && state.stage != UpgradeStage::Failed)
}

/// Returns why a worker did not register with the version in time. `refused` is the last refusal of an order; `is_ordered`
/// is true if an order was accepted.
pub(crate) fn lateness(
    worker: &WorkerSummary,
    id: UpgradeId,
    within: Duration,
    is_ordered: bool,
    refused: Option<&str>,
) -> String {
    let within = within.as_secs();
    let state = if worker.connected { "it is connected" } else { "it is not connected" };
    let state = format!("{state} now with version {}", worker.version);
    if is_ordered {
        return format!(
            "it did not register with the new version within {within} s ({state}); look at its log on its machine"
        );
    }
    if let Some(other) = other_order(worker, id) {
        let version = other.version.escape_debug();
        return format!(
            "another command's upgrade of it to {version} did not end within {within} s ({state}); look at its log on its machine"
        );
    }
    if !worker.connected {
        return format!("it was away for {within} s and got no order; start it, and run the command again");
    }
    let reason = refused.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("it got no order within {within} s ({state}){reason}; run the command again")
}

/// Returns the next step for a worker that was drained. `ordered` is the time since the order was last sent.
pub(crate) fn step(worker: &WorkerSummary, id: UpgradeId, version: &str, ordered: Option<Duration>) -> Step {
    if !worker.connected {
        return Step::Wait;
    }
    let own = worker.upgrade.as_ref().filter(|state| state.id == id);
    match own.map(|state| (state.stage, &state.reason)) {
        Some((UpgradeStage::Fetching | UpgradeStage::Trial, _)) => return Step::Wait,
        Some((UpgradeStage::Failed, reason)) => return Step::Failed(reason.clone()),
        None => {}
    }
    match other_order(worker, id) {
        // A trial registers with the new version, but the worker may keep its old program.
        Some(state) if state.version == version => Step::Wait,
        Some(state) => Step::Failed(format!(
            "another command upgrades it to {}; wait for the end of that one, and run this one again",
            state.version.escape_debug()
        )),
        None if worker.version == version => Step::Done,
        None if !worker.draining => {
            Step::Failed("it was resumed before its program was replaced; run the command again".to_owned())
        }
        None if worker.busy > 0 => Step::Wait,
        None if ordered.is_none_or(|since| since >= ORDER_AGAIN_AFTER) => Step::Order,
        None => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::{Planned, Step, Wanted, lateness, other_order, plan, step};
    use buildpool_protocol::client_link::WorkerSummary;
    use buildpool_protocol::ids::UpgradeId;
    use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};
    use std::time::Duration;

    fn worker(name: &str) -> WorkerSummary {
        let text = format!(
            r#"{{"name":"{name}","worker_id":"w","connected":true,"draining":true,"quarantined":null,"slots":1,"busy":0,
            "labels":{{"os":"macos"}},"resources":{{}},"jobs":[],"last_seen":null,"version":"0.1.0",
            "upgrade_target":"aarch64-apple-darwin"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn wanted() -> Wanted {
        Wanted {
            version: "0.2.0".into(),
            targets: vec!["aarch64-apple-darwin".into(), "x86_64-unknown-linux-gnu".into()],
            ..Wanted::default()
        }
    }

    fn refused(planned: &Planned) -> &str {
        match planned {
            Planned::Refused(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_worker_is_upgraded_has_the_version_or_is_refused_with_the_next_step() {
        let workers = [
            worker("mac-1"),
            WorkerSummary { version: "0.2.0".into(), connected: false, ..worker("mac-2") },
            WorkerSummary { connected: false, ..worker("mac-3") },
            WorkerSummary { upgrade_target: None, ..worker("mac-4") },
            WorkerSummary { upgrade_target: Some("riscv64-unknown-linux-gnu".into()), ..worker("mac-5") },
            WorkerSummary { upgrade_target: Some("x86_64-apple-darwin".into()), ..worker("mac-6") },
        ];
        let of = |index: usize, wanted: &Wanted| plan(&workers, wanted).unwrap()[index].1.clone();
        let wanted = wanted();
        assert_eq!(of(0, &wanted), Planned::Upgrade { target: "aarch64-apple-darwin".into() });
        assert_eq!(of(1, &wanted), Planned::UpToDate);
        assert!(refused(&of(2, &wanted)).contains("not connected"));
        assert!(refused(&of(3, &wanted)).contains("set `upgrades = true`"));
        assert!(refused(&of(4, &wanted)).contains("buildpool-0.2.0-riscv64-unknown-linux-gnu.tar.gz"));
        assert!(refused(&of(5, &wanted)).contains("x86_64-apple-darwin"));
        let universal = Wanted { targets: vec!["universal-apple-darwin".into()], ..wanted };
        assert_eq!(of(5, &universal), Planned::Upgrade { target: "universal-apple-darwin".into() });
    }

    #[test]
    fn names_and_labels_select() {
        let workers = [worker("mac-1"), worker("mac-2")];
        let names = |wanted: &Wanted| -> Result<Vec<String>, String> {
            Ok(plan(&workers, wanted)?.into_iter().map(|(worker, _)| worker.name.clone()).collect())
        };
        assert_eq!(names(&wanted()).unwrap(), ["mac-1", "mac-2"]);
        assert_eq!(names(&Wanted { names: vec!["mac-2".into()], ..wanted() }).unwrap(), ["mac-2"]);
        let error = names(&Wanted { names: vec!["mac-3".into()], ..wanted() }).unwrap_err();
        assert!(error.contains("no worker is named `mac-3`"), "{error}");
        let labels = |text: &str| Wanted { labels: vec![text.parse().unwrap()], ..wanted() };
        assert_eq!(names(&labels("os=macos")).unwrap().len(), 2);
        assert!(names(&labels("os=linux")).is_err());
    }

    #[test]
    fn an_order_is_sent_once_and_again_only_after_a_loss() {
        let id = UpgradeId::from_uuid(uuid::Uuid::from_u128(1));
        let state = |stage, id| {
            Some(UpgradeState { id, version: "0.2.0".into(), stage, reason: "it did not register".into() })
        };
        let next = |worker: &WorkerSummary, ordered| step(worker, id, "0.2.0", ordered);
        let idle = worker("mac-1");
        let second = Some(Duration::from_secs(1));
        assert_eq!(next(&idle, None), Step::Order);
        assert_eq!(next(&idle, second), Step::Wait);
        assert_eq!(next(&idle, Some(Duration::from_secs(60))), Step::Order, "it was killed meanwhile");
        assert_eq!(next(&WorkerSummary { busy: 1, ..idle.clone() }, None), Step::Wait);
        for stage in [UpgradeStage::Fetching, UpgradeStage::Trial] {
            let busy = WorkerSummary { upgrade: state(stage, id), version: "0.2.0".into(), ..idle.clone() };
            assert_eq!(next(&busy, second), Step::Wait, "{stage:?}");
        }
        let failed = WorkerSummary { upgrade: state(UpgradeStage::Failed, id), ..idle.clone() };
        assert_eq!(next(&failed, second), Step::Failed("it did not register".into()));
        let earlier = UpgradeId::from_uuid(uuid::Uuid::from_u128(2));
        let other = WorkerSummary { upgrade: state(UpgradeStage::Failed, earlier), ..idle.clone() };
        assert_eq!(next(&other, None), Step::Order, "an earlier order failed");
        let new = WorkerSummary { version: "0.2.0".into(), ..idle.clone() };
        assert_eq!(next(&new, second), Step::Done);
        assert_eq!(next(&WorkerSummary { connected: false, ..new }, second), Step::Wait);
    }

    #[test]
    fn a_resumed_worker_and_one_of_another_command_end_the_wait() {
        let (own, another) = (UpgradeId::from_uuid(uuid::Uuid::from_u128(1)), uuid::Uuid::from_u128(2));
        let next = |worker: &WorkerSummary| step(worker, own, "0.2.0", None);
        let idle = worker("mac-1");
        let failed = |step| match step {
            Step::Failed(reason) => reason,
            other => panic!("{other:?}"),
        };
        for busy in [0, 1] {
            let resumed = WorkerSummary { draining: false, busy, ..idle.clone() };
            assert!(failed(next(&resumed)).contains("it was resumed"), "{busy}");
        }
        let ended = WorkerSummary { draining: false, version: "0.2.0".into(), ..idle.clone() };
        assert_eq!(next(&ended), Step::Done, "the command that upgraded it has resumed it");
        for stage in [UpgradeStage::Fetching, UpgradeStage::Trial] {
            let of = |version: &str| {
                let id = UpgradeId::from_uuid(another);
                let state = UpgradeState { id, version: version.into(), stage, reason: String::new() };
                WorkerSummary { version: version.into(), upgrade: Some(state), ..idle.clone() }
            };
            assert_eq!(next(&of("0.2.0")), Step::Wait, "{stage:?}: the same upgrade");
            assert!(failed(next(&of("0.3.0"))).contains("upgrades it to 0.3.0"), "{stage:?}");
            assert!(other_order(&of("0.3.0"), own).is_some(), "{stage:?}: it stays drained for that command");
            assert!(other_order(&of("0.2.0"), UpgradeId::from_uuid(another)).is_none(), "{stage:?}: its own");
        }
    }

    #[test]
    fn a_late_worker_is_described_by_what_it_was_sent() {
        let (own, another) = (UpgradeId::from_uuid(uuid::Uuid::from_u128(1)), uuid::Uuid::from_u128(2));
        let late = |worker: &WorkerSummary, is_ordered, refused| {
            lateness(worker, own, Duration::from_secs(960), is_ordered, refused)
        };
        let idle = worker("mac-1");
        let away = WorkerSummary { connected: false, ..idle.clone() };
        let ordered = "did not register with the new version within 960 s (it is";
        assert!(late(&idle, true, None).contains(ordered));
        assert!(late(&away, true, None).contains(ordered));
        assert!(late(&away, false, None).contains("was away for 960 s and got no order; start it"));
        let refused = late(&idle, false, Some("it is not drained"));
        assert!(refused.contains("got no order within 960 s") && refused.contains(": it is not drained"));
        let id = UpgradeId::from_uuid(another);
        let (version, stage) = ("0.2.0".to_owned(), UpgradeStage::Fetching);
        let upgrade = Some(UpgradeState { id, version, stage, reason: String::new() });
        let busy = WorkerSummary { upgrade, ..idle };
        assert!(late(&busy, false, None).contains("another command's upgrade of it to 0.2.0 did not end"));
    }
}
