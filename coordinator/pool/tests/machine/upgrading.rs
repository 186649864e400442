//! Tests of orders to replace a worker's program.

use crate::scene::{Scene, held, refused_as, register};
use buildpool_pool::{ClientRef, Effect, Input};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::upgrade::{UpgradeOrder, UpgradeStage, UpgradeState};
use buildpool_protocol::worker_link::{Condition, HeldState, Register, ToWorker};
use std::time::Duration;

fn order() -> UpgradeOrder {
    UpgradeOrder {
        id: UpgradeId::from_uuid(uuid::Uuid::from_u128(7)),
        version: "0.2.0".into(),
        blake3: "ab".repeat(32).parse().expect("64 digits"),
        length: 10,
        register_within: Duration::from_secs(60),
    }
}

fn accepting() -> Condition {
    Condition { upgrade_target: Some("x86_64-unknown-linux-gnu".into()), ..Condition::default() }
}

fn upgrade(scene: &mut Scene, worker: &str) -> Vec<Effect> {
    let client = ClientRef { connection: 1, request: 1 };
    scene.step(Input::Upgrade { client, worker: worker.into(), order: order() })
}

/// Returns the orders that were sent.
fn sent(effects: &[Effect]) -> usize {
    let is_order = |effect: &&Effect| matches!(effect, Effect::Send { message, .. } if matches!(**message, ToWorker::Upgrade(_)));
    effects.iter().filter(is_order).count()
}

#[test]
fn only_a_drained_worker_that_accepts_programs_gets_an_order() {
    let mut scene = Scene::new();
    assert_eq!(refused_as(&upgrade(&mut scene, "mac-1")), ErrorCode::NotFound);
    let (session, _) = scene.join(register(1, 1));
    scene.drain("mac-1", true, None);
    assert_eq!(refused_as(&upgrade(&mut scene, "mac-1")), ErrorCode::Forbidden, "it did not opt in");
    scene.gone(session);
    assert_eq!(refused_as(&upgrade(&mut scene, "mac-1")), ErrorCode::Unavailable);
    let (session, _) = scene.join(Register { condition: accepting(), ..register(1, 1) });
    scene.drain("mac-1", false, None);
    scene.step(Input::Reported { session, held: Vec::new(), condition: accepting() });
    assert_eq!(refused_as(&upgrade(&mut scene, "mac-1")), ErrorCode::Conflict, "it takes jobs");
    scene.plain(1);
    let lease = scene.lease(1);
    scene.step(Input::Reported {
        session,
        held: vec![held(lease, HeldState::Running)],
        condition: accepting(),
    });
    scene.drain("mac-1", true, None);
    assert_eq!(refused_as(&upgrade(&mut scene, "mac-1")), ErrorCode::Conflict, "it runs a job");
    scene.pass_job(lease);
    scene.step(Input::Reported { session, held: Vec::new(), condition: accepting() });
    let effects = upgrade(&mut scene, "mac-1");
    assert_eq!(sent(&effects), 1, "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Acknowledged { job: None, .. })));
}

#[test]
fn a_worker_that_carries_out_an_order_gets_no_other_one() {
    let mut scene = Scene::new();
    let (session, _) = scene.join(Register { condition: accepting(), ..register(1, 1) });
    scene.drain("mac-1", true, None);
    let report = |scene: &mut Scene, id, stage| {
        let upgrade = UpgradeState { id, version: "0.2.0".into(), stage, reason: String::new() };
        let condition = Condition { upgrade: Some(upgrade), ..accepting() };
        scene.step(Input::Reported { session, held: Vec::new(), condition });
    };
    let other = UpgradeId::from_uuid(uuid::Uuid::from_u128(8));
    for stage in [UpgradeStage::Fetching, UpgradeStage::Trial] {
        report(&mut scene, other, stage);
        let refused = upgrade(&mut scene, "mac-1");
        assert_eq!(refused_as(&refused), ErrorCode::Conflict, "{stage:?}");
        assert_eq!(sent(&refused), 0);
        report(&mut scene, order().id, stage);
        assert_eq!(sent(&upgrade(&mut scene, "mac-1")), 1, "{stage:?}: the same order, repeated");
    }
    report(&mut scene, other, UpgradeStage::Failed);
    assert_eq!(sent(&upgrade(&mut scene, "mac-1")), 1);
}

#[test]
fn the_progress_of_an_upgrade_is_in_the_list_of_workers() {
    let mut scene = Scene::new();
    let (session, _) = scene.join(Register { condition: accepting(), ..register(1, 1) });
    let failed = UpgradeState {
        id: order().id,
        version: "0.2.0".into(),
        stage: UpgradeStage::Failed,
        reason: "it did not register".into(),
    };
    let condition = Condition { upgrade: Some(failed.clone()), ..accepting() };
    scene.step(Input::Reported { session, held: Vec::new(), condition });
    let view = scene.pool.workers().remove(0);
    assert_eq!((view.upgrade, view.upgrade_target), (Some(failed), accepting().upgrade_target));
}
