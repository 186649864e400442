//! Snapshots at rest and on the way, as client, coordinator and worker all need them: git run safely, object caches,
//! packs, and whole files that resume where they were cut. Does disk I/O and starts `git`; knows no network.
