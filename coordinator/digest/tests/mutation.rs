//! Removes each recognizer in turn and expects a log that detects it. A log *turns red* if an
//! expected fact (verdict, findings, locations, counts) no longer holds. It *changes* if its digest
//! differs.
//!
//! `BUILDPOOL_MUTATION=all cargo test -p buildpool-digest --test mutation -- --nocapture` lists for
//! each recognizer the logs that turn red or change. It takes a minute. `BUILDPOOL_CORPUS` names a
//! directory with more logs.

mod cases;
mod printed;
mod recorded;

use buildpool_digest::limits::WHOLE_LOG_CHARS;
use buildpool_digest::{Digest, Digester, Facts, Options, recognisers, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use cases::{Case, cases, faults_of_fine, fine};
use recorded::{Log, ending, hidden, read, sets};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Recognizers whose removal no log detects, each with the reason to keep it.
const UNNOTICED: &[(&str, &str)] = &[
    ("apple.targets", "the compilers' rule gives the same finding; this one names the tool in `--explain`"),
    (
        "c.fatal",
        "the general rule for a place with a severity gives the same finding; this one adds the excerpt",
    ),
    ("maven.warning", "the general rule for `[WARNING]` gives the same finding; this one names the tool"),
    ("nix.error", "the compilers' rule for `error:` comes first; it stands for the form that Nix has"),
    (
        "rust.short",
        "the general rule for a place with a severity gives the same finding; this one names the tool",
    ),
    ("swift.macro", "the compilers' rule for `error:` gives the same finding; this one names the tool"),
    ("swiftlint", "the compilers' rule for a place with a severity comes first; it stands for the form"),
    ("tsc.unplaced", "the compilers' rule for `error:` gives the same finding; this one names the tool"),
];

/// Returns the differences between a digest and its expectation.
type Faults = dyn Fn(&Digest) -> Vec<String>;

/// A log, the ending of its command, and the expectation for its digest.
struct Sample {
    name: String,
    bytes: Rc<[u8]>,
    ending: Option<Ending>,
    faults: Box<Faults>,
}

/// Digest and shown text of a sample.
struct Seen {
    digest: Digest,
    /// Complete text shown to a reader.
    face: String,
    matched_rules: Vec<&'static str>,
}

impl Sample {
    fn seen(&self, without: Option<&str>) -> Seen {
        let options = Options { without_rules: without.map(str::to_owned), ..Options::default() };
        let mut digester = Digester::new(options.clone());
        digester.push(Stream::Stdout, &self.bytes);
        let live = digester.live();
        let mut ended = Digester::new(options);
        ended.push(Stream::Stdout, &self.bytes);
        // The last line may have no end.
        ended.push(Stream::Stdout, b"\n");
        let matched_rules = ended.matched_rules().collect();
        let digest = digester.finish(&Facts { ending: self.ending.clone(), ..Facts::default() });
        let face = format!("{live:?} {}", face(&self.padded(without)));
        Seen { digest, face, matched_rules }
    }

    /// Digest of the same log after so many blank lines that the answer cannot show it whole.
    fn padded(&self, without: Option<&str>) -> Digest {
        let options = Options { without_rules: without.map(str::to_owned), ..Options::default() };
        let mut digester = Digester::new(options);
        digester.push(Stream::Stdout, &[b'\n'; WHOLE_LOG_CHARS + 1]);
        digester.push(Stream::Stdout, &self.bytes);
        digester.finish(&Facts { ending: self.ending.clone(), ..Facts::default() })
    }
}

/// Text of a digest without the findings' ids, which depend on the rule.
fn face(digest: &Digest) -> String {
    let mut result = JobResult::default();
    digest.render(Verbosity::Normal, None, None, &mut result);
    let mut shown = text(&result);
    let mut findings = Vec::new();
    for finding in &digest.findings {
        shown = shown.replace(&finding.id, "ID");
        findings.push((
            &finding.message,
            finding.tier,
            finding.severity,
            &finding.location,
            &finding.test,
            &finding.category,
        ));
    }
    format!(
        "{:?} {:?} {:?} {:?} {:?} {} {findings:?} {shown}",
        digest.verdict,
        digest.crash_type,
        digest.cause,
        digest.tests,
        digest.crash_indicators,
        digest.flaky_tests
    )
}

/// Possible endings of a command with this output: the real one, unknown, and exit code 0 as from a
/// pipe.
fn endings(real: Option<Ending>) -> Vec<Option<Ending>> {
    let mut endings = vec![real, None, Some(Ending::Exited { code: 0 })];
    endings.dedup();
    endings
}

fn samples_of(log: Log) -> Vec<Sample> {
    let real = log.exit_code.map(ending);
    let log = Rc::new(log);
    let sample = |ending: Option<Ending>| {
        let (of, is_real, known) = (Rc::clone(&log), ending == real, ending.is_some());
        let faults = move |digest: &Digest| {
            if known && !is_real {
                return Vec::new();
            }
            let contradicted = of.is_contradicted(digest.verdict, known).then(|| digest.verdict.to_string());
            contradicted.into_iter().chain(of.missing(digest)).collect()
        };
        Sample { name: log.id.clone(), bytes: log.bytes.as_slice().into(), ending, faults: Box::new(faults) }
    };
    endings(real.clone()).into_iter().map(sample).collect()
}

fn samples_of_case(case: &'static Case) -> Vec<Sample> {
    let real = Some(Ending::Exited { code: 1 });
    let sample = |ending: Option<Ending>| {
        let (is_real, known) = (ending == real, ending.is_some());
        let faults = move |digest: &Digest| match (is_real, known) {
            (true, _) => case.faults(digest),
            (false, true) => Vec::new(),
            (false, false) => {
                (digest.verdict == Verdict::Passed).then(|| case.tool.to_owned()).into_iter().collect()
            }
        };
        Sample {
            name: case.tool.to_owned(),
            bytes: case.log.as_bytes().into(),
            ending,
            faults: Box::new(faults),
        }
    };
    endings(real.clone()).into_iter().map(sample).collect()
}

/// All logs, the shortest first.
fn samples() -> Vec<Sample> {
    let mut all: Vec<Sample> =
        sets().iter().flat_map(|directory| read(directory)).flat_map(samples_of).collect();
    all.extend(cases().flat_map(samples_of_case));
    for run in printed::runs() {
        for ending in endings(Some(Ending::Exited { code: run.code })) {
            let real = ending.as_ref().is_none_or(|ending| *ending == Ending::Exited { code: run.code });
            let known = ending.is_some();
            all.push(Sample {
                name: run.what.to_owned(),
                bytes: run.log.as_bytes().into(),
                ending,
                faults: Box::new(move |digest| if real { run.faults(digest, known) } else { Vec::new() }),
            });
        }
    }
    all.push(Sample {
        name: "xcodebuild, silent, exit code 65".to_owned(),
        bytes: b"Command line invocation:\n    xcodebuild -scheme App build\n".as_slice().into(),
        ending: Some(Ending::Exited { code: 65 }),
        faults: Box::new(|digest| {
            (digest.verdict != Verdict::Failed).then(String::new).into_iter().collect()
        }),
    });
    for (tool, log) in fine().chain(printed::GOOD_TOTALS) {
        for ending in [None, Some(Ending::Exited { code: 0 })] {
            let known = ending.is_some();
            all.push(Sample {
                name: format!("{tool}, all well"),
                bytes: log.as_bytes().into(),
                ending,
                faults: Box::new(move |digest| faults_of_fine(tool, digest, known)),
            });
        }
    }
    for (name, log) in hidden() {
        all.push(Sample {
            name,
            bytes: log.into(),
            ending: Some(Ending::Exited { code: 0 }),
            faults: Box::new(|digest| {
                (digest.verdict == Verdict::Passed).then(String::new).into_iter().collect()
            }),
        });
    }
    all.sort_by_key(|sample| sample.bytes.len());
    all
}

/// Effect of the removal of a recognizer.
#[derive(Default)]
struct Effect {
    red: BTreeSet<String>,
    changed: BTreeSet<String>,
}

/// Effect on the logs that the recognizer matches. Stops at the first log that detects it, unless
/// `all` is set.
fn effect(rule: &str, samples: &[(Sample, Seen)], all: bool) -> Effect {
    let mut effect = Effect::default();
    for (sample, with) in samples.iter().filter(|(_, seen)| seen.matched_rules.contains(&rule)) {
        let without = sample.seen(Some(rule));
        if without.face == with.face {
            continue;
        }
        if (sample.faults)(&without.digest).is_empty() {
            effect.changed.insert(sample.name.clone());
        } else {
            effect.red.insert(sample.name.clone());
        }
        if !all {
            break;
        }
    }
    effect
}

#[test]
fn every_recogniser_is_missed_by_a_log_when_it_is_gone() {
    let all = std::env::var_os("BUILDPOOL_MUTATION").is_some();
    let samples: Vec<_> = samples()
        .into_iter()
        .map(|sample| {
            let seen = sample.seen(None);
            (sample, seen)
        })
        .collect();
    let excepted: BTreeSet<&str> = UNNOTICED.iter().map(|(rule, _)| *rule).collect();
    let (mut wrong, mut reds) = (Vec::new(), 0);
    for rule in recognisers() {
        let Effect { red, changed } = effect(rule, &samples, all);
        reds += usize::from(!red.is_empty());
        println!("{rule}: red {red:?}, changed {changed:?}");
        match (red.is_empty() && changed.is_empty(), excepted.contains(rule)) {
            (true, false) => wrong.push(format!("{rule}: no log notices when it is gone")),
            (false, true) => {
                wrong.push(format!("{rule}: it is an exception, and a log notices when it is gone"))
            }
            _ => {}
        }
    }
    println!(
        "{} recognisers, {reds} with a log that turns red, {} excepted",
        recognisers().len(),
        excepted.len()
    );
    for rule in excepted {
        assert!(recognisers().contains(&rule), "{rule} is an exception and is no recogniser");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
