//! Limits of the messages between a worker and the coordinator.

use super::{Limited, Limiter};
use crate::limits::{
    ATTEMPTS_HELD_MAX, LABELS_BYTES_MAX, LIST_MAX, LOG_LENGTH_MAX, NAME_BYTES_MAX, OFFERS_MAX,
    PROJECT_BYTES_MAX, SLOTS_MAX, TEXT_BYTES_MAX, UNITS_MAX,
};
use crate::outcome::OutputHeld;
use crate::worker_link::{Condition, FromWorker, Held, Register, ToWorker};
use std::collections::BTreeMap;

impl Limited for FromWorker {
    fn limit(&mut self, limiter: &mut Limiter) {
        match self {
            Self::Register(register) => register.limit(limiter),
            Self::Report { held, condition } => {
                all_held(held, limiter);
                condition.limit(limiter);
            }
            Self::Complete { lease: _, outcome } => outcome.limit(limiter),
            Self::Decline { lease: _, reason } => limiter.text("reason", reason, TEXT_BYTES_MAX),
            Self::Stdin { lease: _, from, until } => {
                for position in from.iter_mut().chain([until]) {
                    limiter.number("stdin", position, LOG_LENGTH_MAX);
                }
            }
            Self::Transfer(step) => step.limit(limiter),
        }
    }
}

impl Limited for Register {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            protocol: _,
            worker: _,
            boot: _,
            earlier,
            name,
            version,
            slots,
            labels,
            resources,
            accepts,
            held,
            condition,
        } = self;
        limiter.list("earlier", earlier, LIST_MAX);
        limiter.name("worker name", name, NAME_BYTES_MAX);
        limiter.name("version", version, NAME_BYTES_MAX);
        limiter.number("slots", &mut u64::from(*slots), u64::from(SLOTS_MAX));
        limit_labels(labels, limiter);
        limit_resources(resources, limiter);
        limiter.count("accepts", accepts.len(), OFFERS_MAX);
        for name in accepts {
            limiter.name("accepts", name, NAME_BYTES_MAX);
        }
        all_held(held, limiter);
        condition.limit(limiter);
    }
}

fn limit_labels(labels: &BTreeMap<String, String>, limiter: &mut Limiter) {
    limiter.count("labels", labels.len(), OFFERS_MAX);
    for (key, value) in labels {
        limiter.name("label", key, NAME_BYTES_MAX);
        limiter.name("label value", value, TEXT_BYTES_MAX);
    }
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > LABELS_BYTES_MAX {
        limiter.refuse("labels", &format!("{bytes} bytes together; at most {LABELS_BYTES_MAX} are valid"));
    }
}

fn limit_resources(resources: &BTreeMap<String, u32>, limiter: &mut Limiter) {
    limiter.count("resources", resources.len(), OFFERS_MAX);
    for (name, units) in resources {
        limiter.name("resource", name, NAME_BYTES_MAX);
        if *units > UNITS_MAX {
            limiter.refuse("resource", &format!("{units} units; at most {UNITS_MAX} are valid"));
        }
    }
}

/// Checks the held attempts. The list is never shortened, because a missing attempt would count as
/// lost.
fn all_held(held: &mut [Held], limiter: &mut Limiter) {
    limiter.count("held", held.len(), ATTEMPTS_HELD_MAX);
    for held in held {
        held.limit(limiter);
    }
}

impl Limited for Held {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { lease: _, state: _, log_length, started_at_ms, output_held } = self;
        limiter.number("log_length", log_length, LOG_LENGTH_MAX);
        if let Some(time) = started_at_ms {
            limiter.time("started_at_ms", time);
        }
        if let Some(held) = output_held {
            held.limit(limiter);
        }
    }
}

impl Limited for OutputHeld {
    fn limit(&mut self, limiter: &mut Limiter) {
        // The parser limits each duration.
        let Self { held_for: _, reason } = self;
        limiter.text("output_held", reason, TEXT_BYTES_MAX);
    }
}

impl Limited for Condition {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            draining: _,
            quarantined,
            disk_free_bytes,
            disk_total_bytes,
            warm_projects,
            stdin: _,
            // The pool uses at most `EARLY_GRANTS_MAX` of them.
            early_grants: _,
            upgrade_target,
            upgrade,
        } = self;
        limiter.optional("quarantined", quarantined, TEXT_BYTES_MAX);
        if let Some(bytes) = disk_free_bytes {
            limiter.number("disk_free_bytes", bytes, LOG_LENGTH_MAX);
        }
        if let Some(bytes) = disk_total_bytes {
            limiter.number("disk_total_bytes", bytes, LOG_LENGTH_MAX);
        }
        limiter.texts("warm_projects", warm_projects, OFFERS_MAX, PROJECT_BYTES_MAX + TEXT_BYTES_MAX);
        limiter.optional("upgrade_target", upgrade_target, NAME_BYTES_MAX);
        if let Some(upgrade) = upgrade {
            limiter.name("upgrade version", &upgrade.version, NAME_BYTES_MAX);
            limiter.text("upgrade reason", &mut upgrade.reason, TEXT_BYTES_MAX);
        }
    }
}

/// No field limits: a worker runs the commands that its coordinator grants, so it trusts the
/// coordinator's texts. The size of the message and each duration are limited by the parser.
impl Limited for ToWorker {
    fn limit(&mut self, _limiter: &mut Limiter) {}
}
