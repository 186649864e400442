//! `buildpool workers upgrade`

use super::release::Release;
use crate::arguments::UpgradeArguments;
use crate::failure::{Failure, INTERRUPTED, POOL, REFUSED, USAGE};
use crate::settings;
use crate::terminal::table::Table;
use crate::terminal::{self, name};
use crate::upgrade::{Planned, Step, Wanted, plan, step};
use buildpool_client::programs::{self, SendError};
use buildpool_client::{Client, chain};
use buildpool_objects::pump::PumpError;
use buildpool_protocol::client_link::WorkerSummary;
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

/// A worker of the plan, for `--json`.
#[derive(Serialize)]
struct Entry {
    worker: String,
    from: String,
    to: String,
    /// `upgraded`, `has`, `planned`, `failed` or `left`.
    result: &'static str,
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
            result: if *planned == Planned::Has { "has" } else { "planned" },
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
            Planned::Has => "has it".to_owned(),
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
    let mut programs: BTreeMap<&str, (Checksum, u64)> = BTreeMap::new();
    for (_, planned) in planned {
        let Planned::Upgrade { target } = planned else { continue };
        if !programs.contains_key(target.as_str()) {
            let program = release.unpack(target)?;
            let sent = programs::send(client, program.path()).await;
            let sent = sent.map_err(|error| {
                let is_refused = matches!(&error, SendError::Pump(PumpError::Refused(refused)) if !refused.code.is_worth_a_retry());
                let code = if is_refused { REFUSED } else { POOL };
                Failure::while_doing(code, format!("the program for {target} can't be sent"), &error)
            })?;
            programs.insert(target, sent);
        }
    }
    for index in 0..planned.len() {
        let (worker, Planned::Upgrade { target }) = &planned[index] else { continue };
        let Some((blake3, length)) = programs.get(target.as_str()).cloned() else { continue };
        let order = UpgradeOrder {
            id: UpgradeId::from_uuid(uuid::Uuid::now_v7()),
            version: arguments.to.clone(),
            blake3,
            length,
            register_within: arguments.register_within,
        };
        match one(client, arguments, worker, &order).await {
            Ok(()) => entries[index].result = "upgraded",
            Err(failure) => {
                entries[index].result = "failed";
                entries[index].reason = Some(failure.message().to_owned());
                let mut left = Vec::new();
                for entry in entries[index + 1..].iter_mut().filter(|entry| entry.result == "planned") {
                    entry.result = "left";
                    left.push(name(&entry.worker));
                }
                let more = format!("not upgraded yet: {}", left.join(", "));
                return Err(if left.is_empty() { failure } else { failure.and(&more) });
            }
        }
    }
    Ok(())
}

/// Upgrades one worker: drain, order, registration, resume.
async fn one(
    client: &Client,
    arguments: &UpgradeArguments,
    worker: &WorkerSummary,
    order: &UpgradeOrder,
) -> Result<(), Failure> {
    let shown = name(&worker.name);
    let began = Instant::now();
    let done = tokio::select! {
        done = carry_out(client, arguments, worker, order) => done,
        () = super::asked_to_end() => Err(Failure::new(
            INTERRUPTED,
            format!("`{shown}`: interrupted; an upgrade whose trial has begun goes on, another one ends; a second run continues"),
        )),
    };
    if worker.draining {
        terminal::print_progress(&format!("{shown}: it was drained before and stays drained\n"));
    } else if let Err(error) = client.drain(&worker.worker_id, false, None).await {
        let text =
            format!("`{shown}` stays drained, because the request to resume it failed: {}", chain(&error));
        done?;
        return Err(Failure::new(POOL, text));
    }
    done?;
    terminal::print_progress(&format!("{shown}: {} after {} s\n", order.version, began.elapsed().as_secs()));
    Ok(())
}

async fn carry_out(
    client: &Client,
    arguments: &UpgradeArguments,
    worker: &WorkerSummary,
    order: &UpgradeOrder,
) -> Result<(), Failure> {
    let shown = name(&worker.name);
    let failed = |code, reason: String| Failure::new(code, format!("`{shown}` was not upgraded: {reason}"));
    client.drain(&worker.worker_id, true, arguments.drain_deadline).await?;
    terminal::print_progress(&format!("{shown}: draining; waiting for its jobs\n"));
    let mut ordered: Option<Instant> = None;
    let (mut first, mut orders) = (None, 0);
    let within = order.register_within + FETCH_WITHIN;
    loop {
        let workers = client.workers().await?;
        let Some(now) = workers.iter().find(|found| found.worker_id == worker.worker_id) else {
            return Err(failed(REFUSED, "it was removed from the pool meanwhile".to_owned()));
        };
        match step(now, order.id, &order.version, ordered.map(|at| at.elapsed())) {
            Step::Done => return Ok(()),
            Step::Failed(reason) => {
                return Err(failed(
                    REFUSED,
                    format!("{}; it runs {}", terminal::one_line(&reason), now.version),
                ));
            }
            Step::Order if orders < ORDERS_MAX => {
                if orders == 0 {
                    terminal::print_progress(&format!("{shown}: receives {}\n", order.version));
                }
                orders += 1;
                ordered = Some(Instant::now());
                first = first.or(ordered);
                client.upgrade(&worker.worker_id, order.clone()).await?;
            }
            Step::Order | Step::Wait => {}
        }
        if first.is_some_and(|at: Instant| at.elapsed() > within) {
            let state = if now.connected { "it is connected" } else { "it is not connected" };
            return Err(failed(
                POOL,
                format!(
                    "it did not register with the new version within {} s ({state} now with version {}); look at its log on its machine",
                    within.as_secs(),
                    now.version
                ),
            ));
        }
        // Only the coordinator receives the new state of the worker, and it sends no event about it.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
