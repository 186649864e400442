//! `buildpool workers upgrade`

use super::release::{Program, Release};
use crate::arguments::UpgradeArguments;
use crate::failure::{Failure, INTERRUPTED, POOL, REFUSED, USAGE};
use crate::settings;
use crate::terminal::table::Table;
use crate::terminal::{self, name};
use crate::upgrade::{Planned, Step, Wanted, lateness, other_order, plan, step};
use buildpool_client::programs::{self, SendError};
use buildpool_client::{Client, ClientError, chain};
use buildpool_objects::pump::PumpError;
use buildpool_protocol::client_link::WorkerSummary;
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::transfer::Checksum;
use buildpool_protocol::upgrade::UpgradeOrder;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval at which the state of a worker is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit for one worker to receive and check the program. The time of its trial is added.
const FETCH_WITHIN: Duration = Duration::from_secs(15 * 60);
/// Limit on the orders to one worker.
const ORDERS_MAX: u32 = 20;
/// Time without a coordinator after which the command ends: longer than the change of the leader, and than its restart.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(120);
/// Pause before a request is repeated.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The result for one worker.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum UpgradeResult {
    /// It had the version before, or another command upgraded it meanwhile.
    UpToDate,
    /// It is selected for the upgrade.
    Planned,
    /// It runs the new version.
    Upgraded,
    /// It runs its previous version.
    Failed,
    /// An earlier worker failed, so its upgrade did not begin.
    NotStarted,
}

/// A worker of the plan, for `--json`.
#[derive(Serialize)]
struct Entry {
    worker: String,
    from: String,
    to: String,
    result: UpgradeResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) async fn run(arguments: &UpgradeArguments) -> Result<ExitCode, Failure> {
    let release = Release::open(&arguments.release, &arguments.to)?;
    let client = settings::connect_to_running(&arguments.pool).await?;
    let wanted = Wanted {
        version: arguments.to.clone(),
        names: arguments.workers.clone(),
        labels: arguments.labels.clone(),
        targets: release.targets(),
    };
    let workers = client.workers().await?;
    let planned = plan(&workers, &wanted).map_err(|reason| Failure::new(USAGE, reason))?;
    terminal::print_progress(&table(&planned, &wanted.version));
    let refused = |planned: &Planned| matches!(planned, Planned::Refused(_));
    if planned.iter().any(|(_, planned)| refused(planned)) {
        return Err(Failure::new(
            REFUSED,
            "some of these workers can't be upgraded, so nothing was changed; the table states the next step for each",
        ));
    }
    let mut entries: Vec<Entry> = planned
        .iter()
        .map(|(worker, planned)| Entry {
            worker: worker.name.clone(),
            from: worker.version.clone(),
            to: wanted.version.clone(),
            result: if *planned == Planned::UpToDate {
                UpgradeResult::UpToDate
            } else {
                UpgradeResult::Planned
            },
            reason: None,
        })
        .collect();
    let ended = if arguments.dry_run {
        Ok(())
    } else {
        upgrade_all(&client, arguments, &release, &planned, &mut entries).await
    };
    if arguments.form.json {
        terminal::print_json(&entries)?;
    }
    ended.map(|()| ExitCode::SUCCESS)
}

fn table(planned: &[(&WorkerSummary, Planned)], version: &str) -> String {
    let mut table = Table::new(["WORKER", "VERSION", "PLAN"]);
    for (worker, planned) in planned {
        let plan = match planned {
            Planned::Upgrade { target } => format!("upgrade to {version} ({target})"),
            Planned::UpToDate => "up to date".to_owned(),
            Planned::Refused(reason) => format!("refused: it {reason}"),
        };
        table.row([worker.name.as_str().into(), worker.version.as_str().into(), plan.into()]);
    }
    table.text()
}

/// Upgrades the workers one after another, and stops at the first failure.
async fn upgrade_all(
    client: &Client,
    arguments: &UpgradeArguments,
    release: &Release,
    planned: &[(&WorkerSummary, Planned)],
    entries: &mut [Entry],
) -> Result<(), Failure> {
    let mut programs: BTreeMap<&str, Sent> = BTreeMap::new();
    for (_, planned) in planned {
        let Planned::Upgrade { target } = planned else { continue };
        if !programs.contains_key(target.as_str()) {
            let program = release.unpack(target)?;
            let (blake3, length) = send(client, target, &program).await?;
            programs.insert(target, Sent { program, blake3, length });
        }
    }
    for index in 0..planned.len() {
        let (worker, Planned::Upgrade { target }) = &planned[index] else { continue };
        let Some(sent) = programs.get(target.as_str()) else { continue };
        let order = UpgradeOrder {
            id: UpgradeId::from_uuid(uuid::Uuid::now_v7()),
            version: arguments.to.clone(),
            blake3: sent.blake3.clone(),
            length: sent.length,
            register_within: arguments.register_within,
        };
        let rollout = Rollout { client, arguments, worker, order: &order, target, program: &sent.program };
        match rollout.run().await {
            Ok(result) => entries[index].result = result,
            Err(failure) => {
                entries[index].result = UpgradeResult::Failed;
                entries[index].reason = Some(failure.message().to_owned());
                let mut not_started = Vec::new();
                for entry in &mut entries[index + 1..] {
                    if entry.result == UpgradeResult::Planned {
                        entry.result = UpgradeResult::NotStarted;
                        not_started.push(name(&entry.worker));
                    }
                }
                let more = format!("not upgraded yet: {}", not_started.join(", "));
                return Err(if not_started.is_empty() { failure } else { failure.and(&more) });
            }
        }
    }
    Ok(())
}

/// A program that the coordinator has received.
struct Sent {
    /// Its file stays, because another coordinator may need it later.
    program: Program,
    blake3: Checksum,
    length: u64,
}

/// Sends a program to the coordinator, unless it has it.
async fn send(client: &Client, target: &str, program: &Program) -> Result<(Checksum, u64), Failure> {
    programs::send(client, program.path()).await.map_err(|error| {
        let is_refused = matches!(&error, SendError::Pump(PumpError::Refused(refused)) if !refused.code.is_worth_a_retry());
        let code = if is_refused { REFUSED } else { POOL };
        Failure::while_doing(code, format!("the program for {target} can't be sent"), &error)
    })
}

/// The upgrade of one worker.
struct Rollout<'a> {
    client: &'a Client,
    arguments: &'a UpgradeArguments,
    worker: &'a WorkerSummary,
    order: &'a UpgradeOrder,
    target: &'a str,
    program: &'a Program,
}

impl Rollout<'_> {
    /// Upgrades the worker: drain, order, registration, resume. Returns `Upgraded`, or `UpToDate` if another command upgraded
    /// it.
    async fn run(&self) -> Result<UpgradeResult, Failure> {
        let shown = name(&self.worker.name);
        let began = Instant::now();
        let done = tokio::select! {
            done = self.carry_out() => done,
            () = super::shutdown_requested() => Err(Failure::new(
                INTERRUPTED,
                format!("`{shown}`: interrupted; an upgrade whose trial has begun goes on, another one ends; a second run continues"),
            )),
        };
        if self.worker.draining {
            terminal::print_progress(&format!("{shown}: it was drained before and stays drained\n"));
        } else {
            match self.resume().await {
                Ok(None) => {}
                Ok(Some(version)) => terminal::print_progress(&format!(
                    "{shown}: it stays drained for the command that upgrades it to {version}; if it is drained after that, `buildpool resume {shown}`\n"
                )),
                Err(reason) => {
                    let text = format!(
                        "`{shown}` stays drained, because the request to resume it failed: {reason}; `buildpool resume {shown}`"
                    );
                    done?;
                    return Err(Failure::new(POOL, text));
                }
            }
        }
        let result = done?;
        let (version, seconds) = (&self.order.version, began.elapsed().as_secs());
        let other = if result == UpgradeResult::Upgraded { "" } else { ", by another command" };
        terminal::print_progress(&format!("{shown}: {version} after {seconds} s{other}\n"));
        Ok(result)
    }

    /// Resumes the worker, unless it carries out an order of another command: the resume would end that. Returns the version
    /// of that order. A signal ends the wait for a coordinator. On an error, returns the reason.
    async fn resume(&self) -> Result<Option<String>, String> {
        let resumed = async {
            let workers = while_unavailable(|| self.client.workers()).await?;
            let now = workers.iter().find(|found| found.worker_id == self.worker.worker_id);
            if let Some(other) = now.and_then(|now| other_order(now, self.order.id)) {
                return Ok(Some(other.version.escape_debug().to_string()));
            }
            self.drain(false).await.map(|()| None)
        };
        tokio::select! {
            resumed = resumed => resumed.map_err(|error: ClientError| chain(&error)),
            () = super::shutdown_requested() => Err("interrupted".to_owned()),
        }
    }

    async fn drain(&self, draining: bool) -> Result<(), ClientError> {
        let deadline = self.arguments.drain_deadline.filter(|_| draining);
        let request = || self.client.drain(&self.worker.worker_id, draining, deadline);
        while_unavailable(request).await.map(|_| ())
    }

    async fn carry_out(&self) -> Result<UpgradeResult, Failure> {
        let (worker, order) = (self.worker, self.order);
        let shown = name(&worker.name);
        let failed =
            |code, reason: String| Failure::new(code, format!("`{shown}` was not upgraded: {reason}"));
        self.drain(true).await?;
        terminal::print_progress(&format!("{shown}: draining; waiting for its jobs\n"));
        let mut ordered: Option<Instant> = None;
        let (mut is_ordered, mut refused) = (false, None);
        // True if the last order that it carried out was another command's.
        let mut is_by_other = false;
        // `first` is the beginning of the time limit.
        let (mut first, mut orders): (Option<Instant>, u32) = (None, 0);
        let within = order.register_within + FETCH_WITHIN;
        loop {
            let workers = while_unavailable(|| self.client.workers()).await?;
            let Some(now) = workers.iter().find(|found| found.worker_id == worker.worker_id) else {
                return Err(failed(REFUSED, "it was removed from the pool meanwhile".to_owned()));
            };
            if let Some(state) = &now.upgrade {
                is_by_other = other_order(now, order.id).is_some() || (is_by_other && state.id != order.id);
            }
            match step(now, order.id, &order.version, ordered.map(|at| at.elapsed())) {
                Step::Done if is_by_other => return Ok(UpgradeResult::UpToDate),
                Step::Done => return Ok(UpgradeResult::Upgraded),
                Step::Failed(reason) => {
                    let reason = format!("{}; it runs {}", terminal::one_line(&reason), now.version);
                    return Err(failed(REFUSED, reason));
                }
                Step::Order if orders < ORDERS_MAX => {
                    if orders == 0 {
                        terminal::print_progress(&format!("{shown}: receives {}\n", order.version));
                    }
                    orders += 1;
                    refused = self.order().await?;
                    if refused.is_none() {
                        // The next states show whether the worker carries it out.
                        (is_ordered, is_by_other) = (true, false);
                    }
                    ordered = Some(Instant::now());
                }
                Step::Order | Step::Wait => {}
            }
            // Before the order, the jobs of a connected worker may take any time.
            let is_busy = orders == 0 && now.connected && now.busy > 0;
            first = if is_busy { None } else { first.or(Some(Instant::now())) };
            if first.is_some_and(|at| at.elapsed() > within) {
                let refused: Option<&str> = refused.as_deref();
                return Err(failed(POOL, lateness(now, order.id, within, is_ordered, refused)));
            }
            // Only the coordinator receives the new state of the worker, and it sends no event about it.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends the order. Returns the text of a refusal that can pass: the order is repeated later.
    async fn order(&self) -> Result<Option<String>, Failure> {
        let request = || self.client.upgrade(&self.worker.worker_id, self.order.clone());
        let mut answer = while_unavailable(request).await;
        // Another coordinator leads, which does not have the program, or the worker was removed.
        if matches!(&answer, Err(ClientError::Refused(refused)) if refused.code == ErrorCode::NotFound) {
            send(self.client, self.target, self.program).await?;
            answer = request().await;
        }
        match answer {
            // The worker has just lost its connection or begun another order, or the new leader does not know its jobs yet.
            Err(ClientError::Refused(refused)) if can_pass(refused.code) => Ok(Some(refused.message)),
            answer => Ok(answer.map(|_| None)?),
        }
    }
}

/// Returns true for a refusal of an order that may be accepted later.
fn can_pass(code: ErrorCode) -> bool {
    code.is_worth_a_retry() || matches!(code, ErrorCode::Conflict | ErrorCode::NotFound)
}

/// Repeats a request while no coordinator serves it, for at most [`UNAVAILABLE_MAX`].
async fn while_unavailable<T, F: Future<Output = Result<T, ClientError>>>(
    request: impl Fn() -> F,
) -> Result<T, ClientError> {
    let began = Instant::now();
    loop {
        match request().await {
            Err(error) if is_unavailable(&error) && began.elapsed() < UNAVAILABLE_MAX => {}
            answer => return answer,
        }
        // No event reports that a coordinator serves again.
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}

fn is_unavailable(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Refused(refused) => refused.code.is_worth_a_retry(),
        _ => false,
    }
}
