//! Index of workers by the labels and resources that they offer.
//!
//! A pool may have thousands of workers and thousands of different requirements. Without the index,
//! each reason of a waiting job would look at all workers.

use crate::effect::WorkerRecord;
use buildpool_protocol::ids::WorkerId;
use buildpool_protocol::spec::{JobSpec, Selector};
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;

/// Workers by each of their offers. The key is a hash of the offer, so that long labels are not stored
/// again. Two offers with the same hash share an entry, so an entry may have too many workers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Offers {
    by_offer: BTreeMap<OfferKey, BTreeSet<WorkerId>>,
    all: BTreeSet<WorkerId>,
}

/// Hash of an offer or of the requirement that needs it.
pub(crate) type OfferKey = u64;

static NONE: BTreeSet<WorkerId> = BTreeSet::new();

/// An offer of a worker.
#[derive(Hash)]
enum Offer<'a> {
    Key(&'a str),
    Label(&'a str, &'a str),
    Resource(&'a str),
    /// Jobs of a submitter or team; of all submitters if `None`.
    JobsOf(Option<&'a str>),
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
pub(crate) fn offers(record: &WorkerRecord) -> Box<[OfferKey]> {
    let labels = record.labels.iter();
    let labels = labels.flat_map(|(key, value)| [Offer::Key(key).key(), Offer::Label(key, value).key()]);
    let resources = record.resources.keys().map(|name| Offer::Resource(name).key());
    let accepts = record.accepts.iter().map(|name| Offer::JobsOf(Some(name)).key());
    let accepts_all = record.accepts.is_empty().then(|| Offer::JobsOf(None).key());
    labels.chain(resources).chain(accepts).chain(accepts_all).collect()
}

impl Offers {
    pub(crate) fn insert(&mut self, worker: WorkerId, offers: &[OfferKey]) {
        self.all.insert(worker);
        for offer in offers {
            self.by_offer.entry(*offer).or_default().insert(worker);
        }
    }

    pub(crate) fn remove(&mut self, worker: WorkerId, offers: &[OfferKey]) {
        self.all.remove(&worker);
        for offer in offers {
            if let Some(workers) = self.by_offer.get_mut(offer) {
                workers.remove(&worker);
                if workers.is_empty() {
                    self.by_offer.remove(offer);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn contains(&self, worker: WorkerId) -> bool {
        self.all.contains(&worker)
    }

    /// Returns the workers that may fit a job, by identity: those with its rarest requirement, or those that accept its
    /// submitter if these are fewer.
    pub(crate) fn candidates(&self, spec: &JobSpec) -> Candidates<'_> {
        let names = spec.access.names.iter().map(|name| Some(name.as_str()));
        let accepting = std::iter::once(None).chain(names).map(|name| self.with(Offer::JobsOf(name).key()));
        let accepting: Vec<&BTreeSet<WorkerId>> = accepting.filter(|workers| !workers.is_empty()).collect();
        let count: usize = accepting.iter().map(|workers| workers.len()).sum();
        let selectors = spec.selectors.iter().chain(&spec.access.labels);
        let resources = spec.resources.iter().filter(|(_, count)| **count > 0).map(|(name, _)| name);
        match self.rarest(selectors, resources) {
            Some(few) if few.len() <= count => Candidates::new(&[few]),
            _ => Candidates::new(&accepting),
        }
    }

    /// Returns true if a worker may match this selector.
    pub(crate) fn has(&self, selector: &Selector) -> bool {
        self.by_offer.contains_key(&Offer::of(selector))
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
        self.by_offer.get(&offer).unwrap_or(&NONE)
    }
}

fn wanted<'a>(
    selectors: impl Iterator<Item = &'a Selector>,
    resources: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = OfferKey> {
    selectors.map(Offer::of).chain(resources.map(|name| Offer::Resource(name).key()))
}

/// The union of sets of workers, by identity.
pub(crate) struct Candidates<'a> {
    sets: Vec<Peekable<btree_set::Iter<'a, WorkerId>>>,
    /// The sum of the sets' lengths.
    most: usize,
}

impl<'a> Candidates<'a> {
    fn new(sets: &[&'a BTreeSet<WorkerId>]) -> Self {
        let most = sets.iter().map(|workers| workers.len()).sum();
        Self { sets: sets.iter().map(|workers| workers.iter().peekable()).collect(), most }
    }

    /// Returns the number of candidates, or a larger number if a worker accepts several names of the submitter.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

impl Iterator for Candidates<'_> {
    type Item = WorkerId;

    fn next(&mut self) -> Option<WorkerId> {
        let first = **self.sets.iter_mut().filter_map(Peekable::peek).min()?;
        for set in &mut self.sets {
            set.next_if(|worker| **worker == first);
        }
        Some(first)
    }
}
