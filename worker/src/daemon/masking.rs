//! Masks the values of secrets in evidence, as in the streams, before it is stored or sent.

use crate::keeper::mask::Masker;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::spec::JobSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Directory of artifacts whose paths are not shown.
const UNNAMED: &str = "unnamed";
/// Reason why texts are left out.
const NO_VALUES: &str =
    "the worker was restarted, and text can't be masked without the values of the job's secrets";

/// Values to mask.
#[derive(Clone)]
pub(super) enum Masking {
    /// The job has no secrets.
    Nothing,
    /// The values are known.
    Values(Box<Masker>),
    /// The job has secrets, but this daemon started after they arrived.
    Unknown,
}

impl Masking {
    /// Creates the masking from the spec only.
    pub(super) fn from_spec(spec: &JobSpec) -> Self {
        if spec.secrets.is_empty() { Self::Nothing } else { Self::Unknown }
    }

    pub(super) fn of_secrets(secrets: &BTreeMap<String, Secret>) -> Self {
        let masker = Masker::new(secrets.values().map(|secret| secret.0.as_str()));
        masker.map_or(Self::Nothing, |masker| Self::Values(Box::new(masker)))
    }

    /// Adds the values that a keeper has sent.
    pub(super) fn add_values(&mut self, secrets: &BTreeMap<String, Secret>) {
        if !secrets.is_empty() {
            *self = Self::of_secrets(secrets);
        }
    }

    /// Returns evidence without values of secrets. If masking is not possible, no evidence is
    /// collected.
    pub(super) fn evidence(&self, find: impl FnOnce() -> Evidence) -> Evidence {
        match self {
            Self::Nothing => find(),
            Self::Values(masker) => masked(&find(), masker).unwrap_or_else(|| {
                without("the reports can't be shown without the values of the job's secrets")
            }),
            Self::Unknown => without(&format!("no reports were read: {NO_VALUES}")),
        }
    }

    /// Replaces known values in the paths of artifacts. Paths that become equal get a number, because a path names one artifact.
    /// If the values are not known, a path that the spec does not name as it is may contain one: it is replaced as a whole,
    /// and the result is a note about this.
    pub(super) fn paths(&self, artifacts: &mut [ArtifactEntry], patterns: &[String]) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Values(masker) => {
                Self::mask_values(masker, artifacts);
                None
            }
            Self::Unknown => Self::replace_paths(artifacts, patterns),
        }
    }

    fn replace_paths(artifacts: &mut [ArtifactEntry], patterns: &[String]) -> Option<String> {
        let (named, unnamed): (Vec<_>, Vec<_>) =
            artifacts.iter_mut().partition(|artifact| patterns.contains(&artifact.path));
        let mut free = (1..)
            .map(|number| format!("{UNNAMED}/{number}"))
            .filter(|path| named.iter().all(|artifact| artifact.path != *path));
        let count = unnamed.len();
        unnamed.into_iter().zip(&mut free).for_each(|(artifact, path)| artifact.path = path);
        (count > 0)
            .then(|| format!("artifacts without their paths, as `{UNNAMED}/NUMBER`: {count}; {NO_VALUES}"))
    }

    fn mask_values(masker: &Masker, artifacts: &mut [ArtifactEntry]) {
        let mut taken: BTreeSet<String> = artifacts.iter().map(|artifact| artifact.path.clone()).collect();
        for artifact in artifacts {
            let masked = masker.text(&artifact.path);
            if masked != artifact.path {
                let numbered = (2..).map(|number| format!("{masked}.{number}"));
                let free = std::iter::once(masked.clone()).chain(numbered).find(|path| !taken.contains(path));
                artifact.path = free.unwrap_or(masked);
                taken.insert(artifact.path.clone());
            }
        }
    }

    /// Returns notes about artifacts without values of secrets. If the values are not known, the notes are counted only.
    pub(super) fn notes(&self, notes: Vec<String>) -> Vec<String> {
        match self {
            Self::Nothing => notes,
            Self::Values(masker) => notes.iter().map(|note| masker.text(note)).collect(),
            Self::Unknown if notes.is_empty() => notes,
            Self::Unknown => {
                vec![format!("notes about artifacts that are not shown: {}; {NO_VALUES}", notes.len())]
            }
        }
    }
}

fn without(why: &str) -> Evidence {
    Evidence { notes: vec![why.to_owned()], ..Evidence::default() }
}

/// Masks every text in the evidence. Returns `None` if a secret equals a word of the format itself.
fn masked(evidence: &Evidence, masker: &Masker) -> Option<Evidence> {
    let mut value = serde_json::to_value(evidence).ok()?;
    mask_texts(&mut value, masker);
    serde_json::from_value(value).ok()
}

fn mask_texts(value: &mut Value, masker: &Masker) {
    match value {
        Value::String(text) => *text = masker.text(text),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_texts(value, masker)),
        Value::Object(fields) => fields.values_mut().for_each(|value| mask_texts(value, masker)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::Masking;
    use buildpool_protocol::client_link::Secret;
    use buildpool_protocol::evidence::{Evidence, TestCase, TestReport};
    use buildpool_protocol::report::ArtifactEntry;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::collections::BTreeMap;

    fn found() -> Evidence {
        let case =
            TestCase { name: "t".into(), messages: vec!["got hunter2!".into()], ..TestCase::default() };
        let report =
            TestReport { path: "r.xml".into(), failed: 1, cases: vec![case], ..TestReport::default() };
        Evidence { test_reports: vec![report], notes: vec!["aHVudGVyMiE=".into()], ..Evidence::default() }
    }

    #[test]
    fn every_text_of_the_evidence_is_masked_and_nothing_else_changes() {
        let secrets = |value: &str| BTreeMap::from([("WORD".to_owned(), Secret(value.into()))]);
        let masked = Masking::of_secrets(&secrets("hunter2!")).evidence(found);
        let mut expected = found();
        expected.test_reports[0].cases[0].messages[0] = "got ***".into();
        expected.notes[0] = "***E=".into();
        assert_eq!(masked, expected);
        // A value that is a word of the format discards the evidence.
        let masked = Masking::of_secrets(&secrets("passed")).evidence(found);
        assert_eq!((masked.test_reports.len(), masked.notes.len()), (0, 1));
    }

    #[test]
    fn values_in_paths_of_artifacts_are_masked_and_each_path_stays_unique() {
        let entry = |path: &str| ArtifactEntry { path: path.into(), ..ArtifactEntry::default() };
        let mut artifacts = ["a/hunter2!.txt", "a/***.txt.2", "a/hunter2%21.txt", "b.txt"].map(entry);
        let secrets = BTreeMap::from([("WORD".to_owned(), Secret("hunter2!".into()))]);
        assert_eq!(Masking::of_secrets(&secrets).paths(&mut artifacts, &[]), None);
        let paths = artifacts.each_ref().map(|artifact| artifact.path.as_str());
        assert_eq!(paths, ["a/***.txt", "a/***.txt.2", "a/***.txt.3", "b.txt"]);
    }

    #[test]
    fn without_the_values_only_paths_and_notes_of_the_spec_are_shown() {
        let mut spec = JobSpec::new(Command::Shell("true".into()), Source::Empty);
        spec.secrets = vec!["WORD".into()];
        spec.artifacts = vec!["out.txt".into(), "unnamed/1".into(), "*".into()];
        let masking = Masking::from_spec(&spec);
        let entry = |path: &str| ArtifactEntry { path: path.into(), ..ArtifactEntry::default() };
        let mut artifacts = ["a-hunter2!.txt", "b-hunter2!.txt", "out.txt", "unnamed/1"].map(entry);
        let note = masking.paths(&mut artifacts, &spec.artifacts).unwrap();
        assert!(note.contains("`unnamed/NUMBER`: 2;"), "{note}");
        let paths = artifacts.each_ref().map(|artifact| artifact.path.as_str());
        assert_eq!(paths, ["unnamed/2", "unnamed/3", "out.txt", "unnamed/1"]);
        let notes = masking.notes(vec!["c-hunter2!.txt is not readable".into()]);
        assert!(notes.len() == 1 && !notes[0].contains("hunter2"), "{notes:?}");
        assert!(masking.notes(Vec::new()).is_empty());
    }

    #[test]
    fn without_the_values_nothing_is_read() {
        let mut spec = JobSpec::new(Command::Shell("true".into()), Source::Empty);
        assert_eq!(Masking::from_spec(&spec).evidence(found), found());
        spec.secrets = vec!["WORD".into()];
        let mut masking = Masking::from_spec(&spec);
        let none = masking.evidence(|| panic!("it must not be looked for"));
        assert!(none.test_reports.is_empty() && none.notes[0].contains("restarted"), "{none:?}");
        masking.add_values(&BTreeMap::from([("WORD".to_owned(), Secret("hunter2!".into()))]));
        assert_eq!(masking.evidence(found).test_reports.len(), 1);
    }
}
