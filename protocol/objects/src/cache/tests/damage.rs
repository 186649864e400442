//! Tests of damaged caches.

use super::*;

/// A cache with two snapshots, each in its own pack.
struct Damaged {
    source: Source,
    cache: ObjectCache,
    first: Manifest,
    second: Manifest,
}

impl Damaged {
    fn new() -> Self {
        let source = Source::new();
        let cache = source.cache("cache");
        let first = source.commit(&borrowed(&many_files()));
        cache.accept(&source.pack(&first, None).path, &first, None).unwrap();
        let second = source.commit(&[("new", "new\n".repeat(100))]);
        let thin = source.pack(&second, Some(&first.tree));
        cache.accept(&thin.path, &second, Some(&first.tree)).unwrap();
        assert!(cache.looks_whole() && !cache.mend(|| true).unwrap());
        Self { source, cache, first, second }
    }

    /// Returns its packs. The first one is larger and belongs to the first snapshot.
    fn packs(&self) -> Vec<PathBuf> {
        let directory = self.cache.directory().join("objects/pack");
        let stems = self.cache.packs("pack").unwrap().into_iter();
        let mut packs: Vec<PathBuf> = stems.map(|stem| directory.join(format!("{stem}.pack"))).collect();
        packs.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
        assert_eq!(packs.len(), 2);
        packs
    }

    fn both_come_anew(&self) {
        for manifest in [&self.first, &self.second] {
            let pack = self.source.pack(manifest, None);
            self.cache.accept(&pack.path, manifest, None).unwrap();
        }
        assert!(self.cache.looks_whole() && !self.cache.mend(|| true).unwrap());
    }
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_gone_or_cut_off_is_seen_at_a_look_and_comes_anew() {
    let kinds: [fn(&Path); 4] = [
        |pack| rewrite(pack, |bytes| bytes.truncate(bytes.len() / 2)),
        |pack| rewrite(pack, Vec::clear),
        |pack| fs::remove_file(pack.with_extension("idx")).unwrap(),
        |pack| fs::remove_file(pack).unwrap(),
    ];
    for damage in kinds {
        let bench = Damaged::new();
        damage(&bench.packs()[0]);
        assert!(!bench.cache.looks_whole());
        assert!(bench.cache.mend(|| true).unwrap());
        assert_eq!(bench.cache.manifests(), [], "the second one needs the first one's files");
        assert!(!bench.cache.has_tree(&bench.first.tree));
        bench.both_come_anew();
    }
    let bench = Damaged::new();
    for pack in bench.packs() {
        fs::remove_file(pack.with_extension("idx")).unwrap();
        fs::remove_file(pack).unwrap();
    }
    assert!(!bench.cache.looks_whole());
    assert!(bench.cache.mend(|| true).unwrap());
    bench.both_come_anew();
}

#[test]
fn what_only_git_sees_is_found_and_what_is_whole_stays() {
    let kinds: [fn(&Path); 2] = [
        |pack| {
            rewrite(pack, |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x40;
            });
        },
        |pack| {
            fs::remove_file(pack.with_extension("idx")).unwrap();
            fs::remove_file(pack).unwrap();
        },
    ];
    for damage in kinds {
        let bench = Damaged::new();
        damage(&bench.packs()[1]);
        assert!(bench.cache.mend(|| true).unwrap());
        assert_eq!(bench.cache.manifests(), std::slice::from_ref(&bench.first));
        assert!(bench.cache.has_tree(&bench.first.tree) && !bench.cache.has_tree(&bench.second.tree));
        let thin = bench.source.pack(&bench.second, Some(&bench.first.tree));
        bench.cache.accept(&thin.path, &bench.second, Some(&bench.first.tree)).unwrap();
        assert!(!bench.cache.mend(|| true).unwrap());
    }
}

#[test]
fn nothing_goes_while_somebody_uses_it() {
    let bench = Damaged::new();
    fs::remove_file(&bench.packs()[0]).unwrap();
    let reading = bench.cache.hold().unwrap();
    assert!(!bench.cache.mend(|| true).unwrap());
    drop(reading);
    assert!(!bench.cache.mend(|| false).unwrap());
    assert_eq!(bench.cache.manifests().len(), 2);
    assert!(bench.cache.mend(|| true).unwrap());
}

#[test]
fn an_empty_head_or_configuration_is_written_again() {
    let bench = Damaged::new();
    for name in ["HEAD", "config"] {
        fs::write(bench.cache.directory().join(name), "").unwrap();
        bench.cache.missing_ids(&bench.first).ok();
        assert_eq!(bench.source.cache("cache").missing_ids(&bench.first).unwrap(), [], "{name}");
    }
}
