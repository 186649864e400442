//! The order in which the coordinators of a pool are dialled.

use crate::PoolUrl;

/// Redirects that are followed in a row. Two coordinators that each take the other for the leader must not keep a
/// caller busy.
const REDIRECTS_MAX: u32 = 4;

/// The order of attempts: the known coordinators in turn, and at once the leader that a standby names.
#[derive(Clone, Debug)]
pub struct Route {
    coordinators: Vec<PoolUrl>,
    next: usize,
    leader: Option<PoolUrl>,
    redirects: u32,
    /// Failures since the last connection.
    failures: usize,
}

impl Route {
    /// Returns a route that begins at the first coordinator.
    pub fn new(url: &PoolUrl) -> Self {
        Self::beginning_at(url, 0)
    }

    /// Returns a route that begins at the coordinator with this index.
    pub fn beginning_at(url: &PoolUrl, first: usize) -> Self {
        let coordinators: Vec<PoolUrl> = url.coordinators().collect();
        let next = first % coordinators.len();
        Self { coordinators, next, leader: None, redirects: 0, failures: 0 }
    }

    /// Returns the coordinator to dial now.
    pub fn current(&self) -> &PoolUrl {
        self.leader.as_ref().unwrap_or(&self.coordinators[self.next])
    }

    /// Returns true if there are several coordinators.
    pub fn has_several(&self) -> bool {
        self.coordinators.len() > 1
    }

    /// Makes the leader the next one to dial. Returns false if too many redirects came in a row, or if the leader
    /// needs other protection of the connection than the known coordinators. The attempt has failed then.
    pub fn redirect(&mut self, leader: PoolUrl) -> bool {
        self.redirects += 1;
        let follows =
            self.redirects <= REDIRECTS_MAX && leader.is_secure() == self.coordinators[0].is_secure();
        if follows {
            self.leader = Some(leader);
        }
        follows
    }

    /// Notes a failed attempt. Returns true if each coordinator has failed since the last connection, so that the
    /// caller should pause.
    pub fn failed(&mut self) -> bool {
        // A coordinator that named a leader that can't be used may name it again and again.
        if self.leader.take().is_none() || self.redirects > 0 {
            self.next = (self.next + 1) % self.coordinators.len();
        }
        self.redirects = 0;
        self.failures += 1;
        self.failures.is_multiple_of(self.coordinators.len())
    }

    /// Notes that the coordinator has accepted the registration. It is dialled first the next time.
    pub fn connected(&mut self) {
        (self.redirects, self.failures) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{PoolUrl, REDIRECTS_MAX, Route};

    fn route(url: &str) -> Route {
        Route::new(&url.parse().unwrap())
    }

    #[test]
    fn the_coordinators_take_turns_and_a_pause_follows_a_whole_turn() {
        let mut route = route("ws://a:1,ws://b:1");
        assert_eq!(route.current().host(), "a");
        assert!(!route.failed());
        assert_eq!(route.current().host(), "b");
        assert!(route.failed(), "both have failed");
        assert_eq!(route.current().host(), "a");
        route.connected();
        assert!(!route.failed());
        let url = "ws://a:1,ws://b:1".parse().unwrap();
        assert_eq!(Route::beginning_at(&url, 1).current().host(), "b");
    }

    #[test]
    fn a_leader_is_dialled_at_once_and_forgotten_when_it_fails() {
        let mut route = route("ws://a:1,ws://b:1");
        assert!(route.redirect("ws://c:1".parse().unwrap()));
        assert_eq!(route.current().host(), "c");
        route.connected();
        assert_eq!(route.current().host(), "c", "also after the connection was lost");
        route.failed();
        assert_eq!(route.current().host(), "a");
    }

    #[test]
    fn a_coordinator_that_names_a_dead_leader_does_not_keep_the_route() {
        let mut route = route("ws://a:1,ws://b:1");
        assert!(route.redirect("ws://gone:1".parse().unwrap()));
        route.failed();
        assert_eq!(route.current().host(), "b");
    }

    #[test]
    fn redirects_end_and_never_give_up_tls() {
        let mut route = route("wss://a:1");
        assert!(!route.redirect("ws://c:1".parse().unwrap()));
        assert!(route.failed());
        let other: PoolUrl = "wss://b:1".parse().unwrap();
        let followed = (0..10).filter(|_| route.redirect(other.clone())).count();
        assert_eq!(followed as u32, REDIRECTS_MAX);
    }
}
