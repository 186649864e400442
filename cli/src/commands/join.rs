//! Files that joining writes: a worker's configuration and its token. An existing configuration
//! keeps all other keys and comments.

use crate::arguments::{Join, TrustOptions};
use crate::failure::{Failure, USAGE};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Spanned, Table, Value};

/// Key that allows sending a token unencrypted.
const PLAIN: &str = "insecure_plain_text";

/// Content to write.
pub(super) struct Joined {
    /// The whole configuration.
    pub(super) config: String,
    /// Path of the token file, unless the token is in the configuration.
    pub(super) token_file: Option<PathBuf>,
    /// Keys of an existing configuration that were changed.
    pub(super) changed: Vec<&'static str>,
}

/// Keys of a configuration that joining reads or changes.
#[derive(Deserialize, Default)]
struct Known {
    coordinator: Option<Spanned<Value>>,
    token: Option<Spanned<Value>>,
    token_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    fingerprint: Option<Spanned<String>>,
    insecure_plain_text: Option<Spanned<bool>>,
    data_dir: Option<PathBuf>,
}

/// An existing worker configuration.
pub(super) struct Present {
    text: String,
    known: Known,
}

impl Present {
    /// Parses the configuration.
    ///
    /// # Errors
    /// If it does not parse: then it can't be changed safely.
    pub(super) fn new(text: String, path: &Path) -> Result<Self, Failure> {
        let known = toml::from_str(&text).map_err(|error| {
            let what = format!("{} is there and can't be read; mend or remove it", path.display());
            Failure::while_doing(USAGE, what, &error)
        })?;
        Ok(Self { text, known })
    }

    /// Returns the configured data directory.
    pub(super) fn data_dir(&self, path: &Path) -> Option<PathBuf> {
        self.known.data_dir.as_ref().map(|named| beside(path, named))
    }

    /// Returns true if the configuration is for the coordinator with this URL.
    fn is_of(&self, url: &str) -> bool {
        self.known.coordinator.as_ref().and_then(|named| named.get_ref().as_str()) == Some(url)
    }

    /// Returns true if the configuration allows sending the token unencrypted.
    fn allows_plain(&self) -> bool {
        self.known.insecure_plain_text.as_ref().is_some_and(|allowed| *allowed.get_ref())
    }

    /// Returns the configured trust settings for the coordinator with this URL. The token and the
    /// command line take precedence.
    pub(super) fn trust(&self, path: &Path, url: &str) -> TrustOptions {
        let ca_file = self.known.ca_file.as_ref().map(|named| beside(path, named.get_ref()));
        TrustOptions {
            ca_file,
            fingerprint: self.known.fingerprint.as_ref().map(|text| text.get_ref().clone()),
            insecure_plain_text: self.allows_plain() && self.is_of(url),
        }
    }
}

/// Resolves a path relative to the configuration's directory.
fn beside(config: &Path, named: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("/")).join(named)
}

/// Returns a new configuration that contains only the keys for joining and these.
pub(super) fn new(
    join: &Join,
    trust: &TrustOptions,
    config: &Path,
    others: Vec<(&'static str, String)>,
) -> Joined {
    let token_file = config.with_extension("token");
    let mut lines =
        vec![("coordinator", quoted(&join.url)), ("token_file", quoted(&token_file.display().to_string()))];
    lines.extend(trust_lines(trust));
    lines.extend(others);
    let lines: String = lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    Joined {
        config: format!("# Written by `buildpool install worker`.\n{lines}slots = 1\n"),
        token_file: Some(token_file),
        changed: Vec::new(),
    }
}

/// Returns the existing configuration with another coordinator and token.
///
/// # Errors
/// If other keys would change.
pub(super) fn changed(
    present: &Present,
    join: &Join,
    trust: &TrustOptions,
    config: &Path,
) -> Result<Joined, Failure> {
    let known = &present.known;
    let (mut edits, mut missing) = (Edits::default(), Vec::new());
    let mut set = |key, span: Option<std::ops::Range<usize>>, value: String| match span {
        Some(span) => edits.replace(key, span, value),
        None => missing.push((key, value)),
    };
    set("coordinator", known.coordinator.as_ref().map(Spanned::span), quoted(&join.url));
    let token_file = match (&known.token, &known.token_file) {
        (Some(token), _) => {
            set("token", Some(token.span()), quoted(&join.token));
            None
        }
        (None, Some(named)) => Some(beside(config, named.get_ref())),
        (None, None) => {
            let file = config.with_extension("token");
            set("token_file", None, quoted(&file.display().to_string()));
            Some(file)
        }
    };
    for (key, value) in trust_lines(trust) {
        let span = match key {
            "ca_file" => known.ca_file.as_ref().map(Spanned::span),
            PLAIN => known.insecure_plain_text.as_ref().map(Spanned::span),
            _ => known.fingerprint.as_ref().map(Spanned::span),
        };
        set(key, span, value);
    }
    // Only one of the two applies, so disable the other.
    if trust.ca_file.is_some()
        && let Some(old) = &known.fingerprint
    {
        edits.disable("fingerprint", &present.text, old.span());
    }
    // That setting was for another network.
    if let Some(old) = &known.insecure_plain_text
        && present.allows_plain()
        && !trust.insecure_plain_text
        && !present.is_of(&join.url)
    {
        edits.disable(PLAIN, &present.text, old.span());
    }
    if !missing.is_empty() {
        // Top-level keys must come before all tables.
        edits.front = missing.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        edits.changed.extend(missing.iter().map(|(key, _)| *key));
    }
    let text = edits.apply(&present.text);
    if others(&text, &edits.changed) != others(&present.text, &edits.changed) {
        let list = edits.changed.join(", ");
        let what = format!(
            "{} is there, and can't be changed without changing more of it; set {list} there yourself",
            config.display()
        );
        return Err(Failure::new(USAGE, what));
    }
    Ok(Joined { config: text, token_file, changed: edits.changed })
}

/// Edits of a text, each with the byte range that it replaces.
#[derive(Default)]
struct Edits {
    list: Vec<(std::ops::Range<usize>, String)>,
    /// Text to insert at the beginning.
    front: String,
    changed: Vec<&'static str>,
}

impl Edits {
    fn replace(&mut self, key: &'static str, span: std::ops::Range<usize>, value: String) {
        self.list.push((span, value));
        self.changed.push(key);
    }

    /// Comments a line out.
    fn disable(&mut self, key: &'static str, text: &str, span: std::ops::Range<usize>) {
        let start = text[..span.start].rfind('\n').map_or(0, |end| end + 1);
        self.list.push((start..start, "# ".to_owned()));
        self.changed.push(key);
    }

    fn apply(&mut self, text: &str) -> String {
        self.list.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = text.to_owned();
        for (span, value) in self.list.iter().rev() {
            out.replace_range(span.clone(), value);
        }
        out.insert_str(0, &self.front);
        out
    }
}

/// Returns all keys of a configuration except these. `None` if it does not parse.
fn others(text: &str, keys: &[&str]) -> Option<Table> {
    let mut table: Table = toml::from_str(text).ok()?;
    table.retain(|key, _| !keys.contains(&key));
    Some(table)
}

fn trust_lines(trust: &TrustOptions) -> Vec<(&'static str, String)> {
    let ca_file = trust.ca_file.as_ref().map(|file| {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        ("ca_file", quoted(&file.display().to_string()))
    });
    let fingerprint = trust.fingerprint.as_ref().map(|text| ("fingerprint", quoted(text)));
    let plain = trust.insecure_plain_text.then(|| (PLAIN, "true".to_owned()));
    ca_file.into_iter().chain(fingerprint).chain(plain).collect()
}

pub(super) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Join, Present, TrustOptions, changed};
    use std::path::Path;

    const PATH: &str = "/etc/bp/worker.toml";

    fn rejoin(text: &str, trust: &TrustOptions) -> super::Joined {
        let join = Join { url: "wss://new:1".into(), token: "bp_new".into() };
        let present = Present::new(text.to_owned(), Path::new(PATH)).unwrap();
        changed(&present, &join, trust, Path::new(PATH)).unwrap()
    }

    #[test]
    fn a_configuration_that_is_there_keeps_what_is_the_machine_s_own() {
        let text = "# ours\nisolation = \"bubblewrap\" # needed\ncoordinator  = 'ws://old' # was\ntoken_file = \"t/x\"\nhidden = [\"/h\"]\n[labels]\ncoordinator = \"a label\"\n";
        let joined = rejoin(text, &TrustOptions::default());
        assert_eq!(joined.config, text.replace("'ws://old'", "\"wss://new:1\""));
        assert_eq!(joined.token_file.as_deref(), Some(Path::new("/etc/bp/t/x")));
        assert_eq!(joined.changed, ["coordinator"]);
        let inline =
            rejoin("token = \"bp_old\"\ncoordinator = \"\"\"\nws://old\"\"\"\n", &TrustOptions::default());
        assert_eq!(inline.config, "token = \"bp_new\"\ncoordinator = \"wss://new:1\"\n");
        assert_eq!(inline.token_file, None);
    }

    #[test]
    fn what_is_missing_goes_before_all_tables_and_one_trust_takes_the_place_of_the_other() {
        let trust = TrustOptions { ca_file: Some("/ca.pem".into()), ..TrustOptions::default() };
        let joined = rejoin("fingerprint = \"ab\"\n[labels]\na = \"b\"\n", &trust);
        assert_eq!(
            joined.config,
            "coordinator = \"wss://new:1\"\ntoken_file = \"/etc/bp/worker.token\"\nca_file = \"/ca.pem\"\n# fingerprint = \"ab\"\n[labels]\na = \"b\"\n"
        );
        assert!(Present::new("slots = ".into(), Path::new(PATH)).is_err());
        let plain = TrustOptions { insecure_plain_text: true, ..TrustOptions::default() };
        let joined = rejoin("insecure_plain_text = false\ntoken = \"bp_old\"\n", &plain);
        assert_eq!(
            joined.config,
            "coordinator = \"wss://new:1\"\ninsecure_plain_text = true\ntoken = \"bp_new\"\n"
        );
        let none = TrustOptions::default();
        let moved =
            rejoin("coordinator = \"ws://old:1\"\ninsecure_plain_text = true\ntoken = \"bp_old\"\n", &none);
        assert_eq!(
            moved.config,
            "coordinator = \"wss://new:1\"\n# insecure_plain_text = true\ntoken = \"bp_new\"\n"
        );
        let same =
            rejoin("coordinator = \"wss://new:1\"\ninsecure_plain_text = true\ntoken = \"bp_old\"\n", &none);
        assert!(same.config.contains("\ninsecure_plain_text = true\n"), "{}", same.config);
        // A multi-line value can't be commented out, so nothing is changed.
        let odd = Present::new("fingerprint = \"\"\"\nab\"\"\"\n".into(), Path::new(PATH)).unwrap();
        let join = Join { url: "wss://new:1".into(), token: "bp_new".into() };
        assert!(changed(&odd, &join, &trust, Path::new(PATH)).is_err());
    }
}
