//! Limits on the links of one token's name and of one address, so that each leaves connections for
//! others.

use buildpool_protocol::error::{ErrorCode, LinkError};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Default)]
struct Counts {
    by_name: HashMap<String, usize>,
    by_address: HashMap<IpAddr, usize>,
}

/// Counts the links of each token's name and of each address.
#[derive(Debug)]
pub(crate) struct Links {
    total_max: usize,
    address_max: usize,
    counts: Arc<Mutex<Counts>>,
}

/// The place of one link, held until it ends.
#[derive(Debug)]
pub(crate) struct LinkPlace {
    name: String,
    address: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Links {
    /// Returns a counter with these limits over all names, and for each address.
    pub(crate) fn new(total_max: usize, address_max: usize) -> Self {
        Self { total_max, address_max, counts: Arc::default() }
    }

    /// Reserves a place for a link. A name may have as many links as there are free places after them, so places stay
    /// free for other names. A proxy on this machine connects from a loopback address for all its clients, so these
    /// addresses have no limit of their own.
    ///
    /// # Errors
    /// [`ErrorCode::Exhausted`] if the name or the address has its part.
    pub(crate) fn admit(&self, name: &str, address: IpAddr) -> Result<LinkPlace, LinkError> {
        let exhausted = |text| Err(LinkError::new(ErrorCode::Exhausted, text));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.total_max.saturating_sub(counts.by_name.values().sum());
        let own = counts.by_name.get(name).copied().unwrap_or(0);
        if own >= free {
            return exhausted(format!(
                "the token `{name}` has {own} connections; {free} more places are kept for other tokens; close some, or raise the coordinator's limit on open files"
            ));
        }
        let from_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if from_address >= self.address_max && !address.is_loopback() {
            return exhausted(format!(
                "{from_address} connections come from {address}; at most {} are valid for one address (connections_per_address): close some, or raise this key of the coordinator",
                self.address_max
            ));
        }
        counts.by_name.insert(name.to_owned(), own + 1);
        counts.by_address.insert(address, from_address + 1);
        drop(counts);
        Ok(LinkPlace { name: name.to_owned(), address, counts: self.counts.clone() })
    }
}

impl Drop for LinkPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        give_back(&mut counts.by_name, &self.name);
        give_back(&mut counts.by_address, &self.address);
    }
}

fn give_back<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Links;
    use std::net::IpAddr;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn one_token_leaves_connections_to_others_and_gives_its_own_back() {
        let links = Links::new(16, 1);
        let mut places = Vec::new();
        let had: Vec<usize> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| {
                let before = places.len();
                places.extend(std::iter::from_fn(|| links.admit(name, LOOPBACK).ok()));
                places.len() - before
            })
            .collect();
        assert_eq!(had, [8, 4, 2, 1]);
        let refused = links.admit("a", LOOPBACK).expect_err("it has its part");
        assert!(refused.message.contains("has 8 connections"));
        drop(places);
        let counts = links.counts.lock().expect("whole");
        assert!(counts.by_name.is_empty() && counts.by_address.is_empty());
        drop(counts);
        assert!(links.admit("a", LOOPBACK).is_ok());
    }

    #[test]
    fn one_address_has_its_part_with_any_number_of_tokens() {
        let links = Links::new(1_000, 3);
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect("valid"));
        let places: Vec<_> =
            ["a", "b", "c"].iter().map(|name| links.admit(name, one).expect("free")).collect();
        let refused = links.admit("d", one).expect_err("the address has its part").message;
        assert!(refused.contains("at most 3") && refused.contains("connections_per_address"), "{refused}");
        assert!(links.admit("a", other).is_ok());
        drop(places);
        assert!(links.admit("d", one).is_ok());
    }
}
