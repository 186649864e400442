//! Division of the process's open files (descriptors) between peers and the store.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use std::io;

/// Minimum limit on open files. Below it, the parts are too small for a pool.
const NEEDED: u64 = 256;
/// The limit is raised up to this number where the system allows it: links use half of it.
const WANTED: u64 = 1 << 17;
/// Maximum that macOS accepts where the hard limit is infinite (`OPEN_MAX`, setrlimit(2) there).
const OPEN_MAX: u64 = 10_240;
/// Divisor: connections without a link may use this fraction of the descriptors.
const NEWCOMERS_PART: u64 = 4;
/// Divisor: links may use this fraction of the descriptors. The store uses the rest.
const LINKS_PART: u64 = 2;
/// Maximum connections that are not a link, over all addresses.
const NEWCOMERS_MAX: u64 = 512;
/// Maximum links of all tokens.
const LINKS_MAX: u64 = 65_536;

/// Numbers of descriptors by use. A flood of one use does not take those of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptors {
    /// Connections that are not a link.
    pub(crate) pending_connections: usize,
    /// Links.
    pub(crate) links: usize,
}

impl Descriptors {
    /// Raises the process's limit on open files as far as the system allows, and divides it.
    ///
    /// # Errors
    /// If the limit is too low for a coordinator.
    pub(crate) fn reserve() -> io::Result<Self> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let raised = [WANTED, OPEN_MAX].into_iter().map(|most| hard.min(most as rlim_t)).find(|limit| {
            // The next number is tried if the system refuses this one.
            *limit > soft && setrlimit(Resource::RLIMIT_NOFILE, *limit, hard).is_ok()
        });
        Self::of_limit(raised.unwrap_or(soft))
    }

    fn of_limit(limit: u64) -> io::Result<Self> {
        if limit < NEEDED {
            let text = format!(
                "limit on open files: {limit} is too low for a coordinator; at least {NEEDED} are needed; raise it with `ulimit -n 65536`, or with LimitNOFILE= in its systemd unit"
            );
            return Err(io::Error::other(text));
        }
        let part = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            pending_connections: part((limit / NEWCOMERS_PART).min(NEWCOMERS_MAX)),
            links: part((limit / LINKS_PART).min(LINKS_MAX)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, NEEDED};

    #[test]
    fn a_quarter_of_the_descriptors_is_left_to_the_store() {
        for limit in [NEEDED, 1_024, 20_000, u64::MAX] {
            let Descriptors { pending_connections, links } = Descriptors::of_limit(limit).expect("enough");
            assert!(pending_connections >= 64 && links >= 128, "{limit}");
            assert!((pending_connections + links) as u64 <= limit / 4 * 3, "{limit}");
        }
        let refused = Descriptors::of_limit(NEEDED - 1).expect_err("too few").to_string();
        assert!(refused.contains("255") && refused.contains("256"), "{refused}");
    }
}
