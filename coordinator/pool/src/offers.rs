//! Index of workers by the labels and resources that they offer.
//!
//! A pool may have thousands of workers and thousands of different requirements. Without the index,
//! each reason of a waiting job would look at all workers.

use crate::effect::WorkerRecord;
use buildpool_protocol::ids::WorkerId;
use buildpool_protocol::spec::Selector;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The workers with each offer. The key is a hash of the offer, so that long labels are not stored
/// again. Two offers with the same hash share an entry, so an entry may have too many workers.
#[derive(Default, Debug)]
pub(crate) struct Offers(BTreeMap<OfferKey, BTreeSet<WorkerId>>);

/// Hash of an offer or of the requirement that asks for it.
pub(crate) type OfferKey = u64;

static NONE: BTreeSet<WorkerId> = BTreeSet::new();

/// An offer of a worker.
#[derive(Hash)]
enum Offer<'a> {
    Key(&'a str),
    Label(&'a str, &'a str),
    Resource(&'a str),
}

impl Offer<'_> {
    fn key(&self) -> OfferKey {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn of(selector: &Selector) -> OfferKey {
        match &selector.value {
            None => Offer::Key(&selector.key).key(),
            Some(value) => Offer::Label(&selector.key, value).key(),
        }
    }
}

/// Returns the keys of a worker's offers.
pub(crate) fn offers(record: &WorkerRecord) -> impl Iterator<Item = OfferKey> {
    let labels = record.labels.iter();
    let labels = labels.flat_map(|(key, value)| [Offer::Key(key).key(), Offer::Label(key, value).key()]);
    labels.chain(record.resources.keys().map(|name| Offer::Resource(name).key()))
}

impl Offers {
    pub(crate) fn insert(&mut self, record: &WorkerRecord) {
        for offer in offers(record) {
            self.0.entry(offer).or_default().insert(record.worker);
        }
    }

    pub(crate) fn remove(&mut self, record: &WorkerRecord) {
        for offer in offers(record) {
            if let Some(workers) = self.0.get_mut(&offer) {
                workers.remove(&record.worker);
                if workers.is_empty() {
                    self.0.remove(&offer);
                }
            }
        }
    }

    /// Returns true if a worker may match this selector.
    pub(crate) fn has(&self, selector: &Selector) -> bool {
        self.0.contains_key(&Offer::of(selector))
    }

    /// Returns the workers with the rarest of these requirements, or `None` if there is no
    /// requirement.
    pub(crate) fn rarest<'a>(
        &self,
        selectors: impl Iterator<Item = &'a Selector>,
        resources: impl Iterator<Item = &'a String>,
    ) -> Option<&BTreeSet<WorkerId>> {
        let wanted = wanted(selectors, resources);
        wanted.map(|offer| self.with(offer)).min_by_key(|workers| workers.len())
    }

    /// Returns the requirement that the fewest workers meet, or `None` if there is no requirement.
    pub(crate) fn rarest_key<'a>(
        &self,
        selectors: impl Iterator<Item = &'a Selector>,
        resources: impl Iterator<Item = &'a String>,
    ) -> Option<OfferKey> {
        wanted(selectors, resources).min_by_key(|offer| self.with(*offer).len())
    }

    fn with(&self, offer: OfferKey) -> &BTreeSet<WorkerId> {
        self.0.get(&offer).unwrap_or(&NONE)
    }
}

fn wanted<'a>(
    selectors: impl Iterator<Item = &'a Selector>,
    resources: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = OfferKey> {
    selectors.map(Offer::of).chain(resources.map(|name| Offer::Resource(name).key()))
}
