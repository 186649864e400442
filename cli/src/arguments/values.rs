//! Parsers of structured values.

use crate::failure::{Failure, USAGE};
use buildpool_coordinator::config::VALID_ADDRESSES;
use buildpool_protocol::JobState;
use buildpool_protocol::client_link::{Role, StreamChoice};
use buildpool_protocol::limits::UNITS_MAX;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Network, OnLost, check_given_variable};
use buildpool_protocol::token;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use std::convert::Infallible;
use std::fmt::{self, Display};
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum length of the line of standard input with a URL and a token, in bytes.
const JOIN_BYTES_MAX: u64 = 1 << 16;

/// A coordinator and a token for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) url: String,
    pub(crate) token: String,
}

/// URL and token as one text. It is checked later than other values, because the argument parser
/// would print the token in its error.
#[derive(Clone)]
pub(crate) struct JoinText(String);

impl FromStr for JoinText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for JoinText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinText(…)")
    }
}

impl JoinText {
    /// Returns true if the text is on the command line, where every user of the machine can read
    /// it.
    pub(crate) fn is_visible(&self) -> bool {
        self.0 != "-"
    }

    /// Parses the text; `-` means the first line of standard input.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub(crate) fn read(&self) -> Result<Join, Failure> {
        let fail = |reason: String| Failure::new(USAGE, format!("--join: {reason}"));
        let mut text = self.0.clone();
        if text == "-" {
            text.clear();
            let read = io::stdin().lock().take(JOIN_BYTES_MAX).read_line(&mut text);
            read.map_err(|error| fail(format!("standard input can't be read: {error}")))?;
        }
        match text.trim().split_once('#') {
            Some((url, token)) if url.contains("://") => match token::parse(token) {
                Ok(_) => Ok(Join { url: url.to_owned(), token: token.to_owned() }),
                Err(error) => Err(fail(format!("the text after `#` is not a token: {error}"))),
            },
            _ => Err(fail(
                "valid is URL#TOKEN, as in wss://pool.example.com:7420#bp_…, or - for standard input"
                    .to_owned(),
            )),
        }
    }
}

pub(super) fn resource(text: &str) -> Result<(String, u32), String> {
    let wrong =
        || format!("`{text}` is not a resource; valid is NAME=N with N at least 1, as in simulator=2");
    let (name, count) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    let count: std::num::NonZeroU32 = count.parse().map_err(|_| wrong())?;
    Ok((name.to_owned(), count.get()))
}

/// Reads an amount of memory as MiB.
pub(super) fn mebibytes(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
    };
    let mib = digits.parse::<u32>().ok().and_then(|count| count.checked_mul(factor));
    mib.filter(|mib| (1..=UNITS_MAX).contains(mib)).ok_or_else(|| {
        format!("`{text}` is not an amount of memory; valid are 1M to {UNITS_MAX}M, as in 512M or 4G")
    })
}

pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => {
            check_given_variable("--env", name).map_err(|error| error.reason)?;
            Ok((name.to_owned(), value.to_owned()))
        }
        None => Err(format!("`{text}` sets no variable; valid is NAME=VALUE")),
    }
}

pub(super) fn project(text: &str) -> Result<(String, String), String> {
    let (name, directory) = text.split_once('=').ok_or_else(|| {
        format!("`{text}` has no directory; valid is NAME=DIR, for example app=/home/ada/app")
    })?;
    Ok((name.to_owned(), directory.to_owned()))
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("valid are {VALID_ADDRESSES}"))
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    whole(0..=u64::MAX)(text)
}

/// Returns a parser of whole numbers in a range.
pub(super) fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let wrong = || format!("valid are whole numbers from {} to {}", range.start(), range.end());
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
    }
}

pub(super) fn secret(text: &str) -> Result<String, String> {
    check_given_variable("--secret", text).map_err(|error| error.reason)?;
    Ok(text.to_owned())
}

pub(super) fn priority(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("valid are whole numbers from {} to {}", i32::MIN, i32::MAX))
}

/// Parses one of several words.
fn one_of<T: Copy, const N: usize>(text: &str, known: [(&str, T); N]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| format!("valid are {}", known.map(|(name, _)| name).join(", ")))
}

/// Returns the words for the completion of an argument.
fn candidates<T, const N: usize>(known: [(&'static str, T); N]) -> ArgValueCandidates {
    let words = known.map(|(name, _)| name);
    ArgValueCandidates::new(move || words.map(CompletionCandidate::new).into())
}

const ON_LOST: [(&str, OnLost); 3] =
    [("rerun", OnLost::Rerun), ("wait", OnLost::Wait), ("fail", OnLost::Fail)];

pub(super) fn on_lost(text: &str) -> Result<OnLost, String> {
    one_of(text, ON_LOST)
}

pub(super) fn on_lost_words() -> ArgValueCandidates {
    candidates(ON_LOST)
}

const NETWORKS: [(&str, Network); 2] = [("worker", Network::Worker), ("none", Network::None)];

pub(super) fn network(text: &str) -> Result<Network, String> {
    one_of(text, NETWORKS)
}

pub(super) fn networks() -> ArgValueCandidates {
    candidates(NETWORKS)
}

pub(super) fn state(text: &str) -> Result<JobState, String> {
    one_of(text, named_states())
}

fn named_states() -> [(&'static str, JobState); 5] {
    use JobState::{Done, Preparing, Queued, Running, Sealing};
    [Queued, Preparing, Running, Sealing, Done].map(|state| (state.name(), state))
}

pub(super) fn states() -> ArgValueCandidates {
    candidates(named_states())
}

pub(super) fn verdict(text: &str) -> Result<Verdict, String> {
    one_of(text, named_verdicts())
}

fn named_verdicts() -> [(&'static str, Verdict); 8] {
    use Verdict::{Cancelled, Crashed, Failed, Inconclusive, Lost, Passed, Rejected, TimedOut};
    let all = [Passed, Failed, Crashed, TimedOut, Cancelled, Lost, Rejected, Inconclusive];
    all.map(|verdict| (verdict.name(), verdict))
}

pub(super) fn verdicts() -> ArgValueCandidates {
    candidates(named_verdicts())
}

const STREAMS: [(&str, StreamChoice); 4] = [
    ("stdout", StreamChoice::Stdout),
    ("stderr", StreamChoice::Stderr),
    ("both", StreamChoice::Both),
    ("interleaved", StreamChoice::Interleaved),
];

pub(super) fn stream(text: &str) -> Result<StreamChoice, String> {
    one_of(text, STREAMS)
}

pub(super) fn streams() -> ArgValueCandidates {
    candidates(STREAMS)
}

pub(super) fn role(text: &str) -> Result<Role, String> {
    one_of(text, named_roles())
}

fn named_roles() -> [(&'static str, Role); 4] {
    Role::ALL.map(|role| (role.name(), role))
}

pub(super) fn roles() -> ArgValueCandidates {
    candidates(named_roles())
}
