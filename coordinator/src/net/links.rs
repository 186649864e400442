//! Limit on the links of one token's name, so that one token leaves connections for others.

use buildpool_protocol::error::{ErrorCode, LinkError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// Counts the links of each token's name.
#[derive(Debug)]
pub(crate) struct Links {
    total_max: usize,
    by_name: Counts,
}

/// The place of one link, held until it ends.
#[derive(Debug)]
pub(crate) struct LinkPlace {
    name: String,
    by_name: Counts,
}

impl Links {
    /// Returns a counter with this limit over all names.
    pub(crate) fn new(total_max: usize) -> Self {
        Self { total_max, by_name: Arc::default() }
    }

    /// Reserves a place for a link. A name may have as many links as there are free places after them, so places stay
    /// free for other names.
    ///
    /// # Errors
    /// [`ErrorCode::Exhausted`] if the name has its part.
    pub(crate) fn admit(&self, name: &str) -> Result<LinkPlace, LinkError> {
        let mut counts = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.total_max.saturating_sub(counts.values().sum());
        let own = counts.get(name).copied().unwrap_or(0);
        if own >= free {
            let text = format!(
                "the token `{name}` has {own} connections; {free} more places are kept for other tokens; close some, or raise the coordinator's limit on open files"
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        counts.insert(name.to_owned(), own + 1);
        drop(counts);
        Ok(LinkPlace { name: name.to_owned(), by_name: self.by_name.clone() })
    }
}

impl Drop for LinkPlace {
    fn drop(&mut self) {
        let mut counts = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Links;

    #[test]
    fn one_token_leaves_connections_to_others_and_gives_its_own_back() {
        let links = Links::new(16);
        let mut places = Vec::new();
        let had: Vec<usize> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| {
                let before = places.len();
                places.extend(std::iter::from_fn(|| links.admit(name).ok()));
                places.len() - before
            })
            .collect();
        assert_eq!(had, [8, 4, 2, 1]);
        assert!(links.admit("a").expect_err("it has its part").message.contains("has 8 connections"));
        drop(places);
        assert!(links.by_name.lock().expect("whole").is_empty());
        assert!(links.admit("a").is_ok());
    }
}
